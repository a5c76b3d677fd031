"""`compare`: train the recommended encodings, answer whether LEAP helps, and write the page, in one call."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from leap.pipeline import reports
from leap.pipeline.engine.plan import RunsPlan, known_size
from leap.pipeline.engine.sweep import SweepResult, SweepWork, plan_sweep, sweep
from leap.pipeline.experiments.expand import SweepSelection
from leap.pipeline.experiments.recommended import comparison
from leap.pipeline.experiments.sweep_file import SweepFile
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions, dataset_request, ingest
from leap.pipeline.training.options import DEFAULT_RUNS
from leap.store import LeapError
from leap.store.errors import InvalidInputError


@dataclass(frozen=True)
class CompareResult:
    """A comparison that is over.

    Attributes
    ----------
    report : the page; None if no run has a result, or it could not be written.
    told : the answer, and that of each dataset; None if no run has a result.
    unwritten : why there is no page, though there is an answer.
    """

    swept: SweepResult
    report: "reports.ReportResult | None"
    told: "tuple[reports.Answer, list[reports.Answer]] | None" = None
    unwritten: LeapError | None = None

    @property
    def answer(self) -> str:
        """Does LEAP help? One paragraph; of several datasets it speaks of all together."""
        return "" if self.told is None else self.told[0].text

    @property
    def answers(self) -> "list[reports.Answer]":
        """The answer of each dataset."""
        return [] if self.told is None else self.told[1]

    def as_json(self) -> dict[str, Any]:
        """Return JSON values, the object that `--json` prints."""
        told = {
            "answer": None if self.told is None else self.answer,
            "datasets": [one.facts | {"answer": one.text} for one in self.answers],
            "page": None if self.report is None else str(self.report.index),
            **({} if self.unwritten is None else {"page_error": str(self.unwritten)}),
        }
        return {**self.swept.as_json(), "stage": "compare", **told}


def compare(
    datasets: Sequence[str],
    context: Context | None = None,
    *,
    quick: bool = False,
    selection: SweepSelection | None = None,
    reading: IngestOptions | None = None,
    runs: Path | str = DEFAULT_RUNS,
    out: Path | str = "report",
    **work: Unpack[SweepWork],
) -> CompareResult:
    """Answer whether LEAP helps: train the recommended encodings, with and without message passing, on datasets.

    Like a sweep it may be stopped at any moment and called again. The answer is about the runs of this very request.

    Parameters
    ----------
    datasets : names that `leap datasets` lists, or paths of your own graphs.
    quick : a first look with one seed and few epochs, and three splits of a node task; it is said to be one.
    selection : a part of the recommended networks, or other backbones, encodings and options than theirs.
    reading : how datasets are read.
    out : folder of the page.
    runs, work : as for `sweep`.

    Raises
    ------
    InvalidInputError
        If no run at all can be done, because of what was asked for, or `out` cannot be written. Where that shows only
        when all runs are done, as on a full disk, the result has the answer, and the error as `unwritten`.

    Examples
    --------
    >>> import tempfile
    >>> from leap.pipeline import Context, Workforce, compare
    >>> from leap.pipeline.experiments.expand import SweepSelection
    >>> from leap.store import Store
    >>> folder = tempfile.mkdtemp()
    >>> context = Context(Store.open(f"{folder}/store"), workforce=Workforce(0))
    >>> few = {"backbone": "gcn", "encoding": ["none", "leap-f"]}
    >>> small = SweepSelection(few, {"epochs": 1, "folds": 2, "batch_size": 256})
    >>> result = compare(
    ...     ["letters-low"], context, quick=True, selection=small, runs=f"{folder}/runs", out=f"{folder}/report"
    ... )
    >>> result.answer[:29]
    'First look, at most 1 epoch: '
    """
    context = context or Context()
    reports.refuse_unwritable(Path(out), "--out")
    file = _file(datasets, context, quick, selection, reading, is_plan=False)
    swept = sweep(file, context, selection=selection, runs=runs, **work)
    if len(swept.failed) == len(swept.outcomes):
        return CompareResult(swept, None)
    try:
        page = reports.report(runs, out, store=context.store, sweep=swept.call, reporter=context.reporter)
    except LeapError as error:
        return CompareResult(swept, None, reports.answers(runs, swept.call), error)
    return CompareResult(swept, page, (page.answer, page.answers))


def plan_comparison(
    datasets: Sequence[str],
    context: Context | None = None,
    *,
    quick: bool = False,
    selection: SweepSelection | None = None,
    reading: IngestOptions | None = None,
    runs: Path | str = DEFAULT_RUNS,
    stack: int | None = None,
) -> RunsPlan:
    """Return the plan of a comparison. Nothing is downloaded, read or made; what is known about the data is used."""
    context = context or Context()
    file = _file(datasets, context, quick, selection, reading, is_plan=True)
    return plan_sweep(file, context, selection=selection, runs=runs, stack=stack)


def _file(
    datasets: Sequence[str],
    context: Context,
    quick: bool,
    selection: SweepSelection | None,
    reading: IngestOptions | None,
    *,
    is_plan: bool,
) -> SweepFile:
    reading = reading or IngestOptions()
    if not datasets:
        raise InvalidInputError("no dataset is given. Name one that 'leap datasets' lists, or the path of your own.")
    sizes: dict[str, tuple[int, int] | None] = {}
    for dataset in datasets:
        sizes[dataset] = known_size(dataset, reading, context)
        if sizes[dataset] is None and not is_plan:
            with contextlib.suppress(LeapError):  # the sweep says what is wrong, and goes on with the others
                ingest(dataset, options=reading, context=context)
                sizes[dataset] = known_size(dataset, reading, context)
    _refuse_namesakes(datasets, reading, context)
    return comparison(sizes, reading, is_first_look=quick, instead=selection.instead if selection is not None else None)


def _refuse_namesakes(datasets: Sequence[str], reading: IngestOptions, context: Context) -> None:
    """Refuse different data with one name: the answer knows results by it, and is about one of them."""
    seen: dict[str, tuple[str, str]] = {}
    for dataset in datasets:
        try:
            name, key = dataset_request(dataset, reading, context)
        except LeapError:  # as above
            continue
        other, known = seen.setdefault(name, (dataset, key))
        if key != known:
            raise InvalidInputError(
                f"{other!r} and {dataset!r} are different data with one name, {name!r}, by which results are told "
                "apart. Rename one of the files, or compare them one by one with a --runs folder each."
            )
