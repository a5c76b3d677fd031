"""Facts about the machine that a measurement is worthless without."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("leap-graph", "numpy", "scipy", "numba", "zarr", "pyarrow", "dask", "torch", "torch-geometric")


def machine_facts() -> dict[str, Any]:
    """Return cores, processor, memory, load before the run, and versions, as JSON values."""
    import psutil

    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_bytes": int(psutil.virtual_memory().total),
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    """Return the model's name where Linux tells it; `platform` knows only the architecture there."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
