"""Sweep files: grids of runs as YAML, read and checked; the presets are such files inside the package."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from leap.models.network_config import NetworkConfig
from leap.pipeline.stages.ingest import IngestOptions
from leap.pipeline.stages.options import validated
from leap.pipeline.training.options import TrainOptions
from leap.store.errors import InvalidInputError
from leap.store.suggestion import suggestion

NETWORK_FIELDS = tuple(NetworkConfig.model_fields)
PROTOCOL_FIELDS = tuple(name for name in TrainOptions.model_fields if name != "network")
FIELDS = ("dataset", *NETWORK_FIELDS, *PROTOCOL_FIELDS)
PLURALS = {f"{name}s": name for name in ("dataset", "backbone", "encoding", "projection", "dim", "scale", "seed")}
FILTERS = ("only", "exclude")
PUBLISHED_BEST = "published-best"
SUFFIXES = (".yaml", ".yml")

Axes = dict[str, tuple[Any, ...]]


class Grid(BaseModel):
    """All combinations of the values of some options.

    Attributes
    ----------
    axes : values by name of the option; "dataset" is one of them. Other options have their defaults.
    only, exclude : combinations that are kept, or left out: those that have one of the values of every option named.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    axes: Axes
    only: tuple[Axes, ...] = ()
    exclude: tuple[Axes, ...] = ()


class SweepFile(BaseModel):
    """A named set of grids.

    Attributes
    ----------
    reading : how datasets are read, the options of `ingest`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str = ""
    grids: tuple[Grid, ...]
    reading: IngestOptions = IngestOptions()


def presets() -> list[str]:
    """Names of the sweeps inside the package, the paper's first."""
    folder = files("leap.pipeline.experiments") / "presets"
    found = [entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")]
    return sorted(found, key=lambda name: (not name.startswith("paper-"), name))


def load(name_or_path: str | Path) -> SweepFile:
    """Return a preset by its name, or the sweep of a YAML file.

    Raises
    ------
    InvalidInputError
        If there is no such preset or file, or something in it cannot be understood.

    Examples
    --------
    >>> load("paper-hops").name
    'paper-hops'
    """
    import yaml

    text = str(name_or_path)
    try:
        if text in presets():
            source = (files("leap.pipeline.experiments") / "presets" / f"{text}.yaml").read_text(encoding="utf-8")
        elif text.endswith(SUFFIXES) or "/" in text or Path(text).is_file():
            source = Path(text).read_text(encoding="utf-8")
        else:
            raise InvalidInputError(
                f"no preset {text!r}.{suggestion(text, presets())} 'leap sweep --list' lists them; a file of your own "
                "ends in .yaml."
            )
        content = yaml.safe_load(source)
    except OSError as error:
        raise InvalidInputError(f"cannot read the sweep {text!r}: {error.strerror}. Check the path.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = " ".join(str(error).split())
        raise InvalidInputError(
            f"{text!r} is not YAML ({where}). 'leap sweep --help' says what a sweep holds."
        ) from error
    return parse(content, text)


def parse(content: Any, where: str) -> SweepFile:
    """Check the content of a sweep file; `where` names it in complaints."""
    known = ("name", "description", "common", "grids", "reading")
    content = _mapping(content, where, known)
    common = _axes(content.get("common") or {}, f"common of {where}", FIELDS)
    entries = content.get("grids")
    if not isinstance(entries, list) or not entries:
        raise InvalidInputError(f"{where} has no grids. Give 'grids:', a list with at least one grid.")
    reading = _mapping(content.get("reading") or {}, f"reading of {where}", tuple(IngestOptions.model_fields))
    return SweepFile(
        name=str(content.get("name") or Path(where).stem),
        description=" ".join(str(content.get("description") or "").split()),
        grids=tuple(_grid(entry, common, f"grid {number} of {where}") for number, entry in enumerate(entries, 1)),
        reading=validated(IngestOptions, **reading),
    )


def _grid(entry: Any, common: Axes, where: str) -> Grid:
    entry = dict(_mapping(entry, where, (*FIELDS, *PLURALS, *FILTERS)))
    filters = {name: entry.pop(name, None) or [] for name in FILTERS}
    for name, conditions in filters.items():
        if not isinstance(conditions, list):
            raise InvalidInputError(f"{name} in {where} is {conditions!r}. Give a list of mappings.")
    axes = common | _axes(entry, where, FIELDS)
    if not axes.get("dataset"):
        raise InvalidInputError(f"{where} names no datasets. Give 'datasets:', a name or a list of names.")
    return Grid(
        axes=axes,
        **{
            name: tuple(_axes(each, f"{name} in {where}", FIELDS) for each in conditions)
            for name, conditions in filters.items()
        },
    )


def _axes(entry: Any, where: str, known: tuple[str, ...]) -> Axes:
    axes: Axes = {}
    for given, value in _mapping(entry, where, (*known, *PLURALS)).items():
        name = PLURALS.get(given, given)
        if name in axes:
            raise InvalidInputError(f"{where} gives {name!r} twice. Keep one of '{name}' and '{given}'.")
        values = value if isinstance(value, list) else [value]
        if not values:
            raise InvalidInputError(f"{given} in {where} is an empty list. Give a value, or leave it out.")
        axes[name] = tuple(_hops(each, where) if name == "hops" else each for each in values)
    return axes


def _hops(value: Any, where: str) -> tuple[int, ...]:
    """Hop counts of one run: 1, "1+2" or [1, 2]."""
    parts = value if isinstance(value, list) else str(value).split("+")
    try:
        return tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        raise InvalidInputError(f"hops in {where} is {value!r}. Give counts such as 1, or 1+2 for both.") from None


def _mapping(value: Any, where: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{where} is {value!r:.60}, not a mapping of names to values.")
    for name in value:
        if name not in known:
            plain = [each for each in known if each not in PLURALS]
            raise InvalidInputError(
                f"{where} has no field {str(name)!r}.{suggestion(str(name), known)} Those are {', '.join(plain)}."
            )
    return value
