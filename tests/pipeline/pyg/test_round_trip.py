"""From PyG into the store and back: nothing that graphs carry is lost, moved to another edge or given another shape."""

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, InMemoryDataset

from leap.pipeline import Context, IngestOptions, Workforce, from_pyg, ingest, to_pyg
from leap.pipeline.canonical import canonicalize
from leap.pipeline.datasets import resolve
from leap.store import Store
from leap.store.errors import InvalidInputError
from tests.strategies import edge_lists

SMALL = IngestOptions(partition_mb=0.002)


@pytest.fixture
def there_and_back(tmp_path):
    """Return a function that ingests graphs, or what a path names, and exports them again."""
    context = Context(Store.open(tmp_path / "store"), workforce=Workforce(0))

    def go(graphs, options=None):
        source = graphs if isinstance(graphs, str) else from_pyg(graphs, "mine")
        return to_pyg(context.store.get(ingest(source, options=options, context=context)["dataset"].key))

    return go


def molecule(seed, nodes=9, **fields):
    """A random graph whose two directions of an edge have different attributes, listed in a random order."""
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(nodes, 0.4, seed=seed).to_directed()
    pairs = rng.permutation(np.array(graph.edges, dtype=np.int64).reshape(-1, 2))
    given = {
        "x": torch.from_numpy(rng.normal(size=(nodes, 2)).astype(np.float32)),
        "edge_index": torch.from_numpy(pairs.T.copy()),
        "edge_attr": torch.from_numpy(rng.integers(0, 99, (len(pairs), 3))),
        "pos": torch.from_numpy(rng.normal(size=(nodes, 3))),
        "y": torch.tensor([seed % 2]),
    } | fields
    return Data(**{name: value for name, value in given.items() if value is not None})


def attributes(data):
    """Attribute of each directed edge, the oracle's form."""
    pairs = map(tuple, data.edge_index.T.tolist())
    return dict(zip(pairs, data.edge_attr.tolist(), strict=True))


@pytest.mark.parametrize("options", [None, SMALL], ids=["one partition", "cut graphs"])
def test_edge_attributes_follow_their_edges_and_positions_their_nodes(there_and_back, options):
    given_ = [molecule(seed, nodes) for seed, nodes in enumerate((9, 4, 40, 2, 12))]
    back = there_and_back(given_, options)
    for before, after in zip(given_, back, strict=True):
        assert attributes(after) == attributes(before)
        assert after.edge_attr.dtype == torch.int64
        assert torch.equal(after.pos, before.pos)
        assert torch.equal(after.x, before.x)


@pytest.mark.parametrize("shape", [(), (1,), (2, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.uint8, torch.bool])
def test_edge_attributes_keep_shape_and_type(there_and_back, shape, dtype):
    attr = torch.arange(4 * int(np.prod(shape))).reshape(4, *shape).to(dtype)
    one = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), edge_attr=attr)
    (back,) = there_and_back([one])
    assert back.edge_attr.dtype == dtype
    assert torch.equal(back.edge_attr, attr)  # the entries were listed as they are stored


@settings(max_examples=60, deadline=None)
@given(edge_lists(), st.integers(0, 2**16))
def test_an_entry_has_the_attribute_of_the_first_pair_listed(listed, seed):
    edges, nodes = listed
    attr = np.random.default_rng(seed).integers(0, 3, edges.shape[1])
    graph = Data(x=torch.ones(nodes + 1, 1), edge_index=torch.from_numpy(edges), edge_attr=torch.from_numpy(attr))
    found = canonicalize(from_pyg(graph, "g").read())
    first: dict[tuple[int, int], int] = {}
    contradictions = 0
    for pair, value in zip(map(tuple, edges.T.tolist()), attr.tolist(), strict=True):
        contradictions += pair[0] != pair[1] and first.setdefault(pair, value) != value
    owner = np.repeat(np.arange(found.num_nodes), np.diff(found.indptr))
    for a, b, value in zip(owner.tolist(), found.indices.tolist(), found.edge_attr.tolist(), strict=True):
        assert value == first.get((a, b), first.get((b, a)))
    assert any("the first counts" in remark for remark in found.remarks) == (contradictions > 0)


def test_merged_entries_with_other_attributes_are_told_of(tmp_path):
    one = Data(
        x=torch.ones(2, 1),
        edge_index=torch.tensor([[0, 0, 1, 0], [1, 1, 0, 1]]),
        edge_attr=torch.tensor([1.0, 2.0, 5.0, float("nan")]),
    )
    found = canonicalize(from_pyg([one], "g").read())
    assert found.edge_attr.tolist() == [1.0, 5.0]
    (remark,) = found.remarks
    assert remark.startswith("2 repeated entries of edge_index with other edge_attr than the first")
    one.edge_attr = torch.full((4,), float("nan"))
    assert canonicalize(from_pyg([one], "g").read()).remarks == ()


def test_positions_that_are_the_features_come_back_as_positions(there_and_back):
    one = molecule(3, x=None, edge_attr=None, pos=torch.rand(9, 2))
    (back,) = there_and_back([one])
    assert torch.equal(back.pos, one.pos)
    assert torch.equal(back.x, one.pos)
    (exact,) = there_and_back([molecule(3, x=None, edge_attr=None)])
    assert torch.equal(exact.pos, molecule(3).pos), "float64 positions are not those that features are rounded to"


def test_a_saved_dataset_keeps_them_too(there_and_back, tmp_path):
    graphs = [molecule(seed) for seed in range(3)]
    InMemoryDataset.save(graphs, str(tmp_path / "data.pt"))
    for before, after in zip(graphs, there_and_back(str(tmp_path / "data.pt")), strict=True):
        assert attributes(after) == attributes(before)
        assert torch.equal(after.pos, before.pos)


def test_keys_change_only_where_more_is_kept(tmp_path):
    plain = [molecule(0, edge_attr=None, pos=None)]
    InMemoryDataset.save(plain, str(tmp_path / "plain.pt"))
    InMemoryDataset.save([molecule(0)], str(tmp_path / "rich.pt"))
    (tmp_path / "junk.pt").write_bytes(b"no archive")
    versions = {name: resolve(f"{tmp_path}/{name}.pt").fingerprint()["version"] for name in ("plain", "rich", "junk")}
    assert versions == {"plain": 2, "rich": 3, "junk": 2}
    arrays = from_pyg(plain, "g").fingerprint()["arrays"]
    assert arrays.keys() == {"node_counts", "edges", "x", "y"}
    assert from_pyg(plain, "g").fingerprint()["options"] == {"task": "graph-classification"}
    assert from_pyg([molecule(0)], "g").fingerprint()["arrays"].keys() == {*arrays, "edge_attr", "pos"}


@pytest.mark.parametrize(
    "y",
    [(3,), ((3,),), (0.5,), ((0.5,),), ((0.5, 1.5),), (0.5, 1.5, 2.5, 3.5), ((0.5,), (1.5,), (2.5,), (3.5,))],
    ids=str,
)
def test_labels_and_targets_come_back_in_the_shape_they_went_in(there_and_back, y):
    graphs = [molecule(seed, edge_attr=None, pos=None, y=torch.tensor(y) + seed) for seed in (0, 1)]
    for before, after in zip(graphs, there_and_back(graphs), strict=True):
        assert after.y.shape == before.y.shape
        assert before.y.dtype == torch.int64 or torch.equal(after.y, before.y)


@pytest.mark.parametrize("shape", [(9,), (9, 1)])
def test_labels_of_nodes_come_back_in_the_shape_they_went_in(there_and_back, shape):
    one = molecule(1, edge_attr=None, pos=None, y=(torch.arange(9) % 3).reshape(shape))
    assert torch.equal(there_and_back([one])[0].y, one.y)


@pytest.mark.parametrize("shapes", [((9,),) * 3, ((9, 1),) * 3, ((9, 2),) * 3, ((9, 2), (9, 2), (9,))], ids=str)
def test_masks_come_back_in_the_shape_they_went_in(there_and_back, shapes):
    masks = {}
    for part, (name, shape) in enumerate(zip(("train_mask", "val_mask", "test_mask"), shapes, strict=True)):
        wide = (torch.arange(9) % 3 == part)[:, None].expand(9, shape[1] if len(shape) > 1 else 1)
        masks[name] = wide.reshape(shape).clone()
    one = molecule(1, edge_attr=None, pos=None, y=torch.arange(9) % 3, **masks)
    (back,) = there_and_back([one])
    for name, mask in masks.items():
        assert torch.equal(back[name], mask)


BAD = {
    "rows of edges": ({"edge_attr": torch.ones(5, 1)}, r"must be numbers with \d+ rows, one per entry of edge_index"),
    "rows of nodes": ({"pos": torch.ones(4, 2)}, "'pos' must be numbers with 9 rows, one per node"),
    "text": ({"edge_attr": ["a"] * molecule(0).num_edges}, "must be numbers"),
}


@pytest.mark.parametrize("case", BAD)
def test_attributes_that_do_not_fit_are_refused(case):
    fields, message = BAD[case]
    with pytest.raises(InvalidInputError, match=message):
        from_pyg([molecule(0, **fields)], "g")


def test_attributes_of_another_width_in_some_graph_are_refused():
    other = molecule(1)
    other.edge_attr = other.edge_attr[:, :2]
    with pytest.raises(InvalidInputError, match=r"'edge_attr' of graph 0 is int64 of shape .* of graph 1"):
        from_pyg([molecule(0), other], "g")


NAN = float("nan")


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        ([((1.0, NAN, 0.0),), ((NAN, NAN, 1.0),)], "graph-multilabel"),
        ([(1.0, NAN), (0.0, 1.0)], "graph-multilabel"),
        ([((1, 0),), ((0, 1),)], "graph-multilabel"),
        ([(0.5, NAN, *[1.0] * 7)], "node-regression"),
        ([((0.5, NAN), *((0.5, 1.0),) * 8)], "node-regression"),
        ([((0.5,),) * 9], "node-regression"),
    ],
)
def test_several_labels_and_targets_of_nodes_come_back(there_and_back, labels, task):
    graphs = [molecule(seed, y=torch.tensor(y)) for seed, y in enumerate(labels)]
    assert from_pyg(graphs, "mine").read().task == task
    for graph, back in zip(graphs, there_and_back(graphs), strict=True):
        assert back.y.shape == graph.y.shape
        torch.testing.assert_close(back.y, graph.y.float(), equal_nan=True)


def test_official_splits_come_back_as_folds(tmp_path):
    context = Context(Store.open(tmp_path / "store"), workforce=Workforce(0))
    graphs = [molecule(seed) for seed in range(6)]
    splits = [([0, 3, 4], [1], [2]), ([5], [4], [0, 1])]
    stored = to_pyg(context.store.get(ingest(from_pyg(graphs, "m", splits=splits), context=context)["dataset"].key))
    assert [tuple(part.tolist() for part in fold) for fold in stored.folds] == splits
    one, other = from_pyg(stored, "again", splits=stored.folds).read(), from_pyg(graphs, "m", splits=splits).read()
    assert all(np.array_equal(mask, other.masks[name]) for name, mask in one.masks.items())
