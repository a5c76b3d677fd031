"""Another home of `khop`, which lives in `leap.pipeline.neighborhoods`."""

from leap.pipeline.neighborhoods import khop

__all__ = ["khop"]
