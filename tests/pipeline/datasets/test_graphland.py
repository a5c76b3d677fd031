"""GraphLand's layout against PyG's reader of it, and files that are something else."""

import csv
import io
import zipfile

import numpy as np
import pytest
import yaml

from leap.pipeline.canonical import canonicalize
from leap.pipeline.datasets import catalog, dataset_card, graphland, resolve
from leap.store.errors import InvalidInputError, MissingRawFilesError

NODES = 60


def folder_of(data, name="tolokers-2"):
    return data / name / "raw" / name  # where PyG looks, and we too


def content(task="binary_classification", seed=0):
    """Files of a graph with all that GraphLand's graphs have: gaps, fractions, categories and nodes without label."""
    random = np.random.default_rng(seed)
    table = {
        "age": [None if value > 1 else round(float(value), 3) for value in random.standard_normal(NODES)],
        "share": [None if value > 0.9 else round(float(value), 2) for value in random.random(NODES)],
        "visits": random.poisson(2, NODES).tolist(),
        "kind": random.choice([0, 3, 7], NODES).tolist(),
        "is_new": random.integers(0, 2, NODES).tolist(),
        "country": random.integers(2, 6, NODES).tolist(),
    }
    target = {
        "binary_classification": random.integers(0, 2, NODES) * 1.0,
        "multiclass_classification": random.choice([0.0, 2.0, 5.0], NODES),
        "regression": random.standard_normal(NODES).round(4),
    }[task]
    target = [None if i % 7 == 3 else float(value) for i, value in enumerate(target)]
    parts = random.integers(0, 3, NODES)
    masks = {part: (parts == i).tolist() for i, part in enumerate(("train", "val", "test"))}
    pairs = random.integers(0, NODES, (150, 2)).tolist()
    return {
        "info": {
            "dataset_name": "toy",
            "task": task,
            "metric": "AP",
            "numerical_features_names": ["age", "share", "visits"],
            "fraction_features_names": ["share"],
            "categorical_features_names": ["kind", "is_new", "country"],
            "target_name": "label",
            "graph_is_directed": True,
            "has_unlabeled_nodes": True,
            "has_nans_in_numerical_features": True,
        },
        "features": table,
        "targets": {"label": target},
        "split_masks_RL": masks,
        "split_masks_RH": {part: masks[other] for part, other in zip(masks, ("val", "test", "train"), strict=True)},
        "edgelist": {"source": [pair[0] for pair in pairs], "target": [pair[1] for pair in pairs]},
    }


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in files.items():
        if name == "info":
            (folder / "info.yaml").write_text(yaml.safe_dump(columns))
            continue
        is_indexed = name != "edgelist"
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow([*(["node_id"] if is_indexed else []), *columns])
            for i, row in enumerate(zip(*columns.values(), strict=True)):
                cells = ["" if value is None else value for value in row]
                writer.writerow([*([i] if is_indexed else []), *cells])
    return folder


@pytest.mark.parametrize("split", ["RL", "RH"])
@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("tolokers-2", "binary_classification"),
        ("hm-categories", "multiclass_classification"),
        ("hm-prices", "regression"),
        ("artnet-views", "regression"),
    ],
)
@pytest.mark.filterwarnings("ignore:n_quantiles")
def test_equals_what_pyg_makes_of_the_same_tables(name, task, split, tmp_path, monkeypatch):
    from torch_geometric.datasets import GraphLandDataset

    files = content(task)
    write(folder_of(tmp_path, name), files)

    def columns(file, names, dtype):
        return np.array([files[file][each] for each in names]).astype(dtype).T

    # PyG reads files with pandas, which need not be there; what it makes of them is its own.
    tables = {
        "info": files["info"],
        "num_features": columns("features", ["age", "visits"], np.float32),
        "frac_features": columns("features", ["share"], np.float32),
        "cat_features": columns("features", ["kind", "is_new", "country"], np.int32),
        "targets": columns("targets", ["label"], np.float32)[:, 0],
        "masks": {part: np.array(mask) for part, mask in files[f"split_masks_{split}"].items()},
        "edges": columns("edgelist", ["source", "target"], np.int64),
    }
    monkeypatch.setattr(GraphLandDataset, "_get_raw_data", lambda _: tables)
    theirs = GraphLandDataset(str(tmp_path), name, split, regression_targets_transform=None)[0]
    raw = resolve(name if split == "RL" else f"{name}-{split}", data=tmp_path, download=False).read()
    graphs = canonicalize(raw)
    np.testing.assert_allclose(graphs.x, theirs.x.numpy(), rtol=1e-6, atol=1e-6)
    rows = np.repeat(np.arange(NODES), np.diff(graphs.indptr))
    edges = theirs.edge_index.numpy()
    np.testing.assert_array_equal(np.stack([rows, graphs.indices]), edges[:, edges[0] != edges[1]])
    for part in ("train", "val", "test"):
        np.testing.assert_array_equal(graphs.masks[part][:, 0], theirs[f"{part}_mask"].numpy())
    y = theirs.y.numpy()
    if task == "regression":
        assert graphs.task == "node-regression"
        np.testing.assert_array_equal(graphs.y[:, 0], y)
    else:
        assert graphs.task == "node-classification"
        assert graphs.classes == np.unique(y[~np.isnan(y)]).tolist()
        assert (graphs.y == -1).tolist() == np.isnan(y).tolist()
        np.testing.assert_array_equal(np.array(graphs.classes)[graphs.y[graphs.y >= 0]], y[~np.isnan(y)])
    assert raw.notes["unlabelled_nodes"] == np.isnan(y).sum() == 9


def test_labels_of_all_nodes_are_whole_numbers(tmp_path):
    files = content()
    files["targets"]["label"] = [i % 2 for i in range(NODES)]
    write(folder_of(tmp_path), files)
    raw = resolve("tolokers-2", data=tmp_path).read()
    assert (raw.y.dtype, raw.y[:4].tolist()) == (np.int64, [0, 1, 0, 1])


def test_gaps_get_the_most_frequent_value_the_smallest_of_several(tmp_path):
    files = content()
    values = [0.25, 0.25, 0.75, 0.75, 0.5] * 12
    files["features"]["share"] = [None if i in (10, 20) else value for i, value in enumerate(values)]
    files["features"]["share"][0] = files["features"]["share"][1] = 0.75
    write(folder_of(tmp_path), files)
    raw = resolve("tolokers-2", data=tmp_path).read()
    assert raw.x[[10, 20], 2].tolist() == [0.75, 0.75]
    assert raw.x[2, 2] == 0.75
    assert raw.notes["columns"] == {"quantiles": 2, "fractions": 1, "categories": 8}


def test_long_tables_are_read_in_stretches(tmp_path, monkeypatch):
    write(folder_of(tmp_path), content())
    whole = resolve("tolokers-2", data=tmp_path).read()
    monkeypatch.setattr(graphland, "_BLOCK", 256)
    pieces = resolve("tolokers-2", data=tmp_path).read()
    for name in ("x", "y", "edges"):
        np.testing.assert_array_equal(getattr(pieces, name), getattr(whole, name))


def test_weights_and_unnamed_indices_are_passed_over(tmp_path):
    files = content()
    files["edgelist"]["weight"] = [0.5] * 150
    folder = write(folder_of(tmp_path), files)
    for file in ("features", "targets", "split_masks_RL"):
        path = folder / f"{file}.csv"
        path.write_text(path.read_text().replace("node_id,", ",", 1))
    raw = resolve("tolokers-2", data=tmp_path).read()
    assert raw.edges.T.tolist() == list(
        map(list, zip(files["edgelist"]["source"], files["edgelist"]["target"], strict=True))
    )


def test_each_split_is_a_dataset_of_the_same_files(tmp_path):
    write(tmp_path / "tolokers-2" / "raw", content())
    low, high = (resolve(name, data=tmp_path, download=False) for name in ("tolokers-2", "tolokers-2-RH"))
    assert (low.name, high.name) == ("tolokers-2", "tolokers-2-RH")
    assert low.fingerprint() != high.fingerprint()
    with pytest.raises(MissingRawFilesError, match=r"Put .*split_masks_TH\.csv into") as caught:
        resolve("tolokers-2-TH", data=tmp_path, download=False)
    assert str(tmp_path / "tolokers-2" / "raw") in str(caught.value)
    names = [info.name for info in catalog(tmp_path) if info.card.family == "GraphLand"]
    assert len(names) == 14 + 14 + 10
    assert "web-traffic-TH" not in names
    card = dataset_card("city-roads-M-RH")
    assert (card.metric, card.select, card.size) == ("r2", "loss", (1, 57_073))
    assert card.source.endswith("/city-roads-M.zip")


@pytest.mark.parametrize(
    ("file", "column", "value", "message"),
    [
        ("features", "age", "old", r"features\.csv is not a table that can be read .*'old'"),
        ("features", "age", "inf", r"features\.csv, line 6: the number is too large for float32 in the column age"),
        ("features", "visits", "1e39", r"features\.csv, line 6: the number is too large"),
        ("features", "kind", None, "line 6: the category kind is nan, not a whole number"),
        ("features", "country", 1.5, r"line 6: the category country is 1\.5"),
        ("targets", "label", "yes", r"targets\.csv is not a table"),
        ("targets", "label", 0.5, r"targets\.csv, line 6: the label 0\.5 is not a whole number"),
        ("targets", "label", 1e300, r"targets\.csv, line 6: the label 1e\+300 is not a whole number below"),
        ("split_masks_RL", "val", None, r"split_masks_RL\.csv, line 6: there is no truth value in the column val"),
        ("split_masks_RL", "val", "maybe", r"split_masks_RL\.csv is not a table"),
        ("edgelist", "target", NODES, r"edgelist\.csv, line 6: node 60 does not exist; nodes are numbered 0 to 59"),
        ("edgelist", "source", -1, r"edgelist\.csv, line 6: node -1 does not exist"),
        ("edgelist", "source", "a", r"edgelist\.csv is not a table"),
        ("edgelist", "target", None, r"edgelist\.csv, line 6: an end of the edge is missing"),
    ],
)
def test_odd_values_are_named(file, column, value, message, tmp_path):
    files = content()
    files[file][column][4] = value
    write(folder_of(tmp_path), files)
    with pytest.raises(InvalidInputError, match=message):
        resolve("tolokers-2", data=tmp_path).read()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": ["ranking"]}, r"info\.yaml must have a task, one of .*Got \['ranking'\]"),
        ({"task": "ranking"}, r"info\.yaml must have a task, one of multiclass_classification.*Got 'ranking'"),
        ({"numerical_features_names": "age"}, "must have a list of names numerical_features_names. Got 'age'"),
        ({"fraction_features_names": None}, "must have a list of names fraction_features_names. Got None"),
        ({"categorical_features_names": ["colour"]}, "must have one column colour"),
        ({"target_name": 3}, "must have a target_name. Got 3"),
    ],
)
def test_what_info_lacks_is_named(changes, message, tmp_path):
    files = content()
    files["info"] |= changes
    write(folder_of(tmp_path), files)
    with pytest.raises(InvalidInputError, match=message):
        resolve("tolokers-2", data=tmp_path).read()


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("info.yaml", "a: [", "not a YAML file"),
        ("info.yaml", "!!python/object/apply:os.system ['true']", "not a YAML file"),
        ("info.yaml", "just text", "must have a list of names"),
        ("info.yaml", "[" * 20_000, "not a YAML file"),
        ("info.yaml", "a: 2024-99-99", "not a YAML file"),
        ("targets.csv", b"node_id,\xff\n", "not a table"),
        ("features.csv", "", r"features\.csv is not a table"),
        ("features.csv", "node_id,age,share,visits,kind,is_new,country\n0,1,1,1,1,1\n", "not a table"),
        ("features.csv", "node_id,age,share,visits,kind,is_new,country\n0,1,1,1,1,1,1\n", "do not name the same nodes"),
        ("targets.csv", "node_id,label\n", "has no nodes"),
        ("edgelist.csv", "source\n1\n", "must have two columns"),
    ],
)
def test_files_that_do_not_fit_are_refused(file, text, message, tmp_path):
    folder = write(folder_of(tmp_path), content())
    (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidInputError, match=message):
        resolve("tolokers-2", data=tmp_path).read()


def test_a_feature_without_any_value_is_named(tmp_path):
    files = content()
    files["features"]["age"] = [None] * NODES
    write(folder_of(tmp_path), files)
    with pytest.raises(InvalidInputError, match="has no value at all in the column age"):
        resolve("tolokers-2", data=tmp_path).read()


def test_an_archive_is_fetched_for_all_splits(serve, tmp_path, monkeypatch):
    url, served = serve
    monkeypatch.setattr(graphland, "URL", url)
    folder = write(tmp_path / "toy", content())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"tolokers-2/{path.name}")
    (served / "tolokers-2.zip").write_bytes(out.getvalue())
    assert len(resolve("tolokers-2", data=tmp_path / "data").read().y) == NODES
    (served / "tolokers-2.zip").unlink()
    assert resolve("tolokers-2-RH", data=tmp_path / "data").read().notes["split"] == "RH"
