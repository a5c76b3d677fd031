"""The index of a store: which artifacts belong to a dataset, so that a look-up reads their manifests and no others.

    index/complete                                all artifacts have entries
    index/names/NAME/SOURCE                       datasets of this name have this content, or had it
    index/sources/SOURCE/KIND/KEY.FAMILY.COLUMNS  an artifact of this content

NAME, SOURCE and FAMILY are the beginnings of digests. Entries are empty: a listing says everything. They are hints, and
the manifest decides. An entry is written before the manifest of its artifact, so that no artifact lacks one; an entry
without an artifact means nothing.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterable

from leap.store.errors import LeapError
from leap.store.location import Location
from leap.store.manifest import Manifest
from leap.store.request import Request

INDEX = "index"
COMPLETE, NAMES, SOURCES = f"{INDEX}/complete", f"{INDEX}/names", f"{INDEX}/sources"
_DIGITS = 16


class Index:
    """Look-ups in the index of one store.

    Parameters
    ----------
    manifests : reads all manifests of the store. It is called for a store that has no index yet, because version 0.1
        made it; if the index cannot be written, at each look-up.
    """

    def __init__(self, location: Location, manifests: Callable[[], Iterable[Manifest]]) -> None:
        self._location = location
        self._manifests = manifests
        self._is_complete = False

    def answering(self, request: Request) -> list[str]:
        """Keys of artifacts that may answer a request, those with the fewest columns first."""
        wanted, fewest = _short(request.family), request.columns or 0
        names = self._listing()(f"{SOURCES}/{_short(request.source)}/{request.kind}")
        entries = (name.split(".") for name in names if name.count(".") == 2)
        found = ((int(columns), key) for key, family, columns in entries if family == wanted)
        return [key for columns, key in sorted(found) if columns >= fewest]

    def of_dataset(self, name: str, kinds: Iterable[str] | None = None) -> list[str]:
        """Keys of artifacts, all or of some kinds, of any content that datasets of this name have or had."""
        names, found = self._listing(), []
        for source in names(f"{NAMES}/{_short(name)}"):
            for kind in names(f"{SOURCES}/{source}") if kinds is None else kinds:
                found += [entry.split(".")[0] for entry in names(f"{SOURCES}/{source}/{kind}")]
        return found

    def _listing(self) -> Callable[[str], list[str]]:
        """Return a function that gives the names below a path of the index."""
        if not self._is_complete:
            self._is_complete = self._location.exists(COMPLETE)
        if self._is_complete:
            return self._location.names
        manifests = list(self._manifests())
        with contextlib.suppress(LeapError, OSError):  # a store that cannot be written still answers
            self._fill(manifests)
        entries = [entry for manifest in manifests for entry in entries_of(manifest)]

        def names(path: str) -> list[str]:
            inside = f"{path}/"
            return sorted({entry[len(inside) :].split("/")[0] for entry in entries if entry.startswith(inside)})

        return names

    def _fill(self, manifests: list[Manifest]) -> None:
        if not manifests:
            return  # nothing to save by it, and asking an empty place creates nothing
        for manifest in manifests:
            add(self._location, manifest)
        complete(self._location)


def entries_of(manifest: Manifest) -> tuple[str, str]:
    """Paths of an artifact's entries, that of its dataset's name first."""
    request, source = Request.of(manifest), _short(manifest.source)
    name = f"{manifest.key}.{_short(request.family)}.{request.columns or 0}"
    return f"{NAMES}/{_short(manifest.dataset)}/{source}", f"{SOURCES}/{source}/{manifest.kind}/{name}"


def add(location: Location, manifest: Manifest) -> None:
    """Write the entries of an artifact that is about to be published."""
    for path in entries_of(manifest):
        location.write_bytes(path, b"")


def drop(location: Location, manifest: Manifest) -> None:
    """Remove the entry of an artifact that was removed; its dataset's name may still have others."""
    location.remove(entries_of(manifest)[1])


def tidy(location: Location, manifests: Iterable[Manifest], before: float) -> None:
    """Enter the artifacts that have no entries, and remove entries without an artifact.

    Parameters
    ----------
    before : entries written later than this, in seconds since 1970, stay: their artifact may be about to appear.
    """
    present = {f"{INDEX}/{name}": info for name, info in location.files(INDEX).items()}
    wanted = {path for manifest in manifests for path in entries_of(manifest)}
    for path in sorted(wanted - present.keys()):
        location.write_bytes(path, b"")
    for path in sorted(present.keys() - wanted - {COMPLETE}):
        written = present[path].mtime_ns
        if written is not None and written / 1e9 < before:
            location.remove(path)


def complete(location: Location) -> None:
    """Note that every artifact has its entries."""
    location.write_bytes(COMPLETE, b"")


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
