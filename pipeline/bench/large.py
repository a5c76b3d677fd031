"""Time and memory of ingest and extract on a graph that is large for one machine."""

import json
import sys
from collections.abc import Iterator
from typing import Any

from leap.pipeline.bench.process_memory import run_watched
from leap.pipeline.bench.result import MemoryUse
from leap.pipeline.bench.session import Session
from leap.store.errors import WorkFailedError

LIMIT = 4 * 2**30
"""Resident bytes that no process may reach."""


def measure_large(session: Session) -> Iterator[MemoryUse]:
    """Run both stages as commands of their own, as a user would, and watch all their processes."""
    from leap.pipeline.bench.large_graph import write_large_graph

    options, reporter = session.options, session.reporter
    folder, store = session.folder / "large", session.folder / "large-store"
    reporter.note(f"generating {options.nodes:,} nodes and {options.edges:,} edges")
    with reporter.task("generating", None):
        write_large_graph(folder, options.nodes, options.edges)
    # A process of its own for each command: the peak of one must not hide that of the next.
    leap = [sys.executable, "-m", "leap.cli.main", "--store", str(store), "--json", "--quiet"]
    commands = {
        "ingest": [*leap, "ingest", str(folder)],
        "extract, 1 hop": [*leap, "extract", str(folder), "--hops", "1", "--workers", str(options.workers)],
    }
    for what, command in commands.items():
        reporter.note(f"leap {' '.join(command[len(leap) :])}")
        with reporter.task(what, None):
            watched = run_watched(command)
        _check(json.loads(watched.output), options.nodes, options.edges)
        for process, peak in watched.peaks.items():
            yield MemoryUse("large", what, watched.seconds, process, peak, LIMIT)


def _check(result: dict[str, Any], nodes: int, edges: int) -> None:
    """A stage that lost nodes or edges, or did nothing, would be cheap."""
    summary, last = result["artifacts"][0]["summary"], result["artifacts"][-1]
    if (summary["nodes"], summary["edges"]) != (nodes, edges) or last["cached"]:
        raise WorkFailedError(
            f"{nodes:,} nodes and {edges:,} edges were generated, and the stage stored {summary['nodes']:,} and "
            f"{summary['edges']:,}{' without doing anything' if last['cached'] else ''}."
        )
