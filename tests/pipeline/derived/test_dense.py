"""Encodings from dense matrices of components refuse large ones before any work."""

import networkx as nx
import pytest

from leap.pipeline import Context, Workforce, encode
from leap.pipeline.datasets.networkx_graphs import from_networkx
from leap.store import Store
from leap.store.errors import InvalidInputError


@pytest.mark.parametrize("kind", ["hkdiag", "ppr", "elstatic"])
def test_a_large_component_is_refused_and_many_small_ones_are_not(tmp_path, kind):
    context = Context(Store.open(tmp_path / "store"), workforce=Workforce(0))
    small = nx.disjoint_union_all([nx.path_graph(4)] * 600)
    assert encode(from_networkx([small], "small"), kind, context=context)[kind].kind == kind
    large = [nx.path_graph(5), nx.path_graph(2100)]
    with pytest.raises(InvalidInputError, match=r"graph 1 of 'large' has a component of 2,100 nodes.*limit is 2,048"):
        encode(from_networkx(large, "large"), kind, context=context)
    assert context.store.list(kind, "large") == []
