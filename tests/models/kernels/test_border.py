"""Indices outside their arrays: refused at the border of every kernel, with the value met."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leap.models import dect
from leap.models.kernels.balls import khop_arrays
from leap.models.kernels.normalization import mean_and_scale
from leap.models.kernels.transforms import dect_forward, ect_forward
from leap.models.kernels.walks import rwpe
from leap.models.messages import Weights, attend, gather, sum_weights
from leap.pipeline import khop
from leap.store.errors import InvalidInputError

PATH = khop([[0, 1, 2], [1, 2, 3]])  # ten members, six edges
BROKEN = [
    ({"node_ptr": np.array([0, 2, 5, 8, 11])}, "node_ptr must rise from 0 to 10.*from 0 to 11"),
    ({"node_ptr": np.array([1, 2, 5, 8, 10])}, "node_ptr must rise from 0 to 10.*from 1 to 10"),
    ({"node_ptr": np.array([0, 2, 99, 8, 10])}, "falls from 99 to 8 at 2"),
    ({"node_ptr": np.array([0, 2, -5, 8, 10])}, "falls from 2 to -5 at 1"),
    ({"edge_ptr": np.array([0, 1, 3, 5, 2**40])}, "edge_ptr must rise from 0 to 6"),
    ({"edge_ptr": np.array([0, 6])}, "must have length N . 1, but have 5 and 2"),
    ({"nodes": np.full(10, 4, np.int32)}, "nodes must lie in 0…3, but span 4…4"),
    ({"nodes": np.full(10, -1)}, "nodes must lie in 0…3, but span -1…-1"),
    ({"nodes": np.full(10, 2**32 + 1)}, "nodes must lie in 0…3, but span 4294967297"),
    ({"nodes": np.zeros(10)}, "nodes must hold integers in one dimension, not float64"),
    ({"edges": np.full((2, 6), 4, np.int32)}, "edges must lie in 0…3, but span 4…4"),
    ({"edges": np.zeros((6, 2), np.int32)}, r"edges must have shape \(2, K\), not \(6, 2\)"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_neighbourhoods_made_by_hand_are_checked(change, message):
    hoods = replace(PATH, **change)
    for dtype in (torch.float32, torch.float64):
        with pytest.raises(InvalidInputError, match=message):
            dect(torch.zeros(4, 2, dtype=dtype), hoods, torch.eye(2, dtype=dtype), torch.zeros(1, dtype=dtype), 8.0)
    arrays = (hoods.node_ptr, hoods.nodes, hoods.edge_ptr, hoods.edges)
    operands = (np.zeros((4, 2)), *arrays, np.zeros((4, 2)), np.zeros(4), np.eye(2), np.zeros(1))
    for call in (lambda: dect_forward(*operands, 8.0), lambda: ect_forward(*operands)):
        with pytest.raises(InvalidInputError, match=message):
            call()


def test_arrays_changed_after_a_first_use_are_seen():
    hoods, x = khop([[0, 1, 2], [1, 2, 3]]), torch.randn(4, 2)
    dect(x, hoods, torch.eye(2), torch.zeros(1), 8.0)
    hoods.nodes[3] = 10**6
    with pytest.raises(InvalidInputError, match="but span 0…1000000"):
        dect(x, hoods, torch.eye(2), torch.zeros(1), 8.0)


def test_a_gradient_is_of_the_arrays_that_the_transform_saw():
    x = torch.randn(4, 2, requires_grad=True)
    arguments = (torch.eye(2), torch.linspace(-1, 1, 5), 8.0)
    dect(x, PATH, *arguments).square().sum().backward()
    expected, x.grad = x.grad, None
    hoods = khop([[0, 1, 2], [1, 2, 3]]).torch()
    out = dect(x, hoods, *arguments)
    for array in (hoods.node_ptr, hoods.nodes, hoods.edge_ptr, hoods.edges):
        array.fill_(10**8)
    out.square().sum().backward()
    assert torch.equal(x.grad, expected)


@pytest.mark.parametrize("operation", ["attend", "gather"])
def test_edges_changed_before_the_backward_pass_are_an_error(operation):
    x, edges = torch.randn(4, 3, requires_grad=True), torch.tensor([[0, 1, 2], [1, 2, 3]])
    if operation == "attend":
        out = attend(x, x[:, :2].detach(), edges)
    else:
        out = gather(x, edges, Weights(torch.ones(3), torch.ones(4)))
    edges.fill_(10**8)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_lists_strange_types_and_layouts_of_sound_neighbourhoods_are_taken():
    x, directions, grid = torch.randn(4, 2), torch.eye(2), torch.linspace(-1, 1, 5)
    expected = dect(x, PATH, directions, grid, 8.0)
    lists = replace(PATH, node_ptr=PATH.node_ptr.tolist(), edges=PATH.edges.tolist())
    strange = replace(PATH, nodes=PATH.nodes.astype(">i8"), edges=np.asfortranarray(PATH.edges.astype(np.uint8)))
    for hoods in (lists, strange, PATH.torch(), replace(PATH, node_ptr=torch.from_numpy(PATH.node_ptr))):
        assert torch.equal(dect(x, hoods, directions, grid, 8.0), expected)
        wide = dect(x.double(), hoods, directions.double(), grid.double(), 8.0)
        torch.testing.assert_close(wide.float(), expected, atol=1e-5, rtol=0)


def test_neighbourhoods_without_members_are_zeros():
    empty = replace(
        PATH,
        node_ptr=np.zeros(5, np.int64),
        nodes=PATH.nodes[:0],
        edge_ptr=np.zeros(5, np.int64),
        edges=PATH.edges[:, :0],
    )
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(4, 2, dtype=dtype, requires_grad=True)
        out = dect(x, empty, torch.eye(2, dtype=dtype), torch.zeros(3, dtype=dtype), 8.0)
        assert torch.equal(out, torch.zeros(4, 2, 3, dtype=dtype))


@pytest.mark.parametrize(
    ("indptr", "indices", "message"),
    [
        ([0, 1, 2], [1, 5], "indices must lie in 0…1, but span 1…5"),
        ([0, 1, 2], [-1, 0], "indices must lie in 0…1, but span -1…0"),
        ([0, 9, 2], [1, 0], "indptr must rise from 0 to 2.*falls from 9 to 2"),
        ([0, 1, 3], [1, 0], "indptr must rise from 0 to 2.*from 0 to 3"),
        ([], [], r"indptr must have shape \(N . 1,\), not \(0,\)"),
    ],
)
def test_an_adjacency_with_indices_outside_is_refused(indptr, indices, message):
    rows = (np.array(indptr, np.int64), np.array(indices, np.int32))
    for call in (lambda: khop_arrays(*rows, 1), lambda: rwpe(*rows, 3)):
        with pytest.raises(InvalidInputError, match=message):
            call()


def test_names_of_too_few_nodes_are_refused():
    csr = (np.array([0, 1, 2]), np.array([1, 0], np.int32))
    with pytest.raises(InvalidInputError, match=r"There must be 2 global ids, but they have shape \(1,\)"):
        khop_arrays(*csr, 1, cap=1, global_ids=np.zeros(1, np.int64))


def test_pointers_of_statistics_are_checked():
    with pytest.raises(InvalidInputError, match="node_ptr must rise from 0 to 2"):
        mean_and_scale(np.ones((2, 1)), np.array([0, 10**6]), np.array([0, 1]))


@pytest.mark.parametrize("end", [3, -1, 10**9])
def test_edges_to_nodes_that_do_not_exist_are_refused(end):
    x, edges = torch.ones(3, 2), torch.tensor([[0, 1], [1, end]])
    with pytest.raises(InvalidInputError, match=f"edge_index must lie in 0…2, but span .*{end}"):
        gather(x, edges, sum_weights(edges, 3))
    with pytest.raises(InvalidInputError, match=f"edge_index must lie in 0…2, but span .*{end}"):
        attend(x, x, edges)


def test_weights_and_scores_of_another_number_are_refused():
    x, edges = torch.ones(3, 2), torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(InvalidInputError, match="1 and 3 weights for 2 edges"):
        gather(x, edges, Weights(torch.ones(1), torch.ones(3)))
    with pytest.raises(InvalidInputError, match=r"scores \(N, 2\). Got \(3, 2\) and \(3, 1\)"):
        attend(x, torch.ones(3, 1), edges)
