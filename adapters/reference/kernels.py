"""The fused CPU kernels where numba can compile them, and how they see tensors: flat arrays and row distances.

Importing compiles nothing; each kernel is compiled on its first call.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

try:
    from . import conv_kernels as conv
    from . import duality_kernels as duality
    from . import norm_kernels as norm
    from . import scan_kernels as scan
    from .vector_math import LANES, LOG2_E

    AVAILABLE = True
except ImportError:  # numba is missing, or does not support this Python
    AVAILABLE, LANES = False, 1

__all__ = ["AVAILABLE", "LANES", "LOG2_E", "conv", "duality", "flat", "norm", "padded", "rows", "scan", "serve"]


def serve(*tensors: Tensor) -> bool:
    """Whether the kernels can take these tensors: all float32, on the CPU and not empty."""
    return AVAILABLE and all(t.dtype == torch.float32 and t.device.type == "cpu" and t.numel() for t in tensors)


def flat(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor in a flat array, which shares the memory of a contiguous one."""
    return tensor.detach().contiguous().view(-1).numpy()


def rows(x_BLD: Tensor) -> tuple[NDArray[Any], int]:
    """A flat array that starts at the first number, and the distance from row (b, t) to the next.

    Shares memory where rows are evenly spaced, as in a slice of the last axis; copies elsewhere.
    """
    batch, length, channels = x_BLD.shape
    x_BLD = x_BLD.detach()
    distance = x_BLD.stride(1) if length > 1 else x_BLD.stride(0)
    even = batch == 1 or length == 1 or x_BLD.stride(0) == length * distance
    if x_BLD.stride(2) != 1 or distance < channels or not even:
        x_BLD, distance = x_BLD.contiguous(), channels
    return x_BLD.as_strided(((batch * length - 1) * distance + channels,), (1,)).numpy(), distance


def padded(x: Tensor, axis: int = -1) -> Tensor:
    """`x` with zeros appended along `axis` (-1 or -2), so that its size is a multiple of LANES."""
    missing = -x.shape[axis] % LANES
    if not missing:
        return x
    return F.pad(x, (0, missing) if axis == -1 else (0, 0, 0, missing))
