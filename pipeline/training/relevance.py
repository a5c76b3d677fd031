"""Which options matter to a network: those that do not are left at their defaults, so that equal runs look equal."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from leap.models.network_config import GLOBAL_BACKBONES, LEAP_PARTS


@dataclass(frozen=True)
class Kind:
    """What decides which options matter."""

    backbone: str
    parts: frozenset[str]
    leap_on: str = "features"
    has_cap: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Kind":
        """Return the kind of a network described by options by name; what is not given has its default."""
        backbone = str(values.get("backbone", "gcn"))
        encoding = "none" if backbone in GLOBAL_BACKBONES else str(values.get("encoding", "leap-l"))
        parts = frozenset(encoding.split("+")) - {"none"}
        return cls(backbone, parts, str(values.get("leap_on", "features")), values.get("cap") is not None)

    @property
    def is_global(self) -> bool:
        """Whether the backbone looks at whole graphs."""
        return self.backbone in GLOBAL_BACKBONES

    @property
    def has_leap(self) -> bool:
        """Whether LEAP is one of the encodings."""
        return bool(self.parts & LEAP_PARTS)

    @property
    def has_neighborhoods(self) -> bool:
        """Whether something is computed of neighbourhoods."""
        return self.has_leap or "lect" in self.parts

    def has(self, encoding: str) -> bool:
        """Whether an encoding is used, by the backbone or by LEAP."""
        return encoding in self.parts or (self.has_leap and self.leap_on == encoding)


def _leap(kind: Kind) -> bool:
    return kind.has_leap


def _transform(kind: Kind) -> bool:
    return kind.has_neighborhoods or kind.is_global


def _soft_transform(kind: Kind) -> bool:
    return kind.has_leap or kind.is_global


def _layered(kind: Kind) -> bool:
    return not kind.is_global


# Options that are not named here matter to every network.
MATTERS: dict[str, Callable[[Kind], bool]] = {
    "encoding": _layered,
    "projection": _leap,
    "dim": lambda kind: bool(kind.parts - {"lect"}),
    "hops": lambda kind: kind.has_neighborhoods,
    "directions": _transform,
    "thresholds": _transform,
    "radius": _transform,
    "scale": _soft_transform,
    "edge_weight": _soft_transform,
    "learn_thresholds": _leap,
    "leap_on": _leap,
    "leap_every_layer": _leap,
    "hidden": _layered,
    "layers": lambda kind: not kind.is_global and kind.backbone != "nomp",
    "pooling": _layered,
    "lape_drop": lambda kind: kind.has("lape"),
    "lect_complex": lambda kind: "lect" in kind.parts,
    "cap": lambda kind: kind.has_neighborhoods,
    "cap_seed": lambda kind: kind.has_neighborhoods and kind.has_cap,
}


def matters(name: str, kind: Kind) -> bool:
    """Whether an option changes what a network of this kind computes."""
    return name not in MATTERS or MATTERS[name](kind)


def relevant(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options by name without those that do not matter.

    >>> relevant({"backbone": "gcn", "encoding": "rwpe", "projection": "linear", "dim": 5})
    {'backbone': 'gcn', 'encoding': 'rwpe', 'dim': 5}
    """
    kind = Kind.of(values)
    kept = {name: value for name, value in values.items() if matters(name, kind)}
    return kept | ({"encoding": "none"} if kind.is_global else {})
