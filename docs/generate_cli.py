"""Write docs/cli.md and docs/sweep-files.md from the commands and options themselves: python docs/generate_cli.py."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from leap.cli.app import app
from leap.pipeline.stages.ingest import IngestOptions
from leap.pipeline.training.options import OPTIONS
from leap.store.option import option_fields

PAGE = Path(__file__).with_name("cli.md")
SWEEP_PAGE = Path(__file__).with_name("sweep-files.md")
GLOBAL = "Global options"
HEAD = """\
# Commands

This page is generated from the code; `leap COMMAND --help` says the same. Stage commands make what they need first:
`leap encode` ingests the dataset and extracts neighbourhoods if the store has none.

Exit codes: 0 done, 1 the work failed, 2 wrong usage or bad input. Results go to stdout, everything else to stderr.
`--json` prints one JSON object; that of a stage has `stage`, `dataset` and `artifacts`, each artifact with `kind`,
`params`, `key`, `cached`, `view` (answered by a larger artifact), `seconds`, `bytes`, `partitions`, `resumed`
(partitions that an interrupted run had left) and `summary`. An error is then
`{"error": {"type": …, "message": …, "exit_code": …}}`.

`leap --install-completion` teaches your shell to complete commands, options, datasets, presets and choices. Names to
choose from are understood in any case: `-e LEAP-L`.
"""
SWEEP_HEAD = """\
# Sweep files

This page is generated from the code. A sweep file says in YAML which runs to do; `leap sweep FILE` does them, and `leap
sweep FILE --plan` shows what they will take. The presets that `leap sweep --list` shows are such files.

```yaml
name: mine
description: Does LEAP help on my graphs?
common:
  epochs: 50
grids:
  - datasets: [letters-low, ./my-graphs.json]
    backbones: [gcn, nomp]
    encodings: [none, rwpe, lape+leap-l]
    hops: [1, 1+2]
    seeds: 3
    exclude:
      - {backbone: nomp, encoding: none}
reading:
  graph_label: family
```

A grid stands for all combinations of the values of its options; what it does not name has its default. Values that do
not matter to a network are left out, so no run is done twice: without LEAP, `hops` changes nothing. Names are
understood in any case. A mistake is named, with a suggestion, before anything is done. `hidden: null` and
`dropout: null` choose the paper's, also on node tasks.

| key of a file | |
|---|---|
| `name` | Name of the sweep; that of the file unless given. |
| `description` | A sentence about it. |
| `common` | Values of options for all grids; a grid's own count more. |
| `grids` | A list of grids. |
| `reading` | How datasets are read, see below. |

| key of a grid | |
|---|---|
| `dataset` | A name that `leap datasets` lists, or the path of your own graphs. A path contains a `/` and is relative \
to the file. |
| `only` | A list of conditions; a combination is kept if it fits one of them. A condition names options and values, \
and fits a combination that has one of the values for each. |
| `exclude` | A list of conditions; a combination that fits one of them is left out. |
| any option below | A value, or a list of values. |

`dataset` and every option that does not end in s may be written in the plural: `datasets`, `encodings`. For the
projection, `published-best` stands for the one that the paper's main table has for the dataset, backbone and encoding.

`seeds` is a list, or how many there are: `seeds: 3` stands for 42, 43 and 44, or for the `seed` of `common` and the two
that follow it. `leap sweep FILE --seeds 3` does the same for any file, counted from its first seed, and
`--seeds 42,43,7` names them. The seeds of a fold share its data: a report averages them before it looks at the spread
over folds.
"""


def sweep_page() -> str:
    """Return the page of sweep files."""
    sections = [SWEEP_HEAD, "## Options\n"]
    for panel in dict.fromkeys(field.option.panel for field in OPTIONS.values()):
        named = "" if panel is None else f"{panel}:\n\n"
        sections.append(named + _fields(field for field in OPTIONS.values() if field.option.panel == panel))
    reading = _fields(option_fields(IngestOptions).values())
    sections.append(f"## Keys of reading\n\nThe same as the options of `leap ingest`, which count more.\n\n{reading}")
    return "\n".join(sections)


def _fields(fields: Iterable[Any]) -> str:
    rows = [f"| `{field.name}` | {_values(field)} | {_yaml(field.default)} | {field.help} |" for field in fields]
    return "\n".join(["| key | value | default | |", "|---|---|---|---|", *rows]) + "\n"


def _values(field: Any) -> str:
    if field.has_choices:
        listed = ", ".join(f"`{choice}`" for choice in field.choices)
        return listed + (f", joined by `{field.option.joined_by}`" if field.option.joined_by else "")
    if field.is_many:
        return "`1`, or `1+2` for both" if field.type is int else "list of names"
    plain = {int: "whole number", float: "number", bool: "`true` or `false`"}.get(field.type, "text")
    return f"{plain} {field.bounds}".strip()


def _yaml(default: Any) -> str:
    if default is None:
        return ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{'+'.join(map(str, default)) if isinstance(default, tuple) else default}`"


def page() -> str:
    """Return the page."""
    root = typer.main.get_command(app)
    sections = [HEAD, "## Global options\n\nAccepted before and after the name of a command.\n"]
    sections.append(_options(_visible(root), only=GLOBAL))
    shown: dict[str, str] = {}
    sections += [_section(name, command, shown) for name, command in _commands(root)]
    return "\n".join(sections)


def _commands(group: Any, prefix: str = "leap") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def _visible(command: Any) -> list[Any]:
    hidden = {"install_completion", "show_completion", "help"}
    return [param for param in command.params if param.name not in hidden and not param.hidden]


def _section(name: str, command: Any, shown: dict[str, str]) -> str:
    """Return the section of a command; `shown` has the tables before it, so that none comes twice."""
    params = _visible(command)
    arguments = [param for param in params if param.param_type_name == "argument"]
    usage = " ".join([name, *map(_usage, arguments), "[OPTIONS]"])
    told, examples = _help(command.help or "")
    lines = [f"## {name}\n", *(f"{paragraph}\n" for paragraph in told), f"```text\n{usage}\n```\n"]
    if examples:
        lines.append("Examples:\n\n" + "\n".join(f"- `{example}`" for example in examples) + "\n")
    if arguments:
        rows = [f"| `{_argument(param)}` | {_cell(param.help)} |" for param in arguments]
        lines.append("\n".join(["| argument | |", "|---|---|", *rows]) + "\n")
    options = [param for param in params if param.param_type_name == "option"]
    panels = dict.fromkeys(param.rich_help_panel for param in options if param.rich_help_panel != GLOBAL)
    for panel in sorted(panels, key=lambda panel: panel is not None):  # those without a panel first
        table = _options(options, only=panel)
        first = shown.setdefault(table, name)
        if panel is None:
            lines.append(table)
        else:
            lines.append(f"{panel}:\n\n{table}" if first == name else f"{panel}: as for `{first}`.\n")
    return "\n".join(lines)


def _help(text: str) -> tuple[list[str], list[str]]:
    """Split a command's help into paragraphs and the examples in it."""
    examples = re.findall(r"\[dim\](leap .*?)\[/\]", text)
    told = re.sub(r"\[dim\]leap .*?\[/\]", "", text)
    return [" ".join(part.split()) for part in told.split("\n\n") if part.strip()], examples


def _options(options: list[Any], only: str | None) -> str:
    rows = [
        f"| {_names(param)} | {_cell(param.help)} | {_default(param)} |"
        for param in options
        if param.rich_help_panel == only
    ]
    return "\n".join(["| option | | default |", "|---|---|---|", *rows]) + "\n" if rows else ""


def _names(param: Any) -> str:
    value = "" if param.is_flag else f" {param.metavar or param.name.upper().replace('_', '-')}"
    names = ", ".join(f"`{name}{value}`" for name in param.opts)
    return names + "".join(f" / `{name}`" for name in param.secondary_opts)


def _argument(param: Any) -> str:
    return (param.metavar or param.name.upper()).removesuffix("...").strip("[]")


def _usage(param: Any) -> str:
    name = _argument(param)
    return (name if param.required else f"[{name}]") + ("..." if param.nargs != 1 else "")


def _default(param: Any) -> str:
    if isinstance(param.show_default, str):
        return param.show_default
    if isinstance(param.default, (list, tuple)):
        return ", ".join(map(str, param.default))
    return "" if param.default is None or param.is_flag else f"{param.default}"


def _cell(text: str | None) -> str:
    plain = re.sub(r"\[bold\](.*?)\[/\]", r"`\1`", text or "")
    return plain.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
    SWEEP_PAGE.write_text(sweep_page())
