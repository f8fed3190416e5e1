"""Depthwise causal convolution kernels for the CPU, compiled by numba.

All arrays are flat float32; rows of a sequence are (b, t) = b * length + t, and `x_row` is the distance between rows
of `x`. `weight` is laid out (K, D); tap K - 1 meets the current token.

Letters: B batch, L length, D channels (a multiple of LANES), K taps.
"""

from __future__ import annotations

from .compilation import compiled
from .vector_math import LANES, load, store, zeros

__all__ = ["conv_backward", "conv_forward"]


@compiled
def conv_forward(batch, length, channels, taps, x, x_row, weight, bias, out):
    """Write the convolution (B, L, D) into `out`; positions before the first count as 0."""
    for b in range(batch):
        for t in range(length):
            row = b * length + t
            back = min(t, taps - 1)
            for d in range(0, channels, LANES):
                total = load(bias, d)
                for lag in range(back, -1, -1):
                    total = total + load(weight, (taps - 1 - lag) * channels + d) * load(x, (row - lag) * x_row + d)
                store(out, row * channels + d, total)


@compiled
def conv_backward(batch, length, channels, taps, grad, x, x_row, weight, dx, dweight, dbias):
    """Write the gradients of input, weight and bias; the last two must come in as zeros."""
    for b in range(batch):
        for t in range(length):
            row = b * length + t
            ahead = min(length - 1 - t, taps - 1)
            for d in range(0, channels, LANES):
                x_t = load(x, row * x_row + d)
                total = zeros()
                for lag in range(ahead + 1):
                    at = (taps - 1 - lag) * channels + d
                    grad_t = load(grad, (row + lag) * channels + d)
                    total = total + load(weight, at) * grad_t
                    store(dweight, at, load(dweight, at) + grad_t * x_t)
                store(dx, row * channels + d, total)
                store(dbias, d, load(dbias, d) + load(grad, row * channels + d))
