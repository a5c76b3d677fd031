"""Fetch raw files: with progress, checked, and visible whole or not at all."""

import contextlib
import http.client
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from leap.pipeline.datasets.source import Progress
from leap.store.errors import DownloadError, MissingRawFilesError

LARGEST_DOWNLOAD = 8 << 30
"""Bytes beyond which a download or an archive's content is refused."""

_TIMEOUT = 30.0
_CHUNK = 1 << 20


def fetch_into(
    folder: Path,
    url: str,
    *,
    wanted: str,
    unpack: Callable[[Path, Path], None],
    complete: Callable[[Path], bool],
    on_progress: Progress | None = None,
) -> None:
    """Download `url` and make its content appear as `folder`, atomically.

    The work happens in a temporary folder beside `folder`; what arrived is unpacked and checked there, then
    renamed. Where another process was faster, its files stay.

    Parameters
    ----------
    wanted : the files by name, for messages that tell where to put them by hand.
    unpack : (downloaded file, empty folder) -> None, fills the folder or raises `DownloadError`.
    complete : whether a folder holds all that is needed.

    Raises
    ------
    MissingRawFilesError
        The server cannot be reached: what to put where.
    DownloadError
        The server refused, broke off or sent something else, or the folder cannot be written.
    """
    by_hand = f"Put {wanted} into {folder}"
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
        archive, content = scratch / "arrived", scratch / "content"
        _fetch(url, archive, by_hand, on_progress)
        content.mkdir()
        try:
            unpack(archive, content)
            if not complete(content):
                found = ", ".join(sorted(path.name for path in content.iterdir())) or "nothing"
                raise DownloadError(f"{url} does not hold what it should: {wanted}. It holds {found}.")
        except DownloadError as error:
            raise DownloadError(f"{error} {by_hand} yourself.") from error
        _publish(content, folder, complete)
    except OSError as error:
        if isinstance(error, DownloadError | MissingRawFilesError):
            raise
        raise DownloadError(f"{url} could not be stored in {folder}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.suppress(OSError):  # nothing arrived: leave no empty folders behind
            for parent in created:
                parent.rmdir()


def _fetch(url: str, target: Path, by_hand: str, on_progress: Progress | None) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "leap-graph"})
    done = total = 0
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer, target.open("wb") as out:
            total = int(answer.headers.get("Content-Length") or 0)
            while done <= LARGEST_DOWNLOAD and (chunk := answer.read(_CHUNK)):
                out.write(chunk)
                done += len(chunk)
                if on_progress is not None:
                    on_progress(done, total)
    except urllib.error.HTTPError as error:
        raise DownloadError(f"{url} answered {error.code} {error.reason}. {by_hand} yourself.") from error
    except (urllib.error.URLError, TimeoutError, http.client.HTTPException, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise MissingRawFilesError(f"{url} cannot be reached ({reason}). {by_hand}, or try again online.") from error
    if done > LARGEST_DOWNLOAD:
        raise DownloadError(f"{url} is larger than {LARGEST_DOWNLOAD:,} bytes. {by_hand} yourself.")
    if total and done != total:
        raise DownloadError(f"{url} broke off after {done:,} of {total:,} bytes. Try again, or {by_hand.lower()}.")


def _publish(content: Path, folder: Path, complete: Callable[[Path], bool]) -> None:
    try:
        content.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        if not complete(folder):  # left there incomplete by hand: fill it up, each file atomically
            for path in sorted(content.iterdir()):
                path.replace(folder / path.name)


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
    try:
        with zipfile.ZipFile(arrived) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if sum(member.file_size for member in members) > LARGEST_DOWNLOAD:
                raise DownloadError(f"the archive would unpack to more than {LARGEST_DOWNLOAD:,} bytes.")
            for member in members:
                path = PurePosixPath(member.filename.replace("\\", "/"))
                if path.is_absolute() or ".." in path.parts or ":" in member.filename:
                    raise DownloadError(f"the archive holds a path that leaves its folder: {member.filename!r}.")
                if path.name.startswith(".") or "__MACOSX" in path.parts:
                    continue
                with archive.open(member) as source, (folder / path.name).open("xb") as out:
                    shutil.copyfileobj(source, out, _CHUNK)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, RuntimeError) as error:
        raise DownloadError(f"what arrived is not a ZIP archive that can be read ({error}).") from error
    except FileExistsError as error:
        raise DownloadError(f"the archive holds two files named {Path(error.filename).name!r}.") from error
