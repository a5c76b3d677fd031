"""`leap encode`: RWPE, LaPE, ℓ-ECT and DECT."""

from pathlib import Path
from typing import Annotated, Any

import typer

from leap.cli.settings import Settings
from leap.cli.stage_options import (
    BudgetGb,
    Cap,
    CapSeed,
    Dataset,
    Out,
    show_result,
)
from leap.pipeline.stages.ingest import IngestOptions
from leap.store.errors import InvalidInputError

WALKS = "rwpe and lape"
TRANSFORMS = "lect and dect"


def encode(
    settings: Settings,
    reading: IngestOptions,
    dataset: Dataset,
    encoding: Annotated[
        list[str] | None,
        typer.Option(
            "--encoding",
            "-e",
            help="rwpe, lape, lect or dect; repeat for several (default: rwpe and lape).",
            show_default=False,
        ),
    ] = None,
    dim: Annotated[
        int | None,
        typer.Option(metavar="K", help="Dimension (default: 10).", show_default=False, rich_help_panel=WALKS),
    ] = None,
    drop: Annotated[
        str | None,
        typer.Option(
            help="lape: zero eigenvalues to leave out, 'components' (one a component) or 'one' (default: components).",
            show_default=False,
            rich_help_panel=WALKS,
        ),
    ] = None,
    hops: Annotated[
        int | None,
        typer.Option(metavar="M", help="Neighbourhoods (default: 1).", show_default=False, rich_help_panel=TRANSFORMS),
    ] = None,
    directions: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of directions (default: 16).", show_default=False, rich_help_panel=TRANSFORMS
        ),
    ] = None,
    direction_seed: Annotated[
        int | None,
        typer.Option(
            metavar="SEED", help="Seed of the directions (default: 0).", show_default=False, rich_help_panel=TRANSFORMS
        ),
    ] = None,
    directions_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Directions from a .npy array (features, directions) instead.",
            rich_help_panel=TRANSFORMS,
        ),
    ] = None,
    thresholds: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of thresholds (default: 16).", show_default=False, rich_help_panel=TRANSFORMS
        ),
    ] = None,
    radius: Annotated[
        float | None,
        typer.Option(
            help="Thresholds span [-radius, radius] (default: 1.1).", show_default=False, rich_help_panel=TRANSFORMS
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            help="dect: steepness of the sigmoid (default: 128).", show_default=False, rich_help_panel=TRANSFORMS
        ),
    ] = None,
    edge_weight: Annotated[
        float | None,
        typer.Option(
            help="dect: weight of an edge; 2 is the published code's (default: 1).",
            show_default=False,
            rich_help_panel=TRANSFORMS,
        ),
    ] = None,
    complex: Annotated[
        str | None,
        typer.Option(
            help="lect: 'points' or 'edges' (default: points).", show_default=False, rich_help_panel=TRANSFORMS
        ),
    ] = None,
    cap: Cap = None,
    cap_seed: CapSeed = 0,
    budget_gb: BudgetGb = 4.0,
    out: Out = None,
) -> None:
    """Compute encodings of every node: random-walk, Laplacian, and Euler characteristic transforms.

    A smaller dimension than one already stored is answered by a view of it.

    [dim]leap encode triads --encoding rwpe --encoding lape --dim 10[/]
    [dim]leap encode triads --encoding dect --directions 16 --scale 128[/]
    """
    from leap.pipeline import encode as run

    given = {
        "dim": dim,
        "drop": drop,
        "hops": hops,
        "cap": cap,
        "cap_seed": cap_seed if cap is not None else None,
        "directions": directions,
        "direction_seed": direction_seed,
        "direction_values": _read_directions(directions_file),
        "thresholds": thresholds,
        "radius": radius,
        "scale": scale,
        "edge_weight": edge_weight,
        "complex": complex,
    }
    params: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    result = run(
        dataset,
        encoding or ["rwpe", "lape"],
        params=params,
        budget_gb=budget_gb,
        ingest_options=reading,
        context=settings.context(),
    )
    show_result(result, settings, out)


def _read_directions(path: Path | None) -> tuple[tuple[float, ...], ...] | None:
    if path is None:
        return None
    import numpy as np

    try:
        matrix = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"--directions-file {str(path)!r} is not a readable .npy array ({error}).") from error
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        raise InvalidInputError(
            f"--directions-file holds {matrix.dtype} values of shape {matrix.shape}; it must hold numbers of shape "
            "(features, directions)."
        )
    return tuple(tuple(float(value) for value in column) for column in matrix.T)
