"""What a training would do and cost, without doing it."""

from dataclasses import dataclass
from typing import Any

from leap.models.network_config import DatasetFacts
from leap.pipeline.datasets import Source
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions, ingest_artifact
from leap.pipeline.training.options import TrainOptions
from leap.pipeline.training.requirements import dataset_facts, required_recipes


@dataclass(frozen=True)
class TrainPlan:
    """A training that was not started.

    Attributes
    ----------
    artifacts : kind, params, key and whether the store has it, of everything that batches carry.
    folds : sizes of the parts of each fold.
    parameters : trainable parameters by part of the network, and in total.
    """

    dataset: str
    options: TrainOptions
    facts: DatasetFacts
    artifacts: list[dict[str, Any]]
    folds: list[dict[str, int]]
    parameters: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "stage": "train",
            "dry_run": True,
            "dataset": self.dataset,
            "options": self.options.model_dump(mode="json"),
            "task": self.facts.task,
            "parameters": self.parameters,
            "folds": self.folds,
            "artifacts": self.artifacts,
        }


def plan_training(
    dataset: "str | Source",
    options: TrainOptions,
    context: Context,
    ingest_options: IngestOptions | None = None,
) -> TrainPlan:
    """Return the plan of a training. The dataset itself is ingested if it is not stored yet; nothing else is made."""
    from leap.models.network import count_parameters
    from leap.pipeline.training.splits import make_splits, part_sizes

    report, artifact = ingest_artifact(dataset, ingest_options or IngestOptions(), context)
    artifacts = [{"kind": "dataset", "params": report.params, "key": report.key, "cached": True}]
    for recipe in required_recipes(options, artifact):
        recipe.check(artifact)
        request = recipe.request(artifact)
        found = context.store.answer(request)
        entry = {"kind": recipe.kind, "params": recipe.params, "key": request.key if found is None else found.key}
        artifacts.append(entry | {"cached": found is not None})
    facts = dataset_facts(artifact)
    sizes = [part_sizes(artifact, split) for split in make_splits(artifact, options)]
    counts = count_parameters(options.network, facts)
    return TrainPlan(artifact.manifest.dataset, options, facts, artifacts, sizes, counts)
