"""The encodings, projections and backbones that networks can be made of, by name; other packages may add theirs.

An installed package offers parts through the entry-point groups `leap.encodings`, `leap.projections` and
`leap.backbones`, or registers them with a decorator: `@BACKBONES.register("name")`. Nothing here imports torch.
"""

from dataclasses import dataclass, replace
from typing import Any

from leap.store.registry import Registry


@dataclass(frozen=True)
class BackboneTraits:
    """What options must know of a backbone before it is imported.

    A backbone of another package says it as the class attribute `traits`.

    Attributes
    ----------
    looks_at_graphs : it maps whole graphs to scores and takes neither encodings nor sizes nor pooling.
    has_layers : the number of its layers can be chosen.
    takes_leap_in_every_layer : its layers take columns beside the states (`extra`, `widen`).
    takes_blocks : its layers can be made blocks (`norm`, `residual`, `feed_forward`).
    takes_dropout : what it drops while it is trained can be chosen (`dropout`).
    takes_edges : it can be given attributes of edges (`edge_channels`).
    needs_edges : it takes them always; others only if that is chosen (`with_edges`).
    can_stack : its `forward` obeys `graphs.rows`, so that several networks can be trained as one.
    """

    looks_at_graphs: bool = False
    has_layers: bool = False
    takes_leap_in_every_layer: bool = False
    takes_blocks: bool = False
    takes_dropout: bool = False
    takes_edges: bool = False
    needs_edges: bool = False
    can_stack: bool = False


_LAYERED = BackboneTraits(
    has_layers=True, takes_leap_in_every_layer=True, takes_blocks=True, takes_dropout=True, can_stack=True
)
_BUILTIN = {
    "gcn": ("leap.models.backbones:GcnBackbone", _LAYERED),
    "gat": ("leap.models.backbones:GatBackbone", _LAYERED),
    "gin": ("leap.models.backbones:GinBackbone", _LAYERED),
    "gine": ("leap.models.backbones:GineBackbone", replace(_LAYERED, takes_edges=True, needs_edges=True)),
    "nomp": ("leap.models.backbones:NompBackbone", BackboneTraits(takes_dropout=True, can_stack=True)),
    "mlp": ("leap.models.backbones:MlpBackbone", _LAYERED),
    "gps": ("leap.models.gps:GpsBackbone", BackboneTraits(has_layers=True, takes_dropout=True, takes_edges=True)),
    "dect-4k": ("leap.models.global_dect:SmallGlobalDect", BackboneTraits(looks_at_graphs=True)),
    "dect-65k": ("leap.models.global_dect:LargeGlobalDect", BackboneTraits(looks_at_graphs=True)),
}

BACKBONES: Registry[Any] = Registry("backbone", "leap.backbones", {name: at for name, (at, _) in _BUILTIN.items()})
"""Callables that make a `Backbone`, or a `GraphBackbone` if it looks at whole graphs; see there for their arguments."""

ENCODINGS: Registry[Any] = Registry(
    "encoding",
    "leap.encodings",
    {
        "rwpe": "leap.pipeline.derived.rwpe:RwpeRecipe",
        "lape": "leap.pipeline.derived.lape:LapeRecipe",
        "lect": "leap.pipeline.derived.ect:LectRecipe",
        "hkdiag": "leap.pipeline.derived.hkdiag:HkdiagRecipe",
        "ppr": "leap.pipeline.derived.ppr:PprRecipe",
        "lcp": "leap.pipeline.derived.lcp:LcpRecipe",
        "cycles": "leap.pipeline.derived.cycles:CyclesRecipe",
        "elstatic": "leap.pipeline.derived.elstatic:ElstaticRecipe",
    },
)
"""Recipes of the encodings that the store keeps. A network asks them for `of_options(values)`, `columns` and
`random_signs`; the rest is the pipeline's."""

_PROJECTIONS = {
    "linear": "leap.models.projections:LinearProjection",
    "conv1d": "leap.models.projections:ConvolutionProjection",
    "deepsets": "leap.models.projections:DeepSetsProjection",
    "attention": "leap.models.projections:AttentionProjection",
    "attention-pe": "leap.models.projections:DirectedAttentionProjection",
}

PROJECTIONS: Registry[Any] = Registry("projection", "leap.projections", _PROJECTIONS)
"""Callables of (dimension of the features, directions, thresholds, out_channels) that make a projection."""


def backbone_traits(name: str) -> BackboneTraits:
    """Return what is known of a backbone; one of another package is imported for it.

    Raises
    ------
    InvalidInputError
        If there is no such backbone.
    """
    if name in _BUILTIN:
        return _BUILTIN[name][1]
    traits: BackboneTraits = getattr(BACKBONES[name], "traits", BackboneTraits())
    return traits


def projection_can_stack(name: str) -> bool:
    """Whether a projection obeys the rows of a stack, as all built-in ones do; one of another package is imported."""
    return name in _PROJECTIONS or bool(getattr(PROJECTIONS[name], "can_stack", False))
