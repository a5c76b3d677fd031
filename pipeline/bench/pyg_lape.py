"""The peer of LaPE: PyG's transform in a process of its own, which can be stopped.

``python -m leap.pipeline.bench.pyg_lape EDGES.npy NODES DIM`` prints READY when everything is imported and loaded, and
DONE after the transform.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leap.store.errors import WorkFailedError

READY, DONE = "ready", "done"


def stopped_lape_seconds(
    edge_index: NDArray[np.int64], num_nodes: int, dim: int, limit: float, folder: Path
) -> tuple[float, bool]:
    """Time PyG's `AddLaplacianEigenvectorPE`, and stop it after `limit` seconds.

    Parameters
    ----------
    edge_index : (2, 2E) both directions of every edge; PyG is told that the graph is undirected.
    folder : where the edges are put for the other process.

    Returns
    -------
    (seconds, whether it was stopped); starting the process and its imports are not counted.
    """
    path = folder / "edges.npy"
    np.save(path, edge_index)
    command = [sys.executable, "-m", __name__, str(path), str(num_nodes), str(dim)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline().strip() != READY:
                raise WorkFailedError("PyG's AddLaplacianEigenvectorPE could not be started; its error is above.")
            start = time.perf_counter()
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                return time.perf_counter() - start, True
            seconds = time.perf_counter() - start
            if process.returncode != 0:
                raise WorkFailedError(f"PyG's AddLaplacianEigenvectorPE failed after {seconds:.1f} s; see above.")
            return seconds, False
        finally:
            process.kill()


def main(path: str, num_nodes: str, dim: str) -> None:
    """Run the transform in this process."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddLaplacianEigenvectorPE

    # Imported by the transform when it runs; loading it is not what is measured.
    import scipy.sparse.linalg  # noqa: F401  isort: skip

    data = Data(edge_index=torch.from_numpy(np.load(path)), num_nodes=int(num_nodes))
    transform = AddLaplacianEigenvectorPE(k=int(dim), is_undirected=True)
    print(READY, flush=True)
    transform(data)
    print(DONE, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
