"""`NetworkConfig` and `DatasetFacts`: everything that a network is built from, without torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, field_validator, model_validator

from leap.models.registries import (
    BACKBONES,
    ENCODINGS,
    PROJECTIONS,
    BackboneTraits,
    backbone_traits,
    projection_can_stack,
)
from leap.store.option import Option, Options, option_fields

TaskName = Literal[
    "graph-classification", "graph-regression", "graph-multilabel", "node-classification", "node-regression"
]

LEAPS = ("leap-f", "leap-l", "leap-x")
LEAP_PARTS = frozenset(LEAPS)


NETWORK = "The network"
TRANSFORM = "LEAP and the static transforms"


@dataclass(frozen=True)
class Kind:
    """What decides which options matter to a network."""

    backbone: str
    parts: frozenset[str]
    leap_on: str = "features"
    has_cap: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Kind":
        """Return the kind of a network described by options by name; what is not given has its default."""
        fields = option_fields(NetworkConfig)
        backbone, encoding, leap_on = (
            str(values.get(name, fields[name].default)) for name in ("backbone", "encoding", "leap_on")
        )
        parts = frozenset(encoding.split("+")) - {"none"}
        kind = cls(backbone, parts, leap_on, values.get("cap") is not None)
        return replace(kind, parts=frozenset()) if kind.is_global else kind

    @property
    def traits(self) -> BackboneTraits:
        """What is known of the backbone; the usual for one whose package is not installed."""
        return backbone_traits(self.backbone) if self.backbone in BACKBONES else BackboneTraits()

    @property
    def is_global(self) -> bool:
        """Whether the backbone looks at whole graphs."""
        return self.traits.looks_at_graphs

    @property
    def has_leap(self) -> bool:
        """Whether LEAP is one of the encodings."""
        return bool(self.parts & LEAP_PARTS)

    def takes(self, option: str) -> bool:
        """Whether an encoding that the store keeps, for the backbone or for LEAP, has a parameter of this option."""
        stored = {*self.parts, self.leap_on} if self.has_leap else self.parts
        return any(ENCODINGS[name].follows(option) for name in stored if name in ENCODINGS)


def encoding_parts() -> tuple[str, ...]:
    """Names of all encodings: what the store keeps, and LEAP."""
    return (*ENCODINGS, *LEAPS)


def _leap(kind: Kind) -> bool:
    return kind.has_leap


def _leap_without_place(kind: Kind) -> bool:
    return kind.has_leap and "leap-x" not in kind.parts


def _weighted(kind: Kind) -> bool:
    return kind.is_global or kind.has_leap


def needed(option: str) -> Callable[[Kind], bool]:
    """Return when an option matters that LEAP has, and maybe stored encodings too."""
    return lambda kind: kind.has_leap or kind.takes(option)


def _transformed(option: str) -> Callable[[Kind], bool]:
    """Return when an option of the transform matters: backbones on whole graphs compute one too."""
    return lambda kind: kind.is_global or needed(option)(kind)


def _layered(kind: Kind) -> bool:
    return not kind.is_global


def _may_see_edges(kind: Kind) -> bool:
    return kind.traits.takes_edges and not kind.traits.needs_edges


def _in_blocks(kind: Kind) -> bool:
    return kind.traits.takes_blocks


class NetworkConfig(Options):
    """What a network computes.

    `hidden` and `layers` are the paper's if None. The ℓ-ECT has directions × thresholds columns instead of `dim`, and
    uses the first of `hops`; LEAP's hop counts share its dimension.
    """

    backbone: Annotated[
        str,
        Option(
            help="Backbone: {choices}.",
            flags=("--backbone", "-b"),
            choices=lambda: BACKBONES,
            compared="never",
        ),
    ] = "gcn"
    encoding: Annotated[
        str,
        Option(
            help="Encoding: {choices}, or a sum such as lape+leap-l; dect-4k and dect-65k take none.",
            flags=("--encoding", "-e"),
            choices=lambda: ("none", *encoding_parts()),
            joined_by="+",
            matters=_layered,
            compared="never",
        ),
    ] = "leap-l"
    projection: Annotated[
        str,
        Option(
            help="Projection of LEAP: {choices}.",
            flags=("--projection", "-p"),
            choices=lambda: PROJECTIONS,
            matters=_leap,
            compared="never",
        ),
    ] = "conv1d"
    dim: Annotated[
        int,
        Field(ge=1, le=1024),
        Option(
            help="Dimension of each encoding.",
            panel=NETWORK,
            metavar="K",
            matters=needed("dim"),
            compared="ablation",
        ),
    ] = 10
    hops: Annotated[
        tuple[int, ...],
        Option(
            help="Hop count of the neighbourhoods.",
            panel=TRANSFORM,
            metavar="M",
            matters=needed("hops"),
            compared="ablation",
        ),
    ] = (1,)
    directions: Annotated[
        int,
        Field(ge=1, le=4096),
        Option(
            help="Number of directions.",
            panel=TRANSFORM,
            matters=_transformed("directions"),
            compared="ablation",
        ),
    ] = 16
    thresholds: Annotated[
        int,
        Field(ge=1, le=4096),
        Option(
            help="Number of thresholds.",
            panel=TRANSFORM,
            matters=_transformed("thresholds"),
            compared="ablation",
        ),
    ] = 16
    scale: Annotated[
        FiniteFloat,
        Field(gt=0),
        Option(
            help="Steepness of the sigmoid.",
            panel=TRANSFORM,
            matters=_transformed("scale"),
            compared="ablation",
        ),
    ] = 128.0
    radius: Annotated[
        FiniteFloat,
        Field(gt=0),
        Option(
            help="Thresholds span [-radius, radius].",
            panel=TRANSFORM,
            matters=_transformed("radius"),
            compared="ablation",
        ),
    ] = 1.1
    edge_weight: Annotated[
        FiniteFloat,
        Field(ge=0),
        Option(
            help="Weight of an edge; 2 is the published code's.",
            panel=TRANSFORM,
            matters=_transformed("edge_weight"),
            compared="encoding",
            published=2.0,
        ),
    ] = 1.0
    edge_weight_from: Annotated[
        int | None,
        Field(ge=0, lt=2**16),
        Option(
            help="Weigh each edge by this column of the edges' attributes too, counted from 0.",
            panel=TRANSFORM,
            metavar="COLUMN",
            matters=_weighted,
            compared="ablation",
            came_later=True,
        ),
    ] = None
    learn_thresholds: Annotated[
        bool, Option(help="Learn the thresholds too.", panel=TRANSFORM, matters=_leap, compared="ablation")
    ] = False
    leap_on: Annotated[
        str,
        Option(
            help="What LEAP looks at: {choices}.",
            panel=TRANSFORM,
            choices=lambda: ("features", *ENCODINGS),
            matters=_leap,
            compared="ablation",
        ),
    ] = "features"
    leap_every_layer: Annotated[
        bool,
        Option(
            help="LEAP of the hidden states too, before every layer of gcn, gat, gin or gine.",
            panel=TRANSFORM,
            matters=_leap,
            compared="ablation",
        ),
    ] = False
    place: Annotated[
        bool,
        Option(
            help="A node's place in its neighbourhood beside leap-f or leap-l, as leap-x has it: its position, the "
            "width, the number of nodes.",
            panel=TRANSFORM,
            matters=_leap_without_place,
            compared="ablation",
            came_later=True,
        ),
    ] = False
    whole: Annotated[
        bool,
        Option(
            help="Add scores of the whole graph, from its own transform, to those of its nodes.",
            panel=TRANSFORM,
            matters=_leap,
            compared="ablation",
            came_later=True,
        ),
    ] = False
    hidden: Annotated[
        int | None,
        Field(ge=1, le=16384),
        Option(help="Width of the backbone, the paper's unless given.", panel=NETWORK, matters=_layered, on_nodes=64),
    ] = None
    layers: Annotated[
        int | None,
        Field(ge=1, le=1024),
        Option(
            help="Layers of the backbone, the paper's unless given.",
            panel=NETWORK,
            matters=lambda kind: kind.traits.has_layers,
        ),
    ] = None
    norm: Annotated[
        Literal["none", "layer", "batch"],
        Option(
            help="Normalize the states before every layer: {choices}.",
            panel=NETWORK,
            matters=_in_blocks,
            on_nodes="layer",
            came_later=True,
        ),
    ] = "none"
    residual: Annotated[
        bool,
        Option(
            help="Add the states before a layer to those after it.",
            panel=NETWORK,
            matters=_in_blocks,
            on_nodes=True,
            came_later=True,
        ),
    ] = False
    feed_forward: Annotated[
        bool,
        Option(
            help="A second linear map in every layer, after the ReLU of the first.",
            panel=NETWORK,
            matters=_in_blocks,
            on_nodes=True,
            came_later=True,
        ),
    ] = False
    dropout: Annotated[
        float | None,
        Field(ge=0, lt=1, allow_inf_nan=False),
        Option(
            help="Share of the states to drop in training, the paper's unless given.",
            on_nodes=0.2,
            panel=NETWORK,
            matters=lambda kind: kind.traits.takes_dropout,
            came_later=True,
        ),
    ] = None
    with_edges: Annotated[
        bool,
        Option(
            help="Messages of gps see the attributes of edges, as those of gine always do.",
            panel=NETWORK,
            matters=_may_see_edges,
            came_later=True,
        ),
    ] = False
    pooling: Annotated[
        Literal["sum", "mean"],
        Option(help="A graph's scores are the {choices} of its nodes'.", panel=NETWORK, matters=_layered),
    ] = "sum"
    precision: Annotated[
        Literal["32", "bf16"],
        Option(
            help="Bits of the numbers that linear maps multiply: {choices}; all else has 32.",
            panel=NETWORK,
            compared="ablation",
            came_later=True,
        ),
    ] = "32"

    @model_validator(mode="before")
    @classmethod
    def _whole_graphs_need_no_encoding(cls, values: Any) -> Any:
        name = str(values.get("backbone")).lower() if isinstance(values, dict) else ""
        if name in BACKBONES and backbone_traits(name).looks_at_graphs:
            return {"encoding": "none", **values}
        return values

    @field_validator("encoding")
    @classmethod
    def _encodings_differ(cls, value: str) -> str:
        parts = value.split("+")
        if len(set(parts)) < len(parts):
            raise ValueError("an encoding is named twice")
        if "none" in parts and len(parts) > 1:
            raise ValueError("none cannot be part of a sum")
        if len(found := [part for part in parts if part in LEAP_PARTS]) > 1:
            raise ValueError(f"{' and '.join(found)} are versions of one encoding; choose one")
        return value

    @field_validator("hops")
    @classmethod
    def _hops_count(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or min(value) < 1 or len(set(value)) < len(value):
            raise ValueError("hops are different counts of at least 1")
        return value

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "NetworkConfig":
        traits = backbone_traits(self.backbone)
        if traits.looks_at_graphs and self.encoding != "none":
            raise ValueError(f"{self.backbone} looks at whole graphs and takes no encoding; use the encoding none")
        if traits.looks_at_graphs and (self.hidden is not None or self.layers is not None):
            raise ValueError(f"the size of {self.backbone} is its name; leave hidden and layers out")
        if traits.looks_at_graphs and self.pooling != "sum":
            raise ValueError(f"{self.backbone} looks at whole graphs and pools no nodes; leave pooling out")
        if not traits.has_layers and self.layers is not None:
            raise ValueError(f"{self.backbone} has one layer; leave layers out")
        if not traits.takes_blocks and (self.norm != "none" or self.residual or self.feed_forward):
            raise ValueError(f"{self.backbone} has no such layers; leave norm, residual and feed_forward out")
        if not traits.takes_dropout and self.dropout is not None:
            raise ValueError(f"what {self.backbone} drops cannot be chosen; leave dropout out")
        if self.leap and self.dim % len(self.hops):
            raise ValueError(
                f"{len(self.hops)} hop counts must divide the {self.dim} dimensions, of which each gets an equal "
                f"share; use a multiple of {len(self.hops)}"
            )
        if self.leap_on != "features" and not self.leap:
            raise ValueError(f"leap_on {self.leap_on} needs the encoding {' or '.join(LEAPS)}")
        if self.leap_every_layer and not (self.leap and traits.takes_leap_in_every_layer):
            raise ValueError(f"leap_every_layer needs the encoding {' or '.join(LEAPS)}, and gcn, gat, gin or gine")
        if self.with_edges and not traits.takes_edges:
            raise ValueError(f"{self.backbone} takes no attributes of edges; use gine or gps, or leave with_edges out")
        if self.edge_weight_from is not None and not (self.leap or traits.looks_at_graphs):
            raise ValueError(f"edge_weight_from needs the encoding {' or '.join(LEAPS)}, or dect-4k or dect-65k")
        if (self.place or self.whole) and not self.leap:
            raise ValueError(f"{'place' if self.place else 'whole'} needs the encoding {' or '.join(LEAPS)}")
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the encodings, none for "none"."""
        return () if self.encoding == "none" else tuple(self.encoding.split("+"))

    @property
    def leap(self) -> str | None:
        """Return the version of LEAP that the encoding has, if it has one."""
        return next((part for part in self.parts if part in LEAP_PARTS), None)

    @property
    def learns_directions(self) -> bool:
        """Whether LEAP's directions are learned."""
        return self.leap not in (None, "leap-f")

    @property
    def sees_edges(self) -> bool:
        """Whether the backbone takes attributes of edges."""
        return self.with_edges or backbone_traits(self.backbone).needs_edges

    @property
    def needs_edge_attr(self) -> bool:
        """Whether batches must carry attributes of edges."""
        return self.sees_edges or self.edge_weight_from is not None

    @property
    def shows_place(self) -> bool:
        """Whether a node's place in its neighbourhood stands beside LEAP."""
        return self.place or self.leap == "leap-x"


class DatasetFacts(BaseModel):
    """What a network must know about its data.

    Attributes
    ----------
    features : number of feature columns.
    codes : for categorical features, the distinct values of each column, ascending; None for measurements.
    outputs : number of classes, targets or, of a multi-label task, labels.
    edge_features : number of columns of the edges' attributes; 0 for networks that do without.
    edge_codes : as `codes`, for categorical attributes of edges.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    features: int = Field(ge=1)
    codes: tuple[tuple[int, ...], ...] | None = None
    outputs: int = Field(ge=1)
    task: TaskName = "graph-classification"
    edge_features: int = Field(default=0, ge=0)
    edge_codes: tuple[tuple[int, ...], ...] | None = None


def transform_name(hops: int) -> str:
    """Name of a stored transform in a batch, which may have one for each hop count."""
    return f"dect{hops}"


def uses_cached_transform(config: NetworkConfig, *, is_categorical: bool) -> bool:
    """Whether LEAP's transform never changes while training, so that the store's `dect` is used."""
    is_fixed = config.leap == "leap-f" and not config.learn_thresholds and config.edge_weight_from is None
    return is_fixed and config.leap_on == "features" and not is_categorical


def needs_neighborhoods(config: NetworkConfig, *, is_categorical: bool) -> bool:
    """Whether a transform is computed while training, so that batches carry neighbourhoods."""
    if config.leap is None:
        return False
    return (
        config.shows_place
        or config.leap_every_layer
        or not uses_cached_transform(config, is_categorical=is_categorical)
    )


def can_stack(config: NetworkConfig, *, is_node_task: bool) -> bool:
    """Whether several networks like this can be trained as one, `leap.models.stack.Stack`."""
    if is_node_task or config.learn_thresholds or not backbone_traits(config.backbone).can_stack:
        return False
    if config.norm == "batch":  # its running statistics are no parameters
        return False
    return config.leap is None or projection_can_stack(config.projection)
