"""LaPE of one large graph against PyG's `AddLaplacianEigenvectorPE`, which is stopped when the ratio is clear."""

from collections.abc import Iterator

from leap.pipeline.bench.result import Comparison
from leap.pipeline.bench.session import Session
from leap.pipeline.bench.timing import median_seconds

DIM = 10
TARGET = 10.0


def compare_lape(session: Session) -> Iterator[Comparison]:
    """Compare eigenvectors from edges; the peer is given `TARGET` times our time."""
    import numpy as np

    from leap.models.kernels.adjacency import build_csr
    from leap.models.kernels.laplacian import lape
    from leap.pipeline.bench.pyg_lape import stopped_lape_seconds

    edge_index, num_nodes = session.graph.edge_index.numpy(), session.graph.num_nodes

    def encode() -> None:
        csr = build_csr(edge_index, num_nodes)
        lape(csr.indptr, csr.indices, np.array([0, num_nodes], dtype=np.int64), DIM)

    ours = median_seconds(encode, session.options.repeats)
    limit = TARGET * ours
    session.reporter.note(f"PyG's AddLaplacianEigenvectorPE(k={DIM}), stopped after {limit:.1f} s")
    with session.reporter.task("PyG, LaPE", None):
        peer, is_stopped = stopped_lape_seconds(edge_index, num_nodes, DIM, limit, session.folder)
    yield Comparison("lape", f"LaPE, {DIM} eigenvectors, CSR building included", ours, peer, TARGET, is_stopped)
