"""Gated RMSNorm kernels for the CPU, compiled by numba: the norm of y silu(z), times a weight.

All arrays are flat float32; `z_row` is the distance between rows of `z`, the other rows are contiguous.

Letters: R rows, I channels (a multiple of LANES).
"""

from __future__ import annotations

import numpy as np

from .compilation import compiled
from .vector_math import FLOAT, LANES, add_total, load, silu, silu_slope, spread, store, zeros

__all__ = ["norm_backward", "norm_forward"]


@compiled
def norm_forward(rows, channels, epsilon, y, z, z_row, weight, out, inverse):
    """Write the normed rows (R, I) into `out`, and 1 / root mean square of each row into `inverse` (R,)."""
    for r in range(rows):
        inverse[r] = FLOAT(0)
        squares = zeros()
        for i in range(0, channels, LANES):
            gated = load(y, r * channels + i) * silu(load(z, r * z_row + i))
            store(out, r * channels + i, gated)
            squares = squares + gated * gated
        add_total(inverse, r, squares)
        inverse[r] = FLOAT(1) / np.sqrt(inverse[r] / FLOAT(channels) + epsilon)
        scale = spread(inverse, r)
        for i in range(0, channels, LANES):
            store(out, r * channels + i, load(out, r * channels + i) * scale * load(weight, i))


@compiled
def norm_backward(rows, channels, grad, y, z, z_row, weight, inverse, dy, dz, dweight):
    """Write the gradients of y, z and weight; the last must come in as zeros."""
    gated = np.empty(channels, FLOAT)
    dot = np.empty(1, FLOAT)
    for r in range(rows):
        scale = spread(inverse, r)
        total = zeros()
        for i in range(0, channels, LANES):
            v = load(y, r * channels + i) * silu(load(z, r * z_row + i))
            grad_i = load(grad, r * channels + i)
            store(gated, i, v)
            store(dweight, i, load(dweight, i) + grad_i * v * scale)
            total = total + grad_i * load(weight, i) * v
        dot[0] = FLOAT(0)
        add_total(dot, 0, total)
        dot[0] = dot[0] * inverse[r] * inverse[r] / FLOAT(channels)
        shrink = spread(dot, 0)
        for i in range(0, channels, LANES):
            z_i = load(z, r * z_row + i)
            dgated = (load(grad, r * channels + i) * load(weight, i) - load(gated, i) * shrink) * scale
            store(dy, r * channels + i, dgated * silu(z_i))
            store(dz, r * channels + i, dgated * load(y, r * channels + i) * silu_slope(z_i))
