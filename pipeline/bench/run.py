"""Run parts of the benchmark one after the other on this machine."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from leap.pipeline.bench.machine import machine_facts
from leap.pipeline.bench.registry import PARTS
from leap.pipeline.bench.result import BenchResult, Comparison, MemoryUse
from leap.pipeline.bench.session import BenchOptions, Session
from leap.pipeline.progress import Reporter, Silence
from leap.store.errors import InvalidInputError


def bench(
    parts: Sequence[str] = (), *, options: BenchOptions | None = None, reporter: Reporter | None = None
) -> BenchResult:
    """Measure the named parts, or all that run by default, within one run.

    Stores and files are temporary (under `TMPDIR`); the large graph needs some 2 GiB there.

    Raises
    ------
    InvalidInputError
        For a part that does not exist.
    """
    chosen = list(dict.fromkeys(parts)) or [name for name, part in PARTS.items() if part.is_default]
    for name in chosen:
        if name not in PARTS:
            raise InvalidInputError(f"no benchmark {name!r}. Choose from {', '.join(PARTS)}.")
    machine = machine_facts()  # before the load that the run itself causes
    with tempfile.TemporaryDirectory(prefix="leap-bench-") as folder:
        session = Session(Path(folder), options or BenchOptions(), reporter or Silence())
        found = [entry for name in chosen for entry in PARTS[name].run(session)]
    return BenchResult(
        machine,
        [entry for entry in found if isinstance(entry, Comparison)],
        [entry for entry in found if isinstance(entry, MemoryUse)],
    )
