"""Chance: what the best predictor gets that sees only the position.

The global majority rate flatters every model where the position says something: Dyck depth has its position's parity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["majority_by_position", "skill"]

Int = NDArray[np.int64]
Float64 = NDArray[np.float64]


def majority_by_position(y_BL: Int, classes: int) -> Int:
    """The most frequent class at each position (length,); of equally frequent ones the smallest."""
    counts_CL = np.stack([(y_BL == label).sum(axis=0) for label in range(classes)])
    return counts_CL.argmax(axis=0)


def skill(accuracy: Float64, chance: Float64) -> Float64:
    """(accuracy − chance) / (1 − chance); NaN where chance is 1 and nothing is left to know."""
    accuracy, chance = np.asarray(accuracy, np.float64), np.asarray(chance, np.float64)
    room = 1.0 - chance
    return np.where(room > 0, (accuracy - chance) / np.where(room > 0, room, 1.0), np.nan)
