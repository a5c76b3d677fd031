"""The heterophilous graphs against PyG, and archives that are something else."""

import numpy as np
import pytest

from leap.pipeline.canonical import canonicalize
from leap.pipeline.datasets import resolve
from leap.store.errors import InvalidInputError, MissingRawFilesError

SIZES = {"minesweeper": (10_000, 39_402, 7), "tolokers": (11_758, 519_000, 10), "roman-empire": (22_662, 32_927, 300)}


@pytest.mark.parametrize("name", SIZES)
def test_equals_what_pyg_reads(name, real_data, tmp_path):
    from torch_geometric.datasets import HeterophilousGraphDataset

    data = real_data(name)
    file = name.replace("-", "_")
    (tmp_path / file).mkdir()
    (tmp_path / file / "raw").symlink_to(data / name / "raw")
    theirs = HeterophilousGraphDataset(str(tmp_path), name)[0]
    graphs = canonicalize(resolve(name, data=data, download=False).read())
    assert (graphs.num_nodes, graphs.summary["edges"], graphs.x.shape[1]) == SIZES[name]
    assert graphs.x.dtype == np.float32
    np.testing.assert_array_equal(graphs.x, theirs.x.numpy().astype(np.float32))
    np.testing.assert_array_equal(graphs.y, theirs.y.numpy())
    rows = np.repeat(np.arange(graphs.num_nodes), np.diff(graphs.indptr))
    np.testing.assert_array_equal(np.stack([rows, graphs.indices]), theirs.edge_index.numpy())
    for part in ("train", "val", "test"):
        np.testing.assert_array_equal(graphs.masks[part], theirs[f"{part}_mask"].numpy())
        assert graphs.masks[part].shape == (graphs.num_nodes, 10)


def write(path, **changes):
    masks = {f"{part}_masks": np.eye(3, 4, dtype=bool)[:2] for part in ("train", "val", "test")}
    arrays = {
        "node_features": np.ones((4, 2)),
        "node_labels": np.array([0, 1, 0, 1]),
        "edges": np.array([[0, 1], [2, 3]]),
        **masks,
    } | changes
    path.parent.mkdir(parents=True)
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


@pytest.mark.parametrize(
    "place", ["roman-empire/raw/roman_empire", "roman_empire/roman_empire", "roman-empire/roman-empire"]
)
def test_both_spellings_of_a_name_are_found(place, tmp_path):
    write(tmp_path / f"{place}.npz")
    raw = resolve("roman-empire", data=tmp_path, download=False).read()
    assert raw.masks["train"].shape == (4, 2)
    assert raw.edges.tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": None}, "lacks the arrays edges"),
        ({"edges": np.zeros((2, 3), int)}, r"edges \(E, 2\)"),
        ({"node_features": np.array([object()], dtype=object)}, "allow_pickle=False"),
        ({"node_labels": np.zeros(3, int)}, "3 labels for 4 nodes"),
        ({"edges": np.array([[0, 9]])}, "names node 9"),
        ({"node_features": np.full((4, 2), np.nan)}, r"node 0 of all\) has nan"),
    ],
)
def test_malformed_archives_are_refused(changes, message, tmp_path):
    write(tmp_path / "minesweeper" / "raw" / "minesweeper.npz", **changes)
    with pytest.raises(InvalidInputError, match=message):
        canonicalize(resolve("minesweeper", data=tmp_path).read())


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half", b"text"])
def test_files_that_are_no_archive_are_refused(content, tmp_path):
    path = tmp_path / "minesweeper" / "minesweeper.npz"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match="not a NumPy archive"):
        resolve("minesweeper", data=tmp_path).read()


def test_missing_files_are_named_with_their_folder(tmp_path):
    with pytest.raises(MissingRawFilesError, match=r"Put roman_empire\.npz into") as caught:
        resolve("roman-empire", data=tmp_path, download=False)
    assert str(tmp_path / "roman-empire" / "raw") in str(caught.value)
