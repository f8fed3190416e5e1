"""From logits to predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["predictions"]


def predictions(logits_BLC: NDArray[np.float32]) -> NDArray[np.int64]:
    """The class with the largest logit (…); −1, never right, where a logit is NaN or infinite."""
    chosen = logits_BLC.argmax(axis=-1)
    return np.where(np.isfinite(logits_BLC).all(axis=-1), chosen, -1)
