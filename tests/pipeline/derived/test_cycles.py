"""Cycles as an encoding: what `dim` means, and what is too much."""

import networkx as nx
import pytest

from leap.pipeline import Context, Workforce, encode
from leap.pipeline.datasets.networkx_graphs import from_networkx
from leap.pipeline.derived.cycles import CyclesRecipe
from leap.store import Store
from leap.store.errors import InvalidInputError


def test_a_dimension_above_six_is_six():
    assert CyclesRecipe(dim=10) == CyclesRecipe(dim=6) == CyclesRecipe()
    assert CyclesRecipe.of_options({"dim": 10}).columns == 6
    with pytest.raises(InvalidInputError, match="dim is 0"):
        CyclesRecipe.of_options({"dim": 0})


def test_too_many_cycles_are_refused_with_a_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr("leap.pipeline.derived.cycles.LARGEST_STEPS", 1e7)
    context = Context(Store.open(tmp_path / "store"), workforce=Workforce(0))
    source = from_networkx([nx.path_graph(5), nx.complete_graph(60)], "many")
    with pytest.raises(InvalidInputError, match=r"up to 8 nodes are too many in 'many'.*1e\+07 steps.*1 for triangles"):
        encode(source, "cycles", context=context)
    made = encode(source, "cycles", params={"dim": 1}, context=context)["cycles"]
    assert context.store.get(made.key).load("encoding")[:, 0].tolist() == [0] * 5 + [59 * 58 / 2] * 60
