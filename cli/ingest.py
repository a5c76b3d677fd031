"""`leap ingest`: store a dataset in canonical form."""

from leap.cli.settings import Settings
from leap.cli.stage_options import (
    Dataset,
    DropEmpty,
    Features,
    GraphLabel,
    NodeAttribute,
    NodeLabel,
    Out,
    PartitionMb,
    ingest_options,
    show_result,
)


def ingest(
    settings: Settings,
    dataset: Dataset,
    features: Features = "degree",
    drop_empty: DropEmpty = False,
    partition_mb: PartitionMb = 8.0,
    node_attribute: NodeAttribute = None,
    graph_label: GraphLabel = None,
    node_label: NodeLabel = None,
    out: Out = None,
) -> None:
    """Read or generate a dataset and store it: undirected simple graphs, features, labels, folds.

    [dim]leap ingest triads[/]
    [dim]leap ingest Letter-high --data ~/tu[/]
    [dim]leap ingest ./my-graphs --graph-label y[/]
    """
    from leap.pipeline import ingest as run

    options = ingest_options(features, drop_empty, partition_mb, node_attribute, graph_label, node_label)
    show_result(run(dataset, options=options, context=settings.context()), settings, out)
