"""Answer a request for a derived artifact: from the cache, as a view, or by doing the missing partitions."""

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from leap.pipeline.cluster import employ
from leap.pipeline.derived.recipe import Plan, Recipe
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.provenance import versions
from leap.pipeline.stages.result import ArtifactReport
from leap.store import Artifact, Build, Manifest, Partition, PartitionWriter, Store
from leap.store.errors import DamagedArtifactError, LeaseLostError

ATTEMPTS = 3
Made = TypeVar("Made")


def materialize(
    context: Context,
    dataset: Artifact,
    recipe: Recipe,
    approve: Callable[[Recipe, Plan], None] = lambda recipe, plan: None,
) -> tuple[ArtifactReport, Artifact]:
    """Return the artifact of a recipe for a dataset, making it if nothing stored answers the request.

    Parameters
    ----------
    approve : called with each recipe to carry out and its plan before any work; raises to refuse it.
    """
    start = time.perf_counter()
    store = context.store
    request = recipe.request(dataset)
    key = request.key
    recipe.check(dataset)
    found = store.answer(request)
    if found is not None:
        store.note_use(found.key)
        return _report(recipe, found, True, time.perf_counter() - start, 0), found
    inputs = {"dataset": dataset}
    for needed in recipe.requires():
        inputs[needed.kind] = materialize(context, dataset, needed, approve)[1]

    def say_waiting() -> None:
        context.reporter.note(f"another process is making {recipe.kind} {key[:12]}; waiting for it")

    from leap.pipeline.reader import open_reader

    reader = open_reader(store.url, dataset.key)
    plan = recipe.plan(reader, inputs)
    approve(recipe, plan)
    store.require_space(plan.bytes)

    def make() -> tuple[Artifact, int | None]:
        with store.building(key, say_waiting, [artifact.key for artifact in inputs.values()]) as build:
            if build.published is not None:
                return build.published, None
            resumed = _work(context, build, plan, recipe, inputs)
            return _publish(build, plan, recipe, dataset, inputs), resumed

    artifact, resumed = until_made(context, f"{recipe.kind} {key[:12]}", make)
    return _report(recipe, artifact, resumed is None, time.perf_counter() - start, resumed or 0), artifact


def until_made(context: Context, what: str, make: Callable[[], "Made"]) -> "Made":
    """Make an artifact; if another process takes it over, which happens to one that slept, wait for that one's."""
    while True:
        try:
            return make()
        except LeaseLostError:
            context.reporter.note(f"another process has taken over {what}; using what it makes")


def retrying(store: Store, attempt: Callable[[], "list[ArtifactReport]"]) -> "list[ArtifactReport]":
    """Run a stage, and again if it met a damaged artifact, which is dropped first and so made anew."""
    for remaining in reversed(range(ATTEMPTS)):
        try:
            return attempt()
        except DamagedArtifactError as error:
            if not error.key or not remaining:
                raise
            store.discard(error.key, str(error))
            from leap.pipeline.reader import open_reader

            open_reader.cache_clear()
    raise AssertionError("unreachable")


def run_partition(
    writer: PartitionWriter,
    recipe: Recipe,
    partition: Partition,
    input_keys: Mapping[str, str],
) -> int:
    """Compute and write one partition; the task that workers run. Returns the number of nodes done."""
    from leap.pipeline.reader import open_reader

    writer.check()
    store = Store.open(writer.url)
    reader = open_reader(writer.url, input_keys["dataset"])
    inputs = {role: store.get(key) for role, key in input_keys.items() if role != "dataset"}
    arrays, statistics = recipe.compute(reader, partition, inputs)
    writer.write(partition, arrays, statistics)
    return partition.num_nodes


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
    import pyarrow as pa

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


def _report(recipe: Recipe, artifact: Artifact, cached: bool, seconds: float, resumed: int) -> ArtifactReport:
    return ArtifactReport(
        kind=recipe.kind,
        dataset=artifact.manifest.dataset,
        params=recipe.params,
        key=artifact.key,
        cached=cached,
        seconds=seconds,
        bytes=artifact.manifest.size,
        view=artifact.dim is not None,
        partitions=len(artifact.partitions),
        resumed=resumed,
        summary=artifact.manifest.summary,
    )
