"""Versions of what computed an artifact, for its manifest."""

from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("leap-graph", "numpy", "scipy", "numba", "zarr", "pyarrow")


def versions() -> dict[str, str]:
    """Return the installed versions of the packages that results may depend on."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found
