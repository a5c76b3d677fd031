"""The whole report for what every preset leaves behind: complete, self-contained, honest about stand-ins."""

import re
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from leap.models.network_config import NetworkConfig
from leap.pipeline import report
from leap.pipeline.events import Note, Reporter, TaskProgress
from leap.pipeline.reports import ReportResult
from leap.pipeline.training.options import TrainOptions
from leap.store.errors import InvalidInputError
from tests.pipeline.reports.conftest import write_run
from tests.processes import PATIENCE_SECONDS

VOID = {"meta", "link"}
TABLES = {
    "main",
    "main-by-validation",
    "ranks",
    "published",
    "published-distance",
    "comparisons",
    "best",
    "projections",
    "hops",
    "dimension",
    "ect",
    "dect",
    "synthetic",
    "molecules",
    "cost",
    "time",
}


class Reader(HTMLParser):
    """Collects what the page consists of; fails on tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.cells: list[str] = []
        self.sections: list[str] = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids.update([values["id"]] if "id" in values else [])
        self.links += [values[name] for name in ("href", "src") if values.get(name)]
        self.sections += [values["id"]] if tag == "section" else []
        if tag in ("td", "th"):
            self.cells.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        values = dict(attrs)
        self.ids.update([values["id"]] if "id" in values else [])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open or "th" in self.open:
            self.cells[-1] += data


@pytest.fixture(scope="module")
def written(every_preset: Path) -> ReportResult:
    return report(every_preset, every_preset.parent / "report")


@pytest.fixture(scope="module")
def page(written: ReportResult) -> Reader:
    reader = Reader()
    reader.feed(written.index.read_text())
    reader.close()
    assert reader.open == []
    return reader


def test_every_table_is_there_in_three_formats(written):
    assert set(written.tables) == TABLES
    for paths in written.tables.values():
        assert [path.suffix for path in paths] == [".csv", ".md", ".tex"]
        assert all(path.stat().st_size > 100 for path in paths)


def test_every_figure_is_there_as_svg_and_png(written):
    kinds = Counter(name.split("-")[0] for name in written.figures)
    assert set(kinds) == {"boxes", "dimension", "ect", "curves", "cost", "tradeoff", "differences", "critical"}
    assert kinds["curves"] == 12
    assert {"boxes-COX2", "boxes-letters-high", "boxes-alchemy_full", "boxes-hiv"} <= set(written.figures)
    assert {"dimension-Letter-high-nomp", "ect-Letter-high-nomp-leap-f-conv1d"} <= set(written.figures)
    for svg, png in written.figures.values():
        assert ET.parse(svg).getroot().tag.endswith("svg")
        assert png.read_bytes().startswith(b"\x89PNG")


def test_every_section_is_there_and_only_the_picture_of_a_graph_is_missing(page, written):
    assert page.sections == [
        "summary",
        "answers",
        "main",
        "published",
        "comparisons",
        "boxes",
        "best",
        "projections",
        "hops",
        "dimension",
        "ect",
        "dect",
        "synthetic",
        "molecules",
        "curves",
        "cost",
        "missing",
    ]
    assert len(written.notes) == 1
    assert "no store" in written.notes[0]


def test_the_page_needs_nothing_from_outside(page, written):
    text = written.index.read_text()
    assert not re.search(r"https?:|//[a-z]|@import|<script|url\((?!#)", text)
    for link in page.links:
        if link.startswith("#"):
            assert page.ids[link[1:]] == 1
        elif not link.startswith("data:"):
            assert (written.index.parent / link).is_file()
    assert all(count == 1 for count in page.ids.values())
    used = set(re.findall(r"url\(#([^)]+)\)", text))
    assert used
    assert used <= set(page.ids)


def test_colours_of_figures_follow_the_page(written):
    text = written.index.read_text()
    assert "prefers-color-scheme: dark" in text
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL))
    assert "var(--ink)" in drawn
    for color in ("#1b2430", "#fefefe", "#0072b2"):
        assert color not in drawn
    assert "#0072b2" in written.figures["boxes-COX2"][0].read_text()


def test_a_stand_in_is_always_called_one(page, written):
    text = re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", written.index.read_text(), flags=re.DOTALL))
    text = re.sub(r"\s+", " ", text)
    for name, real in (("letters-high", "Letter-high"), ("romanesque", "roman-empire")):
        places = [match.end() for match in re.finditer(re.escape(name), text)]
        assert len(places) > 5
        named = re.compile(rf"\W*(stand-in for {real}|\): )")  # the note on settings lists names, followed by "): "
        assert [text[place - 40 : place + 40] for place in places if not named.match(text, place)] == []
    for name in TABLES:
        for path in written.tables[name]:
            for match in re.finditer(r"letters-high|romanesque", path.read_text()):
                rest = path.read_text()[match.end() : match.end() + 24]
                assert rest.startswith((" (stand-in for", "): ")), (path, rest)


def test_published_values_stand_beside_real_datasets_only(written):
    header, *rows = written.tables["main"][0].read_text().splitlines()
    names = header.split(",")
    assert "Letter-high published" in names
    assert not any("stand-in" in name and "published" in name for name in names)
    assert "hiv (AUROC)" in names
    assert len(rows) == 22  # four backbones with five encodings, and two with LaPE + LEAP-L


def test_both_choices_of_the_projection_are_shown(written):
    assert "validation" in written.tables["main-by-validation"][1].read_text()
    assert "best on the test part" in written.tables["main"][1].read_text()


def test_the_summary_answers_in_numbers(written):
    text = " ".join(written.summary)
    assert re.search(r"alone or shared, in \d+ of 16 combinations", text)
    assert "corrected for the 108 comparisons of this report" in written.summary[1]
    assert "has 140 cells, of which 40 were run" in text
    assert written.numbers["published"]["cells"] == 40
    assert min(written.numbers["average_ranks"], key=written.numbers["average_ranks"].get) == "leap-l"
    assert written.numbers["epoch_ratios"]["leap-l"] == pytest.approx(1.7, abs=0.1)


def test_the_same_runs_give_the_same_bytes(made, tmp_path):
    network = {"backbone": "gcn", "projection": "linear"}
    made(("COX2", network | {"encoding": "leap-l"}, [0.8, 0.7]), ("COX2", network | {"encoding": "none"}, [0.7, 0.7]))
    for out in ("one", "two"):
        report(tmp_path / "runs", tmp_path / out)
    files = [path.relative_to(tmp_path / "one") for path in sorted((tmp_path / "one").rglob("*")) if path.is_file()]
    assert len(files) > 10
    for path in files:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes(), path


def test_of_two_reports_at_once_one_is_written_after_the_other(tmp_path):
    options = TrainOptions(network=NetworkConfig(encoding="leap-l"), folds=2)
    for name in ("apples", "pears"):
        write_run(tmp_path / name, name, options, [0.8, 0.7])
    has_met = threading.Event()  # the second waits for the first, or has passed it

    def second():
        report(tmp_path / "pears", tmp_path / "out", reporter=Reporter(lambda e: isinstance(e, Note) and has_met.set()))
        has_met.set()

    other = threading.Thread(target=second)

    def hold_back(event):
        if isinstance(event, TaskProgress) and not other.ident:
            other.start()
            assert has_met.wait(PATIENCE_SECONDS)
            assert "apples" in (tmp_path / "out" / "tables" / "main.md").read_text(), "the second has written nothing"

    report(tmp_path / "apples", tmp_path / "out", reporter=Reporter(hold_back))
    other.join()
    alone = report(tmp_path / "pears", tmp_path / "alone")
    for path in [alone.index, *alone.tables["main"]]:
        found = tmp_path / "out" / path.relative_to(tmp_path / "alone")
        assert found.read_bytes() == path.read_bytes(), path.name


def test_a_report_without_a_picture_of_a_graph_needs_no_torch(made, tmp_path):
    made(("COX2", {"encoding": "leap-l"}, [0.8, 0.7]))
    script = (
        "import sys\nfrom leap.pipeline import report\n"
        f"report({str(tmp_path / 'runs')!r}, {str(tmp_path / 'out')!r})\n"
        "assert not {'torch', 'torch_geometric', 'numba', 'dask'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_without_runs_there_is_a_way_out(tmp_path):
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(InvalidInputError, match="leap sweep quick"):
            report(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_named(made, tmp_path):
    made(("COX2", {"encoding": "none"}, [0.8, 0.7]))
    (tmp_path / "taken").write_text("")
    with pytest.raises(InvalidInputError, match="taken"):
        report(tmp_path / "runs", tmp_path / "taken")


def test_the_papers_curves_come_first(written):
    assert {"curves-Letter-high-gcn", "curves-triads-gcn"} <= set(written.figures)


def test_one_run_alone_makes_a_report_whatever_its_dataset_is_called(made, tmp_path):
    name = "my $graphs_{1} & <b>more</b>".replace("/", "")
    made((name, {"encoding": "rwpe"}, [0.8, 0.7]))
    written = report(tmp_path / "runs", tmp_path / "out")
    text = written.index.read_text()
    assert "<b>" not in text
    assert "my $graphs_{1} &amp; &lt;b&gt;more&lt;b&gt;" in text
    assert r"my \$graphs\_\{1\} \& $<$b$>$more" in written.tables["main"][2].read_text()
    assert all(path.is_file() for paths in written.figures.values() for path in paths)
    assert "no network has a score both with LEAP and without an encoding" in written.summary[0]
    assert {"main", "cost"} <= set(written.tables)
    assert any("leap sweep paper-hops" in note for note in written.notes)
