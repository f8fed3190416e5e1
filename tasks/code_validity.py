"""Which sequences of lexical classes can be windows of Python code, as far as the states depend on it."""

from __future__ import annotations

import numpy as np

from .base import IntArray
from .labels import InvalidSequence
from .lexical import CLASS_NUMBER, CLASSES, CLOSE_OF, LAYOUT

__all__ = ["check_windows"]


def check_windows(tokens: IntArray) -> None:
    """Check that brackets match, lines end outside brackets and blocks end after they began.

    Parameters
    ----------
    tokens : int64 array (n, length)
        Lexical classes.

    Raises
    ------
    InvalidSequence
        For the first window, and the first position in it, where that is not so.
    """
    opening, closing = np.isin(tokens, list(CLOSE_OF)), np.isin(tokens, list(CLOSE_OF.values()))
    depth = np.cumsum(opening.astype(np.int64) - closing, axis=1)
    wrong = depth < 0
    rows = np.arange(len(tokens))
    # What would close the bracket at each depth; entry 0 is no bracket.
    wanted = np.full((len(tokens), tokens.shape[1] + 1), -1, dtype=np.int64)
    for t in range(tokens.shape[1]):
        opened, closed = rows[opening[:, t]], rows[closing[:, t]]
        wanted[opened, np.maximum(depth[opened, t], 0)] = tokens[opened, t] + 1
        wrong[closed, t] |= wanted[closed, np.maximum(depth[closed, t] + 1, 0)] != tokens[closed, t]
    wrong |= np.isin(tokens, LAYOUT) & (depth > 0)
    step = (tokens == CLASS_NUMBER["INDENT"]).astype(np.int64) - (tokens == CLASS_NUMBER["DEDENT"])
    wrong |= np.cumsum(step, axis=1) < 0
    found = np.argwhere(wrong)
    if len(found):
        row, position = (int(number) for number in found[0])
        raise InvalidSequence(
            row,
            position,
            f"{CLASSES[tokens[row, position]]!r} cannot stand there; a bracket that closes matches the innermost open "
            "one, NEWLINE, INDENT and DEDENT stand outside brackets, and DEDENT after its INDENT",
        )
