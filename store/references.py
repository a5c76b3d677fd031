"""Names that point at keys: tags, pins, recorded runs and the manifests that pipeline stages leave behind."""

import json
import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from leap.store.errors import ArtifactNotFoundError, DamagedReferenceError, InvalidInputError
from leap.store.location import LocalLocation, Location

TAGS, PINS, RUNS, STAGES = "refs/tags", "refs/pins", "runs", "stages"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,99}")


def _is_allowed(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and ".." not in name


def checked_name(name: str, what: str) -> str:
    """Return a name that is safe as a file name, or raise."""
    if not _is_allowed(name):
        raise InvalidInputError(
            f"{what} {name!r} is not allowed. Use up to 100 letters, digits and . _ + @ -, starting with a letter "
            "or digit."
        )
    return name


def _is_there(path: str) -> bool:
    """Whether something is at a path, or may be: only a clear answer counts as no."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


@dataclass(frozen=True)
class References:
    """The references of one store."""

    location: Location

    def _read(self, path: str) -> dict[str, Any]:
        try:
            value = json.loads(self.location.read_bytes(path))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def _write(self, path: str, value: dict[str, Any]) -> None:
        self.location.write_bytes(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode(), durable=True)

    def require_readable(self) -> None:
        """Raise DamagedReferenceError if a tag or the record of a run cannot be read: what it names is not known."""
        for folder, field, kind in ((TAGS, "key", str), (RUNS, "keys", list)):
            for name in self.location.names(folder):
                path = f"{folder}/{name}"
                if name.endswith(".json") and not isinstance(self._read(path).get(field), kind):
                    raise DamagedReferenceError(
                        f"{self.location.url}/{path} cannot be read, so what it keeps is not known. Remove it, or put "
                        "a copy in its place, and collect again."
                    )

    def tagged(self, name: str) -> str | None:
        """Key that a tag points at, None if there is no such tag."""
        return self._read(f"{TAGS}/{name}.json").get("key") or None if _is_allowed(name) else None

    def tags(self) -> dict[str, str]:
        """Tag -> key."""
        names = [name.removesuffix(".json") for name in self.location.names(TAGS) if name.endswith(".json")]
        return {name: key for name in names if (key := self.tagged(name)) is not None}

    def tag(self, name: str, key: str) -> None:
        """Point a tag at a key, moving it if it exists."""
        self._write(f"{TAGS}/{checked_name(name, 'tag')}.json", {"key": key})

    def untag(self, name: str) -> None:
        """Remove a tag."""
        if self.tagged(name) is None:
            raise ArtifactNotFoundError(f"no tag {name!r}. 'leap store ls' shows the tags.")
        self.location.remove(f"{TAGS}/{checked_name(name, 'tag')}.json")

    def pins(self) -> set[str]:
        """Keys that are never collected."""
        return {name.removesuffix(".json") for name in self.location.names(PINS) if name.endswith(".json")}

    def pin(self, key: str, *, pinned: bool = True) -> None:
        """Pin or unpin a key."""
        if pinned:
            self._write(f"{PINS}/{key}.json", {"key": key})
        else:
            self.location.remove(f"{PINS}/{key}.json")

    def record_run(self, run: str, keys: Iterable[str], **facts: Any) -> None:
        """Note that a run uses these artifacts; they are kept as long as the record is.

        A run is recorded when it starts: its folder first, then the record, then a look whether the artifacts are
        still there (`Store.missing`), because they may have been collected between being found and being recorded.

        Parameters
        ----------
        facts : of the run; `path` is its folder on this machine. The record is forgotten when that is gone.
        """
        record = {"keys": sorted(set(keys)), "host": platform.node(), **facts}
        self._write(f"{RUNS}/{checked_name(run, 'run')}.json", record)

    def forget_run(self, run: str) -> None:
        """Remove the record of a run."""
        self.location.remove(f"{RUNS}/{checked_name(run, 'run')}.json")

    def runs(self) -> dict[str, set[str]]:
        """Run -> keys that it uses."""
        found = {name: record.get("keys") for name, record in self._runs().items()}
        return {name: set(keys) if isinstance(keys, list) else set() for name, keys in found.items()}

    def gone_runs(self) -> list[str]:
        """Recorded runs whose folder was on this machine and is gone."""
        return [name for name, record in self._runs().items() if self._is_gone(record)]

    def _runs(self) -> dict[str, dict[str, Any]]:
        names = [name.removesuffix(".json") for name in self.location.names(RUNS) if name.endswith(".json")]
        return {name: self._read(f"{RUNS}/{name}.json") for name in names}

    def _is_gone(self, record: dict[str, Any]) -> bool:
        path, host = record.get("path"), record.get("host")
        if not isinstance(path, str) or _is_there(path):
            return False
        if host is None:
            # Version 0.1 did not note the machine. That the folder around the run is here speaks for this one, unless
            # the store is shared by machines.
            return isinstance(self.location, LocalLocation) and _is_there(os.path.dirname(path))
        return bool(host == platform.node())

    def stages(self) -> dict[str, set[str]]:
        """Path of a stage manifest inside the store -> keys that it lists."""
        found = {}
        for name in self.location.files(STAGES):
            listed = self._read(f"{STAGES}/{name}").get("artifacts", [])
            found[f"{STAGES}/{name}"] = {entry.get("key", "") for entry in listed if isinstance(entry, dict)}
        return found

    def drop_stages_naming(self, keys: set[str]) -> list[str]:
        """Remove stage manifests that name removed artifacts, so that `dvc repro` notices and rebuilds."""
        stale = [path for path, named in self.stages().items() if named & keys]
        for path in stale:
            self.location.remove(path)
        return stale
