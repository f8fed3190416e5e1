"""An exported data set to the Hugging Face Hub, with the user's own token."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ...tasks.errors import LayerstateError
from ...tasks.hub import hub_module
from ...tasks.hub_failures import LOG_IN, first_line, is_offline, lasting_reason
from .card import SPECS

__all__ = ["Hub", "PushError", "Pushed"]

_LEFT_ALONE = (".gitattributes",)


class PushError(LayerstateError):
    """A data set cannot be pushed; what is on this machine is whole."""

    exit_code = 2


@dataclass(frozen=True)
class Pushed:
    """A data set on the Hub: its page, its commit, and whether it was there already with the same content."""

    url: str
    commit: str
    same: bool


class Hub:
    """A place for a data set on the Hub.

    Parameters
    ----------
    repo : str
        Its id, ``user/name``.
    api : HfApi, optional
        What is asked; by default with the user's token, from HF_TOKEN or `hf auth login`.

    Raises
    ------
    TaskError
        Without the extra `hf`.
    """

    def __init__(self, repo: str, api: Any = None) -> None:
        self._hub = hub_module("--push")
        self._repo = repo
        self._api = self._hub.HfApi() if api is None else api

    def check(self) -> str:
        """Ask the Hub who the user is, before anything is written; the user's name.

        Raises
        ------
        PushError
            For an id that cannot be, without a token or with one that the Hub refuses, and without the network.
        """
        if self._repo.count("/") != 1:
            raise PushError(f"--push {self._repo!r}: USER/NAME would be right")
        try:
            self._hub.utils.validate_repo_id(self._repo)
            return str(self._api.whoami()["name"])
        except self._hub.errors.LocalTokenNotFoundError as error:
            raise PushError(f"--push needs your token, and there is none: {LOG_IN}. Nothing was written.") from error
        except self._hub.errors.HFValidationError as error:
            raise PushError(f"--push {self._repo!r}: {first_line(error)}") from error
        except (OSError, ValueError, self._hub.errors.HTTPError) as error:
            raise self._failure(error, "Nothing was written.") from error

    def push(self, folder: Path, *, force: bool, private: bool) -> Pushed:
        """Upload a folder, in one commit.

        Parameters
        ----------
        folder : Path
            An export.
        force : bool
            Whether a data set of other content may be replaced there; its history stays.
        private : bool
            Whether a new data set is private.

        Raises
        ------
        PushError
            If there is a data set of other content, the user may not write there, or the upload fails.
        """
        try:
            return self._pushed(folder, force=force, private=private)
        except (OSError, ValueError, self._hub.errors.HTTPError) as error:
            raise self._failure(error, f"{folder} is whole; the same command pushes it again.") from error

    def _pushed(self, folder: Path, *, force: bool, private: bool) -> Pushed:
        url = f"{self._hub.constants.ENDPOINT}/datasets/{self._repo}"
        there: dict[str, str] = {}
        if self._api.repo_exists(self._repo, repo_type="dataset"):
            info = self._api.dataset_info(self._repo, files_metadata=True)
            siblings = cast("list[Any]", info.siblings or [])
            there = {str(each.rfilename): _remote_digest(each) for each in siblings}
            there = {name: value for name, value in there.items() if name not in _LEFT_ALONE}
            if there and there.items() == _local_digests(folder, there).items():
                return Pushed(url, str(info.sha), same=True)
            if there and not force:
                raise PushError(
                    f"{url} holds {len(there)} files of other content, such as {min(there)!r}. Nothing was changed "
                    "there: --force replaces them (their history stays), and another --push names another place."
                )
        self._api.create_repo(self._repo, repo_type="dataset", private=private or None, exist_ok=True)
        commit = self._api.upload_folder(
            repo_id=self._repo,
            folder_path=folder,
            repo_type="dataset",
            commit_message="Export of layerstate tasks",
            delete_patterns=["*.parquet", f"{SPECS}/*"] if there else None,
        )
        return Pushed(url, str(commit.oid), same=False)

    def _failure(self, error: Exception, rest: str) -> PushError:
        if is_offline(self._hub, error):
            return PushError(f"--push needs the network, and HF_HUB_OFFLINE is set. {rest}")
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status == 401:
            return PushError(f"the Hub refuses your token (HTTP 401): log in again ({LOG_IN}). {rest}")
        if status == 403:
            return PushError(f"your token may not write to {self._repo!r} (HTTP 403): {first_line(error)}. {rest}")
        reason = lasting_reason(self._hub, error, self._repo, None)
        if reason is not None:
            return PushError(f"{reason[0]}. {rest}")
        return PushError(f"{self._hub.constants.ENDPOINT} gives no answer ({first_line(error)}). {rest}")


def _remote_digest(sibling: Any) -> str:
    """The digest by which the Hub keeps a file: of its content where it is large, of git's blob otherwise."""
    lfs = getattr(sibling, "lfs", None)
    return str(sibling.blob_id) if lfs is None else str(lfs.sha256)


def _local_digests(folder: Path, there: dict[str, str]) -> dict[str, str]:
    """The same digests of the files in a folder, each of the kind that the Hub has."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name, data = path.relative_to(folder).as_posix(), path.read_bytes()
            large = len(there.get(name, "")) == 64
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
            found[name] = hashlib.sha256(data).hexdigest() if large else blob.hexdigest()
    return found
