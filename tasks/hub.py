"""Files of a data set on the Hugging Face Hub: whole or not at all, tried again with back-off, kept in its cache.

The cache, its folder (HF_HOME, HF_HUB_CACHE), offline work (HF_HUB_OFFLINE), the token (HF_TOKEN) and the resuming of
half-downloaded files are those of huggingface_hub.
"""

from __future__ import annotations

import fnmatch
import importlib
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import TaskError
from .hub_failures import first_line, is_offline, lasting_reason

__all__ = ["EXTRA", "TRIES", "Snapshot", "extra_module", "fetch", "hub_module"]

EXTRA = "pip install 'layerstate[hf]'"
"""What installs the packages for the Hub."""

TRIES = 5
"""How often a download is begun before it is given up."""

FIRST_WAIT = 1.0
"""Seconds before the second try; each further wait is twice as long."""


@dataclass(frozen=True)
class Snapshot:
    """Files of a data set at one commit.

    Attributes
    ----------
    folder : Path
        Where they are.
    commit : str
        What the revision stood for.
    files : tuple of str
        Their paths in the folder, sorted.
    """

    folder: Path
    commit: str
    files: tuple[str, ...]


def extra_module(name: str, need: str) -> Any:
    """Import a module of the extra `hf`.

    Raises
    ------
    TaskError
        If it is not installed; `need` begins the sentence, such as "an export".
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise TaskError(f"{need} needs the package {package}: {EXTRA} ({error})", field="source") from error


def hub_module(need: str) -> Any:
    """huggingface_hub, with its errors."""
    extra_module("huggingface_hub.errors", need)
    return extra_module("huggingface_hub", need)


def fetch(
    repo: str, revision: str, patterns: Sequence[str], *, otherwise: str, show: bool = False, again: bool = False
) -> Snapshot:
    """Download what is not in the cache yet.

    Parameters
    ----------
    repo, revision : str
        Id of the data set (``user/name``), and a commit, branch or tag.
    patterns : sequence of str
        Which files, as `fnmatch` patterns of their paths.
    otherwise : str
        What a user without the network can do instead; ends messages.
    show : bool
        Whether progress bars and the reasons of further tries are shown on standard error.
    again : bool
        Whether files in the cache are fetched anew, too.

    Raises
    ------
    TaskError
        If not all of them can be had: without the package or the network, for a data set or revision that is not
        there, one that is gated, or a pattern that no file has.
    """
    hub = hub_module("a data set on the Hub")
    with _progress(hub, show):
        folder = Path(_Asked(hub, repo, revision, list(patterns), otherwise).answer(again, show))
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    matching = tuple(name for name in files if any(fnmatch.fnmatch(name, pattern) for pattern in patterns))
    if not matching:
        raise TaskError(
            f"the data set {repo!r} at revision {revision!r} has no file {' or '.join(patterns)}; see "
            f"{hub.constants.ENDPOINT}/datasets/{repo}/tree/{revision}",
            field="files",
        )
    return Snapshot(folder, folder.name, matching)


@dataclass
class _Asked:
    """One request to the Hub."""

    hub: Any
    repo: str
    revision: str
    patterns: list[str]
    otherwise: str

    def answer(self, again: bool, show: bool) -> str:
        """The folder of the snapshot, after as many tries as it takes."""
        for number in range(1, TRIES + 1):
            try:
                return self.hub.HfApi().snapshot_download(
                    self.repo,
                    repo_type="dataset",
                    revision=self.revision,
                    allow_patterns=self.patterns,
                    force_download=again,
                )
            except (OSError, ValueError, self.hub.errors.HTTPError) as error:
                self._raise_if_lasting(error)
                if number == TRIES:
                    raise self._no_answer(error) from error
                wait = FIRST_WAIT * 2 ** (number - 1)
                if show:
                    text = f"{self.repo}: {first_line(error)}; trying again in {wait:g} s ({number} of {TRIES - 1})"
                    print(text, file=sys.stderr, flush=True)
                time.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _raise_if_lasting(self, error: Exception) -> None:
        if is_offline(self.hub, error):
            raise TaskError(
                f"{self._missing()}, and HF_HUB_OFFLINE is set. Unset it, and 'layerstate data download' fetches it "
                f"once; or set HF_HUB_CACHE or HF_HOME to where it is; {self.otherwise}",
                field="dataset",
            ) from error
        reason = lasting_reason(self.hub, error, self.repo, self.revision)
        if reason is not None:
            text, field = reason
            raise TaskError(f"{text}; {self.otherwise}", field=field) from error

    def _no_answer(self, error: Exception) -> TaskError:
        return TaskError(
            f"{self._missing()}, and {self.hub.constants.ENDPOINT} gave no answer in {TRIES} tries "
            f"({first_line(error)}). With a network, 'layerstate data download' fetches it once and goes on where it "
            f"stopped; HF_HUB_CACHE or HF_HOME name another cache; {self.otherwise}",
            field="dataset",
        )

    def _missing(self) -> str:
        what = f"{' or '.join(self.patterns)} of the data set {self.repo!r} at revision {self.revision!r}"
        return f"{what} is not, or not whole, in the cache {self.hub.constants.HF_HUB_CACHE}"


@contextmanager
def _progress(hub: Any, show: bool) -> Generator[None]:
    """The Hub's own progress bars inside, or none: a run has a display of its own."""
    bars: Any = hub.utils
    if show or bars.are_progress_bars_disabled():
        yield
        return
    bars.disable_progress_bars()
    try:
        yield
    finally:
        bars.enable_progress_bars()
