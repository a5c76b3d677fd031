"""PyG graphs: in memory and saved; nothing is unpickled that could run."""

import copy
import json
import os
import warnings

import numpy as np
import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset, TemporalData
from torch_geometric.io import fs
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import ToSparseTensor

from leap.pipeline import Context, from_pyg, ingest, to_pyg
from leap.pipeline.canonical import canonicalize
from leap.pipeline.datasets import SourceOptions, resolve
from leap.store import Store
from leap.store.errors import InvalidInputError

NAN = float("nan")


def graph(nodes=3, y=(1,), **fields):
    given = {
        "x": torch.arange(2.0 * nodes).reshape(nodes, 2),
        "edge_index": torch.tensor([[0, 1], [1, 0]]) if nodes > 1 else torch.zeros((2, 0), dtype=torch.long),
        "y": None if y is None else torch.tensor(y),
    } | fields
    return Data(**{name: value for name, value in given.items() if value is not None})


@pytest.fixture
def context(tmp_path):
    return Context(store=Store.open(tmp_path / "store"))


def test_a_list_a_dataset_and_a_batch_are_the_same_graphs(tmp_path):
    graphs = [graph(2, (0,)), graph(4, (1,)), graph(1, (0,))]

    class Saved(InMemoryDataset):
        def __init__(self):
            super().__init__(str(tmp_path))
            self.data, self.slices = self.collate(graphs)

    sources = [from_pyg(form, "g") for form in (graphs, Saved(), Batch.from_data_list(graphs))]
    assert sources[0].fingerprint() == sources[1].fingerprint() == sources[2].fingerprint()
    raw = sources[0].read()
    assert raw.node_counts.tolist() == [2, 4, 1]
    assert raw.edges.tolist() == [[0, 1, 2, 3], [1, 0, 3, 2]]
    assert raw.x.shape == (7, 2)


@pytest.mark.parametrize(
    ("ys", "task", "shape"),
    [
        ([(3,), (4,)], "graph-classification", (2,)),
        ([((1.0,),), ((0.0,),)], "graph-classification", (2,)),
        ([(0.5,), (1.0,)], "graph-regression", (2, 1)),
        ([((0.5, 1.0),), ((0.0, 1.0),)], "graph-regression", (2, 2)),
        ([(0, 1, 0), (1, 1, 0)], "node-classification", (6,)),
        ([((1.0, 0.0),), ((NAN, 1.0),)], "graph-multilabel", (2, 2)),
        ([((1, 0),), ((0, 1),)], "graph-multilabel", (2, 2)),
        ([(1, 0), (0, 1)], "graph-multilabel", (2, 2)),
        ([((1.0, 0.0, 1.0),)], "graph-multilabel", (1, 3)),
        ([(1.0,), (NAN,)], "graph-multilabel", (2, 1)),
        ([(0.5, 1.0, NAN), (0.0, 1.0, 2.0)], "node-regression", (6,)),
        ([((0.5, 1.0), (NAN, 1.0), (2.0, 2.0))], "node-regression", (3, 2)),
        ([None, None], "none", None),
    ],
)
def test_the_shape_and_kind_of_y_set_the_task(ys, task, shape):
    raw = from_pyg([graph(3, y) for y in ys], "g").read()
    assert raw.task == task
    assert (None if raw.y is None else raw.y.shape) == shape


def test_one_graph_brings_its_masks_and_node_labels():
    mask = torch.tensor([True, False, True])
    one = graph(3, (0, 1, 0), train_mask=mask, val_mask=~mask, test_mask=~mask)
    result = canonicalize(from_pyg(one, "g").read())
    assert result.masks["train"].tolist() == [[True], [False], [True]]


def test_integer_features_are_categories_and_missing_ones_become_degrees():
    assert canonicalize(from_pyg([graph(x=torch.ones(3, 2, dtype=torch.long))], "g").read()).is_categorical
    bare = from_pyg([graph(x=None, num_nodes=3)], "g").read()
    assert canonicalize(bare).x.tolist() == [[1], [1], [0]]


def test_a_saved_dataset_is_read_from_its_folder_or_file(tmp_path):
    graphs = [graph(2, (0,)), graph(4, (1,))]
    (tmp_path / "mine" / "processed").mkdir(parents=True)
    InMemoryDataset.save(graphs, str(tmp_path / "mine" / "processed" / "data.pt"))
    torch.save({}, tmp_path / "mine" / "processed" / "pre_filter.pt")
    expected = from_pyg(graphs, "g").read()
    for path in (f"{tmp_path}/mine", f"{tmp_path}/mine/processed", f"{tmp_path}/mine/processed/data.pt"):
        raw = resolve(path).read()
        assert raw.node_counts.tolist() == expected.node_counts.tolist()
        np.testing.assert_array_equal(raw.edges, expected.edges)
        np.testing.assert_array_equal(raw.x, expected.x)
        np.testing.assert_array_equal(raw.y, expected.y)
    assert resolve(f"{tmp_path}/mine/processed").name == "mine"


def test_a_tu_dataset_that_pyg_processed_is_read(write_tu, tmp_path):
    from torch_geometric.datasets import TUDataset

    write_tu(tmp_path / "toy" / "raw", graph_indicator="1\n1\n1\n2\n2\n", graph_labels="1\n2\n")
    theirs = TUDataset(str(tmp_path), "toy", use_node_attr=True)
    ours = canonicalize(resolve(f"{tmp_path}/toy/processed").read())
    assert ours.num_graphs == len(theirs) == 2
    np.testing.assert_array_equal(ours.x, theirs._data.x.numpy())


@pytest.mark.parametrize("form", ["list", "one", "single"])
def test_graphs_saved_without_a_dataset_are_read(form, tmp_path):
    graphs = [graph(2, (0,)), graph(3, (1,))]
    content = {"list": graphs, "one": graphs[0], "single": (graphs[0], None)}[form]
    torch.save(content, tmp_path / "data.pt")
    assert resolve(f"{tmp_path}/data.pt").read().node_counts.tolist() == ([2, 3] if form == "list" else [2])


def test_reading_leaves_the_classes_that_pyg_registered_alone(tmp_path):
    torch.save([graph()], tmp_path / "data.pt")
    before = set(torch.serialization.get_safe_globals())
    resolve(f"{tmp_path}/data.pt").read()
    assert set(torch.serialization.get_safe_globals()) == before


class Trap:
    """Would leave a file behind if anything unpickled it."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_code_inside_a_file_is_never_run(tmp_path):
    torch.save((Trap(tmp_path / "ran"), None), tmp_path / "data.pt")
    with pytest.raises(InvalidInputError, match=r"cannot be read as tensors .*\(it needs the code of .*mkdir\)"):
        resolve(f"{tmp_path}/data.pt").read()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04"])
def test_files_that_torch_cannot_read_are_refused(content, tmp_path):
    (tmp_path / "data.pt").write_bytes(content)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        resolve(f"{tmp_path}/data.pt").read()


def test_tensors_that_are_no_graphs_are_refused(tmp_path):
    fs.torch_save((torch.ones(3), {}), str(tmp_path / "data.pt"))
    with pytest.raises(InvalidInputError, match="holds Tensor"):
        resolve(f"{tmp_path}/data.pt").read()


def test_several_files_in_one_folder_need_a_choice(tmp_path):
    for name in ("train", "test"):
        torch.save([graph()], tmp_path / f"{name}.pt")
    with pytest.raises(InvalidInputError, match=r"test\.pt, train\.pt"):
        resolve(f"{tmp_path}/")


TARGETS = torch.tensor([[1, 3, 0, 2], [0, 0, 3, 1]])
"""Directed edges whose transpose is not the same set of pairs."""


def matrix(layout):
    """The edges `TARGETS` of four nodes as PyG's adj_t: entry (i, j) is the edge from j to i."""
    coo = torch.sparse_coo_tensor(TARGETS.flip(0), torch.ones(4), (4, 4)).coalesce()
    return {"coo": coo, "csr": coo.to_sparse_csr(), "csc": coo.to_sparse_csc()}[layout]


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_edges_of_adj_t_are_those_of_edge_index(layout, tmp_path):
    given = [Data(x=torch.ones(4, 1), edge_index=TARGETS), Data(x=torch.ones(4, 1), adj_t=matrix(layout))]
    expected, found = (from_pyg([graph, graph], "g").read().edges for graph in given)
    assert sorted(map(tuple, found.T)) == sorted(map(tuple, expected.T))
    InMemoryDataset.save([given[1], given[1]], str(tmp_path / "data.pt"))
    assert sorted(map(tuple, resolve(f"{tmp_path}/data.pt").read().edges.T)) == sorted(map(tuple, expected.T))


@pytest.mark.filterwarnings("ignore:Sparse")
def test_what_the_transform_to_sparse_made_is_read_and_weights_are_told_of():
    weighted = Data(x=torch.ones(4, 1), edge_index=TARGETS, edge_attr=torch.arange(4.0))
    raw = from_pyg(ToSparseTensor(attr="edge_attr", remove_edge_index=False)(weighted), "g").read()
    assert sorted(map(tuple, raw.edges.T)) == sorted(map(tuple, TARGETS.numpy().T))
    assert "the values of adj_t are left out: edges have no weights." in raw.remarks


def test_a_sparse_tensor_of_torch_sparse_is_read():
    torch_sparse = pytest.importorskip("torch_sparse")
    adj_t = torch_sparse.SparseTensor(row=TARGETS[1], col=TARGETS[0], sparse_sizes=(4, 4))
    found = from_pyg(Data(x=torch.ones(4, 1), adj_t=adj_t), "g").read().edges
    assert sorted(map(tuple, found.T)) == sorted(map(tuple, TARGETS.numpy().T))


def test_edge_index_of_a_class_of_its_own_and_an_empty_one_of_reals_are_read():
    index = EdgeIndex([[0, 1], [1, 2]], sparse_size=(3, 3))
    raw = from_pyg([graph(edge_index=index), graph(edge_index=torch.empty(2, 0))], "g").read()
    assert raw.edges.tolist() == [[0, 1], [1, 2]]


def test_positions_are_the_features_where_there_is_no_x(tmp_path):
    pos = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.5]])
    result = ingest(from_pyg([graph(x=None, pos=pos)], "g"), context=Context(store=Store.open(tmp_path / "store")))
    summary = result["dataset"].summary
    assert (summary["feature_source"], summary["features"]) == ("pos", 2)
    np.testing.assert_array_equal(from_pyg([graph(x=None, pos=pos)], "g").read().x, pos.numpy())


def test_whatever_is_left_out_is_told():
    one = graph(3, colour=torch.ones(3, 2), edge_weight=torch.ones(2), norm=torch.ones(7))
    raw = from_pyg([one], "g").read()
    assert raw.feature_source == "x"
    assert raw.notes["left_out"] == ["colour", "edge_weight", "norm"]
    assert "node attribute 'colour' is left out, because there is 'x'; --node-attribute NAME" in raw.remarks[0]
    assert "attributes edge_weight, norm are left out" in raw.remarks[1]
    plain = graph()
    assert from_pyg([plain], "g").read().remarks == ()


def test_reading_leaves_the_objects_as_they_were():
    one = graph(3, pos=torch.ones(3, 2))
    before = copy.deepcopy(one.__dict__["_store"].__dict__)
    from_pyg([one], "g")
    assert one.__dict__["_store"].__dict__.keys() == before.keys()


def test_chosen_attributes_stand_side_by_side_and_chosen_labels_replace_y(tmp_path):
    one = graph(3, (0,), pos=torch.full((3, 1), 7.0), group=torch.tensor([2]))
    raw = from_pyg([one], "g", node_attributes=("x", "pos"), graph_label="group").read()
    np.testing.assert_array_equal(raw.x, torch.cat([one.x, one.pos], dim=1).numpy())
    assert raw.y.tolist() == [2]
    torch.save([one], tmp_path / "data.pt")
    options = SourceOptions(node_attributes=("pos",))
    saved = resolve(f"{tmp_path}/data.pt", options=options)
    np.testing.assert_array_equal(saved.read().x, one.pos.numpy())
    assert saved.fingerprint() != resolve(f"{tmp_path}/data.pt").fingerprint()
    with pytest.raises(InvalidInputError, match=r"no attribute 'poss'\. Did you mean 'pos'"):
        from_pyg([one], "g", node_attributes="poss")
    with pytest.raises(InvalidInputError, match="'group' has an entry per graph, not per node"):
        from_pyg([one], "g", node_label="group")


def test_one_test_mask_for_many_training_masks_is_repeated():
    train = torch.tensor([[True, False], [False, True], [False, False]])
    one = graph(3, (0, 1, 0), train_mask=train, val_mask=train.flip(1), test_mask=torch.tensor([False, False, True]))
    masks = canonicalize(from_pyg(one, "g").read()).masks
    assert masks["test"].tolist() == [[False, False], [False, False], [True, True]]


def test_a_loader_gives_the_graphs_of_its_batches():
    raw = from_pyg(DataLoader([graph(2, (0,)), graph(3, (1,)), graph(4, (1,))], batch_size=2), "g").read()
    assert raw.node_counts.tolist() == [2, 3, 4]


@pytest.mark.parametrize("saved", [False, True])
def test_text_and_plain_numbers_are_labels_too(saved, tmp_path):
    texts = [Data(edge_index=TARGETS, num_nodes=4, y=label) for label in ("a", "b")]
    torch.save(texts, tmp_path / "data.pt")
    source = resolve(f"{tmp_path}/data.pt") if saved else from_pyg(texts, "g")
    assert source.read().y.tolist() == ["a", "b"]
    assert from_pyg([graph(y=None) for _ in "ab"], "g").read().task == "none"


def hetero():
    data = HeteroData()
    data["a"].x = torch.ones(2, 1)
    data["a", "to", "a"].edge_index = torch.tensor([[0], [1]])
    return data


@pytest.mark.parametrize("form", ["object", "list", "batch", "file", "dataset"])
def test_heterogeneous_graphs_are_refused_by_name(form, tmp_path):
    def read():
        if form == "file":
            torch.save([hetero()], tmp_path / "data.pt")
        elif form == "dataset":
            InMemoryDataset.save([hetero(), hetero()], str(tmp_path / "data.pt"))
        else:
            forms = {"object": hetero(), "list": [hetero()], "batch": Batch.from_data_list([hetero(), hetero()])}
            return from_pyg(forms[form], "g")
        return resolve(f"{tmp_path}/data.pt").read()

    with pytest.raises(InvalidInputError, match="HeteroData"):
        read()


def masked(**masks):
    return graph(3, (0, 1, 0), **{f"{name}_mask": torch.tensor(mask) for name, mask in masks.items()})


HALF = [True, False, False]
EVENTS = TemporalData(src=torch.tensor([0]), dst=torch.tensor([1]), t=torch.tensor([0]))

BAD = {
    "temporal": (EVENTS, "graph 0 is a TemporalData"),
    "adj_t of another size": (
        [graph(edge_index=None, adj_t=torch.eye(5).to_sparse())],
        r"must have shape \(3, 3\). Got \(5, 5\)",
    ),
    "adj_t that is dense": ([graph(edge_index=None, adj_t=torch.eye(3))], r"is a Tensor \(torch.strided\)"),
    "adj_t that contradicts": ([graph(adj_t=torch.eye(3).to_sparse())], "edge_index and adj_t with different edges"),
    "no edges in any form": ([graph(edge_index=None)], "no graph has edge_index or adj_t"),
    "mesh": ([graph(edge_index=None, face=torch.tensor([[0], [1], [2]]))], "FaceToEdge"),
    "edges as rows": ([graph(edge_index=torch.tensor([[0, 1], [1, 2], [2, 0]]))], r"must be .* \(2, edges\)"),
    "edges of reals": ([graph(edge_index=torch.tensor([[0.0], [1.0]]))], "Got float32"),
    "training mask alone": ([masked(train=HALF)], "have train_mask but no val_mask and test_mask. Add"),
    "no validation mask": ([masked(train=HALF, test=HALF)], "but no val_mask. Add val_mask"),
    "masks of node numbers": ([masked(train=[0, 1, 2], val=HALF, test=HALF)], "'train_mask' holds 2"),
    "masks of two and three splits": (
        [masked(train=[[True] * 2, [False] * 2, [False] * 2], val=[[False] * 3] * 3, test=HALF[::-1])],
        "different numbers of splits: 2 of train_mask, 3 of val_mask, 1 of test_mask",
    ),
    "several classes": ([graph(y=((3, 0),))], r"2 whole numbers per graph, such as \[3, 0\]"),
    "several labels per node": ([graph(y=((1, 0), (0, 1), (1, 1)))], "several values per node"),
    "labels of two kinds": ([graph(y=(1,)), graph(y=(0.5,))], "of graph 0 is int64, of graph 1 float32"),
    "target that is missing": ([graph(y=(0.5,)), graph(y=(NAN,))], "'y' of graph 1 is nan in column 0"),
    "third label": ([graph(y=((1.0, NAN),)), graph(y=((2.0, 0.0),))], "'y' of graph 0 is nan in column 1"),
    "node label that is missing": ([graph(y=(1.0, NAN, 0.0))], "of node 1 is nan"),
    "x of two kinds": ([graph(), graph(x=torch.ones(3, 2, dtype=torch.long))], "of graph 0 is float32, of graph 1 int"),
    "x that is sparse": ([graph(x=torch.eye(3).to_sparse())], "sparse tensor: give x.to_dense"),
    "pos of some graphs": ([graph(x=None, pos=torch.ones(3, 2)), graph(x=None, num_nodes=3)], "graph 1 has no 'pos'"),
    "negative id": ([graph(edge_index=torch.tensor([[0], [-1]]))], "edge_index names node -1"),
    "id too large": ([graph(edge_index=torch.tensor([[0], [5]]))], "3 nodes, but edge_index names node 5"),
    "missing x": ([graph(), graph(x=None, num_nodes=3)], "graph 1 has no 'x'"),
    "x of another width": ([graph(), graph(x=torch.ones(3, 5))], r"must have shape \(3, 2\).* Got \(3, 5\)"),
    "y of another length": ([graph(3, (0,)), graph(3, (0, 1))], "fits neither graphs nor nodes"),
    "nothing": ([], "no graphs"),
    "number": (3, "Got int"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_graphs_are_refused(case):
    graphs, message = BAD[case]
    with pytest.raises(InvalidInputError, match=message):
        from_pyg(graphs, "g")


def test_three_datasets_are_one_with_their_official_split(context):
    train, val, test = ([graph(n, (i % 2,)) for i, n in enumerate(sizes)] for sizes in ((3, 2, 4), (1, 2), (5,)))
    source = from_pyg({"val": val, "test": test, "train": train}, "parts")
    raw = source.read()
    assert raw.node_counts.tolist() == [3, 2, 4, 1, 2, 5]
    assert {part: np.flatnonzero(mask[:, 0]).tolist() for part, mask in raw.masks.items()} == {
        "train": [0, 1, 2],
        "val": [3, 4],
        "test": [5],
    }
    assert source.fingerprint() != from_pyg([*train, *val, *test], "parts").fingerprint()
    ingest(source, context=context)
    (fold,) = to_pyg(context.store.find("dataset", "parts")).folds
    assert [part.tolist() for part in fold] == [[0, 1, 2], [3, 4], [5]]


def test_parts_of_graphs_with_labels_of_nodes_are_their_nodes():
    train, val, test = ([graph(n, tuple(range(n))) for n in sizes] for sizes in ((3, 2), (2,), (4,)))
    raw = from_pyg({"train": train, "val": val, "test": test}, "parts").read()
    assert raw.task == "node-classification"
    assert np.flatnonzero(raw.masks["train"][:, 0]).tolist() == [0, 1, 2, 3, 4]
    assert np.flatnonzero(raw.masks["val"][:, 0]).tolist() == [5, 6]
    assert np.flatnonzero(raw.masks["test"][:, 0]).tolist() == [7, 8, 9, 10]
    gaps = from_pyg({"train": graph(y=[0.5, NAN, 1.5]), "val": graph(y=[0.5, 1, 2]), "test": graph(y=[0.5, 1, 2])}, "g")
    assert gaps.read().masks["train"][:3, 0].tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"train": graph(), "valid": graph(), "test": graph()}, "parts must be train, val and test. Got train, valid"),
        ({"train": graph(), "val": [], "test": graph()}, "the part val has no graphs"),
        ({"train": graph(), "val": 3, "test": graph()}, "Got int"),
        (
            dict.fromkeys(("train", "val", "test"), masked(train=HALF, val=HALF[::-1], test=HALF[::-1])),
            "Give one of both",
        ),
    ],
)
def test_parts_that_are_no_split_are_refused(parts, message):
    with pytest.raises(InvalidInputError, match=message):
        from_pyg(parts, "parts")


def test_parts_and_splits_are_not_given_together():
    parts = {part: graph() for part in ("train", "val", "test")}
    with pytest.raises(InvalidInputError, match="come in parts, and splits are given too"):
        from_pyg(parts, "parts", splits={"train": [0], "val": [1], "test": [2]})


def test_parts_without_labels_are_told_of():
    raw = from_pyg({part: graph(y=None) for part in ("train", "val", "test")}, "parts").read()
    assert raw.masks is None
    assert raw.remarks == ("the parts are left out: graphs have no labels.",)


with warnings.catch_warnings():  # torch would rather have nobody make these any more
    warnings.simplefilter("ignore")
    QUANTIZED = torch.quantize_per_tensor(torch.ones(3, 2), 0.1, 0, torch.quint8)
NO_EDGES = torch.zeros((2, 0), dtype=torch.long)
TYPES = {
    "complex": (graph(x=torch.ones(3, 2, dtype=torch.complex64)), r"'x' of graph 0 is complex \(torch.complex64\)"),
    "complex label": (
        Data(edge_index=NO_EDGES, num_nodes=1, y=torch.ones(1, dtype=torch.cfloat)),
        "'y' of graph 0 is complex",
    ),
    "quantized": (graph(x=QUANTIZED), "'x' of graph 0 is a quantized tensor: give x.dequantize"),
    "meta": (graph(x=torch.ones(3, 2, device="meta")), "'x' of graph 0 is a meta tensor"),
    "meta edges": (
        graph(edge_index=torch.zeros(2, 1, dtype=torch.long, device="meta")),
        "'edge_index' of graph 0 is a",
    ),
    "large unsigned": (graph(x=torch.full((3, 1), 2**63, dtype=torch.uint64)), "holds 9223372036854775808: whole"),
    "large category": (
        graph(x=torch.tensor([[1, 0], [1, 10**12], [1, 0]])),
        "column 1 of 'x' has the value 1000000000000 at node 1",
    ),
}


@pytest.mark.parametrize("case", TYPES)
def test_values_that_would_change_silently_or_have_none_are_refused(case):
    data, message = TYPES[case]
    with pytest.raises(InvalidInputError, match=message):
        from_pyg([data], "g")


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float16"])
def test_narrow_reals_keep_their_values(kind):
    x = torch.tensor([[0.5, -2.0], [0.0, 1.5], [4.0, 0.25]])
    assert from_pyg([graph(x=x.to(getattr(torch, kind)))], "g").read().x.tolist() == x.tolist()


def test_small_unsigned_categories_keep_their_values():
    codes = torch.tensor([[1], [7], [200]])
    for kind in (torch.uint8, torch.uint16, torch.uint64):
        assert from_pyg([graph(x=codes.to(kind))], "g").read().x.tolist() == codes.tolist()


def test_training_nodes_that_are_judged_are_refused_and_shared_validation_nodes_told_of():
    apart = {"train": [True, False, False], "val": [False, True, False], "test": [False, False, True]}
    assert from_pyg([masked(**apart)], "g").read().remarks == ()
    for part in ("val", "test"):
        with pytest.raises(InvalidInputError, match=f"train_mask and {part}_mask share 1 nodes, such as node 0"):
            from_pyg([masked(**(apart | {part: [True, False, False]}))], "g")
    (remark,) = from_pyg([masked(**(apart | {"val": [False, True, True]}))], "g").read().remarks
    assert remark.startswith("val_mask and test_mask share 1 nodes, such as node 2: the result is chosen on nodes")


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_matrix_with_wrong_pointers_is_refused_not_followed():
    wrong = torch.sparse_csr_tensor(torch.tensor([0, 1, 2, 10**15]), torch.tensor([1, 0]), torch.ones(2), (3, 3))
    with pytest.raises(InvalidInputError, match="do not fit its 3 nodes and 2 entries"):
        from_pyg([graph(edge_index=None, adj_t=wrong)], "g")


def test_names_are_checked_and_fingerprints_are_json():
    with pytest.raises(InvalidInputError, match="cannot be a dataset's name"):
        from_pyg([graph()], "../g")
    fingerprint = from_pyg([graph()], "g").fingerprint()
    assert json.loads(json.dumps(fingerprint)) == fingerprint


def test_a_file_without_graphs_is_named(tmp_path):
    path = tmp_path / "none.pt"
    torch.save([], path)
    with pytest.raises(InvalidInputError, match=r"none\.pt holds no graph: what an InMemoryDataset"):
        resolve(str(path)).read()


@pytest.mark.parametrize("label", [float("inf"), 1e30, float(2**60)])
def test_a_node_label_that_is_no_whole_number_of_ours_is_refused(label):
    graph = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3, y=torch.tensor([0.0, 1.0, label]).double())
    with pytest.raises(InvalidInputError, match="node labels must be whole numbers or text"):
        from_pyg(graph, "labels").read()
