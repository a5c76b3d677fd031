"""Tables as files: CSV for programs, Markdown for notes, LaTeX for papers."""

import csv
import io
import re

from leap.pipeline.reports.table import Table, Value

Entry = str | Value | None
LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "×": r"$\times$",
    "σ": r"$\sigma$",
    "²": "$^2$",
    "ℓ": r"$\ell$",
    "<": "$<$",
    ">": "$>$",
    "–": "--",
    "…": r"\dots{}",
}


def to_csv(table: Table) -> str:
    """Return CSV: every value has its mean and spread in columns of their own, and the published ones if any."""
    names = [*table.heads, *_full_names(table)]
    # A column of values becomes several; which of them, its values decide.
    parts: list[list[str]] = []
    for place in range(len(names)):
        values = [entry for entry in (row[place] for row in table.rows) if isinstance(entry, Value)]
        kept = ["mean", "std", "n"] if values else []
        kept += ["detail"] if any(value.detail for value in values) else []
        kept += ["published", "published std", "distance"] if any(value.published for value in values) else []
        parts.append(kept)
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    header: list[str] = []
    for name, kept in zip(names, parts, strict=True):
        header += [name if part == "mean" else f"{name} {part}" for part in kept] or [name]
    writer.writerow(header)
    for row in table.rows:
        cells: list[str] = []
        for entry, kept in zip(row, parts, strict=True):
            cells += [_part(entry, part) for part in kept] or [entry if isinstance(entry, str) else ""]
        writer.writerow(cells)
    return target.getvalue()


def _part(entry: Entry, part: str) -> str:
    if not isinstance(entry, Value):
        return ""
    factor, published = entry.metric.factor, entry.published
    found: dict[str, float | str | None] = {
        "mean": entry.mean * factor,
        "std": None if entry.spread is None else entry.spread * factor,
        "n": entry.count,
        "detail": entry.detail,
        "published": published.mean if published else None,
        "published std": published.std if published else None,
        "distance": entry.distance,
    }
    value = found[part]
    return "" if value is None else value if isinstance(value, str) else f"{value:.6g}"


def to_markdown(table: Table) -> str:
    """Return Markdown: best in bold, second in italics, worst with a mark."""
    lines = [
        f"**{table.title}.** {table.caption} Best bold, second italic, worst marked ▾."
        if table.has_marks
        else f"**{table.title}.** {table.caption}",
        "",
        "| " + " | ".join(_markdown(name) for name in [*table.heads, *_full_names(table)]) + " |",
        "|" + "---|" * len(table.heads) + "---:|" * len(table.columns),
    ]
    for row in table.rows:
        lines.append("| " + " | ".join(_markdown(entry) for entry in row) + " |")
    return "\n".join(lines) + "\n"


def _markdown(entry: Entry) -> str:
    if entry is None:
        return ""
    if isinstance(entry, str):
        return entry.replace("|", r"\|")
    text = {"best": f"**{entry.text}**", "second": f"*{entry.text}*", "worst": f"{entry.text} ▾"}.get(
        entry.mark, entry.text
    )
    beside = [entry.published_text, entry.distance_text]
    published = f" (paper {', '.join(filter(None, beside))})" if entry.published else ""
    return f"{text}{f' {entry.detail}' if entry.detail else ''}{published}"


def to_latex(table: Table) -> str:
    """Return a LaTeX table for booktabs; best bold, second underlined, worst in italics."""
    columns = "l" * len(table.heads) + "r" * len(table.columns)
    header = " & ".join(latex(name) for name in [*table.heads, *_full_names(table)])
    lines = [
        "% needs \\usepackage{booktabs}; best bold, second underlined, worst italic",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{latex(table.title)}. {latex(table.caption)}}}",
        rf"  \label{{tab:{table.name}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        rf"    {header} \\",
    ]
    for group in table.groups:
        lines.append(r"    \midrule")
        lines += [rf"    {' & '.join(_latex(entry) for entry in row)} \\" for row in group]
    lines += [r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _latex(entry: Entry) -> str:
    if entry is None:
        return ""
    if isinstance(entry, str):
        return latex(entry)
    text = latex(entry.text)
    command = {"best": "textbf", "second": "underline", "worst": "textit"}.get(entry.mark)
    return rf"\{command}{{{text}}}" if command else text


def latex(text: str) -> str:
    """Return text with everything that LaTeX would read as a command escaped."""
    return re.sub("|".join(map(re.escape, LATEX_SPECIAL)), lambda match: LATEX_SPECIAL[match[0]], text)


def _full_names(table: Table) -> list[str]:
    """Return the names of the value columns; a line under a name joins it in brackets."""
    lines = table.subheads or ("",) * len(table.columns)
    return [f"{name} ({line})" if line else name for name, line in zip(table.columns, lines, strict=True)]


WRITERS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}
