"""Run the examples of the documents, compare what they print with what is written, or write it anew.

    python docs/examples.py            run all and show what differs
    python docs/examples.py --write    put the real output into the documents

A document is one session in an empty folder: its `python` blocks share a namespace, its `console` blocks hold
`$ command` lines, each followed by what it prints. A `text` block straight after a `python` block is what that block
prints. A block of any language whose first line is `# file: PATH` is written to that file of the folder instead. A
block below the comment `<!-- not run: reason -->` is left alone.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
HOME = "/home/you/tour"  # what the folder of the session is called in the documents
LONGEST_LINE = 110
TIMEOUT = 3600  # seconds, so that a command that hangs ends some time

_FILE = re.compile(r"# file: (?P<path>[\w./-]+)\n")
_BLOCK = re.compile(r"(?P<note><!-- not run:[^\n]*-->\n)?^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.M | re.S)
_VARIES = (
    (re.compile(r"^\d+ +\d+\.\d %.*$", re.M), "FOLD"),
    (re.compile(r"\b[0-9a-f]{40}\b|\b[0-9a-f]{12}\b"), "KEY"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|min|h|days)\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? (B|KiB|MiB|GiB)\b"), "SIZE"),
    (re.compile(r"\w+-?\w*=\d+\.\d+[\w.]*"), "VERSION"),
    (re.compile(r"\b\d+\.\d+( ± \d+\.\d+)?( %|\b)"), "SCORE"),  # other processors round otherwise
    (re.compile(r"\b[0-9a-f]{10}\b"), "KEY"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Block:
    """A fenced block: where its body stands in the text, and whether it is run."""

    language: str
    body: str
    start: int
    end: int
    line: int
    is_run: bool


@dataclass(frozen=True)
class Difference:
    """Something that a document says is printed and that is not; `line` is that of its block."""

    line: int
    command: str
    written: str
    printed: str

    def __str__(self) -> str:
        written, printed = (textwrap.indent(text or "(nothing)", "    ") for text in (self.written, self.printed))
        return f"line {self.line}: {self.command}\n  is written to print\n{written}\n  but prints\n{printed}"


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a document."""
    return [
        Block(
            match["language"],
            match["body"],
            *match.span("body"),
            text.count("\n", 0, match.start("language")) + 1,
            not match["note"],
        )
        for match in _BLOCK.finditer(text)
    ]


def files(text: str) -> dict[str, str]:
    """Return the files that a document holds, by path."""
    found = [(match, block.body) for block in blocks(text) if (match := _FILE.match(block.body))]
    return {match["path"]: body[match.end() :] for match, body in found}


def write_files(text: str, folder: Path) -> None:
    """Write the files that a document holds below a folder."""
    for name, content in files(text).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def same(written: str, printed: str) -> bool:
    """Whether two outputs agree but for keys, times, sizes, versions and the width of columns."""
    for pattern, name in _VARIES:
        written, printed = pattern.sub(name, written), pattern.sub(name, printed)
    return written.strip() == printed.strip()


def run(text: str) -> tuple[str, list[Difference]]:
    """Run a document; return it with the real output in place, and where that differs from what was written."""
    found: list[Difference] = []
    pieces: list[str] = []
    at = 0
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = None  # by the python block before, while the next block may hold it
    with session() as folder:
        write_files(text, folder)
        for block in blocks(text):
            body = block.body
            if _FILE.match(body):
                continue
            if block.language == "console" and block.is_run:
                body = _run_console(block, folder, found)
            elif block.language == "text" and printed is not None and not text[at : block.start].count("\n\n") > 1:
                if not same(block.body, printed):
                    found.append(Difference(block.line, "the python block above", block.body.rstrip(), printed))
                body = printed + "\n"
            is_code = block.language == "python" and block.is_run
            printed = _run_python(block, namespace, folder, found) if is_code else None
            pieces += [text[at : block.start], body]
            at = block.end
    return "".join([*pieces, text[at:]]), found


@contextlib.contextmanager
def session() -> Iterator[Path]:
    """Stand in an empty folder, with `leap` on the path and none of the user's settings."""
    before, here = dict(os.environ), Path.cwd()
    with tempfile.TemporaryDirectory(prefix="leap-docs-") as name:
        folder = Path(name).resolve()
        (folder / "tour").mkdir()
        for variable in ("LEAP_STORE", "LEAP_DATA", "LEAP_DEBUG", "COLUMNS"):
            os.environ.pop(variable, None)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        os.chdir(folder / "tour")
        try:
            yield folder / "tour"
        finally:
            os.chdir(here)
            os.environ.clear()
            os.environ.update(before)


def _run_console(block: Block, folder: Path, found: list[Difference]) -> str:
    lines: list[str] = []
    for command, written in commands(block.body):
        done = subprocess.run(
            ["sh", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
        # A log has a line for every fold that ends, where a terminal has a bar that goes away.
        printed = _tidy(re.sub(r"^\[\d+/\d+\] .*\n", "", done.stdout, flags=re.M), folder)
        if not same(written, printed):
            found.append(Difference(block.line, command, written, printed))
        lines += [f"$ {command}", *([printed] if printed else [])]
    return "\n".join(lines) + "\n"


def commands(body: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output written below it."""
    result: list[tuple[str, str]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            result.append((line[2:], ""))
        else:
            command, written = result[-1]
            result[-1] = (command, f"{written}{line}\n")
    return [(command, written.rstrip()) for command, written in result]


def _run_python(block: Block, namespace: dict[str, Any], folder: Path, found: list[Difference]) -> str:
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown):
            exec(compile(block.body, f"the block of line {block.line}", "exec"), namespace)
    except Exception:
        found.append(Difference(block.line, "a python block", "no error", traceback.format_exc()))
    return _tidy(shown.getvalue(), folder)


def _tidy(output: str, folder: Path) -> str:
    lines = (line.rstrip() for line in output.replace(str(folder), HOME).splitlines())
    # Messages and paragraphs come in one piece where nobody looks; a terminal would break them.
    folded = (
        textwrap.fill(line, LONGEST_LINE, break_long_words=False, break_on_hyphens=False)
        if line.startswith(("Error:", "Warning:")) or len(line) > 2 * LONGEST_LINE
        else line
        for line in lines
    )
    return "\n".join(folded).strip("\n")


def main() -> int:
    """Check or rewrite all documents."""
    is_writing = "--write" in sys.argv[1:]
    differences = 0
    for path in DOCUMENTS:
        text = path.read_text()
        real, found = run(text)
        differences += len(found)
        for difference in found:
            print(f"{path.relative_to(ROOT)}, {difference}\n")
        if is_writing:
            path.write_text(real)
    return 0 if is_writing or not differences else 1


__all__ = ["DOCUMENTS", "Block", "Difference", "blocks", "commands", "run", "same", "session"]

if __name__ == "__main__":
    sys.exit(main())
