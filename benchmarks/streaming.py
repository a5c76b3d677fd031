"""Streaming with memory for a tenth of the data against everything in memory, and memory when the data grows tenfold.

``python -m benchmarks.streaming OPTIONS`` goes through a stream in a process of its own and prints how long that took.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import torch

from benchmarks.graphs import small_graphs
from benchmarks.measuring import Measurement, Session, Watched, run_watched, seconds_of
from leap.models import LEAP
from leap.models.backbones import make_backbone
from leap.pipeline import Context, IngestOptions, Workforce, encode, extract
from leap.pipeline.training.data import node_data
from leap.store import ArrayBatch, GraphStream, Store
from leap.store.errors import WorkFailedError

GRAPHS = 200_000
BUDGET_SHARE = 0.09
"""Of all that is streamed. Less than a tenth, so that a tenth of the graphs does not fit either."""
PARTITION_MB = 0.5
EVERYTHING = 2**40
LOADER_TARGET, EPOCH_TARGET = 0.5, 1 / 1.1
FLATNESS = 1.1
LOADER_EPOCHS = 3


@dataclass(frozen=True)
class Pass:
    """What a process streams: keys of a store, and the bytes that it may keep."""

    store: str
    dataset: str
    neighborhoods: str
    encoding: str
    memory_bytes: int


def measure_stream(session: Session, graphs: int = GRAPHS, partition_mb: float = PARTITION_MB) -> Iterator[Measurement]:
    """Compare the loader alone and a whole epoch of training, then the peak memory with that of a tenth."""
    large, size = _store(session, graphs, partition_mb)
    small, _ = _store(session, graphs // 10, partition_mb)
    budget = int(size * BUDGET_SHARE)
    roomy = _run(session, replace(large, memory_bytes=EVERYTHING), graphs)
    tight = _run(session, replace(large, memory_bytes=budget), graphs)
    ours, peer = (json.loads(watched.output) for watched in (tight, roomy))
    if ours["is_in_memory"] or not peer["is_in_memory"]:
        raise WorkFailedError(f"{size:,} bytes did not fit, or {budget:,} did. Nothing can be compared.")
    what = f"{graphs:,} graphs, memory for {BUDGET_SHARE:.0%} of them"
    again = [statistics.median(found["loader"][1:]) for found in (ours, peer)]  # the first epoch reads either way
    yield Measurement("stream", f"loader alone, {what}, against all in memory", again[0], again[1], LOADER_TARGET)
    yield Measurement("stream", f"epoch of nomp + LEAP-L, {what}, likewise", ours["epoch"], peer["epoch"], EPOCH_TARGET)
    base = _run(session, replace(small, memory_bytes=budget), graphs // 10)
    grown = f"peak of training on {graphs:,} graphs, against that on {graphs // 10:,}"
    yield Measurement("stream", grown, tight.peaks["main"], base.peaks["main"], 1 / FLATNESS, unit="bytes")


def _store(session: Session, graphs: int, partition_mb: float) -> tuple[Pass, int]:
    """Make everything that is streamed; return how to go through it, and its bytes in memory."""
    folder = session.folder / f"stream-{graphs}"
    session.note(f"storing {graphs:,} small graphs with neighbourhoods and RWPE")
    context = Context(Store.open(folder), workforce=Workforce(0))
    source, ingest_options = small_graphs(graphs), IngestOptions(partition_mb=partition_mb)
    made = extract(source, 1, ingest_options=ingest_options, context=context)
    encoded = encode(source, "rwpe", ingest_options=ingest_options, context=context)
    keys = (made["dataset"].key, made["neighborhoods"].key, encoded["rwpe"].key)
    dataset, hoods, encoding = (context.store.get(key) for key in keys)
    return Pass(str(folder), *keys, memory_bytes=0), GraphStream(dataset, [hoods], [encoding]).nbytes


def _run(session: Session, options: Pass, graphs: int) -> Watched:
    session.note(f"streaming {graphs:,} graphs with a budget of {options.memory_bytes:,} bytes")
    watched = run_watched([sys.executable, "-m", "benchmarks.streaming", json.dumps(asdict(options))])
    if json.loads(watched.output)["graphs"] != graphs:
        raise WorkFailedError(f"the stream visited {watched.output} instead of {graphs:,} graphs.")
    return watched


def go_through(options: Pass) -> dict[str, object]:
    """Return wall times: `loader` of every epoch alone, the first from the disk, and `epoch` with training."""
    store = Store.open(options.store)
    dataset, hoods, encoding = (store.get(key) for key in (options.dataset, options.neighborhoods, options.encoding))
    stream = GraphStream(dataset, [hoods], [encoding], memory_bytes=options.memory_bytes)
    visited: list[int] = []

    def load(number: int) -> None:
        visited.append(sum(batch.num_graphs for batch in stream.epoch(number)))

    times = [seconds_of(lambda number=number: load(number)) for number in range(LOADER_EPOCHS)]  # type: ignore[misc]
    trained = _seconds_of_training(stream, dataset.manifest.summary["features"])
    return {"loader": times, "epoch": trained, "graphs": visited[-1], "is_in_memory": stream.fits_in_memory}


def _seconds_of_training(stream: GraphStream, width: int) -> float:
    """Train nomp with LEAP-L, conv1d and an encoding beside it for one epoch, on one thread as a fold does."""
    torch.set_num_threads(1)
    leap, backbone = LEAP(width, 10, projection="conv1d", seed=0), make_backbone("nomp", width + 20, 10)
    optimizer = torch.optim.Adam([*leap.parameters(), *backbone.parameters()], lr=1e-3)

    def step(arrays: ArrayBatch) -> None:
        assert arrays.y is not None
        nodes, x, y = node_data(arrays), torch.from_numpy(arrays.x), torch.from_numpy(arrays.y)
        (encoding,) = nodes.encodings.values()
        pe = leap(x, nodes.neighborhoods[1], stats=nodes.stats[1])
        scores = nodes.graphs.pool(backbone(torch.cat([x, pe, encoding], dim=1), nodes.graphs))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(scores, y).backward()
        optimizer.step()

    def epoch(number: int, every: int = 1) -> None:
        for arrays in stream.epoch(number, step=every):
            step(arrays)

    epoch(0, max(1, stream.batches(0) // 20))  # kernels are loaded here
    return seconds_of(lambda: epoch(1))


if __name__ == "__main__":
    print(json.dumps(go_through(Pass(**json.loads(sys.argv[1])))))
