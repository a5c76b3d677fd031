"""Where a store's bytes live: a local directory or any fsspec URL, behind one small interface.

Paths given to a location are relative, with forward slashes, and checked never to leave the root. A write is
atomic: other processes see the old bytes or the new ones, never half of them.
"""

import contextlib
import os
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leap.store.disk import STAGING_SUFFIX, is_read_only, needing_space, replacing
from leap.store.errors import InvalidInputError, LeapError, StoreNotWritableError
from leap.store.lazy import lazy_module

if TYPE_CHECKING:
    import zarr
    from zarr.abc.store import Store as ZarrStore
else:
    zarr = lazy_module("zarr")
fsspec = lazy_module("fsspec")


@dataclass(frozen=True)
class FileInfo:
    """Size in bytes and, where the file system has one, the modification time in nanoseconds."""

    size: int
    mtime_ns: int | None


class Location(ABC):
    """A tree of files under one root; a file is replaced whole or not at all."""

    url: str

    @abstractmethod
    def read_bytes(self, path: str) -> bytes:
        """Return the content of a file; FileNotFoundError if there is none."""

    @abstractmethod
    def write_bytes(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Write a file atomically, making its folders; a durable one survives a power cut once this returns."""

    @abstractmethod
    def exists(self, path: str = "") -> bool:
        """Whether a file or folder is there."""

    @abstractmethod
    def names(self, path: str = "") -> list[str]:
        """Sorted names directly below a folder; empty if there is no such folder."""

    @abstractmethod
    def files(self, path: str) -> dict[str, FileInfo]:
        """All files below a folder by their path relative to it, unfinished writes left out."""

    def staged(self) -> dict[str, int]:
        """Return the writes and removals under way or interrupted: path -> when it was touched last, in nanoseconds.

        Empty where a write is one request, as in object stores.
        """
        return {}

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file or a whole folder; nothing happens if it is absent."""

    @abstractmethod
    def move(self, moves: Mapping[str, str]) -> None:
        """Move files or whole folders, source -> target, replacing what is there; FileNotFoundError if one is absent.

        Interrupted, each folder is at its source or at its target, whole, or (object stores) at both.
        """

    @abstractmethod
    def zarr_store(self, path: str, *, read_only: bool) -> "ZarrStore":
        """Return a Zarr store rooted at a folder."""

    @abstractmethod
    def free_bytes(self) -> int | None:
        """Free space, or None where the notion does not apply."""


def checked(path: str) -> str:
    """Return a relative path unchanged, or raise if it could leave its root."""
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or any(part in ("..", ".") for part in parts):
        raise InvalidInputError(f"path {path!r} would leave the store. Use names without '..' or a leading '/'.")
    return path


@contextlib.contextmanager
def writing(url: str) -> Iterator[None]:
    """Turn the operating system's refusals to write into errors that say what to do."""
    way_out = "Free some ('leap store gc --plan' lists what is unused) or choose another place with --store."
    try:
        with needing_space(f"the store at {url}", way_out):
            yield
    except LeapError:
        raise
    except OSError as error:
        if is_read_only(error):
            raise StoreNotWritableError(
                f"the store at {url} is read-only ({error.strerror or error}). Choose a writable place with --store or "
                "LEAP_STORE; what is already stored can still be read."
            ) from error
        raise


class LocalLocation(Location):
    """A directory of this machine or of a mounted file system."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.url = str(self.root)

    def path(self, path: str) -> Path:
        """Return the absolute path of a relative one."""
        return self.root / checked(path) if path else self.root

    def read_bytes(self, path: str) -> bytes:
        """Return the content of a file."""
        return self.path(path).read_bytes()

    def write_bytes(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Write by a temporary file beside the target and a rename."""
        target = self.path(path)
        with writing(self.url):
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target, durable=durable, shared=True) as staged:
                staged.write_bytes(data)

    def exists(self, path: str = "") -> bool:
        """Whether a file or folder is there."""
        return self.path(path).exists()

    def names(self, path: str = "") -> list[str]:
        """Sorted names directly below a folder."""
        try:
            return sorted(os.listdir(self.path(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def files(self, path: str) -> dict[str, FileInfo]:
        """Walk the folder once, without following links out of it."""
        top = self.path(path)
        found = {}
        for folder, inner, names in os.walk(top):
            inner[:] = [name for name in inner if not name.endswith(STAGING_SUFFIX)]
            for name in names:
                if name.endswith(STAGING_SUFFIX):
                    continue
                file = os.path.join(folder, name)
                with contextlib.suppress(FileNotFoundError):
                    info = os.stat(file)
                    found[os.path.relpath(file, top).replace(os.sep, "/")] = FileInfo(info.st_size, info.st_mtime_ns)
        return found

    def staged(self) -> dict[str, int]:
        """Walk everything; a folder on its way out counts as one."""
        found = {}
        for folder, inner, names in os.walk(self.root):
            for name in [name for name in (*inner, *names) if name.endswith(STAGING_SUFFIX)]:
                path = os.path.join(folder, name)
                with contextlib.suppress(FileNotFoundError):
                    below = [os.path.join(at, each) for at, _, files in os.walk(path) for each in files]
                    times = [os.lstat(each).st_mtime_ns for each in (path, *below)]
                    found[os.path.relpath(path, self.root).replace(os.sep, "/")] = max(times)
            inner[:] = [name for name in inner if not name.endswith(STAGING_SUFFIX)]
        return found

    def remove(self, path: str) -> None:
        """Remove a file or tree; a tree first moves aside, so that nobody sees half of it."""
        target = self.path(path)
        with writing(self.url):
            if target.is_dir() and not target.is_symlink():
                aside = target.with_name(f"{target.name}.{uuid.uuid4().hex}{STAGING_SUFFIX}")
                try:
                    os.replace(target, aside)
                except FileNotFoundError:
                    return
                shutil.rmtree(aside, ignore_errors=True)
            else:
                target.unlink(missing_ok=True)

    def move(self, moves: Mapping[str, str]) -> None:
        """Rename one after the other."""
        with writing(self.url):
            for source, target in moves.items():
                self.path(target).parent.mkdir(parents=True, exist_ok=True)
                if self.path(target).is_dir():
                    self.remove(target)
                os.replace(self.path(source), self.path(target))

    def zarr_store(self, path: str, *, read_only: bool) -> "ZarrStore":
        """Return a Zarr store over the folder."""
        return zarr.storage.LocalStore(self.path(path), read_only=read_only)

    def free_bytes(self) -> int | None:
        """Free bytes of the file system that holds the root or its nearest existing parent."""
        place = self.root
        while not place.exists():
            place = place.parent
        return shutil.disk_usage(place).free


class RemoteLocation(Location):
    """A prefix of an object store, through fsspec; each object is put whole, which is atomic there."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            # Listings cached by one process would hide what another has published.
            self.fs, self.prefix = fsspec.url_to_fs(self.url, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise InvalidInputError(f"cannot open the store {url!r}: {error}") from error

    def full(self, path: str) -> str:
        """Return the path of an object as fsspec knows it."""
        return f"{self.prefix}/{checked(path)}" if path else str(self.prefix)

    def read_bytes(self, path: str) -> bytes:
        """Return the content of an object."""
        return bytes(self.fs.cat_file(self.full(path)))

    def write_bytes(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Put an object."""
        with writing(self.url):
            full = self.full(path)
            self.fs.makedirs(full.rsplit("/", 1)[0], exist_ok=True)
            self.fs.pipe_file(full, data)

    def exists(self, path: str = "") -> bool:
        """Whether an object or a prefix with objects is there."""
        return bool(self.fs.exists(self.full(path)))

    def names(self, path: str = "") -> list[str]:
        """Sorted names directly below a prefix."""
        try:
            entries = self.fs.ls(self.full(path), detail=False)
        except FileNotFoundError:
            return []
        return sorted({str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in entries} - {""})

    def files(self, path: str) -> dict[str, FileInfo]:
        """All objects below a prefix."""
        top = self.full(path)
        entries: dict[str, dict[str, Any]] = self.fs.find(top, detail=True)
        return {name[len(top) + 1 :]: FileInfo(int(info["size"]), _mtime_ns(info)) for name, info in entries.items()}

    def remove(self, path: str) -> None:
        """Remove an object, or all below a prefix."""
        with writing(self.url), contextlib.suppress(FileNotFoundError):
            self.fs.rm(self.full(path), recursive=True)

    def move(self, moves: Mapping[str, str]) -> None:
        """Copy inside the service, many objects at once, then remove the sources."""
        pairs: dict[str, str] = {}
        for source, target in moves.items():
            top = self.full(source)
            found = self.fs.find(top)
            if not found:
                raise FileNotFoundError(source)
            pairs |= {name: self.full(target) + name[len(top) :] for name in found}
        if not pairs:
            return
        with writing(self.url):
            self.fs.copy(list(pairs), list(pairs.values()), on_error="raise")
            self.fs.rm(list(pairs))

    def zarr_store(self, path: str, *, read_only: bool) -> "ZarrStore":
        """Return a Zarr store over the prefix."""
        return zarr.storage.FsspecStore.from_url(
            f"{self.url}/{checked(path)}", storage_options={"use_listings_cache": False}, read_only=read_only
        )

    def free_bytes(self) -> int | None:
        """Object stores do not fill up."""
        return None


def _mtime_ns(info: Mapping[str, Any]) -> int | None:
    """Modification time as the clients of object stores tell it: under several names, or not at all."""
    changed = next((info[name] for name in ("LastModified", "last_modified", "updated", "mtime") if name in info), None)
    if isinstance(changed, datetime):
        return int(changed.timestamp() * 1e9)
    return int(changed * 1e9) if isinstance(changed, float) else None


def locate(url: str | os.PathLike[str]) -> Location:
    """Return the location of a directory path or fsspec URL."""
    text = os.fspath(url)
    if "://" in text and not text.startswith("file://"):
        return RemoteLocation(text)
    return LocalLocation(Path(text.removeprefix("file://")).expanduser())
