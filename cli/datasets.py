"""`leap datasets`: every dataset that has a name."""

from typing import Annotated

import typer
from rich.markup import escape

from leap.cli.output import console, human_bytes, print_json, table
from leap.cli.settings import Settings
from leap.pipeline.datasets import catalog
from leap.pipeline.stages.context import data_folder


def datasets(
    settings: Settings,
    show_all: Annotated[
        bool,
        typer.Option("--all", metavar=" ", help="Also list TU datasets whose files are not here, more than a hundred."),
    ] = False,
    long: Annotated[bool, typer.Option("--long", "-l", metavar=" ", help="Also show where each comes from.")] = False,
) -> None:
    """List the datasets: their licence, where they come from, and whether their files are here."""
    entries = catalog(data_folder(settings.data))
    if settings.as_json:
        rows = [
            {
                "name": entry.name,
                "family": entry.card.family,
                "source": entry.card.source,
                "licence": entry.card.licence,
                "presence": entry.presence,
                "bytes": entry.bytes,
                "path": None if entry.path is None else str(entry.path),
            }
            for entry in entries
        ]
        print_json({"datasets": rows})
        return
    extra = ("source",) if long else ()
    columns = ("name", "family", "files", "size", "licence", *extra)
    shown = table(*columns, right=("size",), fold=("licence", "source"))
    colours = {"embedded": "green", "present": "green", "absent": "dim"}
    hidden = 0
    for entry in entries:
        if entry.presence == "absent" and entry.card.family == "TU" and not show_all:
            hidden += 1
            continue
        shown.add_row(
            entry.name,
            entry.card.family,
            f"[{colours[entry.presence]}]{entry.presence}[/]",
            human_bytes(entry.bytes) if entry.bytes else "",
            entry.card.licence,
            *([entry.card.source] if long else []),
        )
    console.print(shown)
    if hidden:
        console.print(f"[dim]{hidden} more TU datasets can be downloaded by name: leap datasets --all[/]")
    folder = escape(str(data_folder(settings.data)))
    console.print(f"[dim]Raw files are looked for under {folder} (--data, LEAP_DATA).[/]")
