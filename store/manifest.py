"""The manifest of an artifact: what it is, what it was made from, and the checksum of each of its files.

A manifest holds no times, host names or hit flags, so that equal work gives equal bytes.
"""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from leap.store.errors import DamagedArtifactError, NewerSchemaError
from leap.store.keys import SCHEMA_VERSION, digest

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class FileRecord:
    """Size and SHA-256 of one file of an artifact; with slots, as a stream keeps those of thousands in memory."""

    bytes: int
    sha256: str


class Partition(BaseModel):
    """A run of whole graphs, or a range of the nodes of one large graph: the unit of work, resume and streaming."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int
    graph_lo: int
    graph_hi: int
    node_lo: int
    node_hi: int

    @property
    def name(self) -> str:
        """Folder of the partition inside its artifact."""
        return f"part-{self.index:05d}"

    @property
    def num_nodes(self) -> int:
        """Number of nodes that the partition owns."""
        return self.node_hi - self.node_lo


class Manifest(BaseModel):
    """Everything that `manifest.json` says; `seal` computes its own checksum.

    Attributes
    ----------
    source : digest of the canonical content of the dataset that the artifact belongs to.
    inputs : lineage, role -> key of the artifacts it was made from.
    content : digest of what the artifact holds.
    summary : counts and facts worth showing.
    provenance : reader, raw files and package versions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    kind: str
    key: str
    dataset: str
    params: dict[str, Any]
    algorithm: int
    source: str
    content: str
    inputs: dict[str, str] = {}
    summary: dict[str, Any] = {}
    provenance: dict[str, Any] = {}
    partitions: list[Partition] = []
    files: dict[str, FileRecord] = {}
    digest: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(record.bytes for record in self.files.values())

    def seal(self) -> "Manifest":
        """Return the manifest with the digest of everything else in it."""
        return self.model_copy(update={"digest": self._own_digest()})

    def _own_digest(self) -> str:
        return digest(self.model_dump(by_alias=True, exclude={"digest"}))

    def encode(self) -> bytes:
        """Return the bytes of `manifest.json`: indented, one order of keys."""
        return _encode(self.model_dump(by_alias=True))

    @classmethod
    def decode(cls, data: bytes, key: str) -> "Manifest":
        """Read and check a manifest.

        Raises
        ------
        NewerSchemaError
            If a newer version of LEAP wrote it.
        DamagedArtifactError
            If it was truncated or edited.
        """
        try:
            raw = json.loads(data)
            schema = raw["schema"]
            if isinstance(schema, int) and schema > SCHEMA_VERSION:
                raise NewerSchemaError(
                    f"artifact {key[:12]} has schema {schema}; this version of LEAP reads up to {SCHEMA_VERSION}. "
                    "Install a newer leap-graph."
                )
            # Checked before it becomes a model, and not by a copy of the model: manifests may name many files.
            stated = raw.pop("digest")
            is_sound = stated == digest(raw)
            raw["digest"] = stated
            manifest = cls.model_validate(raw)
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            if isinstance(error, NewerSchemaError):
                raise
            raise DamagedArtifactError(
                f"artifact {key[:12]}: {MANIFEST} is truncated or edited ({type(error).__name__}).", key
            ) from error
        if not is_sound or manifest.key != key:
            raise DamagedArtifactError(
                f"artifact {key[:12]}: {MANIFEST} was edited; its own checksum does not match.", key
            )
        return manifest


def _encode(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def content_of(files: dict[str, FileRecord]) -> str:
    """Digest of a set of files by their names and checksums."""
    return digest({name: record.sha256 for name, record in files.items()})
