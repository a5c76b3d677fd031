"""The page: one HTML document that needs nothing else, from sections and pictures that are drawn already."""

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby

from leap.pipeline.reports.section import Plot, Section
from leap.pipeline.reports.table import Table, Value

KEY = (
    '<p class="key caption"><span class="best">best</span><span class="second">second</span>'
    '<span class="worst">worst</span></p>'
)
BESIDE = "Below each value: the published one, and the distance in the larger of the two standard deviations (σ)."


def page(sections: Sequence[Section], pictures: Mapping[str, str], missing: Sequence[str], about: str) -> str:
    """Return the document.

    Parameters
    ----------
    pictures : SVG elements by the name of their panel.
    missing : what could be shown too, as HTML.
    """
    style = (files("leap.pipeline.reports") / "page.css").read_text(encoding="utf-8")
    entries = [(section.anchor, section.title) for section in sections]
    entries += [("missing", "Not here yet")] if missing else []
    toc = "".join(f'<li><a href="#{anchor}">{escape(title)}</a></li>' for anchor, title in entries)
    body = "\n".join(_section(section, pictures) for section in sections)
    if missing:
        items = "".join(f"<li>{item}</li>" for item in missing)
        body += f'\n<section id="missing"><h2>Not here yet</h2>\n<ul class="missing">{items}</ul></section>'
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>LEAP report</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<div class="frame">
<header><h1>Learnable local positional encodings</h1><p>{escape(about)}</p></header>
<div class="columns">
<nav aria-label="Contents"><ol>{toc}</ol></nav>
<main>
{body}
<footer>Tables are beside this page as CSV, Markdown and LaTeX, figures as SVG and PNG.</footer>
</main>
</div>
</div>
</body>
</html>
"""


def _section(section: Section, pictures: Mapping[str, str]) -> str:
    parts = [f'<section id="{section.anchor}"><h2>{escape(section.title)}</h2>']
    parts += [f"<p>{escape(text)}</p>" for text in section.paragraphs]
    # Pictures say it faster; a table that only holds their numbers follows them.
    parts += [_plot(plot, pictures) for plot in section.plots]
    parts += [_table(table) for table in section.tables]
    return "\n".join(parts) + "\n</section>"


def _plot(plot: Plot, pictures: Mapping[str, str]) -> str:
    panels = "\n".join(f"<div>{pictures[panel.name]}</div>" for panel in plot.panels)
    caption = f'<figcaption class="caption">{escape(plot.caption)}</figcaption>'
    style = "panels wide" if len(plot.panels) in (1, 2, 4) else "panels"
    return f'<figure><div class="{style}">{panels}</div>{caption}</figure>'


def _table(table: Table) -> str:
    caption = f"{table.caption} {BESIDE}" if table.has_published else table.caption
    lines = table.subheads or ("",) * len(table.columns)
    head = "".join(
        f'<th class="head{" last" if name == table.heads[-1] else ""}" scope="col">{escape(name)}</th>'
        for name in table.heads
    )
    for place, (name, line) in enumerate(zip(table.columns, lines, strict=True), len(table.heads)):
        style = ' class="head"' if _is_text(table, place) else ""
        below = f"<small>{escape(line)}</small>" if line else ""
        head += f'<th scope="col"{style}>{escape(name)}{below}</th>'
    bodies = "\n".join(_group(table, group) for group in table.groups)
    downloads = " · ".join(f'<a href="tables/{table.name}.{kind}">{kind}</a>' for kind in ("csv", "md", "tex"))
    return f"""<h3 id="table-{table.name}">{escape(table.title)}</h3>
<p class="caption">{escape(caption)}</p>
{KEY if table.has_marks else ""}
<div class="box" tabindex="0" role="region" aria-labelledby="table-{table.name}"><table>
<thead><tr>{head}</tr></thead>
{bodies}
</table></div>
<p class="files">{downloads}</p>"""


def _is_text(table: Table, place: int) -> bool:
    """Whether a column holds words, which stand to the left."""
    entries = [row[place] for row in table.rows if row[place]]
    return bool(entries) and all(
        isinstance(entry, str) and not any(c.isdigit() for c in entry[:2]) for entry in entries
    )


def _group(table: Table, rows: Sequence[tuple[str | Value | None, ...]]) -> str:
    made = []
    # The first name of a group is written once, over all of its rows.
    for first, same in groupby(rows, key=lambda row: row[0]):
        members = list(same)
        for number, row in enumerate(members):
            cells = ""
            names = row[1 : len(table.heads)]
            if number == 0:
                style = "group" if names else "group last"
                span = f' rowspan="{len(members)}"' if len(members) > 1 else ""
                cells += f'<th class="{style}" scope="rowgroup"{span}>{_name(str(first or ""))}</th>'
            for place, name in enumerate(names, 1):
                style = ' class="last"' if place == len(names) else ""
                cells += f'<th{style} scope="row">{escape(str(name or ""))}</th>'
            for place, entry in enumerate(row[len(table.heads) :], len(table.heads)):
                cells += _cell(entry, is_text=_is_text(table, place))
            made.append(f"<tr>{cells}</tr>")
    return "<tbody>" + "\n".join(made) + "</tbody>"


def _name(text: str) -> str:
    """Return a row's name; what a dataset stands in for goes on a line of its own."""
    name, bracket, rest = text.partition(" (stand-in")
    return escape(name) + (f" <small>(stand-in{escape(rest)}</small>" if bracket else "")


def _cell(entry: str | Value | None, *, is_text: bool) -> str:
    if entry is None:
        return '<td aria-label="not run"></td>'
    if isinstance(entry, str):
        names = [*(["text"] if is_text else []), *([entry] if entry in ("better", "worse") else [])]
        style = f' class="{" ".join(names)}"' if names else ""
        return f"<td{style}>{escape(entry)}</td>"
    mark = f' {entry.mark}" title="{entry.mark}' if entry.mark else ""
    shown = f'<span class="value{mark}">{escape(entry.text)}</span>'
    if entry.detail:
        shown += f"<small>{escape(entry.detail)}</small>"
    if entry.published:
        beside = " · ".join(filter(None, [entry.published_text, entry.distance_text]))
        note = f' title="{escape(entry.published.note)}"' if entry.published.note else ""
        shown += f"<small{note}>{escape(beside)}</small>"
    return f"<td>{shown}</td>"
