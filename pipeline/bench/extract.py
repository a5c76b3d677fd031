"""The whole extract stage — statistics, Zarr, Parquet, checksums — against PyG's loop that only finds subgraphs."""

from collections.abc import Iterator

from leap.pipeline.bench.result import Comparison
from leap.pipeline.bench.session import GRAPH, Session
from leap.pipeline.bench.timing import median_seconds

TARGET = 20.0


def compare_extract(session: Session) -> Iterator[Comparison]:
    """Compare a warm stage: the dataset is ingested and code is loaded, but nothing is read or extracted yet."""
    from leap.pipeline import Context, extract, ingest
    from leap.pipeline.reader import MEMORY
    from leap.store import Store
    from leap.store.collect import remove

    context = Context(store=Store.open(session.folder / "extract"))
    dataset = ingest(GRAPH, context=context)["dataset"].key

    def forget() -> None:
        remove(context.store, [artifact.key for artifact in context.store.list("neighborhoods")])
        MEMORY.clear()  # each repeat reads the dataset from its files

    peer = session.loop_seconds(1)
    ours = median_seconds(lambda: extract(GRAPH, 1, context=context), session.options.repeats, forget)
    features = context.store.get(dataset).manifest.summary["features"]
    yield Comparison("extract", f"extract stage, 1 hop, statistics of {features} features", ours, peer, TARGET)
