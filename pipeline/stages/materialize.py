"""The one way to an artifact: found in the store, awaited from another process, or made and published."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from leap.pipeline.cluster import employ
from leap.pipeline.derived import Plan, Recipe
from leap.pipeline.reader import open_reader
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.result import ArtifactReport
from leap.store import Artifact, Build, Manifest, Partition, PartitionWriter, Store
from leap.store.errors import ArtifactNotFoundError, DamagedArtifactError, InvalidInputError, LeapError, LeaseLostError
from leap.store.lazy import lazy_module

pa = lazy_module("pyarrow")

ATTEMPTS = 3
DEFAULT_BUDGET_GB = 4.0
MOST_GIB = 2**20
PACKAGES = ("leap-graph", "numpy", "scipy", "numba", "zarr", "pyarrow")
"""What results may depend on; manifests name the versions."""


@dataclass(frozen=True)
class Work:
    """What making an artifact takes.

    Attributes
    ----------
    bytes : rough size on disk, to refuse early when the disk is too small.
    make : writes and publishes; returns the artifact and how many partitions an earlier attempt had left done.
    reads : keys of the artifacts that it is made from.
    """

    bytes: float
    make: Callable[[Build], tuple[Artifact, int]]
    reads: Sequence[str] = ()


@dataclass(frozen=True)
class Wanted:
    """An artifact that is asked for.

    Attributes
    ----------
    kind, params, key : as reported.
    name : in notes, such as "rwpe 1a2b3c4d5e6f".
    find : returns what the store has, possibly a larger artifact that contains it.
    prepare : called if nothing is there and nobody is making it; refuses what cannot be made.
    """

    kind: str
    params: dict[str, Any]
    key: str
    name: str
    find: Callable[[], Artifact | None]
    prepare: Callable[[], Work]


def obtain(context: Context, wanted: Wanted, since: float | None = None) -> tuple[ArtifactReport, Artifact]:
    """Return an artifact and the report about it.

    Parameters
    ----------
    since : when work on it began, as `time.perf_counter` tells; now, unless given.
    """
    since = time.perf_counter() if since is None else since
    store, resumed = context.store, 0

    def say_waiting() -> None:
        context.reporter.note(f"another process is making {wanted.name}; waiting for it")

    artifact = wanted.find() or store.wait_for_maker(wanted.key, say_waiting)
    is_cached = artifact is not None
    if artifact is not None:
        store.note_use(artifact.key)
    else:
        work = wanted.prepare()
        store.require_space(work.bytes)
    while artifact is None:
        try:
            with store.building(wanted.key, say_waiting, work.reads) as build:
                artifact, is_cached = build.published, build.published is not None
                if artifact is None:
                    artifact, resumed = work.make(build)
        except LeaseLostError:  # which happens to a process that slept
            context.reporter.note(f"another process has taken over {wanted.name}; using what it makes")
    report = ArtifactReport(
        kind=wanted.kind,
        dataset=artifact.manifest.dataset,
        params=wanted.params,
        key=artifact.key,
        cached=is_cached,
        seconds=time.perf_counter() - since,
        bytes=artifact.manifest.size,
        view=artifact.dim is not None,
        partitions=len(artifact.partitions),
        resumed=resumed,
        summary=artifact.manifest.summary,
    )
    return report, artifact


def materialize(
    context: Context, dataset: Artifact, recipe: Recipe, budget_gb: float | None = None
) -> tuple[ArtifactReport, Artifact]:
    """Return the artifact of a recipe for a dataset, making it if nothing stored answers the request.

    Parameters
    ----------
    budget_gb : GiB beyond which what may explode, it or an artifact that it reads, is refused; None: never.
    """
    store, request = context.store, recipe.request(dataset)
    key = request.key
    recipe.check(dataset)

    def prepare() -> Work:
        inputs = {"dataset": dataset}
        for needed in recipe.requires():
            inputs[needed.kind] = materialize(context, dataset, needed, budget_gb)[1]
        plan = recipe.plan(open_reader(store.url, _input(store, dataset.key).key), inputs)
        if budget_gb is not None:
            recipe.check_budget(dataset, plan, budget_gb * 2**30)

        def make(build: Build) -> tuple[Artifact, int]:
            resumed = _work(context, build, plan, recipe, inputs)
            return _publish(build, plan, recipe, dataset, inputs), resumed

        return Work(plan.bytes, make, [artifact.key for artifact in inputs.values()])

    name = f"{recipe.kind} {key[:12]}"
    return obtain(context, Wanted(recipe.kind, recipe.params, key, name, lambda: store.answer(request), prepare))


def retrying(store: Store, attempt: Callable[[], list[ArtifactReport]]) -> list[ArtifactReport]:
    """Run a stage, and again if it met a damaged artifact, which is dropped first and so made anew."""
    for remaining in reversed(range(ATTEMPTS)):
        try:
            return attempt()
        except DamagedArtifactError as error:
            if not error.key or not remaining:
                raise
            store.discard(error.key, str(error))
    raise AssertionError("unreachable")


def checked_gib(name: str, value: float) -> float:
    """Return an amount of memory in GiB, or raise InvalidInputError if it is no amount."""
    if not 0 < value <= MOST_GIB:  # nan neither
        raise InvalidInputError(f"{name} is {value}: give a number of GiB above 0, at most {MOST_GIB:,}.")
    return value


def versions() -> dict[str, str]:
    """Return the installed versions of the packages that results may depend on."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def run_partition(
    writer: PartitionWriter,
    recipe: Recipe,
    partition: Partition,
    input_keys: Mapping[str, str],
) -> int:
    """Compute and write one partition; the task that workers run. Returns the number of nodes done."""
    writer.check()
    store = Store.open(writer.url)
    inputs = {role: _input(store, key) for role, key in input_keys.items()}
    reader = open_reader(writer.url, inputs.pop("dataset").key)
    try:
        arrays, statistics = recipe.compute(reader, partition, inputs)
    except LeapError:
        raise
    except Exception as error:  # most often of a recipe from another package
        error.add_note(f"It was raised by the computation of {recipe.kind}.")
        raise
    recipe.check_result(partition, arrays)
    writer.write(partition, arrays, statistics)
    return partition.num_nodes


def _input(store: Store, key: str) -> Artifact:
    """Open what a stage has found or made before; if somebody has removed it since, it counts as damaged."""
    try:
        return store.get(key)
    except ArtifactNotFoundError as error:
        raise DamagedArtifactError(
            f"artifact {key[:12]} was removed from the store while a stage needed it. Run the same command again.", key
        ) from error


def _work(context: Context, build: Build, plan: Plan, recipe: Recipe, inputs: Mapping[str, Artifact]) -> int:
    """Do the partitions that are not done yet; return how many were."""
    finished = build.finished(plan.partitions)
    missing = [part for part in plan.partitions if part.index not in finished]
    keys = {role: artifact.key for role, artifact in inputs.items()}
    arguments = [(build.writer, recipe, part, keys) for part in missing]
    share = len(missing) / max(1, len(plan.partitions))
    if finished:
        context.reporter.note(
            f"continuing {recipe.kind} {build.key[:12]}: {len(finished)} of {len(plan.partitions)} partitions are done"
        )
    nodes = sum(part.num_nodes for part in plan.partitions)
    label = f"{recipe.kind} of {inputs['dataset'].manifest.dataset}"
    with (
        context.reporter.task(label, nodes) as advance,
        employ(context.workforce, len(missing), plan.seconds * share) as runner,
    ):
        advance(sum(part.num_nodes for part in plan.partitions if part.index in finished))

        def on_done(nodes: int) -> None:
            build.check()
            advance(nodes)

        runner.run(run_partition, arguments, on_done)
    return len(finished)


def _publish(build: Build, plan: Plan, recipe: Recipe, dataset: Artifact, inputs: Mapping[str, Artifact]) -> Artifact:
    statistics = build.statistics(plan.partitions)
    rows = [part.model_dump() | _flat(entry) for part, entry in zip(plan.partitions, statistics, strict=True)]
    draft = Manifest(
        kind=recipe.kind,
        key=build.key,
        dataset=dataset.manifest.dataset,
        params=recipe.params,
        algorithm=recipe.algorithm,
        source=dataset.manifest.content,
        content="",
        inputs={role: artifact.key for role, artifact in inputs.items()},
        summary=recipe.summarize(statistics) | plan.facts,
        provenance={"versions": versions()},
        partitions=plan.partitions,
    )
    return build.publish(draft, {"partitions": pa.Table.from_pylist(rows)})


def _flat(entry: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in entry.items() if isinstance(value, (bool, int, float, str))}
