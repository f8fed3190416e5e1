"""Data sets to the Hub: with the user's token, nothing of others lost, and every refusal says what to do."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest

huggingface_hub = pytest.importorskip("huggingface_hub")
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError  # noqa: E402
from layerstate.suite.runner.push import Hub, PushError  # noqa: E402

COMMIT = "1234567890abcdef1234567890abcdef12345678"
SMALL = ("--train", "9", "--n", "9")


@pytest.fixture
def api() -> Any:
    """The real API's methods and signatures; a data set that is not there yet."""
    made = create_autospec(huggingface_hub.HfApi, instance=True)
    made.whoami.return_value = {"name": "user"}
    made.repo_exists.return_value = False
    made.upload_folder.return_value = SimpleNamespace(oid=COMMIT)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "d" / "parity").mkdir(parents=True)
    (tmp_path / "d" / "README.md").write_text("card")
    (tmp_path / "d" / "parity" / "train-8.parquet").write_bytes(b"rows")
    return tmp_path / "d"


def refusal(status: int, text: str = "no") -> HfHubHTTPError:
    import importlib

    httpx: Any = importlib.import_module(HfHubHTTPError.__mro__[1].__module__.partition(".")[0])
    return HfHubHTTPError(text, response=httpx.Response(status, request=httpx.Request("GET", "http://hub")))


def there(api: Any, files: dict[str, bytes], large: tuple[str, ...] = ()) -> None:
    """A data set with these files is on the Hub."""
    siblings: list[Any] = [SimpleNamespace(rfilename=".gitattributes", lfs=None, blob_id="0" * 40)]
    for name, data in files.items():
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        lfs = SimpleNamespace(sha256=hashlib.sha256(data).hexdigest()) if name in large else None
        siblings.append(SimpleNamespace(rfilename=name, lfs=lfs, blob_id=blob))
    api.repo_exists.return_value = True
    api.dataset_info.return_value = SimpleNamespace(siblings=siblings, sha=COMMIT)


def test_a_folder_becomes_a_data_set_in_one_commit(api: Any, folder: Path) -> None:
    hub = Hub("user/name", api)
    assert hub.check() == "user"
    pushed = hub.push(folder, force=False, private=True)
    assert (pushed.commit, pushed.same) == (COMMIT, False)
    assert pushed.url.endswith("/datasets/user/name")
    api.create_repo.assert_called_once_with("user/name", repo_type="dataset", private=True, exist_ok=True)
    (call,) = api.upload_folder.call_args_list
    assert (call.kwargs["repo_id"], call.kwargs["repo_type"], call.kwargs["folder_path"]) == (
        "user/name",
        "dataset",
        folder,
    )
    assert call.kwargs["delete_patterns"] is None


def test_the_same_content_is_not_uploaded_again(api: Any, folder: Path) -> None:
    there(api, {"README.md": b"card", "parity/train-8.parquet": b"rows"}, large=("parity/train-8.parquet",))
    assert Hub("user/name", api).push(folder, force=False, private=False).same
    api.upload_folder.assert_not_called()


@pytest.mark.parametrize(
    "files", [{"README.md": b"card"}, {"README.md": b"other", "parity/train-8.parquet": b"rows"}, {"thesis.pdf": b""}]
)
def test_other_content_is_replaced_only_with_force(api: Any, folder: Path, files: dict[str, bytes]) -> None:
    there(api, files)
    with pytest.raises(PushError, match=r"holds \d files of other content.*--force"):
        Hub("user/name", api).push(folder, force=False, private=False)
    api.create_repo.assert_not_called()
    api.upload_folder.assert_not_called()
    Hub("user/name", api).push(folder, force=True, private=False)
    assert api.upload_folder.call_args.kwargs["delete_patterns"] == ["*.parquet", "specs/*"]


def test_an_empty_data_set_is_filled(api: Any, folder: Path) -> None:
    there(api, {})
    assert not Hub("user/name", api).push(folder, force=False, private=False).same


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LocalTokenNotFoundError("x"), "there is none: `hf auth login`, or the variable HF_TOKEN. Nothing was written"),
        (refusal(401), r"refuses your token \(HTTP 401\).*hf auth login.*Nothing was written"),
        (refusal(503), "gives no answer .*Nothing was written"),
        (ConnectionError("no route"), "gives no answer .*no route.*Nothing was written"),
    ],
)
def test_who_cannot_push_is_told_before_anything_is_written(
    api: Any, workshop: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    api.whoami.side_effect = error
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api)
    done = workshop.layerstate("data", "export", "parity", *SMALL, "--to", workshop.root / "d", "--push", "user/name")
    assert done.exit_code == 2
    with pytest.raises(PushError, match=said):
        Hub("user/name", api).check()
    assert not (workshop.root / "d").exists()


@pytest.mark.parametrize("repo", ["name", "a/b/c", "user/na me", "user/--x"])
def test_an_id_that_cannot_be_is_an_error(api: Any, repo: str) -> None:
    with pytest.raises(PushError, match="--push"):
        Hub(repo, api).check()
    api.whoami.assert_not_called()


def test_a_push_that_fails_leaves_the_folder_and_says_so(api: Any, folder: Path) -> None:
    api.create_repo.side_effect = refusal(403, "not your namespace")
    with pytest.raises(PushError, match=r"may not write to 'user/name' \(HTTP 403\).*pushes it again"):
        Hub("user/name", api).push(folder, force=False, private=False)
    api.create_repo.side_effect = None
    api.upload_folder.side_effect = ConnectionError("broken")
    with pytest.raises(PushError, match=r"broken.*is whole; the same command pushes it again"):
        Hub("user/name", api).push(folder, force=False, private=False)
    api.upload_folder.side_effect = HFValidationError("odd")
    with pytest.raises(PushError, match="user/name would be right"):
        Hub("user/name", api).push(folder, force=False, private=False)


def test_the_command_pushes_what_it_exports(api: Any, workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    uploaded: list[str] = []

    def upload(**options: Any) -> Any:
        root = Path(options["folder_path"])
        uploaded.extend(sorted(path.relative_to(root).as_posix() for path in root.rglob("*.*")))
        return SimpleNamespace(oid=COMMIT)

    api.upload_folder.side_effect = upload
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api)
    done = workshop.layerstate("data", "export", "parity", *SMALL, "--push", "user/name")
    assert done.exit_code == 0, done.stderr
    assert "README.md" in uploaded
    assert "parity/train-40.parquet" in uploaded
    assert f"revision: {COMMIT}" in done.stdout


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "there is none: `hf auth login`, or the variable HF_TOKEN"),
        ({"HF_TOKEN": "hf_x"}, "gives no answer"),
        ({"HF_TOKEN": "hf_x", "HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
    ],
)
def test_without_token_or_network_a_process_writes_nothing(
    tmp_path: Path, variables: dict[str, str], said: str
) -> None:
    with socket.socket() as taken:  # a port where nobody listens
        taken.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        done = subprocess.run(
            [sys.executable, "-m", "layerstate", "data", "export", "parity", "--to", "d", "--push", "user/name"],
            env=kept | {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "home")} | variables,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "d").exists()
