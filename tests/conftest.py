"""Fixtures for tests of every layer: stores in temporary folders, small datasets, pictures of a folder's bytes."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no failure, neither for Hypothesis nor for Dask, also in processes that tests start. Threads sleep
# while they wait for each other: they would spin, and several processes on few cores would do little else.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
os.environ |= {
    "DASK_DISTRIBUTED__ADMIN__TICK__LIMIT": "1800s",
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "1800s",
    "OMP_WAIT_POLICY": "passive",
    "OPENBLAS_THREAD_TIMEOUT": "4",
}

LONGEST = ("test_reproduce.py", "test_examples.py", "test_two_processes.py", "test_takeover.py", "test_workers.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the files that take longest begin first: at the end, one would keep a single process busy."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture
def snapshot() -> Callable[..., dict[str, bytes]]:
    """Return a function that gives every file below a folder with its bytes, without those under `leave_out`.

    Locks are files that processes take turns in holding; like notes of when an artifact was used they say nothing
    about content.
    """

    def take(root: Path | str, leave_out: tuple[str, ...] = ("locks", "usage")) -> dict[str, bytes]:
        top = Path(root)
        files = ((path.relative_to(top), path) for path in sorted(top.rglob("*")) if path.is_file())
        return {str(name): path.read_bytes() for name, path in files if name.parts[0] not in leave_out}

    return take


@pytest.fixture
def tu_folder(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a small TU dataset, four graphs of 3, 4, 0 and 1 nodes, and gives its folder.

    Keywords replace the content of a file (`A="1, 2\\n"`), or leave it out (`node_attributes=None`).
    """

    def write(name: str = "toy", folder: Path | None = None, **files: str | None) -> Path:
        content: dict[str, str | None] = {
            "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n5, 6\n6, 5\n6, 7\n7, 6\n7, 4\n4, 7\n",
            "graph_indicator": "1\n1\n1\n2\n2\n2\n2\n4\n",
            "graph_labels": "1\n-1\n1\n-1\n",
            "node_attributes": "".join(f"{i / 4}, {i * i}\n" for i in range(8)),
        }
        target = folder or tmp_path / "own" / name
        target.mkdir(parents=True, exist_ok=True)
        for part, text in (content | files).items():
            if text is not None:
                (target / f"{name}_{part}.txt").write_text(text)
        return target

    return write


@pytest.fixture
def flip_a_bit() -> Callable[[Path], None]:
    """Return a function that flips one bit in the middle of a file and leaves its size and time as they were."""

    def flip(path: Path) -> None:
        info, data = path.stat(), bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))

    return flip


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    """An S3 service on this machine with a bucket; its address and keys are in the environment meanwhile."""
    import s3fs
    from moto.s3.responses import S3Response
    from moto.server import ThreadedMotoServer

    one_at_a_time, put_object = threading.Lock(), S3Response.put_object

    def put_at_once(self: Any) -> Any:
        # S3 evaluates a condition and writes in one step; Moto does it in two, in the middle of which another may put.
        with one_at_a_time:
            return put_object(self)

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(S3Response, "put_object", put_at_once)
        server.start()
        address = "http://{}:{}".format(*server.get_host_and_port())
        urlopen(Request(f"{address}/moto-api/reset", method="POST")).close()  # an earlier module's buckets
        patch.setenv("AWS_ENDPOINT_URL", address)
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir("shared")
        yield s3fs.S3FileSystem()
        s3fs.S3FileSystem.clear_instance_cache()
        server.stop()


@pytest.fixture
def url(s3: Any, request: pytest.FixtureRequest) -> str:
    """Address of a store of the test's own, behind the S3 service."""
    return f"s3://shared/{request.node.name}"
