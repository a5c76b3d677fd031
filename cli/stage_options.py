"""Options that several stage commands share, and how their results are shown."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from leap.cli.output import console, human_bytes, human_params, human_seconds, plural, print_json, table
from leap.cli.settings import Settings
from leap.pipeline.stages.result import StageResult
from leap.store.errors import InvalidInputError

NAMES_AT_MOST = 60
"""Characters of the features' names beyond which a line only says where they come from."""

Dataset = Annotated[
    str,
    typer.Argument(metavar="DATASET", help="A name that [bold]leap datasets[/] lists, or the path of your own data."),
]
BudgetGb = Annotated[
    float, typer.Option(metavar="GIB", help="Refuse if neighbourhoods are estimated to take more than this.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Also write the keys, without timings, to this JSON file; DVC's stages use it as their output.",
    ),
]


def show_result(result: StageResult, settings: Settings, out: Path | None) -> None:
    """Print what a stage did, and write its manifest if asked to."""
    if out is not None:
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(result.manifest(), indent=1, sort_keys=True) + "\n")
        except OSError as error:
            raise InvalidInputError(f"cannot write --out {str(out)!r}: {error.strerror}. Give another path.") from error
    if settings.as_json:
        print_json(result.as_json())
        return
    if settings.quiet:
        return
    shown = table(
        "artifact",
        "parameters",
        "key",
        "",
        "partitions",
        "size",
        "time",
        right=("partitions", "size", "time"),
        fold=("parameters",),
    )
    for report in result.artifacts:
        state = (
            "[green]cached[/]"
            if report.cached
            else f"[yellow]made[/] ({report.resumed} kept)"
            if report.resumed
            else "[yellow]made[/]"
        )
        if report.view:
            state = "[green]cached[/] (view)"
        shown.add_row(
            report.kind,
            human_params(report.params, report.kind),
            report.key[:12],
            state,
            str(report.partitions),
            human_bytes(report.bytes),
            human_seconds(report.seconds),
        )
    console.print(f"[bold]{escape(result.dataset)}[/]: {escape(_dataset_line(result))}")
    console.print(shown)


def _dataset_line(result: StageResult) -> str:
    summary = result["dataset"].summary
    nature = "categorical feature" if summary["categorical"] else "feature"
    parts = [
        plural(summary["graphs"], "graph"),
        plural(summary["nodes"], "node"),
        plural(summary["edges"], "edge"),
        f"{plural(summary['features'], nature)} ({_feature_names(summary)})",
    ]
    for name, text in (
        ("empty_graphs", "empty"),
        ("self_loops_dropped", "self-loops dropped"),
        ("duplicate_edges_merged", "repeated edges merged"),
    ):
        if summary.get(name):
            parts.append(f"{summary[name]:,} {text}")
    if summary.get("classes"):
        parts.append(f"{len(summary['classes'])} classes")
    return ", ".join(parts)


def _feature_names(summary: dict[str, Any]) -> str:
    """Names of the attributes or columns that became features, where they are own ones and few; else the source."""
    notes = summary.get("notes", {})
    names = notes.get("node_attributes") or notes.get("node_columns") or []
    listed = ", ".join(names)
    return listed if names and names != ["x"] and len(listed) <= NAMES_AT_MOST else str(summary["feature_source"])
