"""`TrainOptions`: a network and the protocol it is trained by; with the keys of the artifacts, a run's identity."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, model_validator

from leap.models.network_config import NETWORK, TRANSFORM, Kind, NetworkConfig, needed
from leap.pipeline.datasets import dataset_card
from leap.store.graphs.tasks import is_node_task
from leap.store.keys import digest
from leap.store.option import Option, Options, option_fields

ALGORITHM = 2  # raised when the same options give other results
PUBLISHED_FOLDS, PUBLISHED_SPLIT_SEED = 5, 42
PATIENCE = 10  # the paper's, of early stopping and of the rate
DEFAULT_RUNS = "runs"
CHECKPOINT_SECONDS = 20  # a checkpoint of a small network takes as long as thirty of its steps
PROTOCOL = "The protocol"


class TrainOptions(Options):
    """Everything that changes a result: the network and the protocol it is trained by."""

    network: NetworkConfig = NetworkConfig()
    folds: Annotated[
        int,
        Field(ge=2, le=100),
        Option(
            help="Folds; of the splits that a dataset brings, the first N.", panel=PROTOCOL, metavar="N", on_nodes=10
        ),
    ] = PUBLISHED_FOLDS
    epochs: Annotated[
        int,
        Field(ge=1, lt=2**31),
        Option(help="At most N epochs.", panel=PROTOCOL, metavar="N", column="epochs_at_most", on_nodes=200),
    ] = 100
    batch_size: Annotated[int, Field(ge=1, lt=2**31), Option(help="Graphs of a step.", panel=PROTOCOL)] = 16
    lr: Annotated[FiniteFloat, Field(gt=0), Option(help="Learning rate of Adam.", panel=PROTOCOL, on_nodes=0.01)] = 1e-3
    schedule: Annotated[
        Literal["plateau", "cosine", "constant"],
        Option(
            help="How the rate falls, to a tenth where the validation loss does not (plateau) or to zero: {choices}.",
            panel=PROTOCOL,
            on_nodes="cosine",
            came_later=True,
        ),
    ] = "plateau"
    warm_up: Annotated[
        int,
        Field(ge=0, lt=2**31),
        Option(
            help="The rate rises in the first N epochs.",
            panel=PROTOCOL,
            metavar="N",
            on_nodes=20,
            came_later=True,
        ),
    ] = 0
    weight_decay: Annotated[
        FiniteFloat,
        Field(ge=0),
        Option(help="Decay of the weights, apart from Adam's moments (AdamW).", panel=PROTOCOL, came_later=True),
    ] = 0.0
    patience: Annotated[
        int,
        Field(ge=1, lt=2**31),
        Option(
            help="Training stops after N epochs without a lower validation loss.",
            panel=PROTOCOL,
            on_nodes=200,
            metavar="N",
            came_later=True,
        ),
    ] = PATIENCE
    seed: Annotated[
        int,
        Field(ge=0, lt=2**63),
        Option(
            help="Seed of initialization, order and dropout, set anew before each fold.",
            panel=PROTOCOL,
            metavar="SEED",
            compared="never",
        ),
    ] = 42
    split_seed: Annotated[
        int,
        Field(ge=0, lt=2**32),
        Option(help="Seed of the folds; official splits need none.", panel=PROTOCOL, metavar="SEED", compared="never"),
    ] = PUBLISHED_SPLIT_SEED
    cross_validation: Annotated[
        bool,
        Option(
            help="Cut folds also where the dataset has official splits of its graphs, which are used otherwise.",
            panel=PROTOCOL,
            came_later=True,
        ),
    ] = False
    class_weight: Annotated[
        Literal["none", "frequency"],
        Option(
            help="Weight of a class in the loss: none, or its frequency in the whole dataset, the published code's.",
            panel=PROTOCOL,
            published="frequency",
        ),
    ] = "none"
    select: Annotated[
        Literal["loss", "auroc", "average_precision", "accuracy"] | None,
        Option(
            help="What chooses the tested epoch: validation {choices} (default: what is usual for the dataset).",
            panel=PROTOCOL,
        ),
    ] = None
    lape_drop: Annotated[
        Literal["components", "one"],
        Option(
            help="lape: zero eigenvalues to leave out, {choices}.",
            panel=NETWORK,
            matters=lambda kind: kind.takes("lape_drop"),
            compared="encoding",
            published="one",
        ),
    ] = "components"
    lect_complex: Annotated[
        Literal["points", "edges"],
        Option(
            help="lect: {choices}.",
            panel=TRANSFORM,
            matters=lambda kind: kind.takes("lect_complex"),
            compared="encoding",
        ),
    ] = "points"
    lcp_curvature: Annotated[
        Literal["forman", "augmented", "ollivier"],
        Option(
            help="lcp: curvature of an edge, {choices}.",
            panel=NETWORK,
            matters=lambda kind: kind.takes("lcp_curvature"),
            compared="encoding",
            came_later=True,
        ),
    ] = "forman"
    cap: Annotated[
        int | None,
        Field(ge=2, lt=2**31),
        Option(
            help="At most N nodes in a neighbourhood, sampled; nearer hops are kept first.",
            panel=TRANSFORM,
            matters=needed("cap"),
            compared="encoding",
        ),
    ] = None
    cap_seed: Annotated[
        int,
        Field(ge=0, lt=2**63),
        Option(
            help="Seed of that sample.",
            panel=TRANSFORM,
            metavar="SEED",
            matters=lambda kind: kind.has_cap and needed("cap_seed")(kind),
            compared="encoding",
        ),
    ] = 0

    @model_validator(mode="after")
    def _rate_is_reached(self) -> "TrainOptions":
        if self.warm_up >= self.epochs:
            raise ValueError(
                f"warm_up {self.warm_up} leaves none of the {self.epochs} epochs at the full rate; give fewer"
            )
        return self

    def on(self, task: str | None) -> "TrainOptions":
        """Return the options of a run on this task: what was not chosen has the task's own defaults.

        >>> TrainOptions(epochs=7).on("node-classification").lr, TrainOptions(epochs=7).on("graph-classification").lr
        (0.01, 0.001)
        """
        if not is_node_task(task):
            return self
        chosen = self.model_dump(exclude_unset=True)
        chosen |= chosen.pop("network", {})
        kind = Kind.of(chosen)
        values = {name: own for name, own in ON_NODES.items() if matters(name, kind)} | chosen
        if "warm_up" not in chosen:  # of few epochs it would be most
            values["warm_up"] = min(values["warm_up"], values["epochs"] // 10)
        return TrainOptions.of(values)

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
            "options": identity(self.flat()),
            "selection": self.selection(dataset),
            "keys": sorted(keys),
        }
        return digest(facts)


OPTIONS = option_fields(TrainOptions)
"""All options of a training by name, the network's first."""

ON_NODES = {name: field.option.on_nodes for name, field in OPTIONS.items() if field.option.on_nodes is not None}
"""Defaults of node tasks, where they are not those of graphs."""


def matters(name: str, kind: Kind) -> bool:
    """Whether an option changes what a network of this kind computes; what is no option, such as a dataset, does."""
    decides = OPTIONS[name].option.matters if name in OPTIONS else None
    return decides is None or decides(kind)


def relevant(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options by name without those that do not matter to the network.

    >>> relevant({"backbone": "gcn", "encoding": "rwpe", "projection": "linear", "dim": 5})
    {'backbone': 'gcn', 'encoding': 'rwpe', 'dim': 5}
    """
    kind = Kind.of(values)
    kept = {name: value for name, value in values.items() if matters(name, kind)}
    return kept | ({"encoding": "none"} if kind.is_global else {})


def identity(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that matter, without those that came later and have their default: equal runs look equal.

    >>> identity({"backbone": "gcn", "encoding": "none", "norm": "none", "residual": True})
    {'backbone': 'gcn', 'encoding': 'none', 'residual': True}
    """

    def is_new(name: str, value: Any) -> bool:
        field = OPTIONS.get(name)
        return field is not None and field.option.came_later and value == field.default

    return {name: value for name, value in relevant(values).items() if not is_new(name, value)}
