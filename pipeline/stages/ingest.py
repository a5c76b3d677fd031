"""The ingest stage: raw files or a generator → canonical graphs, their tables and folds in the store."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from leap.models.network_config import TaskName
from leap.pipeline.canonical import canonicalize
from leap.pipeline.cluster import Workforce, employ
from leap.pipeline.datasets import Source, SourceOptions, resolve
from leap.pipeline.datasets.source import Progress
from leap.pipeline.folds import folds, node_masks
from leap.pipeline.partition import plan_dataset
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.materialize import Wanted, Work, obtain, retrying, versions
from leap.pipeline.stages.result import ArtifactReport, StageResult
from leap.store import Artifact, Build, Manifest
from leap.store.errors import InvalidInputError
from leap.store.graphs import Graphs
from leap.store.graphs.tasks import is_node_task
from leap.store.keys import dataset_key
from leap.store.option import Option, Options

ALGORITHM = 1
MIB = 2**20
READING = "How the dataset is read"


class IngestOptions(Options):
    """Choices that change what is stored; see `SourceOptions` for those that only a user's own graphs have."""

    features: Annotated[
        Literal["degree", "constant", "rwpe"],
        Option(help="What nodes get where the data has no features: {choices}.", panel=READING),
    ] = "degree"
    drop_empty: Annotated[bool, Option(help="Leave out graphs without nodes, with their labels.", panel=READING)] = (
        False
    )
    partition_mb: Annotated[
        float, Field(ge=0.001, le=2**20), Option(help="Target size of a partition.", panel=READING, metavar="MIB")
    ] = 8.0
    node_attributes: Annotated[
        tuple[str, ...] | None,
        Option(
            help="Your own graphs: node attribute or column to use as a feature.",
            panel=READING,
            flags=("--node-attribute",),
            metavar="NAME",
        ),
    ] = None
    graph_label: Annotated[
        str | None,
        Option(help="Your own graphs: graph attribute or column with the label.", panel=READING, metavar="NAME"),
    ] = None
    node_label: Annotated[
        str | None,
        Option(help="Your own graphs: node attribute or column with the label.", panel=READING, metavar="NAME"),
    ] = None
    task: Annotated[
        TaskName | None,
        Option(help="Your own graphs: what the labels are, {choices} (default: their kind says).", panel=READING),
    ] = None
    edge_attributes: Annotated[
        tuple[str, ...] | None,
        Option(
            help="Your own graphs: edge attribute or column to keep as an attribute of edges.",
            panel=READING,
            flags=("--edge-attribute",),
            metavar="NAME",
        ),
    ] = None

    @property
    def source_options(self) -> SourceOptions:
        """The reader's part."""
        names = (self.node_attributes, self.graph_label, self.node_label)
        return SourceOptions(*names, self.task, self.edge_attributes)

    @property
    def params(self) -> dict[str, Any]:
        """The stage's own part, as it enters the key."""
        return {
            "features": self.features,
            "drop_empty": self.drop_empty,
            "partition_bytes": round(self.partition_mb * MIB),
        }


def ingest(
    dataset: "str | Source", *, options: IngestOptions | None = None, context: Context | None = None
) -> StageResult:
    """Store a dataset in canonical form.

    Parameters
    ----------
    dataset : a name that `leap datasets` lists, the path of your own graphs, or a source made by `from_networkx` or
        `from_pyg`.

    Examples
    --------
    >>> import tempfile
    >>> from leap.pipeline import Context, ingest
    >>> from leap.store import Store
    >>> context = Context(store=Store.open(tempfile.mkdtemp()))
    >>> result = ingest("letters-low", context=context)
    >>> result["dataset"].summary["graphs"]
    2250
    """
    context = context or Context()
    options = options or IngestOptions()

    reports = retrying(context.store, lambda: [ingest_artifact(dataset, options, context)[0]])
    return StageResult("ingest", reports)


def ingest_artifact(
    dataset: "str | Source", options: IngestOptions, context: Context
) -> tuple[ArtifactReport, Artifact]:
    """Return the dataset's artifact, making it if the store has none for exactly this input."""
    start = time.perf_counter()
    if not isinstance(dataset, (str, Source)):
        raise InvalidInputError(
            f"a dataset is a name, a path as text, or a source. Got {type(dataset).__name__}. Make a source of graphs "
            "with from_networkx(graphs, name) or from_pyg(graphs, name)."
        )
    source = dataset if isinstance(dataset, Source) else find_source(dataset, options, context)
    fingerprint = source.fingerprint()
    key = _key(source, fingerprint, options)

    def prepare() -> Work:  # input that cannot be used leaves the store untouched
        graphs = _read(source, options, context)
        return Work(graphs.nbytes, lambda build: _write(build, source, fingerprint, options, graphs, context))

    def find() -> Artifact | None:
        return context.store.lookup(key)

    return obtain(context, Wanted("dataset", options.params, key, source.name, find, prepare), start)


def dataset_request(dataset: str, options: IngestOptions, context: Context) -> tuple[str, str]:
    """Return the reported name and the key of a dataset without reading it."""
    source = find_source(dataset, options, context, download=False)
    return source.name, _key(source, source.fingerprint(), options)


def _key(source: Source, fingerprint: dict[str, Any], options: IngestOptions) -> str:
    return dataset_key({"name": source.name, **fingerprint}, options.params, ALGORITHM)


def find_source(dataset: str, options: IngestOptions, context: Context, *, download: bool = True) -> Source:
    """Return the source that a name or path means, downloading raw files that are not there where that is allowed."""
    with _progress(context, f"raw files of {dataset}") as on_progress:
        return resolve(
            dataset, data=context.data, options=options.source_options, download=download, on_progress=on_progress
        )


def _read(source: Source, options: IngestOptions, context: Context) -> Graphs:
    with _progress(context, f"reading {source.name}") as on_progress:
        raw = source.read(on_progress, _OnDemandExecutor(context.workforce))
    graphs = canonicalize(raw, features=options.features, drop_empty=options.drop_empty)
    for remark in graphs.remarks:
        context.reporter.note(f"note: {remark}")
    if is_node_task(graphs.task) and graphs.masks is None and graphs.y is not None:
        graphs = replace(graphs, masks=node_masks(graphs.y), summary=graphs.summary | {"masks": "generated"})
    return graphs


@contextlib.contextmanager
def _progress(context: Context, label: str) -> Iterator[Progress]:
    """Report steps that are told as (done so far, total)."""
    with context.reporter.task(label, None) as advance:
        shown = 0

        def on_progress(done: int, total: int) -> None:
            nonlocal shown
            advance(done - shown)
            shown = done

        yield on_progress


def _write(
    build: Build,
    source: Source,
    fingerprint: dict[str, Any],
    options: IngestOptions,
    graphs: Graphs,
    context: Context,
) -> tuple[Artifact, int]:

    plan = plan_dataset(graphs, options.params["partition_bytes"])
    with context.reporter.task(f"storing {source.name}", len(plan)) as advance:
        finished = build.finished(plan)
        for part in plan:
            build.check()
            if part.index not in finished:
                build.writer.write(part, graphs.arrays(part), {"nodes": part.num_nodes})
            advance(1)
    content = graphs.digest(plan, options.params["partition_bytes"])
    draft = Manifest(
        kind="dataset",
        key=build.key,
        dataset=source.name,
        params=options.params,
        algorithm=ALGORITHM,
        source=content,
        content=content,
        summary=graphs.facts,
        provenance={"source": fingerprint, "versions": versions()},
        partitions=plan,
    )
    splits = graphs.official_folds() or folds(graphs.y, graphs.task, graphs.num_graphs)
    return build.publish(draft, graphs.tables(plan, splits)), len(finished)


class _OnDemandExecutor:
    """`map` over the workforce, in order; workers are employed only when a reader with heavy parsing asks for them."""

    def __init__(self, workforce: Workforce) -> None:
        self._workforce = workforce

    def map(self, fn: Callable[[Any], Any], items: Iterable[Any], /) -> list[Any]:
        """Return `fn(item)` for each item, in the order of the items, of which each takes about a second."""
        numbered = [(fn, index, item) for index, item in enumerate(items)]
        results: dict[int, Any] = {}
        with employ(self._workforce, len(numbered), float(len(numbered))) as runner:
            runner.run(_numbered, numbered, lambda pair: results.__setitem__(*pair))
        return [results[index] for index in range(len(numbered))]


def _numbered(fn: Callable[[Any], Any], index: int, item: Any) -> tuple[int, Any]:
    return index, fn(item)
