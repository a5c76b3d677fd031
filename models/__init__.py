"""The differentiable Euler characteristic transform, LEAP and its projections.

Names are imported when first used: the kernels beneath need no torch, and the pipeline uses them without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leap.models.encoder import LEAP
    from leap.models.transform import Statistics, dect

_HOMES = {"LEAP": "leap.models.encoder", "Statistics": "leap.models.transform", "dect": "leap.models.transform"}

__all__ = ["LEAP", "Statistics", "dect"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
