"""Runs that are finished already, by fingerprint and by what was asked for."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from leap.pipeline.training.options import TrainOptions
from leap.pipeline.training.run_folder import RunFolder, finished_runs

Finished = tuple[RunFolder, dict[str, Any]]


@dataclass(frozen=True)
class History:
    """The finished runs under a folder, as they were when it was read.

    One request has several results where data of the same name has changed, or the training code.
    """

    by_fingerprint: dict[str, Finished] = field(default_factory=dict)
    by_request: dict[tuple[str, TrainOptions], list[Finished]] = field(default_factory=dict)

    @classmethod
    def read(cls, root: Path) -> "History":
        """Look through all run folders."""
        history = cls()
        for folder, metrics in finished_runs(root):
            try:
                request = (str(metrics["dataset"]), TrainOptions.model_validate(metrics["options"]))
            except (KeyError, ValidationError):
                continue  # of another version, or nothing of ours
            history.by_fingerprint[str(metrics.get("fingerprint"))] = (folder, metrics)
            history.by_request.setdefault(request, []).append((folder, metrics))
        return history

    def by_name(self, dataset: str, options: TrainOptions) -> Finished | None:
        """Return the result of these options on data of this name, whatever it held; None if there are several."""
        found = self.by_request.get((dataset, options), [])
        return found[0] if len({metrics.get("fingerprint") for _, metrics in found}) == 1 else None

    def of_dataset(self, dataset: str, options: TrainOptions, key: str) -> Finished | None:
        """Return the result of these options on the dataset of this key."""
        for folder, metrics in self.by_request.get((dataset, options), []):
            if {"kind": "dataset", "key": key} in metrics.get("keys", ()):
                return folder, metrics
        return None

    def folds(self) -> Iterator[tuple[str, TrainOptions, dict[str, Any]]]:
        """Yield dataset, options and result of every fold."""
        for (dataset, options), found in self.by_request.items():
            for _, metrics in found:
                for fold in metrics.get("folds", ()):
                    yield dataset, options, fold
