"""`leap datasets`: every dataset that has a name."""

from typing import Annotated

import typer
from rich.markup import escape

from leap.cli.output import console, human_bytes, print_json, show_table
from leap.cli.settings import Settings
from leap.pipeline import datasets as sources
from leap.pipeline.stages.context import data_folder

MANY = ("TU", "GraphLand")
"""Families that are listed in full only where that is asked for."""


def datasets(
    settings: Settings,
    show_all: Annotated[
        bool,
        typer.Option(
            "--all", metavar=" ", help="Also list what is not here of TU, more than a hundred, and of GraphLand."
        ),
    ] = False,
    long: Annotated[bool, typer.Option("--long", "-l", metavar=" ", help="Also show where each comes from.")] = False,
) -> None:
    """List the datasets: their licence, where they come from, and whether their files are here."""
    entries = sources.catalog(data_folder(settings.data))
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
    is_hidden = [entry.presence == "absent" and entry.card.family in MANY and not show_all for entry in entries]
    shown = [
        {
            "name": entry.name,
            "family": entry.card.family,
            "files": f"[{'dim' if entry.presence == 'absent' else 'green'}]{entry.presence}[/]",
            "size": human_bytes(entry.bytes) if entry.bytes else "",
            "licence": entry.card.licence,
            **({"source": entry.card.source} if long else {}),
        }
        for entry, hidden in zip(entries, is_hidden, strict=True)
        if not hidden
    ]
    show_table(shown, right=("size",), fold=("licence", "source"))
    if any(is_hidden):
        families = " and ".join(MANY)
        console.print(f"[dim]{sum(is_hidden)} more of {families} can be downloaded by name: leap datasets --all[/]")
    folder = escape(str(data_folder(settings.data)))
    console.print(f"[dim]Raw files are looked for under {folder} (--data, LEAP_DATA).[/]")
