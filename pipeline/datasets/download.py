"""Fetch raw files with pooch: with progress, checked, and visible whole or not at all."""

import contextlib
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from leap.pipeline.datasets.source import Progress
from leap.store.errors import DownloadError, MissingRawFilesError
from leap.store.lazy import lazy_module

pooch = lazy_module("pooch")
requests = lazy_module("requests")

LARGEST_DOWNLOAD = 8 << 30
"""Bytes beyond which a download or an archive's content is refused."""
ATTEMPTS = 3
"""How often a transfer that breaks off is begun."""

_TIMEOUT = 30.0
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Download:
    """Where raw files come from, and how to tell that they have arrived.

    Attributes
    ----------
    files : the files by name, for messages that tell where to put them by hand.
    unpack : (downloaded file, empty folder) -> None, fills the folder or raises `DownloadError`.
    is_complete : whether a folder holds all that is needed.
    sha256 : of what `url` sends, where its publisher says so.
    """

    url: str
    files: str
    unpack: Callable[[Path, Path], None]
    is_complete: Callable[[Path], bool]
    sha256: str | None = None


def fetch_into(folder: Path, wanted: Download, on_progress: Progress | None = None) -> None:
    """Download files and make them appear as `folder`, atomically.

    The work happens in a temporary folder beside `folder`; what arrived is unpacked and checked there, then
    renamed. Where another process was faster, its files stay.

    Raises
    ------
    MissingRawFilesError
        The server cannot be reached: what to put where.
    DownloadError
        The server refused, broke off or sent something else, or the folder cannot be written.
    """
    url, by_hand = wanted.url, f"Put {wanted.files} into {folder}"
    created = [parent for parent in folder.parents if not parent.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".download-", dir=folder.parent))
    except OSError as error:
        raise DownloadError(
            f"cannot write to {folder.parent} ({error.strerror or error}), where {url} would be stored. "
            "Choose another folder for raw files with --data or LEAP_DATA."
        ) from error
    try:
        content = scratch / "content"
        content.mkdir()
        arrived = _fetch(wanted, scratch, by_hand, on_progress)
        try:
            wanted.unpack(arrived, content)
            if not wanted.is_complete(content):
                found = ", ".join(sorted(path.name for path in content.iterdir())) or "nothing"
                raise DownloadError(f"{url} does not hold what it should: {wanted.files}. It holds {found}.")
        except DownloadError as error:
            raise DownloadError(f"{error} {by_hand} yourself.") from error
        _publish(content, folder, wanted.is_complete)
    except OSError as error:
        if isinstance(error, DownloadError | MissingRawFilesError):
            raise
        raise DownloadError(f"{url} could not be stored in {folder}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.suppress(OSError):  # nothing arrived: leave no empty folders behind
            for parent in created:
                parent.rmdir()


def _fetch(wanted: Download, scratch: Path, by_hand: str, on_progress: Progress | None) -> Path:
    """Fetch one file; a transfer that breaks off is begun again, a refusal or an unreachable server is final."""
    pooch.get_logger().setLevel("WARNING")
    url, stage = wanted.url, _Stage(wanted.url, by_hand, on_progress)
    bring = pooch.HTTPDownloader(
        progressbar=stage, chunk_size=_CHUNK, timeout=_TIMEOUT, headers={"User-Agent": "leap-graph"}
    )

    def download(url: str, output: Any, by: Any) -> None:
        try:
            bring(url, output, by)
        except requests.HTTPError as error:
            answer = f"{error.response.status_code} {error.response.reason}"
            raise DownloadError(f"{url} answered {answer}. {by_hand} yourself.") from error
        except (requests.ConnectionError, requests.Timeout) as error:
            if stage.done:
                raise  # under way already: worth another attempt
            raise MissingRawFilesError(f"{url} cannot be reached ({error}). {by_hand}, or try again online.") from error

    known = {"arrived": None if wanted.sha256 is None else f"sha256:{wanted.sha256}"}
    one = pooch.create(scratch, base_url="", registry=known, urls={"arrived": url}, retry_if_failed=ATTEMPTS - 1)
    try:
        return Path(one.fetch("arrived", downloader=download))
    except requests.RequestException as error:
        raise DownloadError(
            f"{url} broke off after {stage.done:,} of {stage.total:,} bytes, {ATTEMPTS} times ({error}). Try again, or "
            f"{by_hand[0].lower()}{by_hand[1:]}."
        ) from error
    except ValueError as error:
        raise DownloadError(f"{url} does not have the known SHA-256 ({error}). {by_hand} yourself.") from error


class _Stage:
    """How far a transfer is, in the words of pooch; refuses what is too large."""

    def __init__(self, url: str, by_hand: str, on_progress: Progress | None) -> None:
        self.total = self.done = 0
        self._url, self._by_hand, self._on_progress = url, by_hand, on_progress

    def update(self, count: int) -> None:
        self.done += count
        if max(self.done - _CHUNK, self.total) > LARGEST_DOWNLOAD:  # the last chunk may be a shorter one
            raise DownloadError(f"{self._url} is larger than {LARGEST_DOWNLOAD:,} bytes. {self._by_hand} yourself.")
        if self._on_progress is not None:
            self._on_progress(min(self.done, self.total or self.done), self.total)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        pass


def _publish(content: Path, folder: Path, is_complete: Callable[[Path], bool]) -> None:
    try:
        content.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        if not is_complete(folder):  # left there incomplete by hand: fill it up, each file atomically
            for path in sorted(path for path in content.rglob("*") if path.is_file()):
                place = folder / path.relative_to(content)
                place.parent.mkdir(parents=True, exist_ok=True)
                path.replace(place)


def keep_as(name: str) -> Callable[[Path, Path], None]:
    """Make an `unpack` for a single file, kept under `name`."""

    def unpack(arrived: Path, folder: Path) -> None:
        arrived.rename(folder / name)

    return unpack


def unzip(arrived: Path, folder: Path) -> None:
    """Unpack a ZIP archive; its files land directly in `folder`, whatever folders they were in.

    Raises
    ------
    DownloadError
        Not a ZIP archive, damaged, too large, or with a member whose path leaves the folder.
    """
    _unzip(arrived, folder, lambda path: PurePosixPath(path.name))


def unzip_inner(*kept: str) -> Callable[[Path, Path], None]:
    """Make an `unpack` for a ZIP archive of one folder: what lies in its folders `kept` keeps its place there."""

    def place(path: PurePosixPath) -> PurePosixPath | None:
        return PurePosixPath(*path.parts[1:]) if len(path.parts) > 2 and path.parts[1] in kept else None

    return lambda arrived, folder: _unzip(arrived, folder, place)


def _unzip(arrived: Path, folder: Path, place: Callable[[PurePosixPath], PurePosixPath | None]) -> None:
    """Unpack what `place` gives a path in `folder`."""
    try:
        with zipfile.ZipFile(arrived) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if sum(member.file_size for member in members) > LARGEST_DOWNLOAD:
                raise DownloadError(f"the archive would unpack to more than {LARGEST_DOWNLOAD:,} bytes.")
            for member in members:
                path = PurePosixPath(member.filename.replace("\\", "/"))
                if path.is_absolute() or ".." in path.parts or ":" in member.filename:
                    raise DownloadError(f"the archive holds a path that leaves its folder: {member.filename!r}.")
                if path.name.startswith(".") or "__MACOSX" in path.parts or (wanted := place(path)) is None:
                    continue
                (folder / wanted).parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, (folder / wanted).open("xb") as out:
                    shutil.copyfileobj(source, out, _CHUNK)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, RuntimeError, zlib.error) as error:
        raise DownloadError(f"what arrived is not a ZIP archive that can be read ({error}).") from error
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise DownloadError(f"the archive holds two files named {Path(error.filename).name!r}.") from error
