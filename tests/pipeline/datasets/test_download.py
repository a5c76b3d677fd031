"""Downloads: progress, checks, all or nothing. A web server on this machine stands in for the real ones."""

import hashlib
import http.server
import io
import threading
import zipfile

import numpy as np
import pytest

from leap.pipeline.datasets import catalog, download, heterophilous, moleculenet, resolve, tu
from leap.pipeline.datasets.download import Download, fetch_into, keep_as
from leap.store.errors import DownloadError, MissingRawFilesError


def archive(**files: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as zipped:
        for name, text in files.items():
            zipped.writestr(name.replace("__", "/").replace("_txt", ".txt"), text)
    return out.getvalue()


TOY = {"MUTAG__MUTAG_A_txt": "1,2\n", "MUTAG__MUTAG_graph_indicator_txt": "1\n1\n", "MUTAG__README_txt": "hello"}


@pytest.fixture
def server(serve, monkeypatch):
    url, folder = serve
    monkeypatch.setattr(tu, "URL", url)
    monkeypatch.setattr(heterophilous, "URL", url)
    monkeypatch.setattr(moleculenet, "URL", url)
    return folder


def test_an_archive_is_fetched_once_with_progress_and_then_found(server, tmp_path):
    content = archive(**TOY)
    (server / "MUTAG.zip").write_bytes(content)
    seen = []
    source = resolve("MUTAG", data=tmp_path / "data", on_progress=lambda *step: seen.append(step))
    assert source.read().node_counts.tolist() == [2]
    assert seen[-1] == (len(content), len(content))
    folder = tmp_path / "data" / "MUTAG"
    assert [path.name for path in folder.iterdir()] == ["raw"]
    (server / "MUTAG.zip").unlink()
    again = resolve("MUTAG", data=tmp_path / "data")
    assert again.fingerprint() == source.fingerprint()
    (info,) = [info for info in catalog(tmp_path / "data") if info.name == "MUTAG"]
    assert (info.presence, info.path) == ("present", folder / "raw")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>not found</html>", "not a ZIP archive"),
        (archive(**TOY)[:-30], "not a ZIP archive"),
        (archive(OTHER__OTHER_A_txt="1,2\n"), "It holds OTHER_A.txt"),
        (archive(), "It holds nothing"),
        (archive(**{"..__evil_txt": "x"}), r"leaves its folder: '\.\./evil\.txt'"),
        (archive(**{"__evil_txt": "x"}), "leaves its folder"),
        (archive(a__same_txt="x", b__same_txt="y"), "two files named 'same.txt'"),
    ],
)
def test_what_is_not_the_dataset_is_refused_and_leaves_nothing_behind(content, message, server, tmp_path):
    (server / "MUTAG.zip").write_bytes(content)
    with pytest.raises(DownloadError, match=message) as caught:
        resolve("MUTAG", data=tmp_path / "data")
    assert str(tmp_path / "data" / "MUTAG" / "raw") in str(caught.value)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "data").exists()
    assert not list(tmp_path.rglob("evil.txt"))


def test_a_damaged_member_is_refused(server, tmp_path):
    content = bytearray(archive(**TOY))
    content[content.index(b"1,2")] ^= 1  # the checksum no longer fits
    (server / "MUTAG.zip").write_bytes(content)
    with pytest.raises(DownloadError, match="that can be read"):
        resolve("MUTAG", data=tmp_path / "data")


def test_archives_that_unpack_to_too_much_are_refused(server, tmp_path, monkeypatch):
    (server / "MUTAG.zip").write_bytes(archive(**TOY))
    monkeypatch.setattr(download, "LARGEST_DOWNLOAD", 10)
    with pytest.raises(DownloadError, match="10 bytes"):
        resolve("MUTAG", data=tmp_path / "data")


def test_a_refusal_of_the_server_is_reported_with_its_code(server, tmp_path):
    with pytest.raises(DownloadError, match="answered 404"):
        resolve("MUTAG", data=tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_download_that_is_too_large_is_refused_while_it_runs(server, tmp_path, monkeypatch):
    (server / "MUTAG.zip").write_bytes(archive(**TOY))
    monkeypatch.setattr(download, "LARGEST_DOWNLOAD", 10)
    monkeypatch.setattr(download, "_CHUNK", 16)
    with pytest.raises(DownloadError, match="is larger than 10 bytes"):
        resolve("MUTAG", data=tmp_path / "data")
    assert not (tmp_path / "data").exists()


class BreakingServer(http.server.BaseHTTPRequestHandler):
    """Promises more than it sends, as often as `broken` says."""

    content, broken = archive(**TOY), 0

    def do_GET(self) -> None:
        kind = type(self)
        self.send_response(200)
        self.send_header("Content-Length", str(len(kind.content)))
        self.end_headers()
        self.wfile.write(kind.content[:100] if kind.broken else kind.content)
        kind.broken -= 1

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def breaking(monkeypatch):
    """Waits between attempts are pooch's; here nobody waits."""
    waits = []
    monkeypatch.setattr("pooch.core.time.sleep", waits.append)
    monkeypatch.setattr(download, "_CHUNK", 16)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), BreakingServer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setattr(tu, "URL", f"http://127.0.0.1:{server.server_port}")
        yield waits
        server.shutdown()
        thread.join()


def test_a_transfer_that_breaks_off_is_begun_again(breaking, tmp_path, monkeypatch):
    monkeypatch.setattr(BreakingServer, "broken", 2)
    assert resolve("MUTAG", data=tmp_path / "data").read().node_counts.tolist() == [2]
    assert len(breaking) == 2


def test_a_transfer_that_always_breaks_off_is_an_error_and_leaves_nothing(breaking, tmp_path, monkeypatch):
    monkeypatch.setattr(BreakingServer, "broken", 99)
    with pytest.raises(DownloadError, match=r"broke off after [\d,]+ of [\d,]+ bytes, 3 times"):
        resolve("MUTAG", data=tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_known_hash_is_compared(server, tmp_path, monkeypatch):
    (server / "file.txt").write_text("hello")
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    right, wrong = hashlib.sha256(b"hello").hexdigest(), hashlib.sha256(b"other").hexdigest()

    def fetch(known: str) -> None:
        wanted = Download(f"{tu.URL}/file.txt", "file.txt", keep_as("file.txt"), lambda folder: True, known)
        fetch_into(tmp_path / "data" / "raw", wanted)

    with pytest.raises(DownloadError, match="does not have the known SHA-256"):
        fetch(wrong)
    assert not (tmp_path / "data").exists()
    fetch(right)
    assert (tmp_path / "data" / "raw" / "file.txt").read_text() == "hello"


def test_without_connection_the_error_says_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setattr(tu, "URL", "http://127.0.0.1:1")
    with pytest.raises(MissingRawFilesError, match="cannot be reached") as caught:
        resolve("MUTAG", data=tmp_path / "data")
    assert f"into {tmp_path / 'data' / 'MUTAG' / 'raw'}" in str(caught.value)
    assert not (tmp_path / "data").exists()


def test_an_incomplete_folder_is_filled_up(server, tmp_path):
    (server / "MUTAG.zip").write_bytes(archive(**TOY))
    partial = tmp_path / "data" / "MUTAG" / "raw"
    partial.mkdir(parents=True)
    (partial / "MUTAG_A.txt").write_text("1,1\n")
    (partial / "mine.txt").write_text("keep me")
    assert resolve("MUTAG", data=tmp_path / "data").read().edges.tolist() == [[0], [1]]
    assert (partial / "mine.txt").read_text() == "keep me"


def test_files_that_came_first_stay(server, tmp_path, write_tu):
    """Another process published while we were downloading."""
    (server / "MUTAG.zip").write_bytes(archive(**TOY))
    folder = tmp_path / "data" / "MUTAG" / "raw"

    def meanwhile(done: int, total: int) -> None:
        write_tu(folder, "MUTAG")

    source = resolve("MUTAG", data=tmp_path / "data", on_progress=meanwhile)
    assert source.read().node_counts.tolist() == [3, 0, 2]
    assert [path.name for path in folder.parent.iterdir()] == ["raw"]


def test_a_single_array_archive_is_fetched_and_checked(server, tmp_path):
    np.savez(server / "questions.npz", edges=np.zeros((0, 2)))
    with pytest.raises(DownloadError, match="does not hold what it should"):
        resolve("questions", data=tmp_path)
    masks = {f"{part}_masks": np.ones((2, 3), bool) for part in ("train", "val", "test")}
    np.savez(
        server / "questions.npz",
        node_features=np.ones((3, 2)),
        node_labels=np.arange(3),
        edges=np.array([[0, 1]]),
        **masks,
    )
    assert resolve("questions", data=tmp_path).read().node_counts.tolist() == [3]


def test_a_table_of_molecules_is_fetched_and_checked(server, tmp_path):
    (server / "HIV.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DownloadError, match="does not hold what it should"):
        resolve("hiv", data=tmp_path)
    (server / "HIV.csv").write_text("smiles,activity,HIV_active\nCCO,CI,0\n")
    assert resolve("hiv", data=tmp_path).path == tmp_path / "hiv" / "raw" / "HIV.csv"


def test_a_data_folder_that_cannot_be_written_is_named(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(DownloadError, match="--data or LEAP_DATA"):
        resolve("MUTAG", data=blocked / "data")
