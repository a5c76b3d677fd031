"""Fixtures for dataset tests: real data where there is some, small TU folders, a local web server."""

import functools
import http.server
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """Give LEAP_DATA after making sure that a dataset is under it; skip the test otherwise."""

    def find(name: str) -> Path:
        folder = os.environ.get("LEAP_DATA")
        if not folder:
            pytest.skip("LEAP_DATA is not set: no real datasets")
        if not (Path(folder) / name).exists():
            pytest.skip(f"{name} is not under LEAP_DATA")
        return Path(folder)

    return find


@pytest.fixture
def write_tu() -> Callable[..., Path]:
    """Write a small TU dataset: three graphs, the second without nodes; keywords replace or remove files."""

    def write(folder: Path, name: str = "toy", **files: str | None) -> Path:
        content = {
            "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
            "graph_indicator": "1\n1\n1\n3\n3\n",
            "graph_labels": "-1\n1\n1\n",
            "node_labels": "3\n5\n3\n5\n5\n",
            "node_attributes": " 0.5,  1.0\n1.5, -2.0\n2.5, 3e-1\n3.5, 4.0\n4.5, 5.0\n",
        } | files
        folder.mkdir(parents=True, exist_ok=True)
        for part, text in content.items():
            if text is not None:
                (folder / f"{name}_{part}.txt").write_text(text)
        return folder

    return write


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server on this machine: its address and the folder that it serves."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()
        thread.join()
