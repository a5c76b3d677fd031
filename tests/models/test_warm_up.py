import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher
from numba.core.event import install_recorder

from leap.models.warm_up import warm_up

# Runs the lines given as an argument and prints the names of the kernels that numba compiled meanwhile.
WATCHED = """
import json, sys
from numba.core.event import install_recorder
with install_recorder("numba:compile") as recorder:
    exec(sys.argv[1])
names = [event.data["dispatcher"].py_func.__qualname__ for _, event in recorder.buffer if event.is_start]
print(json.dumps(names))
"""
WARM_UP = "from leap.models.warm_up import warm_up; warm_up()"
STAGES = """
import tempfile
from leap.pipeline import Context, encode, extract
from leap.store import Store
with tempfile.TemporaryDirectory() as folder:
    context = Context(store=Store.open(folder))
    for dataset, hops, cap in {requests}:
        extract(dataset, hops, cap=cap, context=context)
        encode(dataset, {encodings}, params={{"dim": 10}}, context=context)
"""
TRAINING = """
import torch
from leap.models import LEAP
from leap.pipeline import khop
hoods = khop(torch.tensor([[0, 1, 2, 3], [1, 2, 0, 0]]))
for threshold_count, is_learned in ((16, False), (1, True)):
    encoder = LEAP(2, thresholds=threshold_count, learn_thresholds=is_learned, projection="linear")
    encoder(torch.randn(4, 2, requires_grad=True), hoods).sum().backward()
"""


def compiled_by(lines: str, cache: Path | None = None) -> list[str]:
    """Names of the kernels that a fresh process compiles when it runs these lines."""
    places = {} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, lines],
        env=os.environ | places,
        check=True,
        capture_output=True,
        text=True,
    )
    names: list[str] = json.loads(done.stdout)
    return names


def stages(requests: list[tuple[str, int, int | None]], encodings: list[str]) -> str:
    return STAGES.format(requests=requests, encodings=encodings)


def cached_kernels() -> set[str]:
    """Kernels of all modules that numba keeps on disk, named as it names their files there."""
    packages = [importlib.import_module(name) for name in ("leap.models.kernels", "leap.models")]
    names = [
        f"{package.__name__}.{entry.name}" for package in packages for entry in pkgutil.iter_modules(package.__path__)
    ]
    kernels = [value for name in names for value in vars(importlib.import_module(name)).values()]
    return {
        f"{kernel.py_func.__module__.rpartition('.')[2]}.{kernel.py_func.__qualname__}"
        for kernel in kernels
        if isinstance(kernel, Dispatcher) and not isinstance(kernel._cache, NullCache)
    }


def test_a_warmed_up_process_compiles_nothing_on_a_second_call() -> None:
    warm_up()
    with install_recorder("numba:compile") as recorder:
        warm_up()
    assert recorder.buffer == []


def test_extract_of_a_small_dataset_compiles_nothing_after_warm_up() -> None:
    compiled_by(WARM_UP)
    assert compiled_by(stages([("letters-low", 1, None)], ["rwpe"])) == []


@pytest.mark.slow
def test_an_empty_cache_warmed_up_holds_all_that_any_stage_needs(tmp_path: Path) -> None:
    assert compiled_by(WARM_UP, tmp_path) != []
    assert cached_kernels() <= {path.name.rpartition("-")[0] for path in tmp_path.rglob("*.nbi")}
    assert compiled_by(WARM_UP, tmp_path) == []
    requests = [("letters-low", 1, None), ("triads", 1, None), ("romanesque", 2, 8)]
    assert compiled_by(stages(requests, ["rwpe", "lape", "lect", "dect"]), tmp_path) == []
    assert compiled_by(TRAINING, tmp_path) == []
