"""When an artifact was made and used, beside the artifacts because those never change."""

import contextlib
import json
import time
from dataclasses import asdict, dataclass, replace

from leap.store.errors import LeapError
from leap.store.location import Location

USAGE = "usage"


@dataclass(frozen=True)
class Usage:
    """Times in seconds since the epoch; `seconds` is what making the artifact took."""

    created: float = 0.0
    last_used: float = 0.0
    uses: int = 0
    seconds: float = 0.0


def read_usage(location: Location, key: str) -> Usage:
    """Return the usage of an artifact, zeros if none was noted."""
    try:
        raw = json.loads(location.read_bytes(f"{USAGE}/{key}.json"))
        return Usage(float(raw["created"]), float(raw["last_used"]), int(raw["uses"]), float(raw.get("seconds", 0.0)))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, OverflowError):
        return Usage()


def note_created(location: Location, key: str, seconds: float) -> None:
    """Note that an artifact was just made."""
    now = time.time()
    _write(location, key, Usage(now, now, 0, seconds))


def note_use(location: Location, key: str) -> None:
    """Note a use. Two at the same moment may count as one."""
    usage = read_usage(location, key)
    _write(location, key, replace(usage, last_used=time.time(), uses=usage.uses + 1))


def _write(location: Location, key: str, usage: Usage) -> None:
    # A store that cannot be written, or is full by now, still answers; only the note is lost.
    with contextlib.suppress(LeapError, OSError):
        location.write_bytes(f"{USAGE}/{key}.json", json.dumps(asdict(usage)).encode())
