"""When work is done again: another key for anything that matters, the same key and no work for anything else."""

from dataclasses import replace

import pytest

from leap.pipeline import IngestOptions, encode, extract, ingest
from leap.pipeline.datasets.source import Source
from leap.pipeline.derived import NeighborhoodsRecipe
from leap.pipeline.derived.recipe import Recipe
from leap.pipeline.stages.result import StageResult


def keys(result):
    return [report.key for report in result.artifacts]


@pytest.fixture
def no_work(monkeypatch):
    """Return a function after which reading a source or computing a partition fails the test."""

    def forbid():
        def refuse(*args, **kwargs):
            raise AssertionError("work was done")

        for base in (Source, Recipe):
            for cls in _descendants(base):
                monkeypatch.setattr(cls, "read" if base is Source else "compute", refuse)

    return forbid


def _descendants(cls):
    return {cls} | {found for child in cls.__subclasses__() for found in _descendants(child)}


def test_a_second_identical_request_does_no_work(varied, new_context, no_work, snapshot):
    context = new_context()
    requests = [
        lambda: ingest(varied, context=context),
        lambda: extract(varied, [1, 2], context=context),
        lambda: extract(varied, 2, cap=4, context=context),
        lambda: encode(varied, ["rwpe", "lape", "lect", "dect"], context=context),
    ]
    first = [request() for request in requests]
    assert not any(report.cached for result in first for report in result.artifacts if report.kind != "dataset")
    before = snapshot(context.store.url)
    no_work()
    again = [request() for request in requests]
    assert all(report.cached for result in again for report in result.artifacts)
    assert [keys(result) for result in again] == [keys(result) for result in first]
    assert snapshot(context.store.url) == before
    assert len(context.store.keys()) == 1 + 3 + 4


def test_uses_are_counted(varied, new_context):
    context = new_context()
    key = ingest(varied, context=context)["dataset"].key
    assert context.store.usage(key).uses == 0
    extract(varied, 1, context=context)
    extract(varied, 1, context=context)
    usage = context.store.usage(key)
    assert usage.uses == 2
    assert usage.last_used >= usage.created > 0


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("rwpe", {"dim": 12}),
        ("lape", {"dim": 12}),
        ("lape", {"drop": "one"}),
        ("lect", {"hops": 2}),
        ("lect", {"complex": "edges"}),
        ("hkdiag", {"first_time": 0.5}),
        ("ppr", {"first_alpha": 0.15}),
        ("lcp", {"curvature": "ollivier"}),
        ("dect", {"directions": 5}),
        ("dect", {"direction_seed": 1}),
        ("dect", {"direction_values": ((1.0, 0.0, 0.0),)}),
        ("dect", {"thresholds": 7}),
        ("dect", {"radius": 1.5}),
        ("dect", {"scale": 64.0}),
        ("dect", {"edge_weight": 2.0}),
        ("dect", {"cap": 4}),
    ],
)
def test_any_parameter_of_an_encoding_changes_its_key(varied, new_context, kind, changes):
    context = new_context()
    first = encode(varied, kind, context=context)[kind]
    second = encode(varied, kind, params=changes, context=context)[kind]
    assert second.key != first.key
    assert not second.cached


def test_hops_cap_and_its_seed_change_the_key(varied, new_context):
    context = new_context()
    asked = [
        extract(varied, hops, cap=cap, cap_seed=seed, context=context)["neighborhoods"]
        for hops, cap, seed in [(1, None, 0), (2, None, 0), (2, 4, 0), (2, 5, 0), (2, 4, 1)]
    ]
    assert len({report.key for report in asked}) == 5


def test_a_seed_without_a_cap_changes_nothing(varied, new_context):
    context = new_context()
    first = extract(varied, 1, context=context)["neighborhoods"]
    second = extract(varied, 1, cap_seed=7, context=context)["neighborhoods"]
    assert (second.key, second.cached) == (first.key, True)


def test_workers_and_budget_do_not_change_the_key(varied, new_context):
    first = extract(varied, 1, context=new_context("one", workers=0))
    second = extract(varied, 1, budget_gb=9.0, context=new_context("two", workers=None))
    assert keys(first) == keys(second)


@pytest.mark.parametrize(
    "changes", [{"features": "constant"}, {"drop_empty": True}, {"partition_mb": 4.0}], ids=lambda c: next(iter(c))
)
def test_ingest_options_change_every_key(tu_folder, new_context, changes):
    folder, context = str(tu_folder()), new_context()
    first = extract(folder, 1, context=context)
    second = extract(folder, 1, ingest_options=IngestOptions(**changes), context=context)
    assert first["dataset"].key != second["dataset"].key
    if changes != {"features": "constant"}:  # the data brings features, so the derived artifacts are the same
        assert first["neighborhoods"].key != second["neighborhoods"].key


@pytest.mark.parametrize("part", ["A", "graph_indicator", "graph_labels", "node_attributes"])
def test_one_byte_of_raw_input_changes_the_key(tu_folder, new_context, part):
    folder, context = tu_folder(), new_context()
    before = ingest(str(folder), context=context)["dataset"]
    assert ingest(str(folder), context=context)["dataset"].cached
    path = folder / f"toy_{part}.txt"
    text = path.read_text()
    changed = {"A": ("1, 2", "1, 3"), "graph_indicator": ("4\n", "4\n\n"), "graph_labels": ("-1", "-2")}
    path.write_text(text.replace(*changed.get(part, ("0.25", "0.35")), 1))
    assert path.read_text() != text
    after = ingest(str(folder), context=context)["dataset"]
    assert after.key != before.key
    assert not after.cached
    path.write_text(text)
    again = ingest(str(folder), context=context)["dataset"]
    assert (again.key, again.cached) == (before.key, True)


def test_equal_content_under_two_keys_shares_what_is_derived(tu_folder, new_context):
    folder, context = tu_folder(), new_context()
    first = extract(str(folder), 1, context=context)
    path = folder / "toy_A.txt"
    path.write_text(path.read_text().replace(", ", ","))
    second = extract(str(folder), 1, context=context)
    assert second["dataset"].key != first["dataset"].key
    assert (second["neighborhoods"].key, second["neighborhoods"].cached) == (first["neighborhoods"].key, True)


def test_a_stage_manifest_holds_keys_and_neither_timings_nor_hits(varied, new_context):
    context = new_context()
    made = extract(varied, [1, 2], context=context)
    cached = extract(varied, [1, 2], context=context)
    assert made.manifest() == cached.manifest()
    assert [entry["key"] for entry in made.manifest()["artifacts"]] == keys(made)
    assert not {"seconds", "cached", "resumed", "view"} & made.manifest()["artifacts"][1].keys()


@pytest.mark.parametrize("kind", ["lect", "dect"])
def test_a_new_algorithm_of_what_is_read_changes_the_key_of_what_is_made_from_it(
    varied, new_context, monkeypatch, kind
):
    context = new_context()
    before = encode(varied, kind, context=context)[kind]
    monkeypatch.setattr(NeighborhoodsRecipe, "algorithm", NeighborhoodsRecipe.algorithm + 1)
    after = encode(varied, kind, context=context)[kind]
    assert not after.cached
    assert after.key != before.key
    inputs = [context.store.get(report.key).manifest.inputs["neighborhoods"] for report in (before, after)]
    assert inputs[0] != inputs[1]
    assert encode(varied, kind, context=context)[kind].cached


def test_a_stage_manifest_holds_nothing_that_rounding_can_change(varied, new_context):
    made = extract(varied, [1, 2], context=new_context())
    blurred = [
        replace(
            report,
            bytes=report.bytes + 1,  # other floats are compressed to another size
            summary={
                name: 1.01 * value if isinstance(value, float) else value for name, value in report.summary.items()
            },
        )
        for report in made.artifacts
    ]
    assert any(report.summary != other.summary for report, other in zip(made.artifacts, blurred, strict=True))
    assert StageResult(made.stage, blurred).manifest() == made.manifest()
    assert made.manifest()["artifacts"][0]["counts"]["graphs"] == made["dataset"].summary["graphs"]


def test_a_result_prints_as_a_table(new_context):
    context = new_context()
    encode("letters-low", ["rwpe"], context=context)
    result = encode("letters-low", ["rwpe", "lape"], params={"dim": 4}, context=context)
    lines = str(result).splitlines()
    assert lines[0] == "letters-low: 2,250 graphs, 10,469 nodes, 6,998 edges, 2 features (coordinates), 15 classes"
    assert lines[1].split() == ["artifact", "parameters", "key", "partitions", "size", "time"]
    assert [line.split()[0] for line in lines[2:]] == ["dataset", "rwpe", "lape"]
    assert "cached (view)" in lines[3]
    assert " made " in lines[4]
    assert len({len(line) for line in lines[1:]}) == 1  # the last column is aligned to the right
    page = result._repr_html_()
    assert page.startswith("<p><b>letters-low</b>: 2,250 graphs, ")
    assert page.count("<tr>") == 4
    assert page.count("<td>cached (view)</td>") == 1
