"""Files of other readers that PyG processes too."""

from tests.pipeline.datasets.conftest import write_tu

__all__ = ["write_tu"]
