"""How kernels see tensors: flat float32 arrays, with the distance between rows."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["flat", "kernels_serve", "padded", "rows"]


def kernels_serve(*tensors: Tensor) -> bool:
    """Whether the CPU kernels can take these tensors: all float32 on the CPU, and none empty."""
    return all(t.dtype == torch.float32 and t.device.type == "cpu" and t.numel() for t in tensors)


def flat(tensor: Tensor) -> NDArray[Any]:
    """A contiguous tensor as a flat array that shares its memory."""
    return tensor.detach().view(-1).numpy()


def rows(x_BLD: Tensor) -> tuple[NDArray[Any], int]:
    """A flat array that starts at the first number, and the distance from row (b, t) to the next.

    Shares memory where the rows are evenly spaced, as in a slice of the last axis; copies elsewhere.
    """
    batch, length, channels = x_BLD.shape
    x_BLD = x_BLD.detach()
    step = x_BLD.stride(1) if length > 1 else x_BLD.stride(0)
    even = x_BLD.stride(2) == 1 and step >= channels and (batch == 1 or x_BLD.stride(0) == length * step)
    if not even:
        x_BLD, step = x_BLD.contiguous(), channels
    return x_BLD.as_strided(((batch * length - 1) * step + channels,), (1,)).numpy(), step


def padded(x: Tensor, multiple: int, axis: int = -1) -> Tensor:
    """`x` with zeros appended along `axis` (-1 or -2), so that its size is a multiple of `multiple`."""
    missing = -x.shape[axis] % multiple
    if not missing:
        return x
    return F.pad(x, (0, missing) if axis == -1 else (0, 0, 0, missing))
