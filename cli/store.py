"""`leap store`: look at artifacts, explain misses, verify, name and clean up."""

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.markup import escape

from leap.cli.options import App
from leap.cli.output import console, errors, human_bytes, human_params, human_seconds, plural, print_json, show_table
from leap.cli.settings import Settings
from leap.cli.stage_options import Dataset
from leap.pipeline.derived import RECIPES
from leap.pipeline.stages.why import why as explain_request
from leap.store import Artifact, Store
from leap.store import collect as collecting
from leap.store.errors import InvalidInputError

app = App(no_args_is_help=True, help="Look at stored artifacts, explain misses, verify, name and clean up.")

Keys = Annotated[list[str], typer.Argument(metavar="KEY", help="Keys, their first characters, or tags.")]
Plan = Annotated[bool, typer.Option("--plan", "-n", help="Only say what would be removed.")]


def _row(
    store: Store, artifact: Artifact, tags: dict[str, str], runs: dict[str, set[str]], pins: set[str]
) -> dict[str, Any]:
    usage = store.usage(artifact.key)
    return {
        "kind": artifact.kind,
        "dataset": artifact.manifest.dataset,
        "params": artifact.params,
        "key": artifact.key,
        "bytes": artifact.manifest.size,
        "partitions": len(artifact.partitions),
        "created": usage.created,
        "last_used": usage.last_used,
        "uses": usage.uses,
        "seconds": usage.seconds,
        "tags": sorted(tag for tag, key in tags.items() if key == artifact.key),
        "pinned": artifact.key in pins,
        "runs": sorted(run for run, keys in runs.items() if artifact.key in keys),
    }


def _rows(store: Store, artifacts: list[Artifact]) -> list[dict[str, Any]]:
    references = store.references
    tags, runs, pins = references.tags(), references.runs(), references.pins()
    return [_row(store, artifact, tags, runs, pins) for artifact in artifacts]


def _cells(artifact: Artifact) -> dict[str, str]:
    """Return what every table of artifacts tells."""
    return {
        "kind": artifact.kind,
        "dataset": artifact.manifest.dataset,
        "parameters": human_params(artifact.params, artifact.kind),
        "key": artifact.key[:12],
        "size": human_bytes(artifact.manifest.size),
    }


def _users(row: Mapping[str, Any]) -> list[str]:
    return [*(f"tag {tag}" for tag in row["tags"]), *(["pinned"] if row["pinned"] else []), *row["runs"]]


def _age(since: float) -> str:
    return human_seconds(max(0.0, time.time() - since)) if since else "unknown"


@app.command("ls")
def list_artifacts(
    settings: Settings,
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Only this dataset.")] = None,
) -> None:
    """List the artifacts: kind, dataset, parameters, size, age, uses, and which runs used them."""
    if kind not in (None, "dataset", *RECIPES):
        raise InvalidInputError(f"no kind {kind!r}. Choose from dataset, {', '.join(RECIPES)}.")
    store = settings.open_store()
    artifacts = store.list(kind, dataset)
    rows = _rows(store, artifacts)
    unfinished = store.unfinished()
    if settings.as_json:
        print_json({"store": store.url, "artifacts": rows, "unfinished": unfinished})
        return
    show_table(
        (
            {
                **_cells(artifact),
                "age": _age(row["created"]),
                "uses": str(row["uses"]),
                **({"used by": ", ".join(names)} if (names := _users(row)) else {}),
            }
            for artifact, row in zip(artifacts, rows, strict=True)
        ),
        right=("size", "age", "uses"),
        fold=("parameters", "used by"),
    )
    if not store.location.exists():
        console.print(f"[dim]There is no store at {escape(store.url)} yet; the first stage makes it.[/]")
        return
    size = human_bytes(sum(row["bytes"] for row in rows))
    console.print(f"[dim]{plural(len(rows), 'artifact')}, {size} in {escape(store.url)}[/]")
    if unfinished:
        console.print(
            f"[dim]{plural(len(unfinished), 'artifact')} unfinished; the next request for one continues it.[/]"
        )


@app.command("show")
def show(
    settings: Settings, key: Annotated[str, typer.Argument(metavar="KEY", help="Key, its first characters, or a tag.")]
) -> None:
    """Show one artifact: its manifest, arrays, tables and lineage."""
    store = settings.open_store()
    artifact = store.get(key)
    manifest = artifact.manifest
    row = _rows(store, [artifact])[0]
    if settings.as_json:
        print_json(row | {"manifest": manifest.model_dump(by_alias=True), "path": artifact.path})
        return
    facts = [
        ("kind", manifest.kind),
        ("dataset", manifest.dataset),
        ("key", manifest.key),
        ("path", escape(artifact.path)),
        ("parameters", human_params(manifest.params)),
        ("made from", ", ".join(f"{role} {key[:12]}" for role, key in manifest.inputs.items()) or "raw data"),
        ("size", f"{human_bytes(manifest.size)} in {plural(len(manifest.files), 'file')}"),
        ("partitions", str(len(manifest.partitions))),
        ("arrays", ", ".join(artifact.array_names())),
        ("tables", ", ".join(name for name in manifest.files if name.endswith(".parquet"))),
        *((name.replace("_", " "), escape(_short(value))) for name, value in manifest.summary.items()),
        ("made", f"{_age(row['created'])} ago in {human_seconds(row['seconds'])}"),
        ("uses", f"{row['uses']}, last {_age(row['last_used'])} ago"),
        ("tags", ", ".join(row["tags"]) + (" (pinned)" if row["pinned"] else "")),
        ("used by runs", ", ".join(row["runs"])),
        ("versions", human_params(manifest.provenance.get("versions", {}))),
    ]
    show_table(({"what": name, "value": value} for name, value in facts), fold=("value",), has_head=False)


def _short(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    text = str(value)
    return text if len(text) <= 100 else text[:97] + "…"


@app.command("why")
def why(
    settings: Settings,
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"dataset, {', '.join(RECIPES)}.")],
    dataset: Dataset,
    parameters: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=VALUE",
            help="Parameters that differ from the defaults, and how the dataset is read: graph_label=family.",
        ),
    ] = None,
) -> None:
    """Explain whether a request is cached: the nearest stored artifact and the parameters that differ.

    [dim]leap store why rwpe triads dim=12[/]
    """
    answer = explain_request(kind, dataset, _parse(parameters or []), context=settings.context())
    if settings.as_json:
        print_json(answer.as_json())
        return
    nearest = answer.explanation.nearest
    if answer.hit is not None:
        console.print(
            f"[green]Cached:[/] {kind} of {escape(dataset)} is {answer.hit.key[:12]}"
            + (" (as a view)." if answer.is_view else ".")
        )
        return
    if nearest is None:
        console.print(f"[yellow]Not cached:[/] the store at {escape(settings.open_store().url)} has no {kind} at all.")
        return
    console.print(
        f"[yellow]Not cached.[/] The nearest is {kind} {nearest.key[:12]} of {nearest.manifest.dataset}; it differs in"
    )
    rows = (
        {"what": name, "asked": escape(str(asked)), "stored": escape(str(stored))}
        for name, (asked, stored) in answer.explanation.differences.items()
    )
    show_table(rows, fold=("asked", "stored"))


def _parse(parameters: list[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for entry in parameters:
        name, separator, text = entry.partition("=")
        if not separator:
            raise InvalidInputError(f"{entry!r} is not NAME=VALUE. Write, for example, dim=10.")
        try:
            parsed[name.replace("-", "_")] = json.loads(text)
        except ValueError:
            parsed[name.replace("-", "_")] = text
    return parsed


@app.command("verify")
def verify(
    settings: Settings,
    keys: Annotated[list[str] | None, typer.Argument(metavar="KEY", help="Default: everything.")] = None,
) -> None:
    """Read every byte and name whatever differs from what was published; exit code 1 if anything does."""
    store = settings.open_store()
    chosen = [store.resolve(key) for key in keys] if keys else store.keys()
    with settings.reporter.task("verifying", len(chosen)) as advance:
        problems = store.verify(chosen, lambda done, total: advance(1))
    if settings.as_json:
        found = [{"key": problem.key, "problem": problem.message} for problem in problems]
        print_json({"store": store.url, "artifacts": len(chosen), "problems": found})
    else:
        for problem in problems:
            errors.print(f"[red]{problem.key[:12]}[/]  {escape(problem.message)}")
        damaged = len({problem.key for problem in problems})
        console.print(
            f"[green]{plural(len(chosen), 'artifact')} verified, all sound.[/]"
            if not problems
            else f"[red]{damaged} of {plural(len(chosen), 'artifact')} damaged;[/] the next request rebuilds."
        )
    if problems:
        raise typer.Exit(1)


@app.command("tag")
def tag(
    settings: Settings,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Key, its first characters, or a tag.")],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The tag to set; without it, only --pin or --unpin is done.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the tag given as KEY.")] = False,
    pin: Annotated[
        bool | None, typer.Option("--pin/--unpin", help="Keep the artifact whatever gc does, or stop that.")
    ] = None,
) -> None:
    """Give an artifact a name, or pin it."""
    store = settings.open_store()
    if delete:
        store.references.untag(key)
        if settings.as_json:
            print_json({"deleted": key})
        else:
            console.print(f"Removed tag {key}.")
        return
    if name is None and pin is None:
        raise InvalidInputError("nothing to do. Give a NAME for the tag, --pin, --unpin or --delete.")
    artifact = store.get(key)
    if name is not None:
        store.references.tag(name, artifact.key)
    if pin is not None:
        store.references.pin(artifact.key, pinned=pin)
    if settings.as_json:
        print_json(_rows(store, [artifact])[0])
        return
    done = [f"tagged {name}"] if name is not None else []
    done += [] if pin is None else ["pinned" if pin else "unpinned"]
    console.print(f"{artifact.kind} {artifact.key[:12]} is {' and '.join(done)}.")


@app.command("gc")
def collect(
    settings: Settings,
    keep_days: Annotated[float, typer.Option(metavar="DAYS", help="Keep what was used in the last DAYS days.")] = 14.0,
    plan: Plan = False,
) -> None:
    """Remove artifacts that nothing refers to: not tagged, pinned, used by a run or stage, nor used lately.

    Runs whose folder on this machine is gone are forgotten first. What interrupted commands left behind goes too, if
    nobody has touched it for DAYS days, an hour at least.
    """
    store = settings.open_store()
    forgotten = store.references.gone_runs()
    verdicts = collecting.plan_collection(store, keep_days)
    stale, partial = collecting.stale_builds(store, keep_days), collecting.stale_writes(store, keep_days)
    if not plan:
        for run in forgotten:
            store.references.forget_run(run)
        verdicts = collecting.carry_out(store, verdicts, keep_days)
        collecting.remove_stale_builds(store, stale, keep_days)
        for path in partial:
            store.location.remove(path)
        collecting.tidy_index(store)
    going = [verdict for verdict in verdicts if not verdict.keep]
    size = sum(verdict.artifact.manifest.size for verdict in going)
    if settings.as_json:
        rows = [
            {
                "key": v.artifact.key,
                "kind": v.artifact.kind,
                "dataset": v.artifact.manifest.dataset,
                "keep": v.keep,
                "reason": v.reason,
            }
            for v in verdicts
        ]
        left = {"unfinished": stale, "partial": partial, "runs": forgotten}
        print_json({"dry_run": plan, "bytes": size, "artifacts": rows, **left})
        return
    show_table(
        (
            {
                "": "[green]keep[/]" if verdict.keep else "[red]drop[/]",
                **_cells(verdict.artifact),
                "reason": verdict.reason,
            }
            for verdict in verdicts
        ),
        right=("size",),
        fold=("parameters", "reason"),
    )
    _say_removed(len(going), size, plan)
    verb = "would go" if plan else "removed"
    if stale:
        console.print(f"{plural(len(stale), 'unfinished artifact')} {verb} too.")
    if partial:
        console.print(f"{plural(len(partial), 'interrupted write')} {verb} too.")
    for run in forgotten:
        console.print(f"Run {escape(run)} {'would be' if plan else 'is'} forgotten: its folder is gone.")


def _say_removed(count: int, size: float, plan: bool) -> None:
    verb = "would be removed" if plan else "removed"
    console.print(f"{plural(count, 'artifact')}, {human_bytes(size)}, {verb}.")


@app.command("rm")
def remove_artifacts(
    settings: Settings,
    keys: Keys,
    cascade: Annotated[bool, typer.Option("--cascade", help="Also remove what was made from them.")] = False,
    plan: Plan = False,
) -> None:
    """Remove artifacts by key or tag."""
    store = settings.open_store()
    damaged = collecting.unreadable(store, keys)
    artifacts = collecting.plan_removal(store, keys, cascade=cascade)
    going = [artifact.key for artifact in artifacts] + damaged
    if not plan:
        collecting.remove(store, going)
    size = sum(artifact.manifest.size for artifact in artifacts)
    if settings.as_json:
        print_json({"dry_run": plan, "bytes": size, "keys": going})
        return
    rows = [*map(_cells, artifacts), *({"kind": "[red]damaged[/]", "key": key[:12]} for key in damaged)]
    show_table(rows, right=("size",), fold=("parameters",))
    _say_removed(len(going), size, plan)
