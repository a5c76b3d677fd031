"""What `leap compare` trains: the preset `compare`, which names the recommended encodings, on the given datasets."""

from collections.abc import Mapping
from typing import Any

from leap.pipeline.experiments.sweep_file import Axes, Grid, SweepFile, axes_of, load
from leap.pipeline.stages.ingest import IngestOptions

PRESET, FIRST_LOOK = "compare", "compare-quick"
DESCRIPTION = "Does LEAP help? The recommended encodings, with message passing and without."
# Folds of graphs stay: they are what a difference is shown by.
QUICK = {"seeds": 1, "epochs": 20}
# On one graph an epoch is a single step, and all ten splits are of the same nodes.
QUICK_ON_NODES = {"seeds": 1, "epochs": 40, "folds": 3}
# Nodes of a graph, on average, from which attention between all pairs of them takes hours.
LARGE = 2_000
ON_LARGE_GRAPHS = {"nomp": "mlp"}


def comparison(
    sizes: Mapping[str, tuple[int, int] | None],
    reading: IngestOptions,
    *,
    is_first_look: bool = False,
    instead: Mapping[str, Any] | None = None,
) -> SweepFile:
    """Return the sweep that compares the recommended encodings.

    Parameters
    ----------
    sizes : for each dataset its numbers of graphs and nodes, None if they are unknown.
    is_first_look : few seeds and epochs, and few splits of one graph, under a name of its own, so that such runs are
        known as what they are.
    instead : values of options in place of the recommended; others than backbones and encodings are ignored.

    Examples
    --------
    >>> file = comparison({"letters-low": (2_250, 10_522), "minesweeper": (1, 10_000)}, IngestOptions())
    >>> [grid.axes["backbone"] for grid in file.grids]
    [('gcn', 'nomp'), ('gcn', 'mlp')]
    """
    preset = load(PRESET)
    own = axes_of({name: instead[name] for name in ("backbone", "encoding") if instead and name in instead}, "compare")
    grids = tuple(
        _on(grid, dataset, size, is_first_look, own) for dataset, size in sizes.items() for grid in preset.grids
    )
    changed = {"grids": grids, "reading": reading, "is_first_look": is_first_look, "description": DESCRIPTION}
    return preset.model_copy(update=changed | ({"name": FIRST_LOOK} if is_first_look else {}))


def _on(grid: Grid, dataset: str, size: tuple[int, int] | None, is_first_look: bool, own: Axes) -> Grid:
    axes = grid.axes | {"dataset": (dataset,)}
    if is_first_look:
        is_one = size is not None and size[0] == 1
        axes |= axes_of(QUICK_ON_NODES if is_one else QUICK, "a first look")
    if size is not None and size[1] > LARGE * size[0]:
        axes["backbone"] = tuple(ON_LARGE_GRAPHS.get(name, name) for name in axes["backbone"])
    return grid.model_copy(update={"axes": axes | own})
