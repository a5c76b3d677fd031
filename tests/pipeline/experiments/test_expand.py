"""Sweep files and presets: every grid gives the runs of the paper's table, each once, and mistakes are named."""

import itertools
import re

import pytest

from leap.pipeline.datasets import catalog
from leap.pipeline.experiments.expand import SweepSelection, expand
from leap.pipeline.experiments.sweep_file import load, parse, presets
from leap.pipeline.published import find
from leap.store.errors import InvalidInputError

TU = ("COX2", "BZR", "DHFR", "Letter-high", "Letter-med", "Letter-low", "Fingerprint")
LETTERS = ("Letter-high", "Letter-med", "Letter-low")
COUNTS = {
    "paper-synthetic": 10,
    "paper-main": 7 * 4 * 5,
    "paper-projections": 7 * 4 * (2 * 5 + 3),
    "paper-hops": 3 * 2 * 3,
    "paper-dimension": 3 * 4 * 4,
    "paper-ect": 3 * 2 * 5 * 7,
    "paper-dect": 6 * (2 + 3),
    "paper-curves": 2 * 5 + 2 * 3,
    "paper-alchemy": 2 * 5,
    "paper-hiv": 2 * 6,
    "paper-time": 3 * 5,
    "compare": 2 * 5 * 3,
    "compare-nodes": 2 * 5,
    "quick": 10 + 10 + 2 + 1 + 1 + 3 + 4 + 2,
}


def grid(**values):
    return parse({"name": "test", "grids": [{"datasets": "letters-low", **values}]}, "test.yaml")


def test_there_is_a_preset_for_every_table_and_figure():
    assert set(presets()) == set(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_presets_expand_into_different_runs_of_the_published_protocol(name):
    file = load(name)
    assert file.name == name
    assert file.description
    runs = expand(file)
    assert len(runs) == len(set(runs)) == COUNTS[name]
    if not name.startswith("paper-"):
        return
    for run in runs if name.startswith("paper-") else ():
        options, network = run.options, run.options.network
        assert (options.seed, options.split_seed, options.folds, options.epochs) == (42, 42, 5, 100)
        assert options.class_weight == ("none" if run.dataset == "alchemy_full" else "frequency")
        assert options.lape_drop == ("one" if "lape" in network.parts else "components")
        counts_edges = network.leap is not None or network.backbone.startswith("dect")
        assert network.edge_weight == (2.0 if counts_edges else 1.0)


def seeds_of(file, **instead):
    return [run.options.seed for run in expand(file, SweepSelection(instead=instead))]


@pytest.mark.parametrize(
    ("values", "expected"),
    [({"seeds": 3}, [42, 43, 44]), ({"seeds": [5, 9]}, [5, 9]), ({"seed": 3}, [3]), ({"seeds": "1,0"}, [1, 0])],
)
def test_seeds_are_a_number_of_them_or_a_list(values, expected):
    assert seeds_of(grid(encoding="none", **values)) == expected


def test_seeds_are_counted_from_the_files_first():
    file = parse({"common": {"seed": 7}, "grids": [{"dataset": "triads", "encoding": "none", "seeds": 2}]}, "x")
    assert seeds_of(file) == [7, 8]
    for_all = parse({"common": {"seeds": 2}, "grids": [{"dataset": "triads", "encoding": "none"}]}, "x")
    assert seeds_of(for_all) == [42, 43]
    listed = grid(encoding="none", seeds=[9, 5])
    assert seeds_of(listed, seeds="3") == [9, 10, 11]
    assert seeds_of(listed, seeds="42,43,7") == [42, 43, 7]
    assert seeds_of(listed, seed=[1]) == [1]


def test_compare_has_three_seeds_and_the_paper_one_unless_told():
    assert set(seeds_of(load("compare"))) == {42, 43, 44}
    assert set(seeds_of(load("paper-main"))) == {42}
    assert len(seeds_of(load("paper-main"), seeds=3)) == 3 * 140


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seeds": 0}, "seeds in grid 1 of test.yaml is 0. Give how many, from 1 to 100"),
        ({"seeds": 101}, "is 101. Give how many"),
        ({"seeds": True}, "is True. Give how many"),
        ({"seeds": "three"}, "is 'three'. Give how many"),
        ({"seeds": "42,,43"}, "are '42,,43': '' is no seed"),
        ({"seeds": [42, 42]}, "42 occurs twice"),
        ({"seeds": []}, "empty list"),
        ({"seed": 1, "seeds": 3}, "gives 'seed' twice"),
    ],
)
def test_wrong_seeds_are_named(values, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        grid(**values)


def test_the_quick_preset_needs_nothing_from_outside():
    file = load("quick")
    assert file.description
    runs = expand(file)
    assert {run.dataset for run in runs} <= {info.name for info in catalog() if info.presence == "embedded"}
    assert {"none", "rwpe", "lape", "leap-f", "leap-l"} <= {run.options.network.encoding for run in runs}


def test_the_main_preset_has_the_published_cell_for_each_run():
    runs = {(r.dataset, r.options.network.backbone, r.options.network.encoding): r for r in expand(load("paper-main"))}
    assert len(runs) == 140
    assert sum(run.options.folds for run in runs.values()) == 700
    for cell in find("main"):
        network = runs[cell.dataset, cell.backbone, cell.encoding].options.network
        assert (network.projection if network.leap else None) == cell.projection
        assert network.dim == 10


@pytest.mark.parametrize(("preset", "table"), [("paper-hops", "hops"), ("paper-dimension", "dimension")])
def test_ablations_have_a_run_for_each_published_number(preset, table):
    runs = set()
    for run in expand(load(preset)):
        network = run.options.network
        is_leap = network.leap is not None
        hops = ",".join(map(str, network.hops)) if is_leap else None
        projection = network.projection if is_leap else None
        runs.add((run.dataset, network.backbone, network.encoding, projection, hops, network.dim))
    printed = {(c.dataset, c.backbone, c.encoding, c.projection, c.hops, c.dim) for c in find(table)}
    assert runs == printed


def test_the_transform_is_varied_over_the_whole_square():
    runs = expand(load("paper-ect"))
    assert {run.options.network.projection for run in runs} == {"conv1d"}
    assert {(r.options.network.directions, r.options.network.scale) for r in runs} == set(
        itertools.product((2, 4, 8, 16, 32), (2, 4, 8, 16, 32, 64, 128))
    )


def test_projections_hold_all_of_main():
    assert set(expand(load("paper-main"))) <= set(expand(load("paper-projections")))


def test_axes_that_do_not_apply_collapse():
    runs = expand(
        grid(
            backbones=["gcn", "nomp", "dect-4k"],
            encodings=["none", "rwpe", "leap-l"],
            projections=["linear", "conv1d"],
            hops=[1, "1+2"],
            dim=[2, 4],
            layers=3,
            lape_drop="one",
        )
    )
    by_kind = {kind: 0 for kind in ("none", "rwpe", "leap-l")}
    for run in runs:
        by_kind[run.options.network.encoding] += 1
    assert by_kind == {"none": 2 + 1, "rwpe": 2 * 2, "leap-l": 2 * 2 * 2 * 2}
    assert {run.options.network.layers for run in runs if run.options.network.backbone == "nomp"} == {None}
    assert {run.options.lape_drop for run in runs} == {"components"}


def test_a_run_is_the_same_whatever_does_not_matter_to_it():
    plain = grid(backbones="gcn", encodings="rwpe")
    busy = grid(backbones="gcn", encodings="rwpe", edge_weight=2.0, scale=8, projection="published-best", cap_seed=3)
    assert expand(plain) == expand(busy)


def test_only_and_exclude_cut_parts_out():
    values = {"backbones": ["gcn", "gat"], "encodings": ["none", "rwpe", "lape"]}
    cut = grid(**values, exclude=[{"backbone": "gat", "encodings": ["rwpe", "lape"]}])
    assert [(r.options.network.backbone, r.options.network.encoding) for r in expand(cut)] == [
        ("gcn", "none"),
        ("gcn", "rwpe"),
        ("gcn", "lape"),
        ("gat", "none"),
    ]
    kept = grid(**values, only=[{"backbone": "gat"}, {"encoding": "lape"}])
    assert len(expand(kept)) == 4


def test_a_part_of_a_preset_can_be_chosen_and_changed():
    chosen = SweepSelection(
        only={"dataset": ["Letter-high", "DHFR"], "encoding": "rwpe"}, instead={"seed": [1, 2], "epochs": 3, "folds": 2}
    )
    runs = expand(load("paper-main"), chosen)
    assert len(runs) == 2 * 4 * 2
    assert {(r.options.seed, r.options.epochs, r.options.folds) for r in runs} == {(1, 3, 2), (2, 3, 2)}
    moved = expand(load("compare"), SweepSelection(instead={"dataset": "./mine.json"}))
    assert {run.dataset for run in moved} == {"./mine.json"}
    assert len(moved) == 30


def test_another_projection_leaves_comparisons_of_projections_alone():
    file = parse(
        {
            "name": "test",
            "grids": [
                {"datasets": "letters-low", "encoding": "leap-l", "projection": "conv1d"},
                {"datasets": "letters-low", "encoding": "leap-l"},
                {"datasets": "letters-low", "encoding": "leap-f", "projections": ["linear", "attention"]},
            ],
        },
        "test.yaml",
    )
    runs = expand(file, SweepSelection(instead={"projection": "deepsets"}))
    assert [run.options.network.projection for run in runs] == ["deepsets", "linear", "attention"]


def test_a_stand_in_takes_the_projection_of_what_it_stands_in_for():
    chosen = SweepSelection(only={"backbone": "nomp", "encoding": "leap-l"}, instead={"dataset": "letters-high"})
    runs = expand(load("paper-main"), chosen)
    assert [run.options.network.projection for run in runs] == ["conv1d"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"grids": [{"datasets": "a", "backbne": "gcn"}]}, "no field 'backbne'. Did you mean 'backbone'?"),
        ({"grid": []}, "no field 'grid'. Did you mean 'grids'?"),
        ({"grids": []}, "has no grids"),
        ({"grids": [{"backbone": "gcn"}]}, "names no datasets"),
        ({"grids": [{"datasets": "a", "backbones": "nompp"}]}, "no backbone 'nompp'. Did you mean 'nomp'?"),
        ({"grids": [{"datasets": "a", "encodings": ["rwpe+lap"]}]}, "no encoding 'lap'. Did you mean 'lape'?"),
        ({"grids": [{"datasets": "a", "projection": "published"}]}, "Did you mean 'published-best'?"),
        ({"grids": [{"datasets": "a", "projection": "published-best"}]}, "no cell for 'a'"),
        ({"grids": [{"datasets": "a", "hops": "two"}]}, "hops in grid 1 of test.yaml is 'two'"),
        ({"grids": [{"datasets": "a", "seed": []}]}, "empty list"),
        ({"grids": [{"datasets": "a", "seed": 1, "seeds": 2}]}, "twice"),
        ({"grids": [{"datasets": "a", "epochs": 0}]}, "epochs is 0"),
        ({"grids": [{"datasets": "a", "exclude": {"seed": 1}}]}, "Give a list of mappings"),
        ({"grids": ["gcn"]}, "not a mapping"),
        ([], "not a mapping"),
        ({"grids": [{"datasets": "a"}], "reading": {"graph_labl": "y"}}, "Did you mean 'graph_label'?"),
    ],
)
def test_mistakes_in_a_file_are_named(content, message):
    with pytest.raises(InvalidInputError) as raised:
        expand(parse(content, "test.yaml"))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\ngrids: [{dataset: triads}]\nname: b\n", "gives 'name' twice, again in line 3"),
        ("grids:\n- dataset: triads\n  epochs: 1\n  'epochs': 2\n", "gives 'epochs' twice, again in line 4"),
        ("grids:\n- dataset: triads\n  only: [{seed: 1, seed: 2}]\n", "gives 'seed' twice, again in line 3"),
        ("grids: &a [*a]\n", "not a mapping"),
        ("? [1]\n: 2\n? [1]\n: 3\n", "is not YAML"),
    ],
)
def test_a_key_that_is_given_twice_is_refused(text, message, tmp_path):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        load(tmp_path / "mine.yaml")


def test_grids_may_share_what_an_anchor_names(tmp_path):
    (tmp_path / "mine.yaml").write_text("grids:\n- &first {dataset: triads}\n- {<<: *first, epochs: 2}\n- *first\n")
    assert [grid.axes["dataset"] for grid in load(tmp_path / "mine.yaml").grids] == [("triads",)] * 3


def test_names_that_are_not_there_are_named(tmp_path):
    with pytest.raises(InvalidInputError, match="Did you mean 'paper-main'"):
        load("paper-mian")
    with pytest.raises(InvalidInputError, match="No such file"):
        load(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("grids: [")
    with pytest.raises(InvalidInputError, match="is not YAML"):
        load(tmp_path / "bad.yaml")
    with pytest.raises(InvalidInputError, match=r"no dataset 'Leter-high'. Did you mean 'Letter-high'\?"):
        expand(load("paper-main"), SweepSelection(only={"dataset": "Leter-high"}))
    with pytest.raises(InvalidInputError, match="no run of the sweep fits"):
        expand(load("paper-dect"), SweepSelection(only={"backbone": "gcn", "encoding": "none"}))


def test_a_file_of_ones_own_is_read(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("grids:\n  - datasets: [./a.json, b]\n    hops: [1, 2, 1+2]\n    lr: 1e-2\n")
    file = load(path)
    assert file.name == "mine"
    runs = expand(file)
    assert [run.options.network.hops for run in runs[:3]] == [(1,), (2,), (1, 2)]
    assert runs[0].options.flat()["lr"] == 0.01


@pytest.mark.parametrize("written", ["mine.json", "./mine.json"])
@pytest.mark.parametrize("asked", ["mine.json", "./mine.json", "sub/../mine.json"])
def test_a_path_may_be_spelled_otherwise_than_in_the_file(tmp_path, monkeypatch, written, asked):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "mine.json").touch()
    (tmp_path / "file.yaml").write_text(f"grids: [{{datasets: [{written}, letters-low]}}]")
    selection = SweepSelection(only={"dataset": asked})
    assert {run.dataset for run in expand(load("file.yaml"), selection)} == {written}


def test_paths_are_relative_to_the_file(tmp_path, monkeypatch):
    folder = tmp_path / "sweeps"
    folder.mkdir()
    (folder / "beside.json").touch()
    (folder / "triads").mkdir()  # a name that is known counts as such
    (folder / "mine.yaml").write_text(
        "grids:\n  - datasets: [./a.json, ../data/b, beside.json, triads, letters-low, /abs/c, ~/d.json]\n"
        "    exclude: [{dataset: ./a.json, seed: 1}]\n    seeds: [1, 2]\n    encoding: none\n"
    )
    monkeypatch.chdir(tmp_path)
    runs = expand(load("sweeps/mine.yaml"))
    assert list(dict.fromkeys(run.dataset for run in runs)) == [
        *("sweeps/a.json", "sweeps/../data/b", "sweeps/beside.json", "triads", "letters-low", "/abs/c", "~/d.json")
    ]
    assert [run.options.seed for run in runs if run.dataset == "sweeps/a.json"] == [2]
    monkeypatch.chdir(folder)
    assert [run.dataset for run in expand(load("mine.yaml"))][:2] == ["./a.json", "../data/b"]


def test_names_are_understood_in_any_case():
    file = grid(backbones=["GCN", "NoMP"], encodings="LaPE+LEAP-L", only=[{"backbone": "nomp"}, {"backbone": "Gcn"}])
    chosen = SweepSelection(only={"backbone": "NOMP"}, instead={"pooling": "Mean", "projection": "Linear"})
    (run,) = expand(file, chosen)
    network = run.options.network
    assert (network.backbone, network.encoding) == ("nomp", "lape+leap-l")
    assert (network.pooling, network.projection) == ("mean", "linear")


def test_any_option_can_be_given_instead_of_the_files():
    file = grid(encodings="leap-l", dim=[2, 4], hops=1, lr=0.5)
    runs = expand(file, SweepSelection(instead={"lr": [0.1, 0.2], "hops": "1+2", "dim": 8, "cap": 3}))
    assert {(run.options.lr, run.options.network.hops, run.options.cap) for run in runs} == {
        (0.1, (1, 2), 3),
        (0.2, (1, 2), 3),
    }
    assert {run.options.network.dim for run in runs} == {2, 4}, "a comparison stays"
    with pytest.raises(InvalidInputError, match=r"no field 'poling'. Did you mean 'pooling'\?"):
        expand(file, SweepSelection(instead={"poling": "mean"}))
