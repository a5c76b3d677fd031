"""`ArtifactStore`: find, read, make, check and name artifacts under one root."""

import contextlib
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any, Self

from leap.store.artifact import ARTIFACTS, BUILDS, Artifact, erase, folder_of
from leap.store.build import Build
from leap.store.errors import (
    ArtifactNotFoundError,
    DamagedArtifactError,
    DamagedArtifactWarning,
    InvalidInputError,
    LeapError,
    NewerSchemaError,
    NoSpaceError,
    NotAStoreError,
)
from leap.store.index import Index, complete
from leap.store.keys import KEY_LENGTH, SCHEMA_VERSION
from leap.store.location import Location, locate
from leap.store.lock import SYSTEM_CLOCK, Clock, exclusive, may_be_held
from leap.store.manifest import MANIFEST, Manifest
from leap.store.references import References
from leap.store.request import COLUMNS, Request
from leap.store.suggestion import alternatives
from leap.store.usage import Usage, note_created, note_use, read_usage

MARKER = "leap-store.json"
DEFAULT_URL = ".leap"
SPACE_MARGIN = 2**20  # for tables, manifests and the like
_KEY = re.compile(f"[0-9a-f]{{{KEY_LENGTH}}}")


@dataclass(frozen=True)
class Problem:
    """Something that `verify` found: the artifact's key and what is wrong with it."""

    key: str
    message: str


class ArtifactStore:
    """Immutable artifacts under content-addressed keys, whatever they hold."""

    def __init__(self, location: Location, clock: Clock = SYSTEM_CLOCK) -> None:
        self.location = location
        self._clock = clock
        self.references = References(location)
        self.index = Index(location, self._manifests)

    @classmethod
    def open(cls, url: str | os.PathLike[str] | None = None) -> Self:
        """Open the store at a directory or fsspec URL (default: `LEAP_STORE`, then `.leap`).

        A place that is empty or does not exist yet is a store without artifacts; nothing is written until an
        artifact is made.

        Raises
        ------
        NotAStoreError
            If the place holds something else.
        NewerSchemaError
            If a newer version of LEAP made it.
        InvalidInputError
            If it cannot be reached or read.
        """
        location = locate(url or os.environ.get("LEAP_STORE") or DEFAULT_URL)
        try:
            _check_marker(location)
        except LeapError:
            raise
        except Exception as error:  # clients of object stores have exceptions of their own, and many
            raise InvalidInputError(
                f"cannot open the store at {location.url} ({type(error).__name__}: {error}). Check the address, the "
                "connection and your rights there, or choose another place with --store or LEAP_STORE."
            ) from error
        return cls(location)

    @property
    def url(self) -> str:
        """Where the store is."""
        return self.location.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    # Reading

    def keys(self) -> list[str]:
        """Keys of all published artifacts."""
        return [name for name in self._folders() if self._manifest_exists(name)]

    def unfinished(self) -> list[str]:
        """Keys of artifacts whose making was interrupted or is under way."""
        folders = sorted({*self._folders(), *self._folders(BUILDS)})
        return [name for name in folders if not self._manifest_exists(name)]

    def _folders(self, top: str = ARTIFACTS) -> "list[str]":
        return [name for name in self.location.names(top) if _KEY.fullmatch(name)]

    def _manifest_exists(self, key: str) -> bool:
        return self.location.exists(f"{folder_of(key)}/{MANIFEST}")

    def missing(self, keys: Iterable[str]) -> "list[str]":
        """Return those of the keys under which nothing is published."""
        return [key for key in keys if not self._manifest_exists(key)]

    def list(self, kind: str | None = None, dataset: str | None = None) -> list[Artifact]:
        """Return the sound-looking artifacts, by dataset, kind and parameters; damaged ones are left out.

        Datasets of equal content share what is derived from them, and it is listed for either name. `verify` names
        the artifacts that are left out.
        """
        if dataset is None:
            names = self._folders()
        else:  # the datasets themselves tell which content is meant
            names = self.index.of_dataset(dataset, None if kind is None else {"dataset", kind})
        everything = []
        for name in names:
            with contextlib.suppress(DamagedArtifactError, FileNotFoundError):
                everything.append(self._open(name))
        contents = {a.manifest.content for a in everything if a.kind == "dataset" and a.manifest.dataset == dataset}
        found = [
            artifact
            for artifact in everything
            if kind in (None, artifact.kind)
            and (
                dataset in (None, artifact.manifest.dataset)
                or (artifact.kind != "dataset" and artifact.manifest.source in contents)
            )
        ]
        return sorted(found, key=lambda a: (a.manifest.dataset, a.kind, json.dumps(a.params, sort_keys=True)))

    def _manifests(self) -> Iterator[Manifest]:
        return (artifact.manifest for artifact in self.list())

    def _open(self, key: str) -> Artifact:
        data = self.location.read_bytes(f"{folder_of(key)}/{MANIFEST}")
        return self.typed(Manifest.decode(data, key))

    def typed(self, manifest: Manifest) -> Artifact:
        """Return the artifact of a manifest; a store of something in particular returns it as what it is."""
        return Artifact(self.location, manifest)

    def resolve(self, name: str) -> str:
        """Return the full key for a key, an unambiguous beginning of one (4 characters or more), or a tag."""
        if _KEY.fullmatch(name) and self._manifest_exists(name):
            return name
        tagged = self.references.tagged(name)
        if tagged is not None:
            return tagged
        similar = [key for key in self._folders() if key.startswith(name)] if len(name) >= 4 else []
        matches = [key for key in similar if self._manifest_exists(key)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise ArtifactNotFoundError(f"{name!r} begins {len(matches)} keys. Give more characters.")
        raise ArtifactNotFoundError(
            f"no artifact or tag {name!r} in the store at {self.url}. 'leap store ls' lists all."
        )

    def get(self, key: str) -> Artifact:
        """Return an artifact by key, beginning of a key, or tag.

        Raises
        ------
        ArtifactNotFoundError
            If nothing or more than one thing answers to it.
        DamagedArtifactError
            If its manifest is not what was published.
        """
        if _KEY.fullmatch(key):
            with contextlib.suppress(FileNotFoundError):
                return self._open(key)
        full = self.resolve(key)
        try:
            return self._open(full)
        except FileNotFoundError:
            raise ArtifactNotFoundError(
                f"{key!r} points at {full[:12]}, which is not in the store at {self.url} any more."
            ) from None

    def find(self, kind: str, dataset: str, **params: Any) -> Artifact:
        """Return the one artifact of a dataset with these parameters; others may have any value.

        A smaller `dim` of an encoding is answered by a view of a larger one. Of artifacts that differ in nothing but
        the version of their algorithm, the newest is meant.

        Raises
        ------
        ArtifactNotFoundError
            If none or several fit; the message names the alternatives.
        """
        of_kind = self.list(kind, dataset)
        fitting = [artifact for artifact in of_kind if _fits(artifact, params)]
        newest = max((artifact.manifest.algorithm for artifact in fitting), default=0)
        fitting = [artifact for artifact in fitting if artifact.manifest.algorithm == newest]
        if COLUMNS in params:
            fewest = min((artifact.params[COLUMNS] for artifact in fitting), default=0)
            fitting = [artifact for artifact in fitting if artifact.params[COLUMNS] == fewest]
        if len(fitting) == 1:
            return fitting[0].view(params.get(COLUMNS))
        shown = ", ".join(f"{name}={value}" for name, value in params.items()) or "any parameters"
        if not fitting:
            raise ArtifactNotFoundError(self._nothing_fits(kind, dataset, shown, of_kind))
        listing = "; ".join(f"{artifact.key[:12]} {artifact.params}" for artifact in fitting)
        if all(artifact.params == fitting[0].params for artifact in fitting):
            way_out = "They are of data that differs, or was read with other options: use get with a key"
        else:
            way_out = "Name more parameters, or use get with a key"
        raise ArtifactNotFoundError(
            f"{len(fitting)} artifacts are {kind} of {dataset!r} with {shown}: {listing}. {way_out}; "
            "'leap store show KEY' tells what each was made from."
        )

    def _nothing_fits(self, kind: str, dataset: str, shown: str, of_kind: Sequence[Artifact]) -> str:
        if of_kind:
            known = "; ".join(str(artifact.params) for artifact in of_kind)
            return f"no {kind} of {dataset!r} with {shown} in the store at {self.url}. Stored are those with {known}."
        kinds = {artifact.kind for artifact in self.list(dataset=dataset)}
        if kinds:
            return f"no {kind} of {dataset!r} in the store at {self.url}.{alternatives(kind, kinds)}"
        datasets = {artifact.manifest.dataset for artifact in self.list()}
        return f"nothing of {dataset!r} in the store at {self.url}.{alternatives(dataset, datasets)}"

    # Cache

    def lookup(self, key: str) -> Artifact | None:
        """Return the artifact of a key if it is there and looks sound; a damaged one is dropped with a warning."""
        try:
            artifact = self._open(key)
            found = artifact.problems(thorough=False)
        except FileNotFoundError:
            return None
        except DamagedArtifactError as error:
            found = [str(error)]
        if not found:
            return artifact
        self.discard(key, found[0])
        return None

    def answer(self, request: Request) -> Artifact | None:
        """Return what is stored for a request: the artifact of its key, else a view of a larger one, else None.

        An artifact that version 0.1 stored under another key answers too, if it was made by the same algorithms.
        """
        exact = self.lookup(request.key)
        if exact is not None:
            return exact
        for key in self.index.answering(request):
            found = self.lookup(key)
            if found is not None and request.is_answered_by(found.manifest):
                return found.view(request.columns)
        return None

    def discard(self, key: str, reason: str) -> None:
        """Drop a damaged artifact, so that the next request makes it again, and warn.

        Nothing happens if it is sound by now, because another process has met the damage too and was faster.
        """
        with exclusive(self.location, key, clock=self._clock):
            if not self.verify([key]):
                return
            warnings.warn(
                f"artifact {key[:12]} is damaged and will be rebuilt: {reason}", DamagedArtifactWarning, stacklevel=2
            )
            erase(self.location, key)

    def note_use(self, key: str) -> None:
        """Note that an artifact was used now."""
        note_use(self.location, key)

    def usage(self, key: str) -> Usage:
        """When and how often an artifact was used."""
        return read_usage(self.location, key)

    def wait_for_maker(self, key: str, on_wait: Callable[[], None] | None = None) -> Artifact | None:
        """Wait if another process is making the artifact, and return it then; for those who must prepare first."""
        if not may_be_held(self.location, key):
            return None
        with exclusive(self.location, key, on_wait, self._clock):
            return self.lookup_unlocked(key)

    @contextlib.contextmanager
    def building(
        self, key: str, on_wait: Callable[[], None] | None = None, reads: Sequence[str] = ()
    ) -> Iterator[Build]:
        """Hold the right to make an artifact, from those with the keys `reads`; wait if another process has it.

        The build's `published` is set on entry if that other process has made the artifact meanwhile. What was
        written stays for the next attempt when the block fails, except when the disk is full. A block that ends with
        LeaseLostError has changed nothing that others see; entering anew waits for the process that has taken over.
        """
        self._create()
        with exclusive(self.location, key, on_wait, self._clock) as lock:
            build = Build(self.location, key, lock, self.typed, self.lookup_unlocked(key), tuple(reads))
            found = build.published is not None
            start = time.perf_counter()
            try:
                yield build
            except NoSpaceError:
                build.abandon()
                raise
            finally:
                build.close()
            if not found and build.published is not None:
                note_created(self.location, key, time.perf_counter() - start)

    def lookup_unlocked(self, key: str) -> Artifact | None:
        """Return a sound artifact; for callers that hold its lock, so a damaged one is removed directly."""
        try:
            artifact = self._open(key)
            if not artifact.problems(thorough=False):
                return artifact
        except FileNotFoundError:
            return None
        except DamagedArtifactError:
            pass
        erase(self.location, key)
        return None

    def require_space(self, size: float) -> None:
        """Raise NoSpaceError if about `size` bytes more would not fit; asked before anything is written."""
        free = self.location.free_bytes()
        if free is not None and size + SPACE_MARGIN > free:
            raise NoSpaceError(
                f"the result needs about {(size + SPACE_MARGIN) / 2**20:,.1f} MiB, {SPACE_MARGIN / 2**20:,.0f} MiB to "
                f"spare included, and the disk of the store at {self.url} has {free / 2**20:,.1f} MiB free. Free some "
                "('leap store gc --plan' lists what is unused) or choose another place with --store."
            )

    def _create(self) -> None:
        if not self.location.exists(MARKER):
            marker = {"format": "leap-store", "schema": SCHEMA_VERSION}
            self.location.write_bytes(MARKER, (json.dumps(marker) + "\n").encode())
            complete(self.location)

    # Checking

    def verify(
        self, keys: Sequence[str] | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Sequence[Problem]:
        """Read every byte of the given artifacts (default: all) and name whatever is not as published."""
        problems: MutableSequence[Problem] = []
        chosen = self.keys() if keys is None else keys
        for done, key in enumerate(chosen, 1):
            try:
                artifact = self._open(key)
                problems += [Problem(key, message) for message in artifact.problems(thorough=True)]
            except (DamagedArtifactError, NewerSchemaError) as error:
                problems.append(Problem(key, str(error)))
            except FileNotFoundError:  # removed by somebody while we were looking: nothing is wrong with it
                pass
            if progress is not None:
                progress(done, len(chosen))
        return problems


def _fits(artifact: Artifact, params: dict[str, Any]) -> bool:
    """Whether an artifact has these parameters, or more columns than they ask for."""
    return all(
        artifact.params.get(name, -1) >= value if name == COLUMNS else artifact.params.get(name) == value
        for name, value in params.items()
    )


def _check_marker(location: Location) -> None:
    try:
        marker = json.loads(location.read_bytes(MARKER))
        schema = marker["schema"]
        if marker.get("format") != "leap-store" or not isinstance(schema, int):
            raise KeyError("format")
    except FileNotFoundError:
        others = [name for name in location.names() if not name.endswith((".lock", ".partial"))]
        # DVC keeps files of its own beside an empty or deleted store's stage manifests.
        if location.exists() and set(others) - {"stages", "locks", ".gitignore"}:
            raise NotAStoreError(
                f"{location.url} is not a LEAP store: it holds {others[0]!r} but no {MARKER}. "
                "Choose an empty or new directory with --store or LEAP_STORE."
            ) from None
        return
    except NotADirectoryError:
        raise NotAStoreError(
            f"{location.url} is a file, not a LEAP store. Choose a directory with --store or LEAP_STORE."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise NotAStoreError(
            f"{location.url}/{MARKER} is not readable as the marker of a store. Restore it, or choose another "
            "directory with --store or LEAP_STORE."
        ) from None
    if schema > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"the store at {location.url} has schema {schema}; this version of LEAP reads up to {SCHEMA_VERSION}. "
            "Install a newer leap-graph, or choose another store with --store."
        )
