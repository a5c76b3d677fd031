"""Streaming with a memory budget of a tenth against everything in memory, and memory when the data grows tenfold."""

import json
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from leap.pipeline.bench.process_memory import Watched, run_watched
from leap.pipeline.bench.result import Comparison, MemoryUse
from leap.pipeline.bench.session import Session
from leap.pipeline.bench.stream_epoch import EpochOptions
from leap.store.errors import WorkFailedError

GRAPHS = 200_000
BUDGET_SHARE = 0.09
"""Of all that is streamed. Less than a tenth, so that a tenth of the graphs does not fit either."""
PARTITION_MB = 0.5
EVERYTHING = 2**40
LOADER_TARGET, EPOCH_TARGET = 0.5, 1 / 1.1
FLATNESS = 1.1


def measure_stream(
    session: Session, graphs: int = GRAPHS, partition_mb: float = PARTITION_MB
) -> Iterator[Comparison | MemoryUse]:
    """Compare the loader alone and a whole epoch of training, then the peak memory of a tenth of the graphs."""
    large, size = _store(session, graphs, partition_mb)
    small, _ = _store(session, graphs // 10, partition_mb)
    budget = int(size * BUDGET_SHARE)
    what = f"{graphs:,} graphs, memory for {BUDGET_SHARE:.0%} of them"
    roomy = _run(session, replace(large, memory_bytes=EVERYTHING), graphs)
    tight = _run(session, replace(large, memory_bytes=budget), graphs)
    ours, peer = (json.loads(watched.output) for watched in (tight, roomy))
    if ours["is_in_memory"] or not peer["is_in_memory"]:
        raise WorkFailedError(f"{size:,} bytes did not fit, or {budget:,} did. Nothing can be compared.")
    again = [statistics.median(found["loader"][1:]) for found in (ours, peer)]  # the first epoch reads either way
    yield Comparison("stream", f"loader alone, {what}, against all in memory", again[0], again[1], LOADER_TARGET)
    yield Comparison("stream", f"epoch of nomp + LEAP-L, {what}, likewise", ours["epoch"], peer["epoch"], EPOCH_TARGET)
    base = _run(session, replace(small, memory_bytes=budget), graphs // 10)
    limit = int(FLATNESS * base.peaks["main"])
    grown = f"training on {graphs:,} graphs, limited by {FLATNESS:g} times the peak on {graphs // 10:,}"
    yield MemoryUse("stream", grown, tight.seconds, "main", tight.peaks["main"], limit)


def _store(session: Session, graphs: int, partition_mb: float) -> tuple[EpochOptions, int]:
    """Make everything that is streamed; return how to go through it, and its bytes in memory."""
    from leap.pipeline import Context, IngestOptions, Workforce, encode, extract
    from leap.pipeline.bench.small_graphs import small_graphs
    from leap.store import Store
    from leap.store.graphs import GraphStream

    folder: Path = session.folder / f"stream-{graphs}"
    session.reporter.note(f"storing {graphs:,} small graphs with neighbourhoods and RWPE")
    context = Context(Store.open(folder), workforce=Workforce(0), reporter=session.reporter)
    source, ingest_options = small_graphs(graphs), IngestOptions(partition_mb=partition_mb)
    made = extract(source, 1, ingest_options=ingest_options, context=context)
    encoded = encode(source, "rwpe", ingest_options=ingest_options, context=context)
    dataset, hoods = (context.store.get(made[kind].key) for kind in ("dataset", "neighborhoods"))
    encoding = context.store.get(encoded["rwpe"].key)
    size = GraphStream(dataset, [hoods], [encoding]).nbytes
    options = EpochOptions(str(folder), dataset.key, hoods.key, encoding.key, memory_bytes=0, epochs=3, trains=True)
    return options, size


def _run(session: Session, options: EpochOptions, graphs: int) -> Watched:
    session.reporter.note(f"streaming {graphs:,} graphs with a budget of {options.memory_bytes:,} bytes")
    with session.reporter.task("streaming", None):
        watched = run_watched(options.command())
    if json.loads(watched.output)["graphs"] != graphs:
        raise WorkFailedError(f"the stream visited {watched.output} instead of {graphs:,} graphs.")
    return watched
