"""`NetworkConfig` and `DatasetFacts`: everything that a network is built from, without torch."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, field_validator, model_validator

BackboneName = Literal["gcn", "gat", "gin", "nomp", "gps", "dect-4k", "dect-65k"]
ProjectionName = Literal["linear", "conv1d", "deepsets", "attention", "attention-pe"]
TaskName = Literal["graph-classification", "graph-regression", "node-classification"]

ENCODING_PARTS = ("rwpe", "lape", "lect", "leap-f", "leap-l")
LEAP_PARTS = frozenset({"leap-f", "leap-l"})
GLOBAL_BACKBONES = frozenset({"dect-4k", "dect-65k"})
EVERY_LAYER_BACKBONES = frozenset({"gcn", "gat", "gin"})


class NetworkConfig(BaseModel):
    """What a network computes.

    Attributes
    ----------
    encoding : "none", one of rwpe, lape, lect, leap-f, leap-l, or several joined by "+", such as "lape+leap-l".
    dim : dimension of each encoding; the ℓ-ECT has directions × thresholds columns instead.
    hops : neighbourhoods of LEAP; several share the dimension. The ℓ-ECT uses the first.
    scale, radius, edge_weight, learn_thresholds, projection, directions, thresholds : as in `LEAP`.
    leap_on : what LEAP looks at: "features" or the encoding "rwpe" or "lape".
    leap_every_layer : give every layer of gcn, gat or gin LEAP of its input states, not only the first.
    hidden, layers : sizes of the backbone; None means the paper's.
    pooling : how a graph's scores are made of its nodes': their "sum" (the paper's) or their "mean".
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    backbone: BackboneName = "gcn"
    encoding: str = "leap-l"
    projection: ProjectionName = "conv1d"
    dim: int = Field(default=10, ge=1, le=1024)
    hops: tuple[int, ...] = (1,)
    directions: int = Field(default=16, ge=1, le=4096)
    thresholds: int = Field(default=16, ge=1, le=4096)
    scale: FiniteFloat = Field(default=128.0, gt=0)
    radius: FiniteFloat = Field(default=1.1, gt=0)
    edge_weight: FiniteFloat = Field(default=1.0, ge=0)
    learn_thresholds: bool = False
    leap_on: Literal["features", "rwpe", "lape"] = "features"
    leap_every_layer: bool = False
    hidden: int | None = Field(default=None, ge=1)
    layers: int | None = Field(default=None, ge=1)
    pooling: Literal["sum", "mean"] = "sum"

    @field_validator("encoding")
    @classmethod
    def _encodings_are_known(cls, value: str) -> str:
        parts = value.split("+")
        if value == "none":
            return value
        for part in parts:
            if part not in ENCODING_PARTS:
                raise ValueError(f"no encoding {part!r}; choose none, {', '.join(ENCODING_PARTS)} or a sum of these")
        if len(set(parts)) < len(parts):
            raise ValueError("an encoding is named twice")
        if len(LEAP_PARTS & set(parts)) == 2:
            raise ValueError("leap-f and leap-l are two versions of one encoding; choose one")
        return value

    @field_validator("hops")
    @classmethod
    def _hops_count(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or min(value) < 1 or len(set(value)) < len(value):
            raise ValueError("hops are different counts of at least 1")
        return value

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "NetworkConfig":
        if self.backbone in GLOBAL_BACKBONES and self.encoding != "none":
            raise ValueError(f"{self.backbone} looks at whole graphs and takes no encoding; use the encoding none")
        if self.backbone in GLOBAL_BACKBONES and (self.hidden is not None or self.layers is not None):
            raise ValueError(f"the size of {self.backbone} is its name; leave hidden and layers out")
        if self.backbone in GLOBAL_BACKBONES and self.pooling != "sum":
            raise ValueError(f"{self.backbone} looks at whole graphs and pools no nodes; leave pooling out")
        if self.backbone == "nomp" and self.layers is not None:
            raise ValueError("nomp has one layer; leave layers out")
        if self.leap and self.dim % len(self.hops):
            raise ValueError(
                f"{len(self.hops)} hop counts share the {self.dim} dimensions, which must divide; "
                f"use a multiple of {len(self.hops)}"
            )
        if self.leap_on != "features" and not self.leap:
            raise ValueError(f"leap_on {self.leap_on} needs the encoding leap-f or leap-l")
        if self.leap_every_layer and (not self.leap or self.backbone not in EVERY_LAYER_BACKBONES):
            raise ValueError("leap_every_layer needs the encoding leap-f or leap-l, and gcn, gat or gin")
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the encodings, none for "none"."""
        return () if self.encoding == "none" else tuple(self.encoding.split("+"))

    @property
    def leap(self) -> str | None:
        """Return "leap-f" or "leap-l", if the encoding has one of them."""
        return next((part for part in self.parts if part in LEAP_PARTS), None)


class DatasetFacts(BaseModel):
    """What a network must know about its data.

    Attributes
    ----------
    features : number of feature columns.
    codes : for categorical features, the distinct values of each column, ascending; None for measurements.
    outputs : number of classes or targets.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    features: int = Field(ge=1)
    codes: tuple[tuple[int, ...], ...] | None = None
    outputs: int = Field(ge=1)
    task: TaskName = "graph-classification"


def transform_name(hops: int) -> str:
    """Name of a stored transform in a batch, which may have one for each hop count."""
    return f"dect{hops}"


def uses_cached_transform(config: NetworkConfig, *, is_categorical: bool) -> bool:
    """Whether LEAP's transform never changes while training, so that the store's `dect` is used."""
    return (
        config.leap == "leap-f" and config.leap_on == "features" and not is_categorical and not config.learn_thresholds
    )


def needs_neighborhoods(config: NetworkConfig, *, is_categorical: bool) -> bool:
    """Whether a transform is computed while training, so that batches carry neighbourhoods."""
    if config.leap is None:
        return False
    return config.leap_every_layer or not uses_cached_transform(config, is_categorical=is_categorical)
