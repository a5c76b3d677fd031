"""Graphs that are already in memory as a source: the fingerprint is their content."""

from typing import Any

from leap.pipeline.datasets.fingerprint import fingerprint_arrays
from leap.pipeline.datasets.source import Executor, Progress, Source, checked_name
from leap.pipeline.graphs import RawGraphs


class MemorySource(Source):
    """Raw graphs under a name; later changes of the objects they were made from do not reach it."""

    def __init__(self, name: str, reader: str, raw: RawGraphs) -> None:
        from leap.pipeline.datasets.registry import known_names  # which in turn knows the readers of files

        # As with files, nothing of one's own bears the name of a known dataset.
        self.name = f"own-{name}" if checked_name(name) in known_names() else name
        self._reader = reader
        self._raw = raw

    def fingerprint(self) -> dict[str, Any]:
        """Reader, version, task and a hash of every array."""
        raw = self._raw
        arrays = {"node_counts": raw.node_counts, "edges": raw.edges, "x": raw.x, "y": raw.y}
        for part, mask in (raw.masks or {}).items():
            arrays[f"{part}_mask"] = mask
        return {
            "reader": self._reader,
            "version": 1,
            "options": {"task": raw.task},
            "arrays": fingerprint_arrays(arrays),
        }

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Return the graphs."""
        return self._raw
