"""`leap extract`: neighbourhood indices and normalization statistics."""

from typing import Annotated

import typer

from leap.cli.settings import Settings
from leap.cli.stage_options import (
    BudgetGb,
    Cap,
    CapSeed,
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


def extract(
    settings: Settings,
    dataset: Dataset,
    hops: Annotated[
        list[int] | None,
        typer.Option("--hops", metavar="M", help="Hop count; repeat for several (default: 1).", show_default=False),
    ] = None,
    cap: Cap = None,
    cap_seed: CapSeed = 0,
    budget_gb: BudgetGb = 4.0,
    features: Features = "degree",
    drop_empty: DropEmpty = False,
    partition_mb: PartitionMb = 8.0,
    node_attribute: NodeAttribute = None,
    graph_label: GraphLabel = None,
    node_label: NodeLabel = None,
    out: Out = None,
) -> None:
    """Extract every node's m-hop neighbourhood and, for real-valued features, its mean and scale.

    The size is estimated first, and an explosion refused. An interrupted extraction continues where it was.

    [dim]leap extract triads --hops 1 --hops 2[/]
    """
    from leap.pipeline import extract as run

    options = ingest_options(features, drop_empty, partition_mb, node_attribute, graph_label, node_label)
    result = run(
        dataset,
        hops or [1],
        cap=cap,
        cap_seed=cap_seed,
        budget_gb=budget_gb,
        ingest_options=options,
        context=settings.context(),
    )
    show_result(result, settings, out)
