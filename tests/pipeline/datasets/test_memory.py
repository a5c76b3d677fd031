"""Graphs in memory: their name, and that nothing but their content matters."""

import networkx as nx
import pytest

from leap.pipeline import Context, extract, from_networkx
from leap.store import Store
from leap.store.errors import InvalidInputError


def test_own_graphs_do_not_take_the_name_of_a_known_dataset():
    assert from_networkx([nx.path_graph(3)], "letters-high").name == "own-letters-high"
    assert from_networkx([nx.path_graph(3)], "mine").name == "mine"


def test_datasets_of_equal_content_share_what_is_derived_and_find_it_by_either_name(tmp_path):
    context = Context(store=Store.open(tmp_path / "store"))
    graphs = [nx.cycle_graph(5), nx.path_graph(4)]
    first = extract(from_networkx(graphs, "one"), context=context)
    second = extract(from_networkx(graphs, "two"), context=context)
    assert second["neighborhoods"].cached
    assert first["neighborhoods"].key == second["neighborhoods"].key
    assert context.store.find("neighborhoods", "two", hops=1).key == first["neighborhoods"].key
    assert [artifact.kind for artifact in context.store.list(dataset="two")] == ["neighborhoods", "dataset"]


def test_graphs_that_are_no_source_are_refused_with_the_way_to_make_one(tmp_path):
    with pytest.raises(InvalidInputError, match="from_networkx"):
        extract([nx.path_graph(3)], context=Context(store=Store.open(tmp_path)))
