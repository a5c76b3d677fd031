"""`leap bench`: measure against naive peers, within one run."""

from typing import Annotated

import typer

from leap.cli.settings import Settings


def bench(
    settings: Settings,
    part: Annotated[
        list[str] | None, typer.Argument(metavar="[PART]...", help="khop, extract, lape; default: all.")
    ] = None,
) -> None:
    """Measure kernels and stages against what one writes with PyG alone; ratios within one run."""
    raise typer.Exit(1)
