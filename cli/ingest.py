"""`leap ingest`: store a dataset in canonical form."""

from leap import pipeline
from leap.cli.settings import Settings
from leap.cli.stage_options import (
    Dataset,
    Out,
    show_result,
)
from leap.pipeline.stages.ingest import IngestOptions


def ingest(
    settings: Settings,
    reading: IngestOptions,
    dataset: Dataset,
    out: Out = None,
) -> None:
    """Read or generate a dataset and store it: undirected simple graphs, features, labels, folds.

    [dim]leap ingest triads[/]
    [dim]leap ingest Letter-high --data ~/tu[/]
    [dim]leap ingest ./my-graphs --graph-label y[/]
    """
    show_result(pipeline.ingest(dataset, options=reading, context=settings.context()), settings, out)
