"""Sweep files: grids of runs as YAML, read and checked; the presets are such files inside the package."""

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from leap.pipeline.datasets import known_names
from leap.pipeline.stages.ingest import IngestOptions
from leap.pipeline.training.options import OPTIONS
from leap.store.errors import InvalidInputError
from leap.store.lazy import lazy_module
from leap.store.option import validated
from leap.store.suggestion import suggestion

yaml = lazy_module("yaml")

FIELDS = ("dataset", *OPTIONS)
PLURALS = {f"{name}s": name for name in FIELDS if not name.endswith("s")}
FILTERS = ("only", "exclude")
PUBLISHED_BEST = "published-best"
MOST_SEEDS = 100  # that a number may stand for; more is a seed in the wrong place
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
    is_first_look : whether its runs are too short to be taken for results.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str = ""
    grids: tuple[Grid, ...]
    reading: IngestOptions = IngestOptions()
    is_first_look: bool = False


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
    text = str(name_or_path)
    folder = None
    try:
        if text in presets():
            source = (files("leap.pipeline.experiments") / "presets" / f"{text}.yaml").read_text(encoding="utf-8")
        elif text.endswith(SUFFIXES) or "/" in text or Path(text).is_file():
            source, folder = Path(text).read_text(encoding="utf-8"), Path(text).parent
        else:
            raise InvalidInputError(
                f"no preset {text!r}.{suggestion(text, presets())} 'leap sweep --list' lists them; a file of your own "
                "ends in .yaml."
            )
        _refuse_twice(yaml.compose(source, yaml.SafeLoader), text)
        content = yaml.safe_load(source)
    except OSError as error:
        raise InvalidInputError(f"cannot read the sweep {text!r}: {error.strerror}. Check the path.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = " ".join(str(error).split())
        raise InvalidInputError(
            f"{text!r} is not YAML ({where}). 'leap sweep --help' says what a sweep holds."
        ) from error
    return parse(content, text, folder)


def _refuse_twice(node: Any, where: str) -> None:
    """Raise if a mapping has a key twice, of which YAML would take the last."""
    waiting, seen = [node], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(node, (yaml.MappingNode, yaml.SequenceNode)):
            continue
        seen.add(id(node))  # an alias may lead back to what it is a part of
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
            continue
        given = set[str]()
        for key, value in node.value:
            waiting.append(value)
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in given:
                line = key.start_mark.line + 1
                raise InvalidInputError(f"{where} gives {key.value!r} twice, again in line {line}. Keep one of them.")
            given.add(key.value)


def parse(content: Any, where: str, folder: Path | None = None) -> SweepFile:
    """Check the content of a sweep file; `where` names it in complaints, and paths in it are relative to `folder`."""
    known = ("name", "description", "common", "grids", "reading")
    content = _mapping(content, where, known)
    common = axes_of(content.get("common") or {}, f"common of {where}", folder)
    entries = content.get("grids")
    if not isinstance(entries, list) or not entries:
        raise InvalidInputError(f"{where} has no grids. Give 'grids:', a list with at least one grid.")
    reading = _mapping(content.get("reading") or {}, f"reading of {where}", tuple(IngestOptions.model_fields))
    grids = [_grid(entry, common, f"grid {number} of {where}", folder) for number, entry in enumerate(entries, 1)]
    return SweepFile(
        name=str(content.get("name") or Path(where).stem),
        description=" ".join(str(content.get("description") or "").split()),
        grids=tuple(grids),
        reading=validated(IngestOptions, **reading),
    )


def _grid(entry: Any, common: Axes, where: str, folder: Path | None) -> Grid:
    entry = dict(_mapping(entry, where, (*FIELDS, *PLURALS, *FILTERS)))
    filters = {name: entry.pop(name, None) or [] for name in FILTERS}
    for name, conditions in filters.items():
        if not isinstance(conditions, list):
            raise InvalidInputError(f"{name} in {where} is {conditions!r}. Give a list of mappings.")
    axes = common | axes_of(entry, where, folder, first_seed(common))
    if not axes.get("dataset"):
        raise InvalidInputError(f"{where} names no datasets. Give 'datasets:', a name or a list of names.")
    return Grid(
        axes=axes,
        **{
            name: tuple(axes_of(each, f"{name} in {where}", folder) for each in conditions)
            for name, conditions in filters.items()
        },
    )


def first_seed(axes: Axes) -> Any:
    """Return the seed that others are counted from."""
    return axes.get("seed", (OPTIONS["seed"].default,))[0]


def axes_of(entry: Any, where: str, folder: Path | None = None, start: Any = OPTIONS["seed"].default) -> Axes:
    """Return values by name of the option, from a mapping of names, or their plurals, to a value or several.

    Of "seeds", a number says how many: `start` and those that follow it.

    Raises
    ------
    InvalidInputError
        If there is no such option, or a name is none of its choices.

    Examples
    --------
    >>> axes_of({"encodings": ["none", "LEAP-L"], "hops": "1+2"}, "example.yaml")
    {'encoding': ('none', 'leap-l'), 'hops': ((1, 2),)}
    >>> axes_of({"seeds": 3}, "example.yaml"), axes_of({"seeds": "42,43,7"}, "example.yaml")
    ({'seed': (42, 43, 44)}, {'seed': (42, 43, 7)})
    """
    axes: Axes = {}
    for given, value in _mapping(entry, where, (*FIELDS, *PLURALS)).items():
        name = PLURALS.get(given, given)
        if name in axes:
            raise InvalidInputError(f"{where} gives {name!r} twice. Keep one of '{name}' and '{given}'.")
        if given == "seeds":
            value = _seeds(value, start, where)
        values = value if isinstance(value, (list, tuple)) else [value]
        if not values:
            raise InvalidInputError(f"{given} in {where} is an empty list. Give a value, or leave it out.")
        axes[name] = tuple(_value(name, each, where, folder) for each in values)
    return axes


def _seeds(value: Any, start: Any, where: str) -> list[Any]:
    """Return seeds from how many there shall be, or from a list of them, which the command line writes 42,43,7."""
    seeds = value
    if isinstance(value, str) and "," in value:
        seeds = [part.strip() for part in value.split(",")]
    if isinstance(seeds, (list, tuple)):
        found = [int(seed) if str(seed).isdecimal() else seed for seed in seeds]
        wrong = next((seed for seed in found if not isinstance(seed, int) or found.count(seed) > 1), None)
        if wrong is None:
            return found
        problem = f"{wrong!r} occurs twice" if found.count(wrong) > 1 else f"{wrong!r} is no seed"
        raise InvalidInputError(f"seeds in {where} are {value!r}: {problem}. Give different whole numbers.")
    if isinstance(value, bool) or not str(value).isdecimal() or not 1 <= int(value) <= MOST_SEEDS:
        raise InvalidInputError(
            f"seeds in {where} is {value!r}. Give how many, from 1 to {MOST_SEEDS}, or which, such as 42,43,7."
        )
    if not isinstance(start, int):
        raise InvalidInputError(f"seeds in {where} are counted from seed {start!r}. Give a whole number as the seed.")
    return list(range(start, start + int(value)))


def _value(name: str, value: Any, where: str, folder: Path | None) -> Any:
    if name == "dataset":
        return value if folder in (None, Path()) else _found_from(folder, str(value))
    field = OPTIONS[name]
    if field.is_many:  # of one run: 1, "1+2" or [1, 2]
        parts = value if isinstance(value, (list, tuple)) else str(value).split("+")
        try:
            return tuple(field.type(part) for part in parts)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"{name} in {where} is {value!r}. Give values such as 1, or 1+2 for both."
            ) from None
    try:
        return field.understood(value, *((PUBLISHED_BEST,) if name == "projection" else ()))
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}.") from None


def _found_from(folder: Path, dataset: str) -> str:
    """Return the name of a dataset, or its path as seen from here instead of from the folder of the file."""
    if folder == Path():  # as it was written, by which options may name it too
        return dataset
    is_path = "/" in dataset or "\\" in dataset or (dataset not in known_names() and (folder / dataset).exists())
    return os.path.join(folder, dataset.removeprefix("./")) if is_path and not dataset.startswith("~") else dataset


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
