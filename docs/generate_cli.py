"""Write docs/cli.md from the commands themselves: python docs/generate_cli.py."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

PAGE = Path(__file__).with_name("cli.md")
GLOBAL = "Global options"
HEAD = """\
# Commands

This page is generated from the code; `leap COMMAND --help` says the same. Stage commands make what they need first:
`leap encode` ingests the dataset and extracts neighbourhoods if the store has none.

Exit codes: 0 done, 1 the work failed, 2 wrong usage or bad input. Results go to stdout, everything else to stderr.
`--json` prints one JSON object; that of a stage has `stage`, `dataset` and `artifacts`, each artifact with `kind`,
`params`, `key`, `cached`, `view` (answered by a larger artifact), `seconds`, `bytes`, `partitions`, `resumed`
(partitions that an interrupted run had left) and `summary`.
"""


def page() -> str:
    """Return the page."""
    from leap.cli.app import app

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
