"""Kernels and modules: neighbourhoods and LaPE of one graph, LEAP and its transform, forward and backward."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.graphs import letter_like, romanesque
from benchmarks.measuring import Measurement, Rival, Session, contest, median_seconds, thread_choices
from benchmarks.rivals import PygLeap, stopped_lape_seconds, timed_khop_loop, torch_dects
from leap.models import LEAP, dect, kernels
from leap.pipeline import khop
from leap.store.errors import WorkFailedError

KHOP_TARGETS = {1: 1000.0, 2: 300.0}
"""Required ratio by hop count."""
LAPE_TARGET, LAPE_DIM = 10.0, 10
LEAP_TARGETS = {16: 20.0, 512: 40.0}
"""Required ratio by number of graphs in a batch."""
LEAP_TOLERANCE = 1e-3
"""Of encodings: a sigmoid of scale 128 multiplies the rounding errors of float32 heights."""
DECT_GRAPHS = 512
DECT_TARGETS = {8.0: 1.0, 32.0: 1.0, 128.0: 2.0, 512.0: 1.0}
"""Required ratio by the scale of the sigmoid."""
DECT_TOLERANCE = 1e-5
"""Of heights, and so of values divided by the scale."""


def measure_khop(session: Session) -> Iterator[Measurement]:
    """Compare the extraction kernel, CSR building included, with PyG's `k_hop_subgraph` for every node."""
    edge_index, num_nodes = romanesque()
    for hops, target in KHOP_TARGETS.items():
        peer = loop_seconds(session, hops)
        ours = median_seconds(partial(khop, edge_index, num_nodes, hops), session.repeats)
        yield Measurement("khop", f"{hops}-hop neighbourhoods, kernel with CSR building", ours, peer, target)


def loop_seconds(session: Session, hops: int) -> float:
    """Return the time of PyG's loop over all nodes of romanesque, measured once in a run.

    Raises
    ------
    WorkFailedError
        If it does not find as many members and edges as we do.
    """
    if hops not in session.seconds_of_loops:
        edge_index, num_nodes = romanesque()
        session.note(f"PyG's k_hop_subgraph for each of {num_nodes:,} nodes, hops={hops}")
        seconds, found = timed_khop_loop(edge_index, num_nodes, hops)
        hoods = khop(edge_index, num_nodes, hops)
        theirs = (sum(len(nodes) for nodes, _ in found), sum(edges.shape[1] for _, edges in found) // 2)
        if theirs != (len(hoods.nodes), hoods.edges.shape[1]):
            raise WorkFailedError(
                f"PyG finds {theirs[0]:,} members and {theirs[1]:,} edges in {hops}-hop neighbourhoods, and we find "
                f"{len(hoods.nodes):,} and {hoods.edges.shape[1]:,}. Nothing can be compared before that is understood."
            )
        session.seconds_of_loops[hops] = seconds
    return session.seconds_of_loops[hops]


def measure_lape(session: Session) -> Iterator[Measurement]:
    """Compare with PyG's `AddLaplacianEigenvectorPE`, which is stopped when the ratio is clear."""
    edges, num_nodes = romanesque()
    edge_index = edges.numpy()

    def encode() -> None:
        csr = kernels.build_csr(edge_index, num_nodes)
        kernels.lape(csr.indptr, csr.indices, np.array([0, num_nodes], dtype=np.int64), LAPE_DIM)

    ours = median_seconds(encode, session.repeats)
    limit = LAPE_TARGET * ours
    session.note(f"PyG's AddLaplacianEigenvectorPE(k={LAPE_DIM}), stopped after {limit:.1f} s")
    peer, is_stopped = stopped_lape_seconds(edge_index, num_nodes, LAPE_DIM, limit, session.folder)
    what = f"LaPE, {LAPE_DIM} eigenvectors, CSR building included"
    yield Measurement("lape", what, ours, peer, LAPE_TARGET, is_stopped)


def measure_leap(session: Session) -> Iterator[Measurement]:
    """Compare LEAP, with neighbourhoods and statistics as a stream gives them, with what finds them at every step."""
    for graphs, target in LEAP_TARGETS.items():
        batch = letter_like(graphs)
        leap = LEAP(batch.x.shape[1], projection="linear", seed=0)
        peer = PygLeap(leap.get_parameter("encoders.0.parametrizations.directions.original"))
        peer.linear.load_state_dict(leap.get_submodule("encoders.0.projection.linear").state_dict())
        ways: dict[str, Callable[[], Tensor]] = {
            "ours": partial(leap, batch.x, batch.neighborhoods, batch.stats),
            "peer": partial(peer, batch.x, batch.edge_index),
        }
        check_equal("LEAP", ways, LEAP_TOLERANCE)
        session.note(f"LEAP with PyG alone, {graphs} graphs")
        rivals = {name: Rival(partial(_learn, way), thread_choices()) for name, way in ways.items()}
        seconds = contest(rivals, session.repeats)
        what = f"LEAP-L linear, forward and backward, {graphs} graphs of {len(batch.x):,} nodes"
        yield Measurement("leap", what, seconds["ours"], seconds["peer"], target)


def measure_dect(session: Session) -> Iterator[Measurement]:
    """Compare the transform at each scale with the fastest of several ways to write it with torch."""
    batch = letter_like(DECT_GRAPHS)
    directions = torch.from_numpy(kernels.random_directions(batch.x.shape[1], 16)).float().requires_grad_()
    thresholds = torch.from_numpy(kernels.threshold_grid(16, 1.1)).float()
    for scale, target in DECT_TARGETS.items():
        ways = torch_dects(batch, directions, thresholds, scale)
        ways["ours"] = partial(dect, batch.x, batch.neighborhoods, directions, thresholds, scale, stats=batch.stats)
        check_equal(f"dect at scale {scale:g}", ways, DECT_TOLERANCE * scale)
        rivals = {name: Rival(partial(_learn, way), thread_choices()) for name, way in ways.items()}
        seconds = contest(rivals, session.repeats)
        ours = seconds.pop("ours")
        what = f"dect at scale {scale:g}, forward and backward, {DECT_GRAPHS} graphs, against torch operations"
        yield Measurement("dect", what, ours, min(seconds.values()), target)


def check_equal(what: str, ways: dict[str, Callable[[], Tensor]], tolerance: float) -> None:
    """Refuse to compare ways, "ours" among them, to different results."""
    with torch.no_grad():
        ours = ways["ours"]()
        for name, way in ways.items():
            difference = float((way() - ours).abs().max())
            if not difference < tolerance:
                raise WorkFailedError(
                    f"{what} and its peer '{name}' differ by {difference:.2g}. Nothing can be compared before that is "
                    "understood."
                )


def _learn(way: Callable[[], Tensor]) -> None:
    out = way()
    out.backward(torch.ones_like(out))
