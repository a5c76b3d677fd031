"""`leap extract`: neighbourhood indices and normalization statistics."""

from typing import Annotated

import typer

from leap.cli.settings import Settings
from leap.cli.stage_options import BudgetGb, Dataset, Out, show_result
from leap.pipeline import extract as run
from leap.pipeline.derived import NeighborhoodsRecipe
from leap.pipeline.stages.ingest import IngestOptions
from leap.store.option import option_fields

FIELDS = option_fields(NeighborhoodsRecipe)


def extract(
    settings: Settings,
    reading: IngestOptions,
    dataset: Dataset,
    hops: Annotated[
        list[int] | None,
        typer.Option("--hops", metavar="M", help="Hop count; repeat for several (default: 1).", show_default=False),
    ] = None,
    cap: Annotated[int | None, typer.Option(metavar="N", help=FIELDS["cap"].help)] = None,
    cap_seed: Annotated[int, typer.Option(metavar="SEED", help=FIELDS["cap_seed"].help)] = 0,
    budget_gb: BudgetGb = 4.0,
    out: Out = None,
) -> None:
    """Extract every node's m-hop neighbourhood and, for real-valued features, its mean and scale.

    The size is estimated first, and an explosion refused. An interrupted extraction continues where it was.

    [dim]leap extract triads --hops 1 --hops 2[/]
    """
    result = run(
        dataset,
        hops or [1],
        cap=cap,
        cap_seed=cap_seed,
        budget_gb=budget_gb,
        ingest_options=reading,
        context=settings.context(),
    )
    show_result(result, settings, out)
