"""What is asked for: a dataset and everything that changes a result. By that, and its artifacts, a run is known."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leap.pipeline.datasets import Source
from leap.pipeline.derived import Recipe
from leap.pipeline.training.options import TrainOptions, relevant
from leap.store import Artifact


@dataclass(frozen=True)
class RunRequest:
    """One run: a dataset (its name, its path, or a source) and options. A training is one, a sweep many."""

    dataset: str | Source
    options: TrainOptions

    @property
    def name(self) -> str:
        """The dataset as it was asked for."""
        return self.dataset if isinstance(self.dataset, str) else self.dataset.name

    def on(self, task: str | None) -> "RunRequest":
        """Return the same with the defaults of the dataset's task."""
        return replace(self, options=self.options.on(task))

    def values(self) -> dict[str, Any]:
        """Return the options that matter, by name, with the dataset."""
        return {"dataset": self.name, **relevant(self.options.flat())}

    @property
    def label(self) -> str:
        """A few words that tell what the run is."""
        network = self.options.network
        words = [self.name, network.backbone, *(() if network.encoding == "none" else (network.encoding,))]
        return " ".join(words + ([network.projection] if network.leap else []))


def run_fingerprint(options: TrainOptions, dataset: Artifact, recipes: Sequence[Recipe]) -> str:
    """Identity of a run.

    It covers what was asked for: a view of a larger artifact has the same bytes, so it is the same run.
    """
    keys = [dataset.key, *(recipe.key(dataset) for recipe in recipes)]
    return options.fingerprint(dataset.manifest.dataset, keys)


def run_name(dataset: str, options: TrainOptions, fingerprint: str) -> str:
    """Return a name for a run's folder that tells what it is and is no other's."""
    network = options.network
    words = [re.sub(r"[^A-Za-z0-9._+-]+", "-", Path(dataset).name).strip("-.") or "own", network.backbone]
    words += [network.encoding] + ([network.projection] if network.leap else [])
    return "-".join(words)[:80] + f"-{fingerprint[:10]}"
