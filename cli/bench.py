"""`leap bench`: measure against naive peers, within one run."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from leap.cli.output import console, human_bytes, human_params, human_seconds, print_json, table
from leap.cli.settings import Settings

if TYPE_CHECKING:
    from leap.pipeline.bench.result import BenchResult

LARGE = "The part 'large'"


def bench(
    settings: Settings,
    part: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PART",
            help="khop, extract, lape, leap, dect, epoch, stream or large (default: all but the last two).",
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Take the median of N calls of our own code, or of N turns with a peer; slow peers run once.",
        ),
    ] = 7,
    nodes: Annotated[
        int, typer.Option(metavar="N", help="Nodes of the generated graph.", rich_help_panel=LARGE)
    ] = 2_000_000,
    edges: Annotated[
        int, typer.Option(metavar="N", help="Edges of the generated graph.", rich_help_panel=LARGE)
    ] = 10_000_000,
) -> None:
    """Measure kernels, stages, models and training against what one writes with PyG alone; ratios within one run.

    khop, extract and lape: neighbourhoods, their stage and LaPE on one graph. leap: the encoder, forward and backward.
    dect: its transform, against torch operations. epoch: training, also against a ready transform and against RWPE;
    a target below 1 says how much slower it may be. stream: training from a store ten times the memory.

    The part 'large' ingests and extracts a generated graph instead, and reports time and memory of every process;
    it uses --workers (2 by default). Nothing is kept: stores are temporary.

    [dim]leap bench[/]
    [dim]leap bench khop --repeats 21[/]
    [dim]leap bench large --nodes 200000 --edges 1000000[/]
    """
    from leap.cli.bars import Bars
    from leap.pipeline.bench.run import bench as run
    from leap.pipeline.bench.session import BenchOptions
    from leap.pipeline.stages.options import validated

    workers = {} if settings.workers is None else {"workers": settings.workers}
    options = validated(BenchOptions, repeats=repeats, nodes=nodes, edges=edges, **workers)
    result = run(part or [], options=options, reporter=Bars(quiet=settings.quiet))
    if settings.as_json:
        print_json(result.as_json())
    else:
        _show(result)


def _show(result: "BenchResult") -> None:
    machine = result.machine
    console.print(
        f"[bold]{machine['processor']}[/], {machine['cores']} cores, {human_bytes(machine['memory_bytes'])}, "
        f"load {machine['load']} before the run; {machine['system']}, Python {machine['python']}"
    )
    console.print(f"[dim]{human_params(machine['versions'])}[/]")
    if result.comparisons:
        shown = table(
            "part", "what", "ours", "peer", "ratio", "target", "ok", right=("ours", "peer", "ratio", "target")
        )
        for entry in result.comparisons:
            bound = "≥ " if entry.is_stopped else ""
            shown.add_row(
                entry.part,
                entry.what,
                _time(entry.ours),
                f"{bound}{_time(entry.peer)}",
                f"{bound}{_ratio(entry.ratio)}",
                f"≥ {_ratio(entry.target)}",
                _verdict(entry),
            )
        console.print(shown)
    if result.memory:
        shown = table("part", "what", "time", "process", "peak", "limit", "ok", right=("time", "peak", "limit"))
        for use in result.memory:
            shown.add_row(
                use.part,
                use.what,
                human_seconds(use.seconds),
                use.process,
                human_bytes(use.peak),
                human_bytes(use.limit),
                _verdict(use),
            )
        console.print(shown)


def _time(seconds: float) -> str:
    return human_seconds(seconds) if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


def _ratio(ratio: float) -> str:
    return f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.1f}×" if ratio >= 2 else f"{ratio:.2f}×"


def _verdict(entry: Any) -> str:
    return "[green]yes[/]" if entry.ok else "[red]no[/]"
