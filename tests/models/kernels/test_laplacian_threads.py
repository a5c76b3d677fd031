"""LaPE on several threads of one process, as tasks of a Dask worker run."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from leap.models.kernels import laplacian as module
from leap.models.kernels.adjacency import build_csr


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def set_blas_threads(number):
    """Set them for everybody: a limit is its thread's for as long as that lives."""
    setter = threading.Thread(target=threadpool_limits, args=(number, "blas"))
    setter.start()
    setter.join()


@pytest.fixture
def two_blas_threads():
    before = max(blas_threads())
    set_blas_threads(2)
    yield
    set_blas_threads(before)


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_from_beginning_to_end_of_every_call(monkeypatch):
    plain, seen = module._lape, []

    def watched(*args):
        seen.append(blas_threads())
        result = plain(*args)
        seen.append(blas_threads())
        return result

    monkeypatch.setattr(module, "_lape", watched)
    path = build_csr(np.array([[0, 1, 2], [1, 2, 3]]), 4)

    def solve(number):
        return module.lape(path.indptr, path.indices, np.array([0, 4]), 2).vectors.tobytes()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(solve, range(60)))) == 1
    assert len(seen) == 120
    assert all(threads == {1} for threads in seen)
