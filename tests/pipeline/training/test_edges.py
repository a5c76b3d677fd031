"""Attributes of edges from reader to network: in the order of the edges, read only where a network needs them."""

import json
from dataclasses import replace

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch_geometric.data import Data

from leap.models.network_config import NetworkConfig
from leap.pipeline import Context, IngestOptions, Workforce, from_networkx, from_pyg, ingest, load_run, predict, train
from leap.pipeline.datasets.source import MemorySource
from leap.pipeline.pyg.loader import to_pyg_batch
from leap.pipeline.training.requirements import dataset_facts
from leap.store import Store
from leap.store.errors import InvalidInputError
from leap.store.graphs import GraphStream, StoredGraphs, assemble

GINE = {"backbone": "gine", "encoding": "none"}


def bonded(count=60, categories=True, seed=0):
    """Paths and cycles whose class is written on their edges and nowhere else."""
    rng, graphs = np.random.default_rng(seed), []
    for number in range(count):
        graph = (nx.cycle_graph if number % 3 else nx.path_graph)(3 + number % 4)
        graph.graph["y"] = int(rng.integers(2))
        for node in graph:
            graph.nodes[node]["x"] = [1.0, 0.5, -0.5, 0.0]
        for a, b in graph.edges:
            graph.edges[a, b]["bond"] = (5 if graph.graph["y"] else 2) if categories else graph.graph["y"] - 0.5
            graph.edges[a, b]["length"] = float(10 * a + b) / 100
        graphs.append(graph)
    return graphs


@pytest.fixture(scope="module")
def bonds():
    return from_networkx(bonded(), "bonds", edge_attributes="bond")


@pytest.fixture(scope="module")
def lengths():
    return from_networkx(bonded(categories=False), "lengths", edge_attributes=("length", "bond"))


def stored(source, context, options=None):
    return context.store.get(ingest(source, context=context, options=options)["dataset"].key)


@pytest.mark.parametrize("memory_bytes", [0, 2**31])
def test_attributes_stream_in_the_order_of_the_edges(lengths, context, memory_bytes):
    graphs, made = bonded(categories=False), stored(lengths, context, IngestOptions(partition_mb=0.001))
    assert len(made.partitions) > 2
    stream = GraphStream(made, batch_size=7, window=2, memory_bytes=memory_bytes, with_edge_attr=True)
    seen = []
    for batch in stream.epoch(0):
        assert batch.edge_attr.dtype == np.float32
        assert batch.edge_attr.shape == (batch.edge_index.shape[1], 2)
        owner = batch.batch[batch.edge_index[0]]
        first = batch.ptr[owner]
        for (a, b), graph, row in zip((batch.edge_index - first).T.tolist(), owner, batch.edge_attr, strict=True):
            wanted = graphs[batch.graphs[graph]].edges[a, b]
            assert row.tolist() == pytest.approx([wanted["length"], wanted["bond"]])
        seen.extend(batch.graphs.tolist())
    assert sorted(seen) == list(range(60))
    union, _, _ = assemble([next(stream.part(range(i, 60, 2), seed=i, batch_size=4).picks(0)) for i in (0, 1)])
    assert len(union.edge_attr) == union.edge_index.shape[1]
    first = to_pyg_batch(next(stream.epoch(0)))
    assert [len(one.edge_attr) for one in first.to_data_list()] == [one.num_edges for one in first.to_data_list()]


def test_attributes_are_read_by_nobody_who_does_not_ask(lengths, context, monkeypatch):
    made, read = stored(lengths, context), []
    original = StoredGraphs.read
    monkeypatch.setattr(
        StoredGraphs, "read", lambda self, part, names=None: read.extend(names) or original(self, part, names)
    )
    assert next(GraphStream(made).epoch(0)).edge_attr is None
    dataset_facts(made, NetworkConfig(backbone="gcn", encoding="none"))
    assert "edge_attr" not in read
    bare, full = GraphStream(made), GraphStream(made, with_edge_attr=True)
    assert full.nbytes == bare.nbytes + 2 * 4 * 2 * made.num_edges
    next(full.epoch(0))
    assert "edge_attr" in read


def test_codes_of_edges_are_among_the_facts_of_networks_that_need_them(bonds, lengths, context):
    facts = dataset_facts(stored(bonds, context), NetworkConfig(**GINE))
    assert (facts.edge_features, facts.edge_codes) == (1, ((2, 5),))
    facts = dataset_facts(stored(lengths, context), NetworkConfig(**GINE))
    assert (facts.edge_features, facts.edge_codes) == (2, None)


@pytest.mark.parametrize("source", ["bonds", "lengths"])
def test_gine_learns_what_is_written_on_edges_alone(source, context, options, tmp_path, request):
    config = options(**GINE, epochs=100, lr=0.01, batch_size=8, hidden=8, layers=2, patience=100)
    result = train(request.getfixturevalue(source), config, context, run=tmp_path / "run")
    assert result.metrics["test"]["accuracy"]["mean"] > 0.95
    plain = train(
        request.getfixturevalue(source), options(backbone="gin", encoding="none"), context, run=tmp_path / "gin"
    )
    assert plain.metrics["test"]["accuracy"]["mean"] < 0.8


@pytest.mark.parametrize(
    "network",
    [
        {"backbone": "gine", "encoding": "leap-l", "leap_every_layer": True, "hops": (1, 2)},
        {"backbone": "gps", "encoding": "none", "with_edges": True, "layers": 2},
        {"backbone": "gcn", "encoding": "leap-f", "edge_weight_from": 0},
        {"backbone": "dect-4k", "edge_weight_from": 0},
    ],
)
def test_networks_that_look_at_edges_train_and_predict(network, lengths, context, options, tmp_path):
    run = train(lengths, options(**network, epochs=1), context, run=tmp_path / "run")
    other = from_networkx(bonded(8, categories=False, seed=3), "others", edge_attributes=("length", "bond"))
    assert predict(run.path, other, context).items == 8
    half = from_networkx(bonded(8, categories=False, seed=3), "half", edge_attributes="length")
    with pytest.raises(InvalidInputError, match="edges of 'half' have 1 attributes, and the run run was trained on 2"):
        predict(run.path, half, context)


def test_predictions_are_those_of_the_same_graphs_in_pyg(bonds, context, options, tmp_path):
    run = load_run(train(bonds, options(**GINE, epochs=2), context, run=tmp_path / "run").path)
    data = []
    for graph in bonded(6, seed=4):
        pairs = [(a, b, graph.edges[a, b]["bond"]) for a, b in graph.edges]
        both = torch.tensor([*pairs, *((b, a, bond) for a, b, bond in pairs)])
        data.append(
            Data(
                x=torch.tensor([[1.0, 0.5, -0.5, 0.0]]).expand(len(graph), 4),
                edge_index=both[:, :2].T,
                edge_attr=both[:, 2:],
            )
        )
    found = run(data)
    wanted = run(from_networkx(bonded(6, seed=4), "six", edge_attributes="bond"), context)
    torch.testing.assert_close(found, wanted)
    data[0].edge_attr[0] = 9
    with pytest.raises(InvalidInputError, match="categorical edge attribute 0 has the value 9"):
        run(data)


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_attributes_that_are_no_numbers_are_refused_in_prediction_too(odd, lengths, context, options, tmp_path):
    config = options(backbone="gine", encoding="none", epochs=1)
    run = load_run(train(lengths, config, context, run=tmp_path / "run").path)
    ends = torch.tensor([[0, 1], [1, 0]])
    strange = Data(x=torch.ones(2, 4), edge_index=ends, edge_attr=torch.tensor([[1.0, 2.0], [odd, 2.0]]))
    with pytest.raises(InvalidInputError, match=f"column 0 of the attributes of the edges of .* holds {odd}"):
        run([strange])


@pytest.mark.parametrize("network", [GINE, {"backbone": "gcn", "encoding": "leap-f", "edge_weight_from": 0}])
def test_folds_in_a_stack_are_what_they_are_alone(network, lengths, context, options, tmp_path):
    config = options(**network, epochs=2, folds=3)
    runs = [train(lengths, config, context, run=tmp_path / f"{size}", stack=size).path for size in (1, 3)]
    for number in range(3):
        one, other = (torch.load(run / f"fold-{number}" / "best.pt", weights_only=True)["network"] for run in runs)
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_node_task_has_attributes_of_its_edges(nodes, context, options, tmp_path):
    raw = nodes.read()
    source = MemorySource(
        "marked", "test", replace(raw, edge_attr=np.random.default_rng(0).random((raw.edges.shape[1], 2)))
    )
    assert train(source, options(**GINE, layers=2), context, run=tmp_path / "run").metrics["test"]["accuracy"]


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (GINE, "--backbone gine needs attributes of edges, and those of 'shapes' have none"),
        ({"backbone": "gps", "with_edges": True}, "--with-edges needs attributes of edges"),
        ({"edge_weight_from": 0}, "--edge-weight-from needs attributes of edges"),
    ],
)
def test_datasets_without_attributes_are_refused_before_any_work(network, message, shapes, context, options, tmp_path):
    with pytest.raises(InvalidInputError, match=message):
        train(shapes, options(**network), context, run=tmp_path / "run")


def test_weights_must_be_a_column_of_measurements(bonds, lengths, context, options, tmp_path):
    with pytest.raises(InvalidInputError, match="are 1 columns of categories, which cannot weigh anything"):
        train(bonds, options(edge_weight_from=0), context, run=tmp_path / "run")
    with pytest.raises(InvalidInputError, match=r"--edge-weight-from 2: .* are 2 columns of measurements"):
        train(lengths, options(edge_weight_from=2), context, run=tmp_path / "run")


def test_attributes_that_are_not_finite_are_kept_and_seen_by_no_network(context, options, tmp_path):
    graph = Data(
        x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]), edge_attr=torch.tensor([[1.0], [float("nan")]])
    )
    graphs = [graph.clone() for _ in range(6)]
    for number, one in enumerate(graphs):
        one.y = torch.tensor([number % 2])
    source = from_pyg(graphs, "gaps")
    with pytest.raises(InvalidInputError, match="column 0 of the attributes of the edges of 'gaps' holds nan"):
        train(source, options(**GINE), context, run=tmp_path / "run")
    assert train(source, options(backbone="gin", encoding="none", epochs=1), context, run=tmp_path / "gin")


def test_what_a_network_does_not_look_at_changes_no_result(context, options, tmp_path):
    graphs = bonded(categories=False)
    config, weights = options(backbone="gin", encoding="leap-l"), []
    for name, edges in (("same", None), ("same", ("length",))):
        source = from_networkx(graphs, name, edge_attributes=edges)
        run = train(source, config, context, run=tmp_path / ("with" if edges else "without")).path
        weights.append(torch.load(run / "fold-0" / "best.pt", weights_only=True)["network"])
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


# Readers


def test_names_choose_attributes_of_files(tmp_path):
    graphs = bonded(4)
    (tmp_path / "nx").mkdir()
    (tmp_path / "nx" / "g.json").write_text(json.dumps([nx.node_link_data(graph, edges="links") for graph in graphs]))
    context = Context(Store.open(tmp_path / "store"), workforce=Workforce(0))
    options = IngestOptions(edge_attributes=("bond",))
    made = stored(str(tmp_path / "nx"), context, options)
    assert made.edge_codes() == ((2, 5),)
    assert ingest(str(tmp_path / "nx"), context=context, options=options).about.count("1 attribute of edges") == 1
    bare = stored(str(tmp_path / "nx"), context)
    assert bare.num_edge_features == 0
    assert "edge_attributes" not in bare.manifest.provenance["source"]["options"]

    rows = [(g, a, b, graph.edges[a, b]["length"]) for g, graph in enumerate(graphs) for a, b in graph.edges]
    (tmp_path / "tables").mkdir()
    columns = dict(zip(("graph", "source", "target", "length"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "tables" / "edges.parquet")
    made = stored(str(tmp_path / "tables"), context, IngestOptions(edge_attributes=("length",)))
    batch = next(GraphStream(made, shuffle=False, batch_size=4, with_edge_attr=True).epoch(0))
    table = {(g, a, b): length for g, a, b, length in rows}
    local = batch.edge_index - batch.ptr[batch.batch[batch.edge_index[0]]]
    for (a, b), graph, (found,) in zip(
        local.T.tolist(), batch.batch[batch.edge_index[0]], batch.edge_attr, strict=True
    ):
        assert found == pytest.approx(table[int(graph), min(a, b), max(a, b)])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("colour",), "there is no edge attribute 'colour'"),
        (("odd",), "graph 0, edge 1-2: the attribute 'odd' is missing; it must be a number, as for every edge"),
        (("text",), "graph 0, edge 0-1: the attribute 'text' is 'a'"),
        ((), "no edge attribute is named"),
    ],
)
def test_attributes_that_edges_lack_are_refused(names, message):
    graph = nx.path_graph(3)
    graph.edges[0, 1].update(odd=1.0, text="a")
    with pytest.raises(InvalidInputError, match=message):
        from_networkx(graph, "g", edge_attributes=names)


def test_attributes_of_pyg_are_chosen_by_name():
    edges = torch.tensor([[0, 1], [1, 0]])
    graph = Data(x=torch.ones(2, 1), edge_index=edges, edge_attr=torch.ones(2, 2), edge_weight=torch.tensor([3.0, 3.0]))
    raw = from_pyg(graph, "g", edge_attributes=("edge_weight", "edge_attr")).read()
    assert raw.edge_attr.tolist() == [[3.0, 1.0, 1.0]] * 2
    assert raw.notes["left_out"] == []
    with pytest.raises(InvalidInputError, match="no attribute 'weight'"):
        from_pyg(graph, "g", edge_attributes="weight")
