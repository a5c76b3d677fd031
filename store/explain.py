"""Why a request misses: the nearest stored artifact and the parameters that differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leap.store.artifact import Artifact
from leap.store.store import ArtifactStore


@dataclass(frozen=True)
class Explanation:
    """The nearest artifact to a request.

    Attributes
    ----------
    nearest : None if nothing of the kind is stored at all.
    differences : name -> (asked, stored); the pseudo-names "dataset content", "algorithm" and "… artifact" (of
        what is read besides the dataset) stand for those.
    """

    hit: bool
    nearest: Artifact | None
    differences: dict[str, tuple[Any, Any]]


def explain(
    store: ArtifactStore,
    kind: str,
    dataset: str,
    source: str | None,
    params: dict[str, Any],
    algorithm: int,
    inputs: Mapping[str, str] | None = None,
) -> Explanation:
    """Compare a request with all artifacts of its kind.

    Parameters
    ----------
    source : digest of the dataset's canonical content, None if the dataset is not ingested yet or for a dataset.
    inputs : role -> key of the artifacts that would be read besides the dataset.
    """
    best: tuple[tuple[int, int], Artifact, dict[str, tuple[Any, Any]]] | None = None
    for artifact in store.list(kind):
        manifest = artifact.manifest
        differences = {
            name: (params.get(name), manifest.params.get(name))
            for name in sorted(params.keys() | manifest.params.keys())
            if params.get(name) != manifest.params.get(name)
        }
        same_name = manifest.dataset == dataset
        if source is not None and manifest.source != source:
            what = "dataset content" if same_name else "dataset"
            shown = (source[:12], manifest.source[:12]) if same_name else (dataset, manifest.dataset)
            differences[what] = shown
        elif source is None and not same_name:
            differences["dataset"] = (dataset, manifest.dataset)
        if manifest.algorithm != algorithm:
            differences["algorithm"] = (algorithm, manifest.algorithm)
        if "dataset" not in differences and "dataset content" not in differences:
            for role, key in (inputs or {}).items():
                if manifest.inputs.get(role) != key:
                    differences[f"{role} artifact"] = (key[:12], manifest.inputs.get(role, "none")[:12])
        rank = (0 if same_name else 1, len(differences))
        if best is None or rank < best[0]:
            best = (rank, artifact, differences)
    if best is None:
        return Explanation(False, None, {})
    return Explanation(not best[2], best[1], best[2])
