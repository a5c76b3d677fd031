"""A request for a derived artifact: the key that answers it exactly, and the artifacts that contain the answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leap.store.keys import derived_key
from leap.store.manifest import Manifest

# The parameter that counts columns. It promises that the first columns do not depend on how many there are.
COLUMNS = "dim"


@dataclass(frozen=True)
class Request:
    """Everything that determines a derived artifact.

    Attributes
    ----------
    source : digest of the dataset's canonical content.
    algorithm : version of the code that makes this kind.
    inputs : role -> key of the artifacts that are read besides the dataset.
    """

    kind: str
    source: str
    params: Mapping[str, Any]
    algorithm: int
    inputs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, manifest: Manifest) -> "Request":
        """Return the request that an artifact was made for."""
        inputs = {role: key for role, key in manifest.inputs.items() if role != "dataset"}
        return cls(manifest.kind, manifest.source, manifest.params, manifest.algorithm, inputs)

    @property
    def key(self) -> str:
        """Key of the artifact that answers exactly this."""
        return derived_key(self.kind, self.source, dict(self.params), self.algorithm, dict(self.inputs))

    @property
    def family(self) -> str:
        """Equal for requests that differ in nothing but the number of columns."""
        rest = {name: value for name, value in self.params.items() if name != COLUMNS}
        return derived_key(self.kind, self.source, rest, self.algorithm, dict(self.inputs))

    @property
    def columns(self) -> int | None:
        """How many columns are asked for, None if the kind has a fixed form."""
        return self.params.get(COLUMNS)

    def is_answered_by(self, manifest: Manifest) -> bool:
        """Whether an artifact holds the answer: made by the same algorithm from the same, with as many columns."""
        stored = Request.of(manifest)
        return stored.family == self.family and (stored.columns or 0) >= (self.columns or 0)
