"""Partition plans: every node once, graphs whole unless one alone exceeds the target."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.pipeline.partition import cumulative, plan_partitions, plan_whole_graphs

SIZES = st.lists(st.integers(0, 12), min_size=1, max_size=20).filter(sum)
TARGETS = st.floats(0.5, 60.0)


@st.composite
def datasets(draw):
    """First nodes of graphs, empty ones included, and a running cost over their nodes."""
    node_ptr = np.concatenate([[0], np.cumsum(draw(SIZES))]).astype(np.int64)
    seed = draw(st.integers(0, 2**16))
    return node_ptr, cumulative(np.random.default_rng(seed).uniform(0.1, 5.0, int(node_ptr[-1])))


def check_cover(plan, node_ptr):
    """Nodes and graphs are covered in order, each node by exactly one partition that knows its graph."""
    assert [part.index for part in plan] == list(range(len(plan)))
    assert plan[0].node_lo == plan[0].graph_lo == 0
    assert (plan[-1].node_hi, plan[-1].graph_hi) == (node_ptr[-1], len(node_ptr) - 1)
    for part in plan:
        assert node_ptr[part.graph_lo] <= part.node_lo <= part.node_hi <= node_ptr[part.graph_hi]
    for before, after in pairwise(plan):
        assert before.node_hi == after.node_lo
        inside_one_graph = before.graph_hi - before.graph_lo == after.graph_hi - after.graph_lo == 1
        same_graph = inside_one_graph and before.graph_lo == after.graph_lo
        assert same_graph or before.graph_hi == after.graph_lo


def is_cut(part, node_ptr):
    return part.node_lo > node_ptr[part.graph_lo] or part.node_hi < node_ptr[part.graph_hi]


@given(datasets(), TARGETS)
def test_every_node_is_covered_exactly_once(data, target):
    node_ptr, total = data
    check_cover(plan_partitions(node_ptr, total, target), node_ptr)
    check_cover(plan_whole_graphs(node_ptr, total, target), node_ptr)


@given(datasets(), TARGETS)
def test_only_a_graph_beyond_the_target_is_cut(data, target):
    node_ptr, total = data
    for part in plan_partitions(node_ptr, total, target):
        if is_cut(part, node_ptr):
            assert part.graph_hi == part.graph_lo + 1
            assert total[node_ptr[part.graph_hi]] - total[node_ptr[part.graph_lo]] > target


@given(datasets(), TARGETS)
def test_a_partition_exceeds_the_target_by_no_more_than_its_nodes_force(data, target):
    node_ptr, total = data
    for part in plan_partitions(node_ptr, total, target):
        # A cut falls between nodes, so a piece of one graph may hold one node on either side of where it should fall.
        slack = 2 * np.diff(total).max() if part.graph_hi - part.graph_lo == 1 else 1e-9 * target
        assert total[part.node_hi] - total[part.node_lo] <= target + slack


@given(datasets(), TARGETS)
def test_neighbouring_partitions_could_not_be_one(data, target):
    node_ptr, total = data
    for before, after in pairwise(plan_partitions(node_ptr, total, target)):
        if not is_cut(before, node_ptr) and not is_cut(after, node_ptr):
            assert total[node_ptr[after.graph_lo + 1]] - total[before.node_lo] > target * (1 - 1e-9)


@given(datasets(), TARGETS)
def test_work_on_whole_graphs_never_cuts_one(data, target):
    node_ptr, total = data
    plan = plan_whole_graphs(node_ptr, total, target)
    assert not any(is_cut(part, node_ptr) for part in plan)
    for part in plan:
        assert part.graph_hi - part.graph_lo == 1 or total[part.node_hi] - total[part.node_lo] <= target * (1 + 1e-9)


@given(datasets(), TARGETS, TARGETS)
def test_a_refinement_stays_inside_the_partitions_that_it_refines(data, coarse, fine):
    node_ptr, total = data
    outer = plan_partitions(node_ptr, total, coarse)
    inner = plan_partitions(node_ptr, total, fine, outer)
    check_cover(inner, node_ptr)
    for part in inner:
        assert any(o.node_lo <= part.node_lo and part.node_hi <= o.node_hi for o in outer)


@pytest.mark.parametrize("nodes", [1, 7, 1000])
def test_one_large_graph_is_cut_evenly(nodes):
    node_ptr = np.array([0, nodes])
    plan = plan_partitions(node_ptr, cumulative(np.ones(nodes)), 10.0)
    assert len(plan) == -(-nodes // 10)
    assert max(part.num_nodes for part in plan) - min(part.num_nodes for part in plan) <= 1


def test_equal_datasets_have_equal_plans():
    node_ptr = np.array([0, 3, 3, 40, 41])
    total = cumulative(np.linspace(1, 2, 41))
    assert plan_partitions(node_ptr, total, 7.0) == plan_partitions(node_ptr.copy(), total.copy(), 7.0)
