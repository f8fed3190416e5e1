"""Fused kernels of state-space duality within one chunk, for the CPU, compiled by numba.

For each sequence and head, y = M x, where M[t, s] = scores[t, s] decay[t, s] deltas[s] for s <= t and
decay[t, s] = 2**(sums[t] - sums[s]). M is made and used one sequence and head at a time, and never leaves the cache.

All arrays are flat float32; rows of a sequence are (b, t) = b * length + t, and `x_row` is the distance between rows
of `x`. `deltas` and `sums` are laid out (B, H, S) and `scores` (B, L, S), where S is L rounded up to LANES and
what is past L is 0.

Letters: B batch (sequences times chunks), L length, H heads, P width of a head (a multiple of LANES).
"""

from __future__ import annotations

import numpy as np

from .compilation import compiled, inlined
from .vector_math import (
    FLOAT,
    LANES,
    add_total,
    at_most_zero,
    exp2,
    load,
    spread,
    store,
    zeros,
)

__all__ = ["duality_backward", "duality_forward"]

TILE = 4
"""Rows of a product made together, so that each load serves four; divides LANES."""


@compiled
def duality_forward(batch, length, heads, width, x, x_row, deltas, sums, scores, out):
    """Write y (B, L, H P) into `out`."""
    size = (length + LANES - 1) // LANES * LANES
    causal = causal_steps()
    decay, mixing = np.empty(size * size, FLOAT), np.empty(size * size, FLOAT)
    x_SP, y_SP = np.empty(size * width, FLOAT), np.empty(size * width, FLOAT)
    for b in range(batch):
        for h in range(heads):
            mix(b, h, length, heads, size, deltas, sums, scores, causal, decay, mixing)
            copy_in(x, b * length * x_row + h * width, x_row, length, size, width, x_SP)
            for t in range(0, length, TILE):
                multiply(mixing, t * size, size, 1, x_SP, width, 0, t + TILE, y_SP, t * width, width, width)
            for t in range(length):
                to = ((b * length + t) * heads + h) * width
                for p in range(0, width, LANES):
                    store(out, to + p, load(y_SP, t * width + p))


@compiled
def duality_backward(batch, length, heads, width, grad, x, x_row, deltas, sums, scores, dx, ddeltas, dsums, dscores):
    """Write the gradients of all inputs; ddeltas, dsums and dscores must come in as zeros.

    ``dsums`` is that of sums in natural units: sums times ln(2).
    """
    size = (length + LANES - 1) // LANES * LANES
    causal = causal_steps()
    decay, mixing, dmixing = np.empty(size * size, FLOAT), np.empty(size * size, FLOAT), np.empty(size * size, FLOAT)
    x_SP, dy_SP, dx_SP = np.empty(size * width, FLOAT), np.empty(size * width, FLOAT), np.empty(size * width, FLOAT)
    x_PS = np.empty(width * size, FLOAT)
    for b in range(batch):
        for h in range(heads):
            mix(b, h, length, heads, size, deltas, sums, scores, causal, decay, mixing)
            copy_in(x, b * length * x_row + h * width, x_row, length, size, width, x_SP)
            copy_in(grad, (b * length * heads + h) * width, heads * width, length, size, width, dy_SP)
            for s in range(size):
                for p in range(width):
                    x_PS[p * size + s] = x_SP[s * width + p]
            for s in range(0, length, TILE):
                multiply(mixing, s, 1, size, dy_SP, width, s, length, dx_SP, s * width, width, width)
            for t in range(0, length, TILE):
                columns = (t + LANES) // LANES * LANES
                multiply(dy_SP, t * width, width, 1, x_PS, size, 0, width, dmixing, t * size, size, columns)
            first = (b * heads + h) * size
            for t in range(length):
                dsum_t = zeros()
                for s in range(0, t + 1, LANES):
                    at, score_at = t * size + s, (b * length + t) * size + s
                    through = load(dmixing, at) * load(decay, at)
                    delta = load(deltas, first + s)
                    store(dscores, score_at, load(dscores, score_at) + through * delta)
                    ddelta = through * load(scores, score_at)
                    store(ddeltas, first + s, load(ddeltas, first + s) + ddelta)
                    store(dsums, first + s, load(dsums, first + s) - ddelta * delta)
                    dsum_t = dsum_t + ddelta * delta
                add_total(dsums, first + t, dsum_t)
            for t in range(length):
                to = ((b * length + t) * heads + h) * width
                for p in range(0, width, LANES):
                    store(dx, to + p, load(dx_SP, t * width + p))


@inlined
def causal_steps():
    """LANES ones, then LANES zeros: read from LANES - 1 - (t - s) on, it is 1 in the lanes of positions <= t."""
    steps = np.zeros(2 * LANES, FLOAT)
    steps[:LANES] = FLOAT(1)
    return steps


@inlined
def mix(b, h, length, heads, size, deltas, sums, scores, causal, decay, mixing):
    """Fill the lower triangle of `decay` and `mixing` for one sequence and head, and every tile on the diagonal."""
    first = (b * heads + h) * size
    for t in range(size):
        for s in range(0, t + 1, LANES):
            at = t * size + s
            if t < length:
                step = spread(sums, first + t) - load(sums, first + s)
                kept = exp2(at_most_zero(step)) * load(causal, max(0, LANES - 1 - (t - s)))
                store(decay, at, kept)
                store(mixing, at, load(scores, (b * length + t) * size + s) * kept * load(deltas, first + s))
            else:
                store(mixing, at, zeros())


@inlined
def copy_in(source, at, row, length, size, width, target):
    """Copy `length` rows into `target` (size, width); the rows after them are 0."""
    for t in range(size):
        for p in range(0, width, LANES):
            if t < length:
                store(target, t * width + p, load(source, at + t * row + p))
            else:
                store(target, t * width + p, zeros())


@inlined
def multiply(a, a_at, a_row, a_column, b, b_row, first, last, out, out_at, out_row, columns):
    """TILE rows of a matrix product: out[i, c] = sum over k in [first, last) of a[i, k] b[k, c]."""
    for c in range(0, columns, LANES):
        out_0, out_1, out_2, out_3 = zeros(), zeros(), zeros(), zeros()
        for k in range(first, last):
            b_k = load(b, k * b_row + c)
            at = a_at + k * a_column
            out_0 = out_0 + spread(a, at) * b_k
            out_1 = out_1 + spread(a, at + a_row) * b_k
            out_2 = out_2 + spread(a, at + 2 * a_row) * b_k
            out_3 = out_3 + spread(a, at + 3 * a_row) * b_k
        store(out, out_at + c, out_0)
        store(out, out_at + out_row + c, out_1)
        store(out, out_at + 2 * out_row + c, out_2)
        store(out, out_at + 3 * out_row + c, out_3)
