"""LaPE against dense linear algebra: definition, eigenspaces, canonical basis, and what it must not depend on."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from leap.models.kernels.adjacency import build_csr
from leap.models.kernels.laplacian import lape
from leap.store.errors import InvalidInputError, WorkFailedError
from tests.strategies import simple_graphs


@pytest.fixture(autouse=True)
def one_thread_for_the_oracle():
    """Dense oracles of a few hundred rows only lose by sharing a busy machine's cores."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def arrays(graphs):
    """CSR and node pointer of several networkx graphs side by side."""
    whole = nx.disjoint_union_all(graphs) if graphs else nx.empty_graph(0)
    edges = np.array(list(whole.edges), np.int64).reshape(-1, 2).T
    csr = build_csr(edges, whole.number_of_nodes())
    return csr.indptr, csr.indices, np.cumsum([0, *(g.number_of_nodes() for g in graphs)])


def laplacian(graph):
    """I - D^-1/2 A D^-1/2 with D^-1/2 = 0 for isolated nodes."""
    n = graph.number_of_nodes()
    adjacency = nx.to_numpy_array(graph, nodelist=range(n)) if n else np.zeros((0, 0))
    degrees = adjacency.sum(axis=0)
    root = np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1)), 0)
    return np.eye(n) - root[:, None] * adjacency * root[None, :]


def clusters(values):
    """Ranges of equal eigenvalues."""
    cuts = [0, *(np.flatnonzero(np.diff(values) > 1e-9) + 1), len(values)]
    return [(a, b) for a, b in pairwise(cuts) if b > a]


def by_definition(graph, dim, drop="components"):
    """The canonical encoding, spelled out with the projectors of the whole graph's Laplacian."""
    values, vectors = np.linalg.eigh(laplacian(graph))
    trivial = sum(len(part) > 1 for part in nx.connected_components(graph))
    skip = trivial if drop == "components" else 1
    columns, kept = [], []
    for a, b in clusters(values):
        residual = vectors[:, a:b] @ vectors[:, a:b].T
        for _ in range(min(b - a, skip + dim - len(columns))):
            lengths = np.linalg.norm(residual, axis=0)
            pivot = int(np.flatnonzero(lengths >= lengths.max() * (1 - 1e-6))[0])
            column = residual[:, pivot] / lengths[pivot]
            residual = residual - np.outer(column, column @ residual)
            columns.append(column)
            kept.append(values[a])
    n = graph.number_of_nodes()
    found = np.array(columns).reshape(len(columns), n).T[:, skip : skip + dim]
    out = np.zeros((n, dim))
    out[:, : found.shape[1]] = found
    eigenvalues = np.full(dim, np.nan)
    eigenvalues[: found.shape[1]] = kept[skip : skip + dim]
    return out, eigenvalues


def hypercube(d):
    return nx.convert_node_labels_to_integers(nx.hypercube_graph(d), ordering="sorted")


def grid(a, b):
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(a, b))


SMALL = {
    "nothing": lambda: nx.empty_graph(0),
    "one node": lambda: nx.empty_graph(1),
    "isolated": lambda: nx.empty_graph(4),
    "edge": lambda: nx.path_graph(2),
    "path": lambda: nx.path_graph(9),
    "star": lambda: nx.star_graph(7),
    "complete": lambda: nx.complete_graph(8),
    "cycle": lambda: nx.cycle_graph(12),
    "grid": lambda: grid(5, 5),
    "hypercube": lambda: hypercube(4),
    "petersen": nx.petersen_graph,
    "equal parts": lambda: nx.disjoint_union_all([nx.cycle_graph(6), nx.empty_graph(2), nx.cycle_graph(6)]),
    "mixed parts": lambda: nx.disjoint_union_all(
        [nx.star_graph(3), nx.path_graph(5), nx.empty_graph(1), nx.complete_graph(4)]
    ),
}


@pytest.mark.parametrize("drop", ["components", "one"])
@pytest.mark.parametrize("name", SMALL)
def test_follows_the_definition(name, drop):
    graph = SMALL[name]()
    result = lape(*arrays([graph]), 10, drop)
    vectors, eigenvalues = by_definition(graph, 10, drop)
    np.testing.assert_allclose(result.vectors, vectors, atol=1e-10)
    np.testing.assert_allclose(result.eigenvalues[0], eigenvalues, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(simple_graphs(max_nodes=30), st.sampled_from(["components", "one"]))
def test_follows_the_definition_on_any_graph(case, drop):
    graph = case.to_networkx()
    result = lape(*arrays([graph]), 8, drop)
    vectors, eigenvalues = by_definition(graph, 8, drop)
    np.testing.assert_allclose(result.vectors, vectors, atol=1e-9)
    np.testing.assert_allclose(result.eigenvalues[0], eigenvalues, atol=1e-12)


def lollipop_parts():
    return nx.disjoint_union_all(
        [nx.cycle_graph(300), nx.lollipop_graph(12, 300), nx.path_graph(4), nx.cycle_graph(300)]
    )


LARGE = {
    "cycle": lambda: nx.cycle_graph(601),
    "path": lambda: nx.path_graph(600),
    "square grid": lambda: grid(24, 24),
    "hypercube": lambda: hypercube(9),
    "random": lambda: nx.connected_watts_strogatz_graph(600, 6, 0.3, seed=1),
    "dense": lambda: nx.gnp_random_graph(350, 0.2, seed=2),
    "tree": lambda: nx.balanced_tree(3, 5),
    "several large parts": lollipop_parts,
}


@pytest.mark.parametrize("name", LARGE)
def test_sparse_solvers_span_the_eigenspaces_of_a_dense_one(name):
    graph = LARGE[name]()
    result = lape(*arrays([graph]), 20, dense_limit=64)
    assert result.status["components"]["inverse"] + result.status["components"]["lanczos"] >= 1
    assert result.status["warnings"] == []
    values, vectors = np.linalg.eigh(laplacian(graph))
    trivial = nx.number_connected_components(graph)
    values, vectors = values[trivial:], vectors[:, trivial:]
    np.testing.assert_allclose(result.eigenvalues[0], values[:20], rtol=1e-8, atol=1e-13)
    for a, b in clusters(values[:60]):
        if b <= 20:
            mine = result.vectors[:, a:b]
            np.testing.assert_allclose(mine @ mine.T, vectors[:, a:b] @ vectors[:, a:b].T, atol=1e-8)
        elif a < 20:  # cut off by the dimension: inside the eigenspace at least
            mine = result.vectors[:, a:20]
            np.testing.assert_allclose(mine.T @ mine, np.eye(20 - a), atol=1e-10)
            np.testing.assert_allclose(vectors[:, a:b] @ (vectors[:, a:b].T @ mine), mine, atol=1e-8)


@pytest.mark.parametrize("name", LARGE)
def test_the_basis_does_not_depend_on_the_solver(name):
    graph = arrays([LARGE[name]()])
    sparse, dense = lape(*graph, 12, dense_limit=64), lape(*graph, 12, dense_limit=2000)
    assert dense.status["components"]["dense"] > sparse.status["components"]["dense"]
    np.testing.assert_allclose(sparse.vectors, dense.vectors, atol=1e-8)


def test_inverse_and_lanczos_agree(monkeypatch):
    from leap.models.kernels import laplacian_sparse

    graph = arrays([grid(30, 31)])
    inverse = lape(*graph, 12)
    monkeypatch.setattr(laplacian_sparse, "_fill_budget", lambda *_: 0)
    lanczos = lape(*graph, 12)
    assert (inverse.status["components"]["inverse"], lanczos.status["components"]["lanczos"]) == (1, 1)
    np.testing.assert_allclose(inverse.vectors, lanczos.vectors, atol=1e-9)


def test_lanczos_that_does_not_converge_gives_way_to_a_factorization(monkeypatch):
    from leap.models.kernels import laplacian_sparse

    monkeypatch.setattr(laplacian_sparse, "_fill_budget", lambda *_: 0)
    monkeypatch.setattr(laplacian_sparse, "LANCZOS_WORK", 0.0)
    result = lape(*arrays([nx.path_graph(3000)]), 5)
    assert result.status["components"]["inverse"] == 1
    angles = np.pi * np.arange(1, 6) / 2999
    np.testing.assert_allclose(result.eigenvalues[0], 1 - np.cos(angles), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "drop"),
    [
        ("square grid", "components"),
        ("hypercube", "components"),
        ("random", "one"),
        ("several large parts", "components"),
        ("several large parts", "one"),
    ],
)
def test_a_column_does_not_depend_on_the_dimension_asked_for(name, drop):
    graph = arrays([LARGE[name]()])
    for limit in (64, 2000):
        whole = lape(*graph, 40, drop, dense_limit=limit)
        for dim in (1, 10, 17):
            part = lape(*graph, dim, drop, dense_limit=limit)
            assert np.array_equal(part.vectors, whole.vectors[:, :dim])
            assert np.array_equal(part.eigenvalues, whole.eigenvalues[:, :dim])


def hubs(number, leaves):
    """Hubs that all know each other, with leaves of their own: eigenvalue 1 has number · (leaves - 1) copies."""
    graph = nx.complete_graph(number)
    graph.add_edges_from((hub, number + hub * leaves + leaf) for hub in range(number) for leaf in range(leaves))
    return graph


@pytest.mark.parametrize(
    ("graph", "dims"),
    [
        (lambda: nx.connected_watts_strogatz_graph(513, 6, 0.3, seed=1), (500, 180, 64, 5)),
        (lambda: hubs(20, 40), (100, 30, 5)),
        (lambda: nx.star_graph(599), (600, 40, 1)),
    ],
    ids=["just beyond dense", "many copies further up", "star"],
)
def test_a_column_does_not_depend_on_the_dimension_where_that_once_chose_the_solver(graph, dims):
    given = arrays([graph()])
    whole = lape(*given, dims[0])
    assert whole.status["components"]["dense"] == 1
    for dim in dims[1:]:
        part = lape(*given, dim)
        assert part.vectors.tobytes() == np.ascontiguousarray(whole.vectors[:, :dim]).tobytes()
        assert part.eigenvalues.tobytes() == np.ascontiguousarray(whole.eigenvalues[:, :dim]).tobytes()
    values = np.linalg.eigvalsh(laplacian(graph()))[1 : dims[0] + 1]
    np.testing.assert_allclose(whole.eigenvalues[0, : len(values)], values, atol=1e-12)


SHAPES = {
    "tree": lambda n, seed: nx.random_labeled_tree(n, seed=seed),
    "ring": lambda n, seed: nx.connected_watts_strogatz_graph(n, 4, 0.1 * (seed % 4), seed=seed),
    "random": lambda n, seed: nx.gnp_random_graph(n, 8 / n, seed=seed),
    "hubs": lambda n, seed: hubs(2 + seed % 5, n // (2 + seed % 5)),
    "bipartite": lambda n, seed: nx.complete_bipartite_graph(3 + seed % 40, n),
    "parts": lambda n, seed: nx.disjoint_union(nx.cycle_graph(n), nx.random_labeled_tree(n, seed=seed)),
}


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(SHAPES)),
    st.integers(150, 400),
    st.integers(0, 99),
    st.sampled_from(["components", "one"]),
    st.lists(st.integers(1, 220), min_size=2, max_size=3, unique=True),
)
def test_a_column_depends_on_the_dimension_for_no_shape(shape, size, seed, drop, dims):
    given = arrays([SHAPES[shape](size, seed)])
    large, *smaller = sorted(dims, reverse=True)
    whole = lape(*given, large, drop, dense_limit=64)
    assert whole.status["max_residual"] < 1e-10
    for dim in smaller:
        part = lape(*given, dim, drop, dense_limit=64)
        assert part.vectors.tobytes() == np.ascontiguousarray(whole.vectors[:, :dim]).tobytes()
        assert part.eigenvalues.tobytes() == np.ascontiguousarray(whole.eigenvalues[:, :dim]).tobytes()


def test_an_operator_that_fails_later_leaves_the_first_columns_as_they_were(monkeypatch):
    """Lanczos gives way in the second stage: the columns of the first stay those of Lanczos."""
    from leap.models.kernels import laplacian_sparse

    monkeypatch.setattr(laplacian_sparse, "_fill_budget", lambda *_: 0)
    graph = arrays([nx.connected_watts_strogatz_graph(600, 6, 0.3, seed=1)])
    plain = laplacian_sparse.top_eigenpairs

    def failing(apply, fixed, count, **options):
        if options["max_products"] < 20_000 and fixed.shape[1] > 17:  # only the inverse may try as often
            return laplacian_sparse.TopPairs(np.empty(0), np.empty((600, 0)), False)
        return plain(apply, fixed, count, **options)

    first = lape(*graph, 10)
    monkeypatch.setattr(laplacian_sparse, "top_eigenpairs", failing)
    both = lape(*graph, 40)
    assert (first.status["components"]["lanczos"], both.status["components"]["inverse"]) == (1, 1)
    assert np.array_equal(both.vectors[:, :10], first.vectors)
    assert both.status["max_residual"] < 1e-12


def test_more_copies_than_can_be_told_apart_are_refused_not_read_from_beyond(monkeypatch):
    from leap.models.kernels import laplacian_sparse

    monkeypatch.setattr(laplacian_sparse, "DENSE_FINISH_LIMIT", 0)
    with pytest.raises(WorkFailedError, match=r"too many copies to tell 690 eigenvectors apart. Ask for at most"):
        lape(*arrays([nx.star_graph(799)]), 690)


MALFORMED = {
    "id too large": ([0, 1, 2], [1, 7], [0, 2], "indices must lie in 0…1, but span 1…7"),
    "negative id": ([0, 1, 2], [1, -1], [0, 2], "indices must lie in 0…1, but span -1…1"),
    "pointers beyond": ([0, 1, 9], [1, 0], [0, 2], "indptr must rise from 0 to 2"),
    "pointers that fall": ([0, 3, 2], [1, 0], [0, 2], "indptr must rise"),
    "graphs beyond": ([0, 1, 2], [1, 0], [0, 5], "node_ptr must rise from 0 to 2"),
    "one direction": ([0, 1, 1], [1], [0, 2], "must be symmetric"),
    "edge between graphs": ([0, 1, 2], [1, 0], [0, 1, 2], "joins graph 0 and graph 1"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_arrays_that_are_no_adjacency_are_refused(case):
    indptr, indices, node_ptr, message = MALFORMED[case]
    with pytest.raises(InvalidInputError, match=message):
        lape(np.array(indptr), np.array(indices), np.array(node_ptr), 3)


@settings(max_examples=30, deadline=None)
@given(st.lists(simple_graphs(max_nodes=18), max_size=5), st.data())
def test_graphs_do_not_depend_on_the_others_of_the_batch(cases, data):
    graphs = [case.to_networkx() for case in cases]
    whole = lape(*arrays(graphs), 6)
    first = data.draw(st.integers(0, len(graphs)))
    last = data.draw(st.integers(first, len(graphs)))
    indptr, indices, node_ptr = arrays(graphs[first:last])
    begin = sum(g.number_of_nodes() for g in graphs[:first])
    part = lape(indptr, indices, node_ptr, 6)
    assert np.array_equal(part.vectors, whole.vectors[begin : begin + node_ptr[-1]])
    assert np.array_equal(part.eigenvalues, whole.eigenvalues[first:last], equal_nan=True)


def test_large_and_small_graphs_share_a_batch():
    graphs = [nx.path_graph(3), grid(20, 20), nx.empty_graph(0), nx.cycle_graph(5), grid(20, 20)]
    whole = lape(*arrays(graphs), 7, dense_limit=100)
    assert whole.status["components"] == {"isolated": 0, "dense": 2, "inverse": 2, "lanczos": 0}
    assert np.array_equal(whole.vectors[3:403], whole.vectors[408:])
    assert np.array_equal(whole.vectors[3:403], lape(*arrays(graphs[1:2]), 7, dense_limit=100).vectors)


def test_eigenspaces_too_large_for_the_sparse_solver_are_solved_densely_where_that_is_quick():
    star = nx.star_graph(699)
    result = lape(*arrays([star]), 6)
    assert result.status["warnings"] == []
    np.testing.assert_allclose(result.vectors, by_definition(star, 6)[0], atol=1e-10)


def test_an_incomplete_eigenspace_is_reported(monkeypatch):
    from leap.models.kernels import laplacian_sparse

    monkeypatch.setattr(laplacian_sparse, "DENSE_FINISH_LIMIT", 0)
    graph = arrays([nx.star_graph(699)])
    result = lape(*graph, 6)
    assert "too many copies" in result.status["warnings"][0]
    np.testing.assert_allclose(result.eigenvalues, 1.0)
    np.testing.assert_allclose(result.vectors.T @ result.vectors, np.eye(6), atol=1e-10)
    assert result.status["max_residual"] < 1e-12
    assert np.array_equal(lape(*graph, 3).vectors, result.vectors[:, :3])


def test_few_distinct_eigenvalues_with_hundreds_of_copies_each_are_found():
    spider = nx.star_graph(150)
    for leg in range(150):
        nx.add_path(spider, [leg + 1, 151 + 3 * leg, 152 + 3 * leg, 153 + 3 * leg])
    assert len(spider) > 512
    result = lape(*arrays([spider]), 10)
    assert result.status["components"]["inverse"] == 1
    assert result.status["warnings"] == []
    np.testing.assert_allclose(result.vectors, by_definition(spider, 10)[0], atol=1e-9)


def test_many_equal_components_are_interleaved_in_node_order():
    graph = nx.disjoint_union_all([nx.path_graph(3)] * 400)
    result = lape(*arrays([graph]), 5)
    np.testing.assert_allclose(result.eigenvalues, 1.0)
    expected = np.zeros((1200, 5))
    for j in range(5):
        expected[3 * j, j], expected[3 * j + 2, j] = np.sqrt(0.5), -np.sqrt(0.5)
    np.testing.assert_allclose(result.vectors, expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_equals_pyg_up_to_sign_where_the_spectrum_is_simple(seed):
    transforms = pytest.importorskip("torch_geometric.transforms")
    import torch
    from torch_geometric.data import Data

    graph = nx.connected_watts_strogatz_graph(25, 4, 0.5, seed=seed)
    values = np.linalg.eigvalsh(laplacian(graph))
    assert np.diff(values).min() > 1e-6
    edges = np.array(list(graph.edges)).T
    data = Data(edge_index=torch.tensor(np.concatenate([edges, edges[::-1]], axis=1)), num_nodes=25)
    theirs = transforms.AddLaplacianEigenvectorPE(6, attr_name=None)(data).x.numpy()
    mine = lape(*arrays([graph]), 6).vectors
    np.testing.assert_allclose(np.abs(mine), np.abs(theirs), atol=1e-5)
    assert np.all(np.abs(np.sum(mine * theirs, axis=0)) > 1 - 1e-5)


PROGRAM = """
import hashlib, sys
import networkx as nx, numpy as np
from leap.models.kernels.adjacency import build_csr
from leap.models.kernels.laplacian import lape
graphs = [nx.gnp_random_graph(40, 0.1, seed=1), nx.grid_2d_graph(40, 40), nx.gnp_random_graph(700, 0.1, seed=2)]
whole = nx.disjoint_union_all(graphs)
csr = build_csr(np.array(list(whole.edges)).T, len(whole))
result = lape(csr.indptr, csr.indices, np.cumsum([0, *map(len, graphs)]), 10)
assert result.status["components"]["inverse"] and result.status["components"]["lanczos"], result.status
print(hashlib.sha256(result.vectors.tobytes() + result.eigenvalues.tobytes()).hexdigest())
"""


def test_bits_do_not_depend_on_the_process_or_its_threads():
    digests = set()
    for threads in ("1", "2"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        digests.add(run.stdout)
    assert len(digests) == 1


def test_every_sign_is_fixed_by_the_first_of_the_largest_entries():
    vectors = lape(*arrays([nx.connected_watts_strogatz_graph(40, 4, 0.5, seed=3)]), 10).vectors
    for column in vectors.T:
        largest = np.abs(column).max()
        assert column[np.flatnonzero(np.abs(column) >= largest * (1 - 1e-6))[0]] > 0


@pytest.mark.parametrize("bad", [{"dim": 0}, {"dim": 3, "drop": "none"}])
def test_impossible_requests_are_refused(bad):
    with pytest.raises(InvalidInputError):
        lape(*arrays([nx.path_graph(3)]), **bad)


@pytest.mark.parametrize(("name", "method"), [("minesweeper", "inverse"), ("tolokers", "lanczos")])
def test_real_large_graphs_are_accurate(name, method):
    if not (folder := os.environ.get("LEAP_DATA")):
        pytest.skip("LEAP_DATA is not set")
    path = Path(folder) / name / "raw" / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path} does not exist")
    raw = np.load(path)
    csr = build_csr(raw["edges"].T, len(raw["node_labels"]))
    result = lape(csr.indptr, csr.indices, np.array([0, len(raw["node_labels"])]), 10)
    assert result.status["components"][method] == 1
    assert result.status["max_residual"] < 1e-12
    np.testing.assert_allclose(result.vectors.T @ result.vectors, np.eye(10), atol=1e-11)
