"""What was done in a folder of runs: `sweeps.jsonl` has a line for each call of a sweep, with its time and its runs.

A run tells what it is, not which sweep it was for nor how long all of them took together.
"""

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from leap.store.disk import is_read_only, needing_space, refuse_folder
from leap.store.errors import InvalidInputError
from leap.store.suggestion import suggestion

SWEEPS = "sweeps.jsonl"


@dataclass(frozen=True)
class SweepCall:
    """One call of a sweep, whether it came to its end or was stopped.

    Attributes
    ----------
    command : as it was typed; empty where it was called from Python.
    seconds : from its beginning to its end, preparation included.
    runs : folders of the runs with results, those that it found among them.
    is_first_look : whether they were made for a first look.
    """

    sweep: str
    description: str
    command: str
    seconds: float
    workers: int
    trained: int
    cached: int
    failed: int
    runs: list[str]
    is_first_look: bool = False


def record(root: Path, call: SweepCall) -> None:
    """Add a call to the log, on a line of its own whatever was left there; somebody else's folder stays as it is.

    Raises
    ------
    InvalidInputError, NoSpaceError
        If there is a folder in its place, or the disk is full.
    """
    path, line = root / SWEEPS, json.dumps(asdict(call)).encode() + b"\n"
    refuse_folder(path)
    try:
        with needing_space(root, "All runs that are done are kept."), path.open("ab+") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 1))
            log.write(line if log.read(1) in (b"", b"\n") else b"\n" + line)
    except OSError as error:
        if not is_read_only(error):
            raise


def first_looks(root: Path) -> set[str]:
    """Return the folders of all runs that no call but first looks asked for."""
    calls = _all_calls(root)
    by_kind = ({name for call in calls if call.is_first_look is kind for name in call.runs} for kind in (True, False))
    quick, full = by_kind
    return quick - full


def _all_calls(root: Path) -> list[SweepCall]:
    """Return the calls of all sweeps, in order."""
    known: list[SweepCall] = []
    refuse_folder(root / SWEEPS)
    with contextlib.suppress(FileNotFoundError):
        for line in (root / SWEEPS).read_bytes().splitlines():
            with contextlib.suppress(ValueError):  # a line that was cut off or damaged, or of another version
                known.append(TypeAdapter(SweepCall).validate_json(line))
    return known


def calls_of(root: Path, sweep: str) -> list[SweepCall]:
    """Return the calls of a sweep that made its present runs: the last that has any, and earlier ones that share some.

    Raises
    ------
    InvalidInputError
        If there is none.
    """
    known = _all_calls(root)
    found = [call for call in known if call.sweep == sweep and call.runs]
    if not found:
        names = sorted({call.sweep for call in known})
        there = f" It knows {', '.join(names)}." if names else ""
        raise InvalidInputError(
            f"no sweep {sweep!r} was done in {str(root)!r}.{suggestion(sweep, names)}{there} Do it with 'leap sweep "
            f"{sweep} --runs {root}', which takes up the runs that are there."
        )
    return [call for call in found if set(call.runs) & set(found[-1].runs)]
