"""`python -m benchmarks [PART …] [--json] [--out FOLDER]`: measure parts one after the other on this machine."""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.kernels import measure_dect, measure_khop, measure_lape, measure_leap
from benchmarks.measuring import Measurement, Session, machine_facts
from benchmarks.stacks import measure_stacks
from benchmarks.stages import measure_extract, measure_large
from benchmarks.streaming import measure_stream
from benchmarks.training import measure_epoch

PARTS: dict[str, Callable[[Session], Iterator[Measurement]]] = {
    "khop": measure_khop,
    "extract": measure_extract,
    "lape": measure_lape,
    "leap": measure_leap,
    "dect": measure_dect,
    "epoch": measure_epoch,
    "stacks": measure_stacks,
    "stream": measure_stream,
    "large": measure_large,
}
DEFAULT = ("khop", "extract", "lape", "leap", "dect", "epoch", "stacks")

RESULTS = "results.json"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print tables or one JSON object, and leave that and figures in a folder if there is one.

    Stores and other files are temporary (some GiB for large).
    """
    chosen = _parse(arguments)
    machine = machine_facts()  # before the load that the run itself causes
    with tempfile.TemporaryDirectory(prefix="leap-bench-") as folder:
        session = Session(Path(folder), chosen.repeats, chosen.nodes, chosen.edges, chosen.workers, out=chosen.out)
        if session.out is not None:
            session.out.mkdir(parents=True, exist_ok=True)
        found = [entry for name in chosen.part or DEFAULT for entry in PARTS[name](session)]
    values = {"machine": machine, "measurements": [entry.as_json() for entry in found], "tables": session.tables}
    text = json.dumps(values | {"ok": all(entry.ok for entry in found)}, indent=1)
    if session.out is not None:
        (session.out / RESULTS).write_text(text + "\n")
    if chosen.json:
        print(text)
    else:
        _show(machine, found, session.tables)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure kernels, stages, models and training against what one writes with PyG alone. "
        "A target below 1 says how much slower, or larger, ours may be.",
    )
    parser.add_argument("part", nargs="*", help=f"{', '.join(PARTS)} (default: all but stream and large)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=f"leave {RESULTS} and figures there")
    parser.add_argument("--repeats", type=int, default=7, metavar="N", help="turns that medians are taken of (7)")
    parser.add_argument("--nodes", type=int, default=2_000_000, metavar="N", help="nodes of the large graph (2000000)")
    parser.add_argument("--edges", type=int, default=10_000_000, metavar="N", help="its edges (10000000)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes that extract it (2)")
    chosen = parser.parse_args(arguments)
    for name in chosen.part:
        if name not in PARTS:
            parser.error(f"no part {name!r}. Choose from {', '.join(PARTS)}.")
    if chosen.repeats < 1 or chosen.nodes < 2 or chosen.edges < 1 or chosen.workers < 0:
        parser.error("repeats and edges must be at least 1, nodes at least 2, workers at least 0.")
    if chosen.edges > chosen.nodes * (chosen.nodes - 1) // 4:
        parser.error(f"{chosen.edges} edges are more than half of what {chosen.nodes} nodes can have.")
    return chosen


def _show(machine: dict[str, Any], found: list[Measurement], tables: dict[str, list[dict[str, Any]]]) -> None:
    console = Console()
    memory = machine["memory_bytes"] / 2**30
    console.print(
        f"{machine['processor']}, {machine['cores']} cores, {memory:.1f} GiB, load {machine['load']} before the run; "
        f"{machine['system']}, Python {machine['python']}"
    )
    console.print(", ".join(f"{name} {number}" for name, number in machine["versions"].items()), style="dim")
    table = Table("part", "what", "ours", "peer", "ratio", "target", "ok")
    for entry in found:
        bound = "≥ " if entry.is_lower_bound else ""
        ours, peer = (_amount(value, entry.unit) for value in (entry.ours, entry.peer))
        ratio, target = (f"{value:,.0f}×" if value >= 10 else f"{value:.2f}×" for value in (entry.ratio, entry.target))
        verdict = "[green]yes[/]" if entry.ok else "[red]no[/]"
        table.add_row(entry.part, entry.what, ours, bound + peer, bound + ratio, f"≥ {target}", verdict)
    console.print(table)
    for title, rows in tables.items():
        shown = Table(*rows[0], title=title, title_justify="left")
        for row in rows:
            shown.add_row(*map(str, row.values()))
        console.print(shown)


def _amount(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 2**20:,.0f} MiB"
    return f"{value:.1f} s" if value >= 1 else f"{value * 1e3:.1f} ms"


if __name__ == "__main__":
    main()
