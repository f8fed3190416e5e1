"""A pretrained model's files: from the Hugging Face Hub or a local folder, whole or refused; safetensors only.

Nothing here imports torch or transformers, so that a plan can ask for the digest of a checkpoint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from ..base import AdapterError, FieldError

__all__ = ["Checkpoint", "checkpoint_digest", "find_checkpoint", "folder_problem"]

CHECKPOINT = ("checkpoint",)
CONFIG = "config.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".msgpack", ".h5")
TOKENIZER = ("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab*", "merges.txt", "*.model", "spiece*")
WANTED = (CONFIG, "*.safetensors", "*.safetensors.index.json", *TOKENIZER)
TIMEOUT = 30.0


@dataclass(frozen=True)
class Checkpoint:
    """A folder with a whole checkpoint.

    Attributes
    ----------
    folder : Path
        ``config.json``, safetensors, and maybe the tokenizer's files.
    said : str
        How the spec calls it, for messages.
    """

    folder: Path
    said: str

    @property
    def weights(self) -> list[Path]:
        """The files of weights, one or several."""
        return _weight_files(self.folder)

    def config(self) -> dict[str, Any]:
        """What ``config.json`` says."""
        found: Any = json.loads((self.folder / CONFIG).read_text(encoding="utf-8"))
        return cast("dict[str, Any]", found)


def find_checkpoint(options: Mapping[str, Any], base: Path, *, trust_remote_code: bool = False) -> Checkpoint:
    """The files of a checkpoint, downloaded if they are not in the cache of the Hub.

    Parameters
    ----------
    options : mapping
        ``repo`` and ``revision``, or ``folder``.
    base : Path
        The folder that a local one is relative to: that of the YAML.
    trust_remote_code : bool
        Whether the repository's Python files are wanted too.

    Raises
    ------
    AdapterError
        If there is no such checkpoint, it can't be had, a file is missing or cut off, or its weights are pickles.
    """
    if options.get("folder") is not None:
        folder = (base / Path(options["folder"]).expanduser()).resolve()
        checkpoint = Checkpoint(folder, str(folder))
    else:
        checkpoint = _from_hub(options["repo"], options["revision"], trust_remote_code)
    problem = folder_problem(checkpoint.folder) or _damaged(checkpoint)
    if problem is not None:
        raise FieldError(f"{checkpoint.said}: {problem}", CHECKPOINT)
    return checkpoint


def folder_problem(folder: Path) -> str | None:
    """What makes a folder no checkpoint, as far as names of files tell; None if nothing does."""
    if not folder.is_dir():
        return f"there is no folder {folder}."
    if not (folder / CONFIG).is_file():
        return f"there is no {CONFIG} in {folder}; a folder that save_pretrained wrote has one."
    if _weight_files(folder):
        return None
    pickles = sorted(file.name for file in folder.iterdir() if file.suffix in PICKLES)
    if pickles:
        return (
            f"its weights are in {', '.join(pickles[:3])}, and layerstate reads safetensors only: unpickling runs "
            "whatever code a file holds. Load it yourself where you trust it, and write it with save_pretrained."
        )
    return f"there are no weights in {folder}: no *.safetensors file. A download may have stopped half-way."


def checkpoint_digest(options: Mapping[str, Any], base: Path) -> str | None:
    """The sha256 of a local checkpoint's files, for the identity; None for the Hub, whose revision stands for them.

    Raises
    ------
    AdapterError
        If the folder is no checkpoint, or a file can't be read.
    """
    if options.get("folder") is None:
        return None
    folder = (base / Path(options["folder"]).expanduser()).resolve()
    problem = folder_problem(folder)
    if problem is not None:
        raise AdapterError(problem)
    digest = hashlib.sha256()
    files = {file for pattern in (*WANTED, "*.py") for file in folder.glob(pattern) if file.is_file()}
    for file in sorted(files):
        stat = file.stat()
        digest.update(f"{file.name}\0{_file_digest(file, stat.st_size, stat.st_mtime_ns)}\n".encode())
    return digest.hexdigest()


@lru_cache(maxsize=256)
def _file_digest(file: Path, _size: int, _changed: int) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise AdapterError(f"{file} can't be read: {error.strerror}.") from error


def _weight_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def _damaged(checkpoint: Checkpoint) -> str | None:
    """What is wrong inside the files: a config that is no JSON, shards that are missing, weights that are cut off."""
    from safetensors import SafetensorError, safe_open

    try:
        checkpoint.config()
    except (OSError, ValueError) as error:
        return f"{CONFIG} can't be read: {error}."
    for index in checkpoint.folder.glob("*.safetensors.index.json"):
        try:
            named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, AttributeError) as error:
            return f"{index.name} can't be read: {error}."
        missing = sorted(name for name in named if not (checkpoint.folder / name).is_file())
        if missing:
            return f"{', '.join(missing[:3])} of {len(named)} files of weights are missing. Download it again."
    for file in checkpoint.weights:
        try:
            with cast("Any", safe_open)(file, framework="np"):
                pass
        except (OSError, SafetensorError) as error:
            return f"{file.name} is damaged or cut off ({error}). Download it again."
    return None


def _from_hub(repo: str, revision: str, trust_remote_code: bool) -> Checkpoint:
    said = f"{repo} at {revision}"
    try:
        import huggingface_hub
    except ImportError:
        raise AdapterError(
            f"{said} comes from the Hugging Face Hub: install layerstate[hf], or name a local folder."
        ) from None
    patterns = [*WANTED, *(["*.py"] if trust_remote_code else [])]
    cached = _cached(repo, revision, patterns)
    if cached is not None:
        return Checkpoint(cached, said)
    try:
        folder = huggingface_hub.snapshot_download(
            repo, revision=revision, allow_patterns=patterns, etag_timeout=TIMEOUT
        )
    except Exception as error:
        raise FieldError(_in_words(error, repo, revision), CHECKPOINT) from error
    return Checkpoint(Path(folder), said)


def _cached(repo: str, revision: str, patterns: list[str]) -> Path | None:
    """The snapshot in the cache, if all of it is there: then nothing is asked of the network."""
    import huggingface_hub

    try:
        folder = Path(
            huggingface_hub.snapshot_download(repo, revision=revision, allow_patterns=patterns, local_files_only=True)
        )
    except Exception:
        return None
    whole = folder_problem(folder) is None and _damaged(Checkpoint(folder, "")) is None
    return folder if whole else None


def _in_words(error: Exception, repo: str, revision: str) -> str:
    from huggingface_hub import constants, errors

    if isinstance(error, errors.GatedRepoError):
        return (
            f"{repo} is gated: accept its terms at https://huggingface.co/{repo}, then log in with `hf auth login` or "
            "set HF_TOKEN."
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{repo} has no revision {revision!r}. A commit, a tag or a branch from its page would be right."
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            f"There is no model {repo} on the Hub, or it is private: check the name; for a private one set HF_TOKEN. "
            "A local folder is written as checkpoint: {folder: …}."
        )
    if isinstance(error, errors.HFValidationError):
        return f"{repo!r} is no name of a model on the Hub; owner/name would be right."
    if isinstance(error, OSError) and error.errno is not None and error.errno == 28:
        return f"The disk of the cache {constants.HF_HUB_CACHE} is full. Free some space, or set HF_HOME elsewhere."
    offline = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else f"{type(error).__name__}"
    return (
        f"{repo} at {revision} is not (or not wholly) in the cache {constants.HF_HUB_CACHE} and can't be downloaded "
        f"({offline}). Run this once where there is a network: hf download {repo} --revision {revision}; the cache is "
        "under HF_HOME (or HF_HUB_CACHE). What was downloaded in part is gone on with."
    )
