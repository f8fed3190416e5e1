"""Fused selective-scan kernels for the CPU, compiled by numba.

States (B, L, D, N) are never stored: both passes take one vector of channels of one sequence at a time. The forward
pass keeps its current state; the backward pass recomputes the states of one chunk of positions in a small buffer.

All arrays are flat float32. Rows of a sequence are (b, t) = b * length + t; `x_row` is the distance between rows of
`x`, and so on. `A2` is A log2(e), at most 0, laid out (D / LANES, N, LANES).

Letters: B batch, L length, D channels (a multiple of LANES), N state size.
"""

from __future__ import annotations

import numpy as np

from .compilation import compiled
from .vector_math import (
    FLOAT,
    LANES,
    add_total,
    exp2,
    load,
    scaled_by_ln_2,
    sigmoid,
    silu,
    silu_slope,
    softplus,
    spread,
    store,
    zeros,
)

__all__ = ["CHUNK", "scan_backward", "scan_forward"]

CHUNK = 64
"""Positions whose states the backward pass holds at once."""


@compiled
def scan_forward(batch, length, channels, states, x, x_row, dt, dt_row, A2, B, B_row, C, C_row, skip, z, z_row, out):
    """Write the gated output (B, L, D) into `out`."""
    h = np.empty(states * LANES, FLOAT)
    for b in range(batch):
        for d in range(0, channels, LANES):
            A2_at = d * states
            for n in range(states):
                store(h, n * LANES, zeros())
            for t in range(length):
                row = b * length + t
                x_t = load(x, row * x_row + d)
                delta = softplus(load(dt, row * dt_row + d))
                drive = delta * x_t
                y = load(skip, d) * x_t
                for n in range(states):
                    at = n * LANES
                    state = exp2(delta * load(A2, A2_at + at)) * load(h, at) + drive * spread(B, row * B_row + n)
                    store(h, at, state)
                    y = y + state * spread(C, row * C_row + n)
                store(out, row * channels + d, y * silu(load(z, row * z_row + d)))


@compiled
def scan_backward(
    batch, length, channels, states, grad, x, x_row, dt, dt_row, A2, B, B_row, C, C_row, skip, z, z_row,
    dx, ddt, dA, dB, dC, dskip, dz,
):  # fmt: skip
    """Write the gradients of all inputs, with contiguous rows; dA, dB, dC and dskip must come in as zeros.

    `grad` is the gradient of the output, `dA` has the layout of `A2` and is the gradient of A.
    """
    rows = min(CHUNK, length)
    chunks = (length + rows - 1) // rows
    wide = states * LANES
    carry = np.empty(chunks * wide, FLOAT)
    decays = np.empty(rows * wide, FLOAT)
    decayed = np.empty(rows * wide, FLOAT)
    deltas = np.empty(rows * LANES, FLOAT)
    drives = np.empty(rows * LANES, FLOAT)
    dys = np.empty(rows * LANES, FLOAT)
    h = np.empty(wide, FLOAT)
    g = np.empty(wide, FLOAT)
    for b in range(batch):
        for d in range(0, channels, LANES):
            A2_at = d * states
            for at in range(0, wide, LANES):
                store(h, at, zeros())
                store(g, at, zeros())
            # States at the start of each chunk.
            for chunk in range(chunks):
                for at in range(0, wide, LANES):
                    store(carry, chunk * wide + at, load(h, at))
                if chunk < chunks - 1:
                    for t in range(chunk * rows, (chunk + 1) * rows):
                        row = b * length + t
                        delta = softplus(load(dt, row * dt_row + d))
                        drive = delta * load(x, row * x_row + d)
                        for n in range(states):
                            at = n * LANES
                            decay = exp2(delta * load(A2, A2_at + at))
                            store(h, at, decay * load(h, at) + drive * spread(B, row * B_row + n))
            for chunk in range(chunks - 1, -1, -1):
                start = chunk * rows
                stop = min(length, start + rows)
                for at in range(0, wide, LANES):
                    store(h, at, load(carry, chunk * wide + at))
                # Forward again, keeping what the way back needs.
                for t in range(start, stop):
                    row = b * length + t
                    r = t - start
                    x_t = load(x, row * x_row + d)
                    z_t = load(z, row * z_row + d)
                    grad_t = load(grad, row * channels + d)
                    delta = softplus(load(dt, row * dt_row + d))
                    drive = delta * x_t
                    dy = grad_t * silu(z_t)
                    y = load(skip, d) * x_t
                    for n in range(states):
                        at = n * LANES
                        decay = exp2(delta * load(A2, A2_at + at))
                        kept = decay * load(h, at)
                        state = kept + drive * spread(B, row * B_row + n)
                        store(decays, r * wide + at, decay)
                        store(decayed, r * wide + at, kept)
                        store(h, at, state)
                        y = y + state * spread(C, row * C_row + n)
                        add_total(dC, row * states + n, dy * state)
                    store(dz, row * channels + d, grad_t * y * silu_slope(z_t))
                    store(deltas, r * LANES, delta)
                    store(drives, r * LANES, drive)
                    store(dys, r * LANES, dy)
                # And back; g is the gradient that reaches a state from the positions after it.
                for t in range(stop - 1, start - 1, -1):
                    row = b * length + t
                    r = t - start
                    x_t = load(x, row * x_row + d)
                    delta = load(deltas, r * LANES)
                    drive = load(drives, r * LANES)
                    dy = load(dys, r * LANES)
                    ddrive = zeros()
                    dexponent = zeros()
                    for n in range(states):
                        at = n * LANES
                        dstate = load(g, at) + dy * spread(C, row * C_row + n)
                        through = dstate * load(decayed, r * wide + at)
                        ddrive = ddrive + dstate * spread(B, row * B_row + n)
                        dexponent = dexponent + through * load(A2, A2_at + at)
                        store(dA, A2_at + at, load(dA, A2_at + at) + through * delta)
                        add_total(dB, row * states + n, dstate * drive)
                        store(g, at, dstate * load(decays, r * wide + at))
                    ddelta = scaled_by_ln_2(dexponent) + x_t * ddrive
                    store(ddt, row * channels + d, ddelta * sigmoid(load(dt, row * dt_row + d)))
                    store(dx, row * channels + d, dy * load(skip, d) + delta * ddrive)
                    store(dskip, d, load(dskip, d) + dy * x_t)
