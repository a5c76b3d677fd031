"""Datasets, Dask stages, training, experiments and reports.

Names are imported when first used, so that a cached command pays neither for torch nor for numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leap.pipeline.cluster import Workforce
    from leap.pipeline.datasets import from_networkx, from_pyg
    from leap.pipeline.experiments.sweep import sweep
    from leap.pipeline.export import to_pyg
    from leap.pipeline.loader import StreamDataset
    from leap.pipeline.neighborhoods import khop
    from leap.pipeline.reports.write import report
    from leap.pipeline.stages.context import Context
    from leap.pipeline.stages.encode import encode
    from leap.pipeline.stages.extract import extract
    from leap.pipeline.stages.ingest import IngestOptions, ingest
    from leap.pipeline.training.options import TrainOptions
    from leap.pipeline.training.predict import predict
    from leap.pipeline.training.stage import train
    from leap.pipeline.transform import AddNeighborhoods

_HOMES = {
    "AddNeighborhoods": "leap.pipeline.transform",
    "Context": "leap.pipeline.stages.context",
    "IngestOptions": "leap.pipeline.stages.ingest",
    "StreamDataset": "leap.pipeline.loader",
    "TrainOptions": "leap.pipeline.training.options",
    "Workforce": "leap.pipeline.cluster",
    "encode": "leap.pipeline.stages.encode",
    "extract": "leap.pipeline.stages.extract",
    "from_networkx": "leap.pipeline.datasets",
    "from_pyg": "leap.pipeline.datasets",
    "ingest": "leap.pipeline.stages.ingest",
    "khop": "leap.pipeline.neighborhoods",
    "predict": "leap.pipeline.training.predict",
    "report": "leap.pipeline.reports.write",
    "sweep": "leap.pipeline.experiments.sweep",
    "to_pyg": "leap.pipeline.export",
    "train": "leap.pipeline.training.stage",
}

__all__ = [
    "AddNeighborhoods",
    "Context",
    "IngestOptions",
    "StreamDataset",
    "TrainOptions",
    "Workforce",
    "encode",
    "extract",
    "from_networkx",
    "from_pyg",
    "ingest",
    "khop",
    "predict",
    "report",
    "sweep",
    "to_pyg",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
