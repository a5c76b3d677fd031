"""PyG graphs: in memory and saved; nothing is unpickled that could run."""

import json
import os

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.io import fs

from leap.pipeline.canonical import canonicalize
from leap.pipeline.datasets import from_pyg, resolve
from leap.store.errors import InvalidInputError


def graph(nodes=3, y=(1,), **fields):
    given = {
        "x": torch.arange(2.0 * nodes).reshape(nodes, 2),
        "edge_index": torch.tensor([[0, 1], [1, 0]]) if nodes > 1 else torch.zeros((2, 0), dtype=torch.long),
        "y": None if y is None else torch.tensor(y),
    } | fields
    return Data(**{name: value for name, value in given.items() if value is not None})


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
    with pytest.raises(InvalidInputError, match="cannot be read as tensors"):
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


BAD = {
    "heterogeneous": ([HeteroData()], "graph 0 is a HeteroData"),
    "id too large": ([graph(edge_index=torch.tensor([[0], [5]]))], "3 nodes, but edge_index names node 5"),
    "missing x": ([graph(), graph(x=None, num_nodes=3)], "graph 1 has no 'x'"),
    "x of another width": ([graph(), graph(x=torch.ones(3, 5))], r"must have shape \(3, 2\). Got \(3, 5\)"),
    "y of another length": ([graph(3, (0,)), graph(3, (0, 1))], "fits neither graphs nor nodes"),
    "nothing": ([], "no graphs"),
    "number": (3, "Got int"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_graphs_are_refused(case):
    graphs, message = BAD[case]
    with pytest.raises(InvalidInputError, match=message):
        from_pyg(graphs, "g")


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
