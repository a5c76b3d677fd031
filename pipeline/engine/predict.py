"""Use the networks of a run on other graphs: encode them as the run's were, predict with each fold, take the mean."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from leap import pipeline
from leap.models.devices import CPU, find_device
from leap.models.generator import borrowed_generator
from leap.models.network import Network
from leap.models.network_config import DatasetFacts
from leap.pipeline.cluster import Workforce
from leap.pipeline.datasets import Source
from leap.pipeline.engine.fold import open_inputs
from leap.pipeline.engine.jobs import GIB, InputKeys
from leap.pipeline.engine.prepare import Prepared, prepare
from leap.pipeline.engine.run_folder import BEST, RunFolder, is_result
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions
from leap.pipeline.stages.materialize import DEFAULT_BUDGET_GB
from leap.pipeline.stages.result import ArtifactReport
from leap.pipeline.training.checkpoint import load
from leap.pipeline.training.data import KeptUnions, Part, evaluation_batch_size
from leap.pipeline.training.evaluate import Evaluation, score
from leap.pipeline.training.metrics import Metrics
from leap.pipeline.training.objective import Objective, restored
from leap.pipeline.training.options import TrainOptions
from leap.pipeline.training.requirements import SUBSTITUTES, feature_substitute
from leap.store import Store
from leap.store.disk import refuse_folder
from leap.store.errors import InvalidInputError
from leap.store.graphs import StoredGraphs
from leap.store.graphs.tasks import NO_LABEL, is_node_task, is_regression
from leap.store.option import validated

BATCH_SIZE = 16
LABELS_SHOWN = 10


@dataclass(frozen=True)
class PredictResult:
    """Predictions for every graph or node of a dataset.

    Attributes
    ----------
    path : Parquet table with the predictions.
    folds : whose networks were averaged.
    metrics : where the dataset has labels that the run knows.
    unjudged : why there are no metrics; None where there are.
    was_trained_on : whether this is the very dataset of the run, whose metrics then say nothing about new graphs.
    """

    run: str
    dataset: str
    path: Path
    items: int
    folds: list[int]
    metrics: Metrics
    was_trained_on: bool
    unjudged: str | None = None
    artifacts: list[ArtifactReport] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values, the object that `--json` prints."""
        return {
            "stage": "predict",
            "run": self.run,
            "dataset": self.dataset,
            "path": str(self.path),
            "items": self.items,
            "folds": self.folds,
            "metrics": self.metrics,
            "unjudged": self.unjudged,
            "was_trained_on": self.was_trained_on,
            "artifacts": [report.as_json() for report in self.artifacts],
        }


def predict(
    run: Path | str,
    dataset: "str | Source",
    context: Context | None = None,
    *,
    fold: int | None = None,
    out: Path | str | None = None,
    ingest_options: IngestOptions | None = None,
    budget_gb: float = DEFAULT_BUDGET_GB,
    device: str = "auto",
) -> PredictResult:
    """Predict with a finished run, making first what is missing in the store.

    Parameters
    ----------
    run : folder of the run.
    fold : use the network of this fold only; default: the mean over all folds' predictions.
    out : Parquet file to write; default: predictions-DATASET.parquet in the run's folder.
    device : as for `train`.

    Raises
    ------
    InvalidInputError
        If the folder holds no finished run, or the dataset's features are not like those it was trained on.

    Examples
    --------
    >>> import tempfile
    >>> from leap.models.network_config import NetworkConfig
    >>> from leap.pipeline import Context, TrainOptions, Workforce, predict, train
    >>> from leap.store import Store
    >>> folder = tempfile.mkdtemp()
    >>> context = Context(Store.open(f"{folder}/store"), workforce=Workforce(0))
    >>> network = NetworkConfig(backbone="gcn", encoding="none")
    >>> options = TrainOptions(network=network, epochs=1, folds=2, batch_size=256)
    >>> run = train("letters-low", options, context, run=f"{folder}/runs/first").path
    >>> predict(run, "letters-high", context).items
    2250
    """
    context = context or Context()
    trained = load_run(run, fold, device)
    if out is not None:
        refuse_folder(Path(out))
    prepared = prepare(dataset, trained.options, context, ingest_options, budget_gb, needs_labels=False)
    outcome = trained.evaluate(prepared, context)
    labels, unjudged = _known_labels(outcome.y, prepared, trained.facts, trained.classes)
    name, folds = prepared.dataset.manifest.dataset, list(trained.networks)
    target = Path(out) if out is not None else trained.path / f"predictions-{name}.parquet"
    _write(target, trained, outcome)
    return PredictResult(
        trained.path.name,
        name,
        target,
        len(outcome.items),
        folds,
        {} if labels is None else _judged(trained.objectives[folds[0]], trained.facts, outcome.predictions, labels),
        trained.dataset == prepared.dataset.key,
        unjudged,
        prepared.reports,
    )


def load_run(path: Path | str, fold: int | None = None, device: str = "cpu") -> "TrainedRun":
    """Return the networks of a finished run, ready for other graphs.

    Checkpoints hold tensors and plain values only: loading one runs no code of its author.

    Parameters
    ----------
    path : folder of the run, such as runs/NAME.
    fold : take the network of one fold; None: those of all.
    device : of the networks, as for `train`; predictions come back to the host.

    Raises
    ------
    InvalidInputError
        If the folder holds no finished run, the run has no such fold, or a checkpoint cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from leap.models.network_config import NetworkConfig
    >>> from leap.pipeline import Context, TrainOptions, Workforce, load_run, train
    >>> from leap.store import Store
    >>> folder = tempfile.mkdtemp()
    >>> context = Context(Store.open(f"{folder}/store"), workforce=Workforce(0))
    >>> network = NetworkConfig(backbone="gcn", encoding="none")
    >>> options = TrainOptions(network=network, epochs=1, folds=2, batch_size=256)
    >>> trained = load_run(train("letters-low", options, context, run=f"{folder}/runs/first").path)
    >>> trained("letters-high", context).shape
    torch.Size([2250, 15])
    """
    place, folder = find_device(device), RunFolder(Path(path))
    config, finished = folder.config(), folder.metrics()
    if config is None or finished is None:
        raise InvalidInputError(
            f"{folder.path} holds no finished run. Train one with 'leap train', or finish it with --resume."
        )
    options, facts, dataset, known = _described(folder, config, finished)
    if fold is not None and fold not in known:
        raise InvalidInputError(f"the run has no fold {fold}. Choose from {', '.join(map(str, known))}.")
    networks: dict[int, Network] = {}
    objectives: dict[int, Objective] = {}
    for number in known if fold is None else [fold]:
        best = load(folder.fold(number) / BEST, f"{config['fingerprint']} fold {number}")
        if best is None:
            raise InvalidInputError(
                f"fold {number} of {folder.path} has no checkpoint that can be read. Train the run again with "
                "'leap train --force'."
            )
        with borrowed_generator():
            networks[number] = Network(options.network, facts)
        try:
            networks[number].load_state_dict(best["network"])
        except RuntimeError as error:
            raise InvalidInputError(
                f"the networks of {folder.path} are not those that its config.yaml describes. Put a copy in its place, "
                "or train the run again with 'leap train --force'."
            ) from error
        networks[number].eval().to(place)
        objectives[number] = restored(facts.task, best["objective"])
    return TrainedRun(
        folder.path,
        options,
        facts,
        config.get("classes"),
        dataset,
        networks,
        objectives,
        config.get("feature_source"),
        place,
    )


def _described(
    folder: RunFolder, config: dict[str, Any], finished: dict[str, Any]
) -> tuple[TrainOptions, DatasetFacts, str, list[int]]:
    """Return options, facts, dataset's key and folds of a run: those that its networks were made with."""
    try:
        datasets = [str(entry["key"]) for entry in config["artifacts"] if entry["kind"] == "dataset"]
        known = [int(entry["fold"]) for entry in finished["folds"]]
        if not is_result(finished) or not known or len(datasets) != 1:
            raise InvalidInputError("something is missing.")
        options = validated(TrainOptions, **config["options"])
        facts = validated(DatasetFacts, **config["facts"])
        if options != validated(TrainOptions, **finished["options"]):
            raise InvalidInputError("config.yaml has other options than metrics.json.")
    except (ValueError, KeyError, TypeError) as error:
        reason = str(error) if isinstance(error, InvalidInputError) else "something is missing."
        raise InvalidInputError(
            f"{folder.path} is not as its training left it, or is of another version of LEAP: {reason} Put a copy of "
            "config.yaml and metrics.json in their place, or train the run again with 'leap train --force'."
        ) from error
    return options, facts, datasets[0], known


@dataclass(frozen=True)
class TrainedRun:
    """The networks of a run; called with graphs, it predicts them.

    Attributes
    ----------
    classes : labels in the order of the columns of predictions; None for regression and several labels.
    dataset : key of the dataset that it was trained on.
    networks : torch modules by fold, in evaluation mode.
    objectives : by fold, what turns scores into predictions.
    feature_source : where the features of its graphs came from; older runs do not know.
    device : of the networks.
    """

    path: Path
    options: TrainOptions
    facts: DatasetFacts
    classes: list[Any] | None
    dataset: str
    networks: dict[int, Network]
    objectives: dict[int, Objective]
    feature_source: str | None = None
    device: torch.device = CPU

    def __call__(self, graphs: "str | Source | Sequence[Any]", context: Context | None = None) -> torch.Tensor:
        """Return the mean of the networks' predictions.

        They are probabilities (n, classes), those of label 1 (n, labels) of a multi-label task, or targets (n, t) in
        their units.

        Parameters
        ----------
        graphs : a list of PyG `Data`, or a dataset as for `ingest`; n counts its graphs, or nodes for node tasks.
        context : whose store keeps the encodings of these graphs; None: they are computed and forgotten.

        Raises
        ------
        InvalidInputError
            If the graphs have other features than those that the run was trained on.
        """
        if context is None:
            with tempfile.TemporaryDirectory() as folder:
                return self(graphs, Context(Store.open(folder), workforce=Workforce(0)))
        source = graphs if isinstance(graphs, (str, Source)) else pipeline.from_pyg(graphs, "graphs")
        reading = IngestOptions.of({"features": self.feature_source} if self.feature_source in SUBSTITUTES else {})
        prepared = prepare(source, self.options, context, reading, needs_labels=False)
        return torch.from_numpy(self.evaluate(prepared, context).predictions)

    def evaluate(self, prepared: Prepared, context: Context) -> Evaluation:
        """Return the mean of the networks' predictions for graphs that were encoded as the run's were."""
        self._check_features(prepared)
        inputs = open_inputs(InputKeys.of(prepared, context.store.url))
        of_nodes = is_node_task(self.facts.task)
        size = evaluation_batch_size(inputs.dataset, BATCH_SIZE)
        stream = inputs.stream(GIB).part(batch_size=size, shuffle=False)
        part, kept = Part(stream, items="node" if of_nodes else "graph"), KeptUnions(self.device)
        outcomes = []
        with context.reporter.task(f"predicting {prepared.dataset.manifest.dataset}", len(self.networks)) as advance:
            for number, network in self.networks.items():
                (scored,) = score(network, kept.of([part]), [0], self.facts.outputs)
                outcomes.append(scored.predicted(self.objectives[number]))
                advance(1)
        total = outcomes[0].predictions
        for outcome in outcomes[1:]:
            total = total + outcome.predictions
        items = np.arange(len(total)) if of_nodes else outcomes[0].items
        return Evaluation(items, outcomes[0].y, total / len(outcomes), None, {})

    def _check_features(self, prepared: Prepared) -> None:
        summary, facts = prepared.dataset.manifest.summary, self.facts
        met = (summary["features"], bool(summary["categorical"]))
        if met != (facts.features, facts.codes is not None):
            kinds = {True: "categorical features", False: "features"}
            raise InvalidInputError(
                f"{prepared.dataset.manifest.dataset!r} has {met[0]} {kinds[met[1]]}, and the run {self.path.name} was "
                f"trained on {facts.features} {kinds[facts.codes is not None]}. Predict for graphs with the same "
                "features."
            )
        self._check_edges(prepared)
        got = feature_substitute(prepared.dataset)
        if self.feature_source is not None and got not in (None, self.feature_source):
            is_substitute = self.feature_source in SUBSTITUTES
            way_out = f"Read it with --features {self.feature_source}." if is_substitute else "Give it such features."
            raise InvalidInputError(
                f"{prepared.dataset.manifest.dataset!r} has no features, and its nodes got {got} instead; the run "
                f"{self.path.name} was trained on {self.feature_source}. {way_out}"
            )

    def _check_edges(self, prepared: Prepared) -> None:
        graphs, facts = StoredGraphs.of(prepared.dataset), self.facts
        met = (graphs.num_edge_features, graphs.has_edge_categories)
        if facts.edge_features and met != (facts.edge_features, facts.edge_codes is not None):
            kinds = {True: "categorical attributes", False: "attributes"}
            raise InvalidInputError(
                f"the edges of {prepared.dataset.manifest.dataset!r} have {met[0]} {kinds[met[1]]}, and the run "
                f"{self.path.name} was trained on {facts.edge_features} {kinds[facts.edge_codes is not None]}. Predict "
                "for graphs with the same."
            )
        if facts.edge_features:
            graphs.edge_codes()  # refuses what is not finite


def _known_labels(
    y: NDArray[Any] | None, prepared: Prepared, facts: DatasetFacts, classes: list[Any] | None
) -> tuple[NDArray[Any] | None, str | None]:
    """Return labels in the run's own numbering, or targets; else why predictions cannot be judged by them."""
    name, summary = prepared.dataset.manifest.dataset, prepared.dataset.manifest.summary
    if y is None:
        return None, f"{name!r} has no labels, so there are no metrics."
    if summary["task"] != facts.task:
        return None, f"the run is of {facts.task} and {name!r} of {summary['task']}, so there are no metrics."
    if y.ndim == 2:
        if y.shape[1] == facts.outputs:
            missing = f"all labels of {name!r} are missing, so there are no metrics."
            return (None, missing) if np.isnan(y).all() else (y, None)
        what = "targets" if is_regression(facts.task) else "labels"
        return None, f"the run predicts {facts.outputs} {what} and {name!r} has {y.shape[1]}, so there are no metrics."
    theirs, ours = summary["classes"], classes or []
    if set(theirs) <= set(ours):
        codes = np.array([*(ours.index(value) for value in theirs), NO_LABEL], dtype=np.int64)
        return codes[y], None  # the code of no label is the last one, too
    return None, (
        f"the run knows the labels {_listed(ours)} and {name!r} has {_listed(theirs)}, so there are no metrics. Give "
        "the graphs the run's labels to have some."
    )


def _judged(objective: Objective, facts: DatasetFacts, predictions: NDArray[Any], y: NDArray[Any]) -> Metrics:
    """Return the metrics of what can be judged: nodes need not have labels or targets."""
    if not is_node_task(facts.task):
        return objective.metrics(predictions, y)
    is_there = ~np.isnan(y).any(axis=1) if is_regression(facts.task) else y != NO_LABEL
    return objective.metrics(predictions[is_there], y[is_there])


def _listed(labels: list[Any]) -> str:
    shown = ", ".join(map(repr, labels[:LABELS_SHOWN]))
    return shown if len(labels) <= LABELS_SHOWN else f"{shown} … ({len(labels)} in all)"


def _write(path: Path, trained: TrainedRun, outcome: Evaluation) -> None:
    facts, predictions = trained.facts, outcome.predictions
    columns: dict[str, Any] = {"node" if is_node_task(facts.task) else "graph": outcome.items}
    if is_regression(facts.task) or facts.task == "graph-multilabel":
        said = "predicted" if is_regression(facts.task) else "probability"
        columns |= {f"{said}_{column}": predictions[:, column] for column in range(facts.outputs)}
    else:
        names = trained.classes or list(range(facts.outputs))
        columns["predicted"] = pa.array([names[code] for code in predictions.argmax(1).tolist()])
        columns |= {f"probability_{names[column]}": predictions[:, column] for column in range(facts.outputs)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), path)
    except OSError as error:
        reason = error.strerror or error
        raise InvalidInputError(f"cannot write {str(path)!r}: {reason}. Give another --out.") from error
