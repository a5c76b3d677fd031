"""Go through a stream in a process of its own, and print how long that took: `python -m …stream_epoch OPTIONS`."""

import json
import sys
import time
from dataclasses import asdict, dataclass

from leap.store import Store
from leap.store.graphs import ArrayBatch, GraphStream


@dataclass(frozen=True)
class EpochOptions:
    """What to stream and how.

    Attributes
    ----------
    dataset, neighborhoods, encoding : keys.
    memory_bytes : budget of the stream.
    epochs : how often the loader goes through all graphs alone.
    trains : whether a network is trained for another epoch.
    """

    store: str
    dataset: str
    neighborhoods: str
    encoding: str
    memory_bytes: int
    epochs: int
    trains: bool

    def command(self) -> list[str]:
        """Return the command that does it."""
        return [sys.executable, "-m", "leap.pipeline.bench.stream_epoch", json.dumps(asdict(self))]


def main(options: EpochOptions) -> dict[str, object]:
    """Return wall times: `loader` of every epoch alone, the first from the disk, and `epoch` with training."""
    store = Store.open(options.store)
    found = [store.get(key) for key in (options.dataset, options.neighborhoods, options.encoding)]
    stream = GraphStream(found[0], [found[1]], [found[2]], memory_bytes=options.memory_bytes)
    times = []
    for number in range(options.epochs):
        start = time.perf_counter()
        visited = sum(batch.num_graphs for batch in stream.epoch(number))
        times.append(time.perf_counter() - start)
    trained = _train(stream, found[0].manifest.summary) if options.trains else None
    return {"loader": times, "epoch": trained, "graphs": visited, "is_in_memory": stream.fits_in_memory}


def _train(stream: GraphStream, summary: dict[str, int]) -> float:
    """Return the wall time of one epoch of nomp with LEAP-L, conv1d and an encoding beside it."""
    import torch

    from leap.models import LEAP
    from leap.models.backbones import make_backbone
    from leap.pipeline.loader import to_tensors

    torch.set_num_threads(1)  # as when several folds share the machine
    torch.manual_seed(0)
    width = summary["features"]
    leap, backbone = LEAP(width, 10, projection="conv1d"), make_backbone("nomp", width + 20, 10)
    optimizer = torch.optim.Adam([*leap.parameters(), *backbone.parameters()], lr=1e-3)

    def step(arrays: ArrayBatch) -> None:
        batch = to_tensors(arrays)
        (encoding,) = batch.encodings.values()
        pe = leap(batch.x, batch.neighborhoods[1], stats=batch.stats[1])
        scores = batch.graphs.pool(backbone(torch.cat([batch.x, pe, encoding], dim=1), batch.graphs))
        assert batch.y is not None
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(scores, batch.y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    for arrays in stream.epoch(0, step=max(1, stream.batches(0) // 20)):  # compilation happens here
        step(arrays)
    start = time.perf_counter()
    for arrays in stream.epoch(1):
        step(arrays)
    return time.perf_counter() - start


if __name__ == "__main__":
    print(json.dumps(main(EpochOptions(**json.loads(sys.argv[1])))))
