"""`leap encode`: RWPE, LaPE, ℓ-ECT, DECT and the encodings of other packages; its options are the recipes' fields."""

import itertools
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import create_model

from leap.cli.options import completing
from leap.cli.settings import Settings
from leap.cli.stage_options import BudgetGb, Dataset, Out, show_result
from leap.pipeline import encode as run
from leap.pipeline.derived import RECIPES, encodable
from leap.pipeline.stages.ingest import IngestOptions
from leap.store.errors import InvalidInputError
from leap.store.option import Option, OptionField, Options, option_fields

DEFAULT = ("rwpe", "lape")


def _parameters() -> tuple[type[Options], list[str]]:
    """Make a configuration of the fields of all recipes, none of them set; and say which cannot be imported.

    Encodings that share parameters stand under one heading. What only some of them have says which.
    """
    fields: dict[str, dict[str, OptionField]] = {}
    broken = []
    for kind in encodable():
        try:
            fields[kind] = dict(option_fields(RECIPES[kind]))
        except InvalidInputError as error:
            broken.append(str(error))
    groups: list[list[str]] = []
    for kind in fields:
        joined = [group for group in groups if any(fields[kind].keys() & fields[other].keys() for other in group)]
        rest = [group for group in groups if group not in joined]
        groups = [*rest, [*itertools.chain(*joined), kind]]
    made: dict[str, Any] = {}
    for group in groups:
        for name in dict.fromkeys(name for kind in group for name in fields[kind]):
            owners = [kind for kind in group if name in fields[kind]]
            made[name] = _unset(fields[owners[0]][name], owners, group)
    return create_model("EncodingParameters", __base__=Options, **made), broken


def _unset(field: OptionField, owners: list[str], group: list[str]) -> tuple[Any, None]:
    text = field.help if owners == group else f"{', '.join(owners)}: {field.help[0].lower()}{field.help[1:]}"
    shown = "" if field.default is None else f" (default: {field.default})"
    option = Option(
        help=f"{text.removesuffix('.')}{shown}.",
        panel=" and ".join(filter(None, [", ".join(group[:-1]), group[-1]])),
        flags=field.option.flags,
        metavar=field.option.metavar,
    )
    # A recipe reads what has many values from a file.
    kind: Any = Path if field.is_many else Literal[field.literals] if field.literals else field.type
    return Annotated[kind | None, option], None


_PARAMETERS, _BROKEN = _parameters()
_CHOICES = f"{', '.join(encodable())}; repeat for several (default: {' and '.join(DEFAULT)})."


def encode(
    settings: Settings,
    reading: IngestOptions,
    dataset: Dataset,
    parameters: Options,
    encoding: Annotated[
        list[str] | None,
        typer.Option(
            "--encoding",
            "-e",
            help=" ".join([_CHOICES, *_BROKEN]),
            show_default=False,
            metavar="NAME",
            autocompletion=completing(encodable),
        ),
    ] = None,
    budget_gb: BudgetGb = 4.0,
    out: Out = None,
) -> None:
    """Compute encodings of every node: random-walk, Laplacian, and Euler characteristic transforms.

    A smaller dimension than one already stored is answered by a view of it.

    [dim]leap encode triads --encoding rwpe --encoding lape --dim 10[/]
    [dim]leap encode triads --encoding dect --directions 16 --scale 128[/]
    """
    result = run(
        dataset,
        encoding or DEFAULT,
        params=parameters.model_dump(exclude_unset=True),
        budget_gb=budget_gb,
        ingest_options=reading,
        context=settings.context(),
    )
    show_result(result, settings, out)


encode.__annotations__["parameters"] = _PARAMETERS  # which class that is, the installed packages decide
