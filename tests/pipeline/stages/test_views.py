"""A smaller dimension is answered by what is stored, and equals what it alone would compute."""

from pathlib import Path

import networkx as nx
import pytest

from leap.pipeline import encode
from leap.pipeline.derived import RECIPES, RwpeRecipe
from leap.pipeline.derived.recipe import Recipe

REPEATED = {
    "cycle": nx.cycle_graph(12),
    "even cycle": nx.cycle_graph(8),
    "complete": nx.complete_graph(9),
    "star": nx.star_graph(10),
    "bipartite": nx.complete_bipartite_graph(4, 5),
    "cube": nx.hypercube_graph(4),
    "petersen": nx.petersen_graph(),
    "copies": nx.disjoint_union_all([nx.cycle_graph(5)] * 3),
    "few nodes": nx.path_graph(4),
    "one node": nx.empty_graph(1),
    "edgeless": nx.empty_graph(7),
    "with isolated nodes": nx.disjoint_union(nx.cycle_graph(6), nx.empty_graph(3)),
    "sparse solver": nx.convert_node_labels_to_integers(nx.grid_2d_graph(24, 24)),
}


@pytest.fixture
def repeated(source_of):
    """Graphs with many equal eigenvalues, among them one that the sparse solver gets."""
    return source_of(list(REPEATED.values()), "repeated")


@pytest.mark.parametrize(
    ("kind", "rest"),
    [("rwpe", {}), ("lape", {}), ("lape", {"drop": "one"}), ("hkdiag", {}), ("ppr", {}), ("cycles", {})],
)
def test_a_view_equals_what_the_smaller_request_alone_computes(repeated, new_context, kind, rest):
    shared = new_context("shared")
    large = encode(repeated, kind, params={"dim": 10, **rest}, context=shared)[kind]
    for dim in (5, 3, 1):
        view = encode(repeated, kind, params={"dim": dim, **rest}, context=shared)[kind]
        assert (view.cached, view.view, view.key) == (True, True, large.key)
        assert view.params["dim"] == dim
        fresh = new_context(f"fresh-{dim}")
        alone = encode(repeated, kind, params={"dim": dim, **rest}, context=fresh)[kind]
        assert not alone.cached
        stored = fresh.store.get(alone.key)
        shown = shared.store.find(kind, "repeated", dim=dim)
        assert shown.array_names() == stored.array_names()
        for name in shown.array_names():
            assert shown.load(name).shape[1] == dim
            assert shown.load(name).tobytes() == stored.load(name).tobytes(), f"{name} of dimension {dim}"


def test_the_smallest_artifact_that_suffices_answers(varied, new_context):
    context = new_context()
    made = {dim: encode(varied, "rwpe", params={"dim": dim}, context=context)["rwpe"].key for dim in (4, 8, 16)}
    assert encode(varied, "rwpe", params={"dim": 6}, context=context)["rwpe"].key == made[8]
    assert encode(varied, "rwpe", params={"dim": 16}, context=context)["rwpe"].key == made[16]


def test_a_view_never_crosses_other_parameters_or_datasets(varied, repeated, new_context):
    context = new_context()
    encode(varied, "lape", params={"dim": 10, "drop": "components"}, context=context)
    assert not encode(varied, "lape", params={"dim": 5, "drop": "one"}, context=context)["lape"].cached
    assert not encode(repeated, "lape", params={"dim": 5}, context=context)["lape"].cached


@pytest.mark.parametrize("kind", ["rwpe", "lape", "hkdiag", "ppr", "cycles"])
def test_a_view_never_crosses_algorithms(varied, new_context, monkeypatch, kind):
    context = new_context()
    old = encode(varied, kind, params={"dim": 10}, context=context)[kind]
    monkeypatch.setattr(RECIPES[kind], "algorithm", RECIPES[kind].algorithm + 1)
    report = encode(varied, kind, params={"dim": 5}, context=context)[kind]
    assert (report.cached, report.view) == (False, False)
    assert report.key != old.key
    assert encode(varied, kind, params={"dim": 4}, context=context)[kind].key == report.key
    assert context.store.find(kind, "varied", dim=5).key == report.key


def test_a_recipe_cannot_count_columns_without_promising_views():
    with pytest.raises(TypeError, match="viewable = False and the fields dim"):

        class Unpromised(Recipe):
            kind = "unpromised"
            algorithm = 1
            dim: int = 3


def test_a_recipe_covers_smaller_ones_of_the_same_parameters():
    large, small = RECIPES["lape"](dim=10), RECIPES["lape"](dim=4)
    assert large.covers(small)
    assert large.covers(large)
    assert not small.covers(large)
    assert not large.covers(RECIPES["lape"](dim=4, drop="one"))
    assert not large.covers(RwpeRecipe(dim=4))
    assert not RECIPES["dect"](hops=2).covers(RECIPES["dect"](hops=1))


def test_a_damaged_parent_answers_nothing(varied, new_context):
    context = new_context()
    key = encode(varied, "rwpe", params={"dim": 10}, context=context)["rwpe"].key
    artifact = context.store.get(key)
    next(Path(artifact.path).rglob("c/0/0")).unlink()
    with pytest.warns(UserWarning, match="will be rebuilt"):
        report = encode(varied, "rwpe", params={"dim": 5}, context=context)["rwpe"]
    assert (report.cached, report.params["dim"]) == (False, 5)
    assert context.store.verify() == []
