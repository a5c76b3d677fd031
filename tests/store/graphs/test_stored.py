"""Typed artifacts: what was stored comes back, whole or by ranges of nodes that no partition follows."""

import numpy as np
import pytest

from leap.pipeline import Context, IngestOptions, Workforce, encode, extract, ingest
from leap.pipeline.datasets.source import MemorySource
from leap.pipeline.graphs import RawGraphs
from leap.store import Artifact, Neighborhoods, Store
from leap.store.errors import InvalidInputError
from leap.store.graphs import StoredEncoding, StoredGraphs, StoredNeighborhoods

SMALL = IngestOptions(partition_mb=0.002)
COUNTS = np.array([30, 0, 7, 90, 1, 25])
NODES = int(COUNTS.sum())
RNG = np.random.default_rng(4)


def edges():
    """A path through each graph, and some chords."""
    starts = np.cumsum(COUNTS) - COUNTS
    pairs = [(a, a + 1) for start, size in zip(starts, COUNTS, strict=True) for a in range(start, start + size - 1)]
    return np.array(pairs + [(a, a + 5) for a in range(37, 120)]).T


def raw(**fields):
    x = RNG.normal(size=(NODES, 3)).astype(np.float32)
    return RawGraphs(**({"node_counts": COUNTS, "edges": edges(), "x": x, "y": None, "task": "none"} | fields))


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")


def stored(store, graphs):
    context = Context(store, workforce=Workforce(0))
    made = ingest(MemorySource("made", "test", graphs), options=SMALL, context=context)
    return StoredGraphs.of(store.get(made["dataset"].key))


@pytest.mark.parametrize(
    ("task", "y"),
    [
        ("graph-classification", np.array([5, 3, 5, 9, 3, 3])),
        ("graph-regression", np.arange(12.0).reshape(6, 2)),
        ("node-classification", np.arange(NODES) % 4),
        ("none", None),
    ],
)
def test_labels_come_back_by_task(store, task, y):
    dataset = stored(store, raw(task=task, y=y))
    labels = dataset.labels()
    assert (dataset.task, dataset.is_node_task) == (task, task == "node-classification")
    if y is None:
        assert labels is None
    elif task == "graph-regression":
        assert (labels.dtype, dataset.num_targets) == (np.float32, 2)
        assert np.array_equal(labels, y)
    else:
        assert labels.dtype == np.int64
        assert np.array_equal(np.array(dataset.classes)[labels], y)


def test_masks_come_back_and_graph_tasks_have_none(store):
    masks = {part: RNG.random((NODES, 3)) < 0.3 for part in ("train", "val", "test")}
    dataset = stored(store, raw(task="node-classification", y=np.arange(NODES) % 2, masks=masks))
    found = dataset.masks()
    assert dataset.num_masks == 3
    assert all(np.array_equal(found[part], mask) for part, mask in masks.items())
    assert dataset.folds() == []
    other = stored(store, raw(task="graph-classification", y=np.arange(6) % 2))
    assert (other.masks(), other.num_masks) == (None, 0)


def test_published_folds_come_back_part_by_part(store):
    count = 40
    graphs = RawGraphs(
        np.full(count, 2), np.zeros((2, 0), np.int64), None, np.arange(count) % 2, "graph-classification"
    )
    folds = stored(store, graphs).folds()
    assert len(folds) == 5
    for fold in folds:
        assert list(fold) == ["train", "val", "test"]
        assert sorted(np.concatenate(list(fold.values())).tolist()) == list(range(count))


def test_ranges_of_nodes_need_not_follow_partitions(store):
    context = Context(store, workforce=Workforce(0))
    source = MemorySource("made", "test", raw())
    made = extract(source, 2, ingest_options=SMALL, context=context)
    encode(source, "rwpe", params={"dim": 6}, ingest_options=SMALL, context=context)
    hoods = StoredNeighborhoods.of(store.get(made["neighborhoods"].key))
    rwpe = StoredEncoding.of(store.find("rwpe", "made", dim=4))
    assert len(hoods.partitions) > 3
    whole, values = hoods.neighborhoods(), rwpe.values()
    mean = hoods.load("mean")
    assert values.shape == (NODES, 4)
    assert rwpe.row_shape == (4,)
    for low, high in [(0, NODES), (0, 0), (NODES, NODES), (3, 4), (29, 31), (36, 130), (127, NODES)]:
        found = hoods.between(low, high)
        assert found.hoods.equals(whole.select(low, high, shift=0))
        assert np.array_equal(found.mean, mean[low:high])
        assert np.array_equal(rwpe.between(low, high), values[low:high])


def test_graphs_are_found_by_number_and_nodes_by_id(store):
    dataset = stored(store, raw())
    starts = np.cumsum([0, *COUNTS])
    assert len(dataset.partitions) > len(dataset.shards) > 1, "a graph must be cut"
    assert dataset.node_ptr().tolist() == starts.tolist()
    for low in range(7):
        for high in range(low + 1, 7):
            assert dataset.node_ptr(low, high).tolist() == starts[low : high + 1].tolist()
    ids = np.flatnonzero(RNG.random(NODES) < 0.3)
    assert np.array_equal(dataset.features(ids), dataset.features()[ids])
    both = np.concatenate([edges(), edges()[::-1]], axis=1)
    expected = [sorted(both[1][both[0] == v].tolist()) for v in ids]
    rows = dataset.neighbours(ids)
    assert [rows["ids"][a:b].tolist() for a, b in zip(rows.ptr[:-1], rows.ptr[1:], strict=True)] == expected
    assert dataset.degrees()[ids].tolist() == [len(row) for row in expected]


@pytest.mark.parametrize("value", [-1, 10**12])
def test_codes_that_no_table_can_hold_are_refused_with_column_and_value(store, value, monkeypatch):
    monkeypatch.setattr("leap.pipeline.canonical.check_codes", lambda *_: None)  # version 0.1 stored any
    x = np.zeros((NODES, 2), np.int64)
    x[100, 1] = value
    dataset = stored(store, raw(x=x))
    with pytest.raises(InvalidInputError, match=f"column 1 of the categorical features of 'made' holds {value};"):
        dataset.codes()
    x[100, 1] = 7
    assert stored(store, raw(x=x)).codes() == ((0,), (0, 7))


def test_an_artifact_of_another_type_is_refused(store):
    dataset = stored(store, raw())
    for wanted in (StoredNeighborhoods, StoredEncoding):
        with pytest.raises(InvalidInputError, match=f"{wanted.NOUN} is needed"):
            wanted.of(dataset)
    with pytest.raises(InvalidInputError, match=r"a dataset is needed.*Got 'letters'"):
        StoredGraphs.of("letters")
    assert isinstance(dataset, Artifact)


def test_what_is_written_is_what_is_read():
    hoods = Neighborhoods(np.array([0, 1]), np.array([0]), np.array([0, 0]), np.zeros((2, 0), np.int64), 1)
    names = {"node_ptr", "nodes", "edge_ptr", "edges"}
    assert StoredNeighborhoods.arrays(hoods).keys() == names
    mean, scale = np.zeros((1, 2), np.float32), np.zeros(1, np.float32)
    assert StoredNeighborhoods.arrays(hoods, mean, scale).keys() == names | {"mean", "scale"}
    assert StoredEncoding.arrays(mean).keys() == {"encoding"}
    assert StoredEncoding.arrays(mean, scale).keys() == {"encoding", "eigenvalues"}


def test_labels_with_gaps_and_official_splits_come_back(store):
    y = np.array([[0, 1], [1, np.nan], [np.nan, np.nan], [0, 0], [1, 1], [0, 1]])
    dealt = np.array([[0, 1], [0, 2], [1, 0], [2, 0], [3, 1], [1, 2]])
    masks = {part: dealt == code for code, part in enumerate(("train", "val", "test"))}
    dataset = stored(store, raw(task="graph-multilabel", y=y, masks=masks))
    assert np.array_equal(dataset.labels(), y.astype(np.float32), equal_nan=True)
    assert (dataset.num_targets, dataset.label_shape(), dataset.has_official_splits) == (2, (1, 2), True)
    assert [{part: members.tolist() for part, members in fold.items()} for fold in dataset.folds()] == [
        {part: np.flatnonzero(masks[part][:, split]).tolist() for part in masks} for split in range(2)
    ]
    assert dataset.num_masks == 0


@pytest.mark.parametrize("width", [1, 3])
def test_targets_of_nodes_come_back_with_masks_of_nodes_that_have_them(store, width):
    y = RNG.normal(size=(NODES, width))
    y[5] = np.nan
    dataset = stored(store, raw(task="node-regression", y=y[:, 0] if width == 1 else y))
    assert np.array_equal(dataset.labels(), y.astype(np.float32), equal_nan=True)
    assert (dataset.num_targets, dataset.label_shape()) == (width, () if width == 1 else (3,))
    together = np.stack([*dataset.masks().values()])
    assert (together.sum(axis=0) == (np.arange(NODES) != 5)[:, None]).all()
    assert together.sum(axis=(1, 2)).tolist() == [760, 380, 380]
    assert not dataset.has_official_splits
