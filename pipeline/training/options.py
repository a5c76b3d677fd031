"""`TrainOptions`: a network and the protocol it is trained by; with the keys of the artifacts, a run's identity."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from leap.models.network_config import NetworkConfig
from leap.pipeline.datasets import dataset_card
from leap.pipeline.training.relevance import relevant
from leap.store.keys import digest

ALGORITHM = 1  # raised when the same options give other results
PUBLISHED_FOLDS, PUBLISHED_SPLIT_SEED = 5, 42
PATIENCE = 10
DEFAULT_CHECKPOINT_STEPS = 500


class TrainOptions(BaseModel):
    """Everything that changes a result.

    Attributes
    ----------
    folds : parts of the cross-validation; for node tasks, how many of the dataset's splits are used at most.
    seed : of initialization, order and dropout, set anew before each fold.
    split_seed : of the folds.
    class_weight : weight of a class in the loss, 1 or its frequency in the whole dataset (the published code's).
    select : what chooses the epoch that is tested, validation "loss" or "auroc"; None: what is usual for the dataset.
    lape_drop, lect_complex, cap, cap_seed : parameters of the stored encodings and neighbourhoods.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    network: NetworkConfig = NetworkConfig()
    folds: int = Field(default=PUBLISHED_FOLDS, ge=2, le=100)
    epochs: int = Field(default=100, ge=1)
    batch_size: int = Field(default=16, ge=1)
    lr: FiniteFloat = Field(default=1e-3, gt=0)
    seed: int = Field(default=42, ge=0, lt=2**63)
    split_seed: int = Field(default=PUBLISHED_SPLIT_SEED, ge=0, lt=2**32)
    class_weight: Literal["none", "frequency"] = "none"
    select: Literal["loss", "auroc"] | None = None
    lape_drop: Literal["components", "one"] = "components"
    lect_complex: Literal["points", "edges"] = "points"
    cap: int | None = Field(default=None, ge=2)
    cap_seed: int = Field(default=0, ge=0)

    def selection(self, dataset: str) -> str:
        """What chooses the tested epoch for a dataset."""
        return self.select or dataset_card(dataset).select

    def flat(self) -> dict[str, Any]:
        """Return all options by name as JSON values, the network's beside the protocol's."""
        values = self.model_dump(mode="json")
        return {**values.pop("network"), **values}

    def fingerprint(self, dataset: str, keys: list[str]) -> str:
        """Identity of a run: equal for equal artifacts, code and options, as far as these matter to the network."""
        facts: dict[str, Any] = {
            "algorithm": ALGORITHM,
            "options": relevant(self.flat()),
            "selection": self.selection(dataset),
            "keys": sorted(keys),
        }
        return digest(facts)
