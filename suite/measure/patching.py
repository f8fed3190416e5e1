"""How much of the clean answer a patch brings back, from logits and states; pure functions of arrays.

Shape suffixes: B pairs of a clean and a corrupted sequence, L length, C classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["last_differing", "logit_differences", "recovery"]

Float64 = NDArray[np.float64]
Int = NDArray[np.int64]

_DECIMALS = 6
"""Of a recovery: what is smaller is rounding of single precision, and must not look like an effect."""


def last_differing(clean_BL: Int, corrupt_BL: Int) -> Int:
    """The last position (B,) at which two sequences of states differ; −1 where they are the same throughout."""
    differs_BL = clean_BL != corrupt_BL
    last_B = differs_BL.shape[1] - 1 - differs_BL[:, ::-1].argmax(axis=1)
    return np.where(differs_BL.any(axis=1), last_B, -1)


def logit_differences(logits_BLC: NDArray[np.float32], position_B: Int, clean_B: Int, corrupt_B: Int) -> Float64:
    """logit[clean class] − logit[corrupted class] (B,), at one position a sequence."""
    rows_B = np.arange(len(logits_BLC))
    logits_BC = logits_BLC[rows_B, position_B].astype(np.float64)
    return logits_BC[rows_B, clean_B] - logits_BC[rows_B, corrupt_B]


def recovery(patched_B: Float64, clean_B: Float64, corrupt_B: Float64) -> Float64:
    """(patched − corrupted) / (clean − corrupted) of logit differences (B,): 0 as corrupted, 1 as clean.

    Source of the measure: Wang et al. 2022, arXiv:2211.00593; on its use, Zhang and Nanda 2023, arXiv:2309.16042.
    """
    return np.round((patched_B - corrupt_B) / (clean_B - corrupt_B), _DECIMALS)
