"""What a stage stores is what its kernel computes, on ordinary and on odd datasets."""

from typing import ClassVar

import networkx as nx
import numpy as np
import pytest

from leap.models.kernels.balls import khop_arrays
from leap.models.kernels.laplacian import lape
from leap.models.kernels.normalization import mean_and_scale
from leap.models.kernels.walks import rwpe
from leap.models.registries import ENCODINGS
from leap.pipeline import IngestOptions, encode, extract, ingest
from leap.pipeline.canonical import canonicalize
from leap.pipeline.derived import EncodingRecipe, encodable
from leap.store import Artifact
from leap.store.errors import WorkFailedError
from leap.store.graphs import StoredEncoding

ODD = {
    "one node": [nx.empty_graph(1)],
    "no edges": [nx.empty_graph(3), nx.empty_graph(2)],
    "empty graphs first and last": [nx.empty_graph(0), nx.path_graph(4), nx.empty_graph(0), nx.empty_graph(0)],
    "only pairs": [nx.path_graph(2)] * 5,
    "a cut graph between empty ones": [nx.empty_graph(0), nx.cycle_graph(200), nx.empty_graph(0)],
}
PARAMS = {"dim": 4, "directions": 3, "thresholds": 4, "hops": 1}


def networkx_neighbourhoods(source, hops):
    """Members and edges of every node by NetworkX alone."""
    raw = source.read()
    graph = nx.Graph()
    graph.add_nodes_from(range(int(raw.node_counts.sum())))
    graph.add_edges_from(raw.edges.T.tolist())
    egos = (nx.ego_graph(graph, v, radius=hops) for v in graph)
    return [(set(ego.nodes), {tuple(sorted(edge)) for edge in ego.edges}) for ego in egos]


def as_sets(hoods):
    return [
        (set(hoods.members(v).tolist()), {tuple(edge) for edge in hoods.edges_of(v).T.tolist()})
        for v in range(len(hoods))
    ]


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_stored_neighbourhoods_are_networkx_ego_graphs(varied, small_parts, new_context, hops):
    context = new_context()
    extract(varied, hops, ingest_options=small_parts, context=context)
    stored = context.store.find("neighborhoods", "varied", hops=hops)
    hoods = stored.neighborhoods()
    hoods.validate()
    assert as_sets(hoods) == networkx_neighbourhoods(varied, hops)
    assert stored.manifest.summary["memberships"] == len(hoods.nodes)
    assert stored.manifest.summary["edges"] == hoods.edges.shape[1]
    assert stored.manifest.summary["max_members"] == np.diff(hoods.node_ptr).max()


def test_stored_arrays_equal_direct_kernel_calls(varied, small_parts, new_context):
    context = new_context()
    extract(varied, 2, cap=6, cap_seed=5, ingest_options=small_parts, context=context)
    encode(varied, ["rwpe", "lape"], params={"dim": 7}, ingest_options=small_parts, context=context)
    graphs = canonicalize(varied.read())
    direct = khop_arrays(graphs.indptr, graphs.indices, 2, cap=6, seed=5)
    stored = context.store.find("neighborhoods", "varied", hops=2, cap=6)
    hoods = stored.neighborhoods()
    for name, expected in direct._asdict().items():
        assert np.array_equal(getattr(hoods, name), expected), name
    mean, scale = mean_and_scale(graphs.x, direct.node_ptr, direct.nodes)
    assert np.array_equal(stored.load("mean"), mean)
    assert np.array_equal(stored.load("scale"), scale)
    walks = rwpe(graphs.indptr, graphs.indices, 7).astype(np.float32)
    assert np.array_equal(context.store.find("rwpe", "varied", dim=7).load("encoding"), walks)
    spectrum = lape(graphs.indptr, graphs.indices, graphs.node_ptr, 7, "components")
    found = context.store.find("lape", "varied", dim=7)
    assert np.array_equal(found.load("encoding"), spectrum.vectors.astype(np.float32))
    assert np.array_equal(found.load("eigenvalues"), spectrum.eigenvalues, equal_nan=True)


def test_means_and_scales_are_those_of_the_neighbourhoods(varied, small_parts, new_context):
    context = new_context()
    extract(varied, 1, ingest_options=small_parts, context=context)
    stored = context.store.find("neighborhoods", "varied", hops=1)
    x = varied.read().x.astype(np.float64)
    hoods, mean, scale = stored.neighborhoods(), stored.load("mean"), stored.load("scale")
    for v in range(len(hoods)):
        rows = x[hoods.members(v)]
        np.testing.assert_allclose(mean[v], rows.mean(axis=0), rtol=0, atol=1e-6)
        largest = np.linalg.norm(rows - rows.mean(axis=0), axis=1).max()
        np.testing.assert_allclose(scale[v], largest + 1e-6 if largest else 0, rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("shape", ODD)
def test_odd_datasets_go_through_every_stage(source_of, new_context, shape):
    source, context = source_of(ODD[shape], "odd"), new_context()
    options = IngestOptions(partition_mb=0.001)
    extract(source, [1, 2], ingest_options=options, context=context)
    extract(source, 1, cap=2, ingest_options=options, context=context)
    encode(source, encodable(), params=PARAMS, ingest_options=options, context=context)
    store = context.store
    nodes = sum(graph.number_of_nodes() for graph in ODD[shape])
    hoods = store.find("neighborhoods", "odd", hops=2).neighborhoods()
    assert as_sets(hoods) == networkx_neighbourhoods(source, 2)
    assert store.find("rwpe", "odd").load("encoding").shape == (nodes, 4)
    assert store.find("lape", "odd").load("encoding").shape == (nodes, 4)
    assert store.find("lape", "odd").load("eigenvalues").shape == (len(ODD[shape]), 4)
    for kind in encodable():
        encoding = store.find(kind, "odd").load("encoding")
        assert len(encoding) == nodes
        assert np.isfinite(encoding).all()
    for kind in ("lect", "dect"):
        encoding = store.find(kind, "odd").load("encoding")
        assert encoding.shape == (nodes, 3, 4)
    assert store.verify() == []
    dataset = store.find("dataset", "odd")
    assert dataset.table("graphs")["nodes"].to_pylist() == [graph.number_of_nodes() for graph in ODD[shape]]
    assert dataset.load("x").shape == (nodes, 3)


def test_categorical_features_have_no_statistics(source_of, new_context):
    from leap.store.errors import InvalidInputError

    codes = np.arange(8).reshape(4, 2)
    source, context = source_of([nx.path_graph(4)], "codes", x=codes), new_context()
    extract(source, 1, context=context)
    stored = context.store.find("neighborhoods", "codes")
    assert stored.array_names() == ["edge_ptr", "edges", "node_ptr", "nodes"]
    dataset = context.store.find("dataset", "codes")
    assert dataset.manifest.summary["categorical"] is True
    assert dataset.load("x").dtype == np.int64
    assert np.array_equal(dataset.load("x"), codes)
    with pytest.raises(InvalidInputError, match="categorical"):
        encode(source, "dect", context=context)


def test_the_dataset_keeps_labels_folds_and_tables(varied, small_parts, new_context):
    context = new_context()
    report = ingest(varied, options=small_parts, context=context)["dataset"]
    stored = context.store.get(report.key)
    table = stored.table("graphs")
    assert table["label"].to_pylist() == [0, 1] * 5
    assert table["node_offset"].to_pylist() == np.cumsum([0, *table["nodes"].to_pylist()])[:-1].tolist()
    assert sum(table["edges"].to_pylist()) == report.summary["edges"] == varied.read().edges.shape[1]
    assert stored.table("folds").num_rows > 0
    assert stored.table("partitions").num_rows == report.partitions > 1


def test_per_partition_statistics_add_up_to_the_summary(varied, small_parts, new_context):
    context = new_context()
    extract(varied, 1, ingest_options=small_parts, context=context)
    stored = context.store.find("neighborhoods", "varied")
    table = stored.table("partitions")
    assert table["node_lo"].to_pylist() == [part.node_lo for part in stored.partitions]
    for name in ("memberships", "edges", "constant"):
        assert sum(table[name].to_pylist()) == stored.manifest.summary[name]
    assert max(table["max_members"].to_pylist()) == stored.manifest.summary["max_members"]


def test_given_directions_are_used_as_unit_vectors(varied, new_context):
    context = new_context()
    axes = {"direction_values": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), "thresholds": 5}
    longer = {"direction_values": ((9.0, 0.0, 0.0), (0.0, 0.5, 0.0)), "thresholds": 5}
    keys = [encode(varied, "dect", params=params, context=context)["dect"].key for params in (axes, longer)]
    one, two = (context.store.get(key).load("encoding") for key in keys)
    assert keys[0] != keys[1]
    assert np.array_equal(one, two)


@pytest.mark.parametrize("kind", ["dect", "lect"])
def test_a_partition_of_neighbourhoods_is_read_once_for_all_the_smaller_parts_made_of_it(
    varied, new_context, kind, monkeypatch
):
    context, reads, plain = new_context(), [], Artifact.read

    def counted(artifact, partition, names=None):
        if artifact.kind == "neighborhoods":
            reads.extend((partition, name) for name in names)
        return plain(artifact, partition, names)

    monkeypatch.setattr(Artifact, "read", counted)
    options = IngestOptions(partition_mb=0.012)
    report = encode(varied, kind, params={"directions": 16, "thresholds": 16}, ingest_options=options, context=context)
    inputs = context.store.find("neighborhoods", "varied").partitions
    assert report[kind].partitions >= 5 * len(inputs)
    assert len(reads) == len(set(reads)) == 6 * len(inputs)


def test_names_of_encodings_are_understood_in_any_case(varied, new_context):
    made = encode(varied, ["RWPE", "rwpe"], params={"dim": 2}, context=new_context())
    assert [report.kind for report in made.artifacts] == ["dataset", "rwpe"]


class Level(EncodingRecipe):
    """Two columns, in a form that `values` may spoil."""

    kind: ClassVar[str] = "level"
    algorithm: ClassVar[int] = 1

    values: str = "good"

    @property
    def columns(self):
        return 2

    def plan(self, reader, inputs):
        return self.plan_between_graphs(reader, 1e-6)

    def compute(self, reader, partition, inputs):
        good = np.ones((partition.num_nodes, 2), dtype=np.float32)
        return StoredEncoding.arrays(SPOILT[self.values](good)), {}


SPOILT = {
    "good": lambda good: good,
    "a row less": lambda good: good[1:],
    "a column less": lambda good: good[:, 1:],
    "flat": lambda good: good[:, 0],
    "text": lambda good: good.astype(str),
    "not a number": lambda good: good * np.nan,
}


@pytest.mark.parametrize("values", list(SPOILT)[1:])
def test_what_does_not_fit_the_nodes_is_never_stored(varied, new_context, monkeypatch, values):
    monkeypatch.setitem(ENCODINGS._loaded, "level", Level)
    context = new_context()
    with pytest.raises(WorkFailedError, match="Level computed a wrong level of the nodes 0 to"):
        encode(varied, "level", params={"values": values}, context=context)
    assert context.store.list("level") == []
    assert encode(varied, "level", context=context)["level"].kind == "level"
