"""The functions of `code_depth` from the Hub: through broken connections and busy servers, whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from layerstate.tasks import TaskError, digest, draw, hub, load_task
from layerstate.tasks.code_data import functions_of
from layerstate.tasks.code_depth import CodeDepth
from layerstate.tasks.code_hub import HubDataset
from layerstate.tasks.lexical import CLASSES

pytest.importorskip("datasets")
COMMIT = "1234567890abcdef1234567890abcdef12345678"
REVISION = "refs/convert/parquet"
REPO = "code-search-net/code_search_net"

ROWS = {
    "repository_name": ["a/b"] * 3,
    "func_path_in_repository": ["a/b.py"] * 3,
    "func_name": ["f", "g", "old"],
    "whole_func_string": [
        "def f(self, x):\n        y = [g(x, i) for i in range(10)]\n        return {k: v for k, v in zip(x, y)}\n",
        "def g(x, i):\n    # a note\n    if x:\n        return (x[i] + 1) * 2\n    return f'{x}'\n",
        "def old():\n    print `x`\n",
    ],
    "language": ["python"] * 3,
    "func_documentation_string": [""] * 3,
}  # fmt: skip


class FakeHub(ThreadingHTTPServer):
    """As much of the Hub as a download asks for; `faults` are served, first to last, before what is right."""

    daemon_threads = True

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.files = files
        self.faults: list[str] = []
        self.refusal: tuple[int, str] | None = None
        self.asked: list[str] = []
        self.ranges: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    server: FakeHub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        if self.server.refusal is not None:
            status, code = self.server.refusal
            self._send(status, b"{}", {"X-Error-Code": code})
        elif self.path.startswith(f"/api/datasets/{REPO}/revision/"):
            if "no-such" in self.path:
                self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            else:
                self._json({"id": REPO, "sha": COMMIT, "siblings": [], "private": False, "tags": [], "downloads": 0})
        elif self.path.startswith(f"/api/datasets/{REPO}/tree/"):
            files = self.server.files.items()
            self._json(
                [
                    {"type": "file", "path": name, "size": len(data), "oid": f"{number:040x}"}
                    for number, (name, data) in enumerate(files)
                ]
            )
        elif "/resolve/" not in self.path:
            self._send(404, b"{}", {})
        else:
            self._file(self.server.files[self.path.partition(f"/resolve/{COMMIT}/")[2]])

    def _file(self, data: bytes) -> None:
        headers = {"ETag": f'"{hash(data):x}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        fault = self.server.faults.pop(0) if self.server.faults and self.command == "GET" else None
        begin = 0
        if "Range" in self.headers:
            self.server.ranges.append(self.headers["Range"])
            begin = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
            headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        if fault == "503":
            self._send(503, b"busy", {})
        elif fault == "drop":
            self._send(
                206 if begin else 200, data[begin : (begin + len(data)) // 2], headers, claimed=len(data) - begin
            )
        else:
            self._send(206 if begin else 200, data[begin:], headers)

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, data: bytes, headers: dict[str, str], claimed: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) if claimed is None else claimed))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


def parquet_bytes(rows: dict[str, Any]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(rows), sink)
    return sink.getvalue().to_pybytes()


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Caches of their own, and no waiting."""
    import datasets
    import huggingface_hub

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "FIRST_WAIT", 0.001)
    return tmp_path


@pytest.fixture
def fake(caches: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub with two files of functions and one that is not asked for."""
    import huggingface_hub

    halves = [{name: column[part] for name, column in ROWS.items()} for part in (slice(0, 1), slice(1, 3))]
    files = {f"python/test/{number:04d}.parquet": parquet_bytes(half) for number, half in enumerate(halves)}
    server = FakeHub(files | {"go/test/0000.parquet": b"never asked for"})
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.url)
    monkeypatch.setattr(
        huggingface_hub.constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        server.url + "/{repo_id}/resolve/{revision}/{filename}",
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def hub_params(dataset: Path | str = REPO, **change: Any) -> dict[str, Any]:
    params = {"source": "hub", "dataset": str(dataset), "revision": REVISION, "files": "python/test/*.parquet"}
    return {**params, "functions": 100, **change}


def code_task(params: dict[str, Any]) -> CodeDepth:
    task = load_task("code_depth", params, "depth")
    assert isinstance(task, CodeDepth)
    return task


def expected() -> list[int]:
    return functions_of(ROWS["whole_func_string"]).classes.tolist()


def kept(caches: Path) -> list[Path]:
    return sorted((caches / "datasets" / "layerstate").glob("*"))


# from the Hub


def test_functions_come_from_the_files_revision_and_number_that_are_asked_for(fake: FakeHub, caches: Path) -> None:
    functions = code_task(hub_params()).functions()
    assert functions.classes.tolist() == expected()
    assert (len(functions.lengths), functions.left_out, functions.commit) == (2, 1, COMMIT)
    assert COMMIT in functions.origin.note
    assert any("refs%2Fconvert%2Fparquet" in path for path in fake.asked)
    assert not any("go/test" in path for path in fake.asked)
    assert len(code_task(hub_params(functions=1)).functions().lengths) == 1


def test_what_was_fetched_is_not_asked_for_again(fake: FakeHub, caches: Path) -> None:
    first = code_task(hub_params()).functions()
    fake.asked.clear()
    again = code_task(hub_params()).functions()
    assert again.digest() == first.digest()
    assert (again.left_out, again.commit, again.origin) == (first.left_out, first.commit, first.origin)
    assert fake.asked == []


def test_connections_that_break_and_a_busy_server_cost_time_but_no_byte(
    fake: FakeHub, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 256)
    fake.faults = ["drop", "503", "drop", "503"]
    functions = code_task(hub_params()).functions()
    assert functions.classes.tolist() == expected()
    assert fake.faults == []
    assert fake.ranges, "a download goes on where it stopped"


def test_a_download_that_stopped_is_never_taken_for_a_whole_one(
    fake: FakeHub, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    monkeypatch.setattr(hub, "TRIES", 1)
    second = "python/test/0001.parquet"
    whole = fake.files[second]
    fake.faults = ["503"]  # one of the two files arrives
    with pytest.raises(TaskError, match=r"gave no answer in 1 tries"):
        code_task(hub_params()).functions()
    assert kept(caches) == []
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(TaskError, match=r"is not, or not whole, in the cache .*HF_HUB_OFFLINE is set"):
        code_task(hub_params()).functions()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    assert code_task(hub_params()).functions().classes.tolist() == expected()
    assert fake.files[second] == whole


def test_a_server_that_stays_busy_is_given_up_with_advice(fake: FakeHub, caches: Path) -> None:
    fake.refusal = (503, "")
    with pytest.raises(TaskError) as caught:
        code_task(hub_params()).functions()
    for part in (str(caches / "hub"), "HF_HUB_CACHE", "5 tries", "503", "data download", "code_depth_embedded"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (404, "RepoNotFound", "there is no data set .*HF_TOKEN.*code_depth_embedded"),
        (401, "RepoNotFound", "there is no data set .*HF_TOKEN"),
        (403, "GatedRepo", "is gated: ask for access at http.*hf auth login"),
        (403, "", "refuses .*HTTP 403"),
    ],
)
def test_what_trying_again_cannot_mend_is_said_at_once(
    fake: FakeHub, caches: Path, status: int, code: str, said: str
) -> None:
    fake.refusal = (status, code)
    with pytest.raises(TaskError, match=said):
        code_task(hub_params()).functions()
    assert len(fake.asked) <= 2


def test_a_revision_and_files_that_are_not_there_are_errors(fake: FakeHub, caches: Path) -> None:
    with pytest.raises(TaskError, match="has no revision 'no-such'") as caught:
        code_task(hub_params(revision="no-such")).functions()
    assert caught.value.field == "revision"
    with pytest.raises(TaskError, match=r"has no file rust/\*\.parquet; see http") as caught:
        code_task(hub_params(files="rust/*.parquet")).functions()
    assert caught.value.field == "files"


def test_an_id_that_cannot_be_is_an_error(fake: FakeHub, caches: Path) -> None:
    with pytest.raises(TaskError, match="'a b//c' is no data set's id; user/name would be right"):
        code_task(hub_params("a b//c")).functions()


def test_a_damaged_file_is_fetched_anew_with_again(fake: FakeHub, caches: Path) -> None:
    code_task(hub_params()).functions()
    for path in kept(caches):
        path.unlink()
    for path in (caches / "hub").rglob("blobs/*"):
        path.write_bytes(path.read_bytes()[:-20] + bytes(20))
    with pytest.raises(TaskError, match=r"is damaged or no Parquet file.*--again"):
        code_task(hub_params()).functions()
    source = code_task(hub_params()).source
    assert isinstance(source, HubDataset)
    assert source.load(again=True).classes.tolist() == expected()


def test_a_kept_file_that_is_damaged_is_made_again(fake: FakeHub, caches: Path) -> None:
    code_task(hub_params()).functions()
    (path,) = kept(caches)
    path.write_bytes(path.read_bytes()[:100])
    assert code_task(hub_params()).functions().classes.tolist() == expected()
    assert pq.read_table(path).num_rows == 2


def test_another_version_of_python_does_not_read_what_this_one_kept(
    fake: FakeHub, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code_task(hub_params()).functions()
    monkeypatch.setattr(sys, "version_info", (4, 0, 0))
    code_task(hub_params()).functions()
    assert len(kept(caches)) == 2


# without the Hub


def test_without_a_network_the_error_names_the_cache_the_variables_and_the_shipped_task(tmp_path: Path) -> None:
    code = (
        "from layerstate.tasks import *\n"
        f"task = load_task('code_depth', {hub_params()!r}, 'depth')\n"
        "try: draw(task, 'train', 1, 10, seed=0)\n"
        "except TaskError as error: print(error)\n"
    )
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    ).stdout
    for part in (REPO, str(tmp_path), "HF_HUB_OFFLINE", "HF_HOME", "layerstate data download", "code_depth_embedded"):
        assert part in said


@pytest.mark.parametrize("package", ["datasets", "huggingface_hub"])
def test_without_the_extra_the_error_says_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(TaskError, match=r"pip install 'layerstate\[hf\]'.*code_depth_embedded"):
        draw(load_task("code_depth", hub_params("o/n"), "depth"), "train", 1, 10, seed=0)


# from a folder of the same form


@pytest.fixture
def folder(caches: Path) -> Path:
    """A data set in the Hub's form."""
    place = caches / "code_search_net" / "python" / "test"
    place.mkdir(parents=True)
    pq.write_table(pa.table(ROWS), place / "0000.parquet")
    return caches / "code_search_net"


def test_a_folder_of_the_hub_s_form_is_read(folder: Path) -> None:
    task = code_task(hub_params(folder))
    functions = task.functions()
    assert (len(functions.lengths), functions.left_out) == (2, 1)
    assert " ".join(CLASSES[number] for number in functions.classes[: functions.lengths[0]]).startswith("def NAME (")
    batch = task.sample(50, 20, np.random.default_rng(0))
    assert batch.states["depth"].max() == 2
    pinned = code_task(hub_params(folder, sha256=functions.digest()))
    assert digest(pinned.sample(50, 20, np.random.default_rng(0))) == digest(batch)


def test_the_first_functions_are_taken(folder: Path) -> None:
    assert len(code_task(hub_params(folder, functions=1)).functions().lengths) == 1


def test_data_of_another_form_are_an_error(folder: Path) -> None:
    pq.write_table(pa.table({"code": ["x"]}), folder / "python" / "test" / "0000.parquet")
    with pytest.raises(TaskError, match="no column 'whole_func_string', only code"):
        draw(code_task(hub_params(folder)), "train", 1, 10, seed=0)


def test_files_that_are_not_there_are_an_error(folder: Path) -> None:
    with pytest.raises(TaskError, match=r"cannot read 'go/\*.parquet' of data set"):
        draw(code_task(hub_params(folder, files="go/*.parquet")), "train", 1, 10, seed=0)
