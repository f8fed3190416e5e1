"""Family `code_depth`: lexical classes of real Python functions, and how deep brackets and blocks are nested.

Two sources, two tasks: `embedded` reads the file that ships with the package, `hub` a data set of the Hugging Face Hub.
Neither ever stands in for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Batch, IntArray, Task
from .code_corruption import corrupted_window
from .code_data import Functions, embedded_functions
from .code_hub import HubDataset
from .code_validity import check_windows
from .code_windows import Lines, window_starts
from .contract import check_position, check_size
from .described import Origin, StateVariable, numbered
from .errors import TaskError
from .lexical import CLASS_NUMBER, CLASSES, CLOSE_OF
from .parameters import Parameters, check_target
from .splits import SPLITS, split_index, split_of

__all__ = ["CodeDepth", "build"]

_COMMON = ("source", "max_depth", "max_indent", "sha256")
_HUB = ("dataset", "revision", "files", "functions")


@dataclass(frozen=True, slots=True)
class _Windows:
    """All windows of one length: uint8 array (windows, length), and the indices of those in each split."""

    tokens: NDArray[np.uint8]
    rows: dict[str, IntArray] = field(repr=False)


class CodeDepth:
    """Windows of Python functions as lexical classes, drawn evenly and with replacement.

    States: `depth`, the number of open brackets, and `indent`, the number of open blocks since the window's start;
    both clipped. Where windows begin, see `layerstate.tasks.code_windows`. The data are read when first needed.

    Parameters
    ----------
    load : callable
        Gives the functions.
    max_depth, max_indent : int
        Where the states are clipped.
    target : str
        `depth` or `indent`.
    sha256 : str, optional
        The digest that the functions must have.
    source : HubDataset, optional
        Where `load` takes them from, if from the Hub.
    """

    family = "code_depth"
    version = 1
    vocabulary = CLASSES

    def __init__(
        self,
        load: Callable[[], Functions],
        max_depth: int = 10,
        max_indent: int = 9,
        target: str = "depth",
        sha256: str | None = None,
        source: HubDataset | None = None,
    ) -> None:
        self._load = load
        self.source = source
        self._sha256 = sha256
        self._functions: Functions | None = None
        self._lines: Lines | None = None
        self._windows: dict[int, _Windows] = {}
        self.max_depth = max_depth
        self.max_indent = max_indent
        self.classes: Mapping[str, int] = {"depth": max_depth + 1, "indent": max_indent + 1}
        self.variables = {
            "depth": StateVariable(f"How many brackets are open; {max_depth} also for more.", numbered(max_depth + 1)),
            "indent": StateVariable(
                f"How many blocks were opened since the sequence began; {max_indent} also for more.",
                numbered(max_indent + 1),
            ),
        }
        self.target = check_target(self.family, target, self.classes)

    def functions(self) -> Functions:
        """The data, read on the first call.

        Raises
        ------
        TaskError
            If they cannot be read or have another digest than the parameter `sha256` says.
        """
        if self._functions is None:
            functions = self._load()
            found = functions.digest()
            if self._sha256 not in (None, found):
                raise TaskError(
                    f"the functions have the SHA-256 {found}, the parameter sha256 says {self._sha256}: other data "
                    "than this task was declared with",
                    field="sha256",
                )
            self._functions = functions
        return self._functions

    def origin(self) -> Origin:
        """Whose code the functions were."""
        return self.functions().origin

    def label(self, tokens: IntArray) -> Batch:
        """Windows (n, length) with their states; InvalidSequence for one that is no Python."""
        check_windows(tokens)
        return self._labelled(tokens)

    def sample(self, n: int, length: int, rng: np.random.Generator) -> Batch:
        """`n` windows of `length` tokens from all splits."""
        check_size(n, length)
        windows = self._windows_of(length).tokens
        return self._labelled(windows[rng.integers(0, len(windows), n)].astype(np.int64))

    def sample_split(self, split: str, n: int, length: int, rng: np.random.Generator) -> Batch:
        """`n` windows of `length` tokens from one split."""
        check_size(n, length)
        split_index(split)
        windows = self._windows_of(length)
        rows = windows.rows[split]
        if not len(rows):
            raise TaskError(f"split {split!r} holds no window of {length} tokens; take a shorter length or more data")
        return self._labelled(windows.tokens[rows[rng.integers(0, len(rows), n)]].astype(np.int64))

    def corrupt(self, batch: Batch, position: int, rng: np.random.Generator) -> Batch:  # noqa: ARG002
        """Windows with another depth at `position`, by the rule of `code_corruption`; there is no choice to draw.

        Raises
        ------
        TaskError
            For the target `indent`, which has no rule.
        """
        check_position(batch, position)
        if self.target != "depth":
            raise TaskError(f"family 'code_depth' can corrupt the depth only, not {self.target!r}", field="target")
        rows = [corrupted_window(row, position, self.max_depth) for row in batch.tokens.tolist()]
        return self._labelled(np.array(rows, dtype=np.int64).reshape(batch.tokens.shape))

    def _windows_of(self, length: int) -> _Windows:
        if length not in self._windows:
            functions = self.functions()
            if self._lines is None:
                self._lines = Lines.of(functions)
            starts = window_starts(self._lines, length)
            if not len(starts):
                raise TaskError(f"no function holds a window of {length} tokens; take a shorter length")
            tokens = functions.classes[starts[:, None] + np.arange(length)]
            split = split_of(tokens)
            rows = {name: np.flatnonzero(split == index) for index, name in enumerate(SPLITS)}
            self._windows[length] = _Windows(tokens, rows)
        return self._windows[length]

    def _labelled(self, tokens: IntArray) -> Batch:
        depth = np.cumsum(_BRACKET_STEP[tokens], axis=1)
        indent = np.cumsum(_INDENT_STEP[tokens], axis=1)
        return Batch(
            tokens, {"depth": np.clip(depth, 0, self.max_depth), "indent": np.clip(indent, 0, self.max_indent)}
        )


def build(params: Mapping[str, Any], target: str) -> Task:
    """The task for a spec's parameters.

    `source` (``embedded`` or ``hub``), `max_depth` (default 10), `max_indent` (9), `sha256` of the functions (required
    for ``embedded``). For ``hub`` also `dataset`, `revision`, `files` (a pattern) and `functions` (how many), all
    required.
    """
    source = Parameters("code_depth", params, (*_COMMON, *_HUB)).text("source", choices=("embedded", "hub"))
    given = Parameters(f"code_depth, source {source},", params, _COMMON if source == "embedded" else (*_COMMON, *_HUB))
    needs_digest = source == "embedded" or given.has("sha256")
    hub = _hub(given) if source == "hub" else None
    return CodeDepth(
        embedded_functions if hub is None else hub.load,
        given.integer("max_depth", low=1, high=100, default=10),
        given.integer("max_indent", low=1, high=100, default=9),
        target,
        _digest(given) if needs_digest else None,
        hub,
    )


def _hub(given: Parameters) -> HubDataset:
    return HubDataset(
        given.text("dataset"),
        given.text("revision"),
        given.text("files"),
        given.integer("functions", low=1, high=10_000_000),
    )


def _digest(given: Parameters) -> str:
    digest = given.text("sha256")
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise TaskError(
            f"parameter 'sha256' is {digest!r}, must be 64 hexadecimal digits in lower case", field="sha256"
        )
    return digest


def _steps(up: list[int], down: list[int]) -> IntArray:
    """For each class +1, -1 or 0."""
    steps = np.zeros(len(CLASSES), dtype=np.int64)
    steps[up], steps[down] = 1, -1
    return steps


_BRACKET_STEP = _steps(list(CLOSE_OF), list(CLOSE_OF.values()))
_INDENT_STEP = _steps([CLASS_NUMBER["INDENT"]], [CLASS_NUMBER["DEDENT"]])
