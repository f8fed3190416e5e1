"""Windows of `code_depth`: where in a function a sequence may begin, so that its states are known from its tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .code_data import Functions
from .lexical import CLASS_NUMBER, LAYOUT

__all__ = ["Lines", "window_starts"]


@dataclass(frozen=True, slots=True)
class Lines:
    """Where windows may begin, and how far they may reach.

    Attributes
    ----------
    starts : int64 array (lines,)
        Indices into ``functions.classes`` of the first tokens of logical lines.
    ends : int64 array (lines,)
        For each the end (exclusive) of its block, or of its function where that comes first.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, functions: Functions) -> Lines:
        """The lines of all functions: each starts after NEWLINE, INDENT or DEDENT, or where its function does."""
        layout = np.isin(functions.classes, LAYOUT)
        first = np.empty_like(layout)
        first[1:] = layout[:-1]
        function_ends = np.cumsum(functions.lengths)
        first[function_ends - functions.lengths] = True
        starts = np.flatnonzero(first & ~layout)
        ends = np.repeat(function_ends, functions.lengths)[starts]
        return cls(starts, np.minimum(ends, _block_ends(functions.classes, starts)))


def window_starts(lines: Lines, length: int) -> NDArray[np.int64]:
    """First tokens of all windows of `length` tokens.

    A window begins with the first token of a logical line, so outside all brackets; it lies in one function and does
    not leave the block in which it begins, so its indentation, counted from 0 at its start, never falls below 0. From
    each function windows are taken from the left, each as early as it can begin after the end of the one before: no
    two windows of a length overlap.

    Parameters
    ----------
    lines : Lines
        Where windows may begin.
    length : int
        Tokens a window.

    Returns
    -------
    int64 array (windows,)
        Indices into ``functions.classes``.
    """
    kept: list[int] = []
    free_from = 0
    for start in lines.starts[lines.starts + length <= lines.ends].tolist():
        if start >= free_from:
            kept.append(start)
            free_from = start + length
    return np.array(kept, dtype=np.int64)


def _block_ends(classes: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of `starts` the first DEDENT after it that leaves its block; the end of the data where none does."""
    step = (classes == CLASS_NUMBER["INDENT"]).astype(np.int64) - (classes == CLASS_NUMBER["DEDENT"])
    indent = np.cumsum(step)
    dedents = np.flatnonzero(step < 0)
    ends = np.full(len(starts), len(classes), dtype=np.int64)
    for level in np.unique(indent[starts]):
        inside = np.flatnonzero(indent[starts] == level)
        leaving = np.append(dedents[indent[dedents] < level], len(classes))
        ends[inside] = leaving[np.searchsorted(leaving, starts[inside])]
    return ends
