"""What people see of runs, whether one was asked for or many: plans, results and failures."""

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from leap.cli.output import console, errors, human_params, human_seconds, plural, show_table
from leap.pipeline.reports.statistics import pooled
from leap.pipeline.training.options import ON_NODES, OPTIONS
from leap.store.graphs.tasks import is_node_task

if TYPE_CHECKING:
    from leap.pipeline.comparison import CompareResult
    from leap.pipeline.engine.engine import Outcome
    from leap.pipeline.engine.plan import DatasetPlan, RunDetails, RunsPlan
    from leap.pipeline.engine.sweep import SweepResult
    from leap.pipeline.engine.train import TrainResult

ALWAYS_SHOWN = ("dataset", "backbone", "encoding")
SHOWN = {
    "accuracy": ("accuracy", 100.0, " %", 1),
    "auroc": ("AUROC", 1.0, "", 3),
    "average_precision": ("AP", 1.0, "", 3),
    "r2": ("R²", 1.0, "", 3),
    "mae": ("MAE", 1.0, "", 4),
    "mse": ("MSE", 1.0, "", 4),
    "loss": ("loss", 1.0, "", 3),
}


def show_plan(plan: "RunsPlan") -> None:
    """Print what runs would do and cost."""
    if plan.details is not None:
        _show_details(plan.datasets[0], plan.details)
    else:
        _show_datasets(plan)
    for entry in plan.datasets:
        absent = entry.as_json()["data_absent"]
        if absent:
            errors.print(
                f"[yellow]raw files of {escape(entry.dataset)} are absent: {plural(absent, 'run')} on it counted as "
                "done by name and options alone[/]"
            )
        if entry.problem is not None:
            errors.print(f"[yellow]{escape(entry.problem)}[/]")
        elif entry.seconds is None:
            errors.print(
                f"[dim]{escape(entry.dataset)} is not in the store yet: its size, and any error in it, is not known.[/]"
            )
    to_do = [run for entry in plan.datasets for run in entry.runs if not run.is_done]
    measured = sum(run.is_measured for run in to_do)
    origin = (
        "nothing is left to do"
        if not to_do
        else "the time is a guess from the sizes of the datasets"
        if not measured
        else f"the time of {plural(measured, 'run')} is from earlier ones"
    )
    took = "" if plan.details is None or not to_do else f"{_about(plan.seconds, 1)} "
    stack = max((run.stack or 1 for run in to_do), default=1)
    together = f", in stacks of up to {stack} folds" if stack > 1 else ""
    console.print(f"[dim]{took}with {plural(plan.workers, 'worker')}{together}; {origin}. Nothing is trained.[/]")


def _show_datasets(plan: "RunsPlan") -> None:
    facts = plan.as_json()
    console.print(f"[bold]{escape(plan.name)}[/]: {escape(plan.description)}")
    if len(plan.seeds) > 1:
        console.print(f"{plural(len(plan.seeds), 'seed')}: {', '.join(map(str, plan.seeds))}")
    counted = ("runs", "done", "folds", "done ", "to make")
    rows = []
    for entry, row in zip(plan.datasets, facts["datasets"], strict=True):
        counts = (row["runs"], row["runs_done"], row["folds"], row["folds_done"], len(entry.to_make))
        cells = {name: f"{count:,}" for name, count in zip(counted, counts, strict=True)}
        rows.append({"dataset": escape(entry.dataset), **cells, "time": _about(entry.seconds, plan.workers)})
    if len(plan.datasets) > 1:
        counts = tuple(facts[name] for name in ("runs", "runs_done", "folds", "folds_done", "artifacts"))
        cells = {name: f"[bold]{count:,}[/]" for name, count in zip(counted, counts, strict=True)}
        rows.append({"dataset": "[bold]all[/]", **cells, "time": _about(plan.seconds, 1)})
    show_table(rows, right=(*counted, "time"))


def _show_details(entry: "DatasetPlan", details: "RunDetails") -> None:
    options, of_nodes = entry.runs[0].request.options, is_node_task(details.task)
    console.print(
        f"[bold]{escape(entry.dataset)}[/]: {details.task}, {options.network.backbone} with {options.network.encoding}"
    )
    if of_nodes:
        values = options.flat()
        own = ", ".join(f"{OPTIONS[name].label} {OPTIONS[name].shown(values[name])}" for name in ON_NODES)
        console.print(f"[dim]with {escape(own)}[/]")
    show_table(({"parameters": name, "": f"{n:,}"} for name, n in details.parameters.items()), right=("",))
    artifacts = (
        {
            "artifact": artifact.kind,
            "parameters": human_params(artifact.params, artifact.kind),
            "key": (artifact.key or "")[:12],
            "": "[green]stored[/]" if artifact.is_stored else "[yellow]to be made[/]",
        }
        for artifact in entry.artifacts
    )
    show_table(artifacts, fold=("parameters",))
    sizes, unit = details.folds[0], "node" if of_nodes else "graph"
    split = "official split" if details.splits == "official" else "fold"
    console.print(
        f"{plural(len(details.folds), split)} of {plural(sizes['train'], unit)} to train, {sizes['val']:,} to "
        f"validate, {sizes['test']:,} to test; at most {plural(options.epochs, 'epoch')}"
        + ("" if of_nodes else f" in batches of {options.batch_size}")
    )


def _about(seconds: float | None, workers: int) -> str:
    return "unknown" if seconds is None else human_seconds(seconds / max(1, workers)) if seconds else "–"


def show_training(result: "TrainResult") -> None:
    """Print the scores of a run, fold by fold."""
    metrics = result.metrics
    network = metrics["options"]["network"]
    kind = f"{network['backbone']} with {network['encoding']}"
    console.print(
        f"[bold]{escape(metrics['dataset'])}[/]: {kind}, {metrics['parameters']['total']:,} parameters, seed "
        f"{metrics['options']['seed']}" + (" [green](cached)[/]" if result.cached else "")
    )
    names = [name for name in SHOWN if name in metrics["test"] and name != "loss"]
    unit = "official split" if metrics.get("splits") == "official" else "fold"
    rows = [
        {
            unit: str(fold["fold"]),
            **{SHOWN[name][0]: show_metric(name, fold["test"][name]) for name in names},
            "best": str(fold["best_epoch"]),
            "epochs": str(fold["epochs"]),
            "time": human_seconds(fold["seconds"]),
        }
        for fold in metrics["folds"]
    ]
    summary = {SHOWN[name][0]: f"[bold]{show_mean(name, metrics['test'][name])}[/]" for name in names}
    total = [{unit: "[bold]mean ± std[/]", **summary}] if len(rows) > 1 else []
    show_table([*rows, *total], right=(*summary, "best", "epochs", "time"))
    console.print(f"[dim]{escape(str(result.path))}: config.yaml, metrics.json, curves, predictions, checkpoints[/]")


def show_sweep(result: "SweepResult") -> None:
    """Print one score for each configuration of a sweep, over all of its seeds."""
    done = [outcome for outcome in result.outcomes if outcome.metrics is not None]
    varying = _varying(done)
    cells: dict[str, list[Outcome]] = {}
    for outcome in done:
        values = {name: value for name, value in outcome.request.values().items() if name != "seed"}
        cells.setdefault(str(values), []).append(outcome)
    rows = (
        {
            **{name: _cell(cell[0].request.values().get(name)) for name in varying if name != "seed"},
            **(
                {"seeds": ", ".join(str(outcome.request.options.seed) for outcome in cell)} if "seed" in varying else {}
            ),
            "result": _score(cell),
            "": _state(cell),
        }
        for cell in cells.values()
    )
    show_table(rows, right=("result",))
    facts = result.as_json()
    where = f"; mean ± std over {_what_means_are_over(cells, done)}, all in {escape(facts['results'])}" if done else ""
    console.print(
        f"[dim]{facts['trained']:,} trained, {facts['cached']:,} cached, {facts['failed']:,} failed{where}[/]"
    )


def show_answer(result: "CompareResult") -> None:
    """Print the answer of a comparison, of each dataset first if there are several, and where the page is."""
    if result.told is None:
        return
    each = [f"{one.headline} {one.details}" for one in result.answers]
    for text in [*(each if len(each) > 1 else []), result.answer]:
        console.print(f"\n{escape(text)}", soft_wrap=not console.is_terminal)
    if result.report is not None:
        console.print(f"\n[dim]tables and pictures:[/] [bold]{escape(str(result.report.index))}[/]")


def _what_means_are_over(cells: "dict[str, list[Outcome]]", done: "list[Outcome]") -> str:
    metrics = [outcome.metrics or {} for outcome in done]
    seeds = ", seeds averaged in each fold" if len(cells) < len(done) else ""
    if any(each.get("splits") != "official" for each in metrics):
        return f"the folds' test parts{seeds}"
    if all(len(each["folds"]) == 1 for each in metrics):
        return "seeds on the official split"
    return f"the official splits{seeds.replace('fold', 'split')}"


def _state(cell: "list[Outcome]") -> str:
    counts = {state: sum(outcome.state == state for outcome in cell) for state in ("trained", "cached")}
    absent = " (data absent)" if any(outcome.data_absent for outcome in cell) else ""
    if all(counts.values()):
        return f"[yellow]{counts['trained']} trained[/], [green]{counts['cached']} cached[/]{absent}"
    return "[yellow]trained[/]" if counts["trained"] else f"[green]cached[/]{absent}"


def _varying(outcomes: "list[Outcome]") -> list[str]:
    """Names of the options in which runs differ, with those that always tell what a run is."""
    rows = [outcome.request.values() for outcome in outcomes]
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if name in ALWAYS_SHOWN or len({str(r[name]) for r in rows if name in r}) > 1]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "+".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else escape(str(value))


def _score(cell: "list[Outcome]") -> str:
    name = cell[0].metric
    by_fold: dict[int, list[float]] = {}
    for outcome in cell:
        assert outcome.metrics is not None
        for fold in outcome.metrics["folds"]:
            if fold["test"][name] is not None:
                by_fold.setdefault(fold["fold"], []).append(fold["test"][name])
    mean, std = pooled(list(by_fold.values())) if by_fold else (None, None)
    return show_mean(name, {"mean": mean, "std": std})


def show_failures(result: "SweepResult", *, with_traceback: bool) -> None:
    """Print each error once, with the runs that it stopped."""
    stopped: dict[tuple[str, str | None], list[Outcome]] = {}
    for outcome in result.failed:
        stopped.setdefault((outcome.request.name, outcome.error), []).append(outcome)
    for (dataset, error), outcomes in stopped.items():
        what = outcomes[0].request.label if len(outcomes) == 1 else f"{len(outcomes)} runs on {dataset}"
        if with_traceback:
            errors.print(outcomes[0].traceback, markup=False, soft_wrap=True)
        errors.print(f"[bold red]Failed:[/] {escape(what)}: {escape(error or '')}", soft_wrap=not errors.is_terminal)
    if result.failed:
        errors.print(f"{plural(len(result.failed), 'run')} failed. The same command tries again.")


def show_mean(name: str, entry: dict[str, Any]) -> str:
    """Return mean and standard deviation of a metric as people read them."""
    if entry["std"] is None:
        return show_metric(name, entry["mean"])
    factor, unit, digits = SHOWN[name][1:]
    return f"{entry['mean'] * factor:.{digits}f} ± {entry['std'] * factor:.{digits}f}{unit}"


def show_metric(name: str, value: float | None) -> str:
    """Return a metric as people read it; a dash where it is not defined."""
    _, factor, unit, digits = SHOWN[name]
    return "–" if value is None else f"{value * factor:.{digits}f}{unit}"
