"""Fused selective-scan kernels for the CPU, compiled by numba.

The state (B, L, D, N) is never stored: the forward pass keeps one (N, tile) carry, the backward pass
recomputes the states of one tile of channels and one chunk of positions at a time in a local buffer.
Inner loops run over channels, which are contiguous in memory, so that LLVM turns them into vector code.

Letters: B batch, L length, D channels, N state size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["scan_backward", "scan_forward"]

FLOAT = np.float32
TILE = 64
"""Channels worked on together: their carry and transition stay in the first-level cache."""
CHUNK = 64
"""Positions whose states the backward pass holds at once."""

ZERO, ONE, TWO = FLOAT(0), FLOAT(1), FLOAT(2)
LOG2_E, LN_2 = FLOAT(1.4426950408889634), FLOAT(0.6931471805599453)
SMALLEST_EXPONENT = FLOAT(-126)
SATURATED = FLOAT(80)
# 2**f on [-1/2, 1/2], Taylor coefficients ln(2)**k / k!, the last one adjusted to spread the error.
E0, E1, E2, E3 = FLOAT(1.0), FLOAT(0.6931471805599453), FLOAT(0.2402265069591007), FLOAT(0.05550410866482158)
E4, E5, E6 = FLOAT(0.009618129107628477), FLOAT(0.0013333558146428443), FLOAT(0.00015403530393381608)
# log1p(e) = 2 artanh(s), s = e / (2 + e) <= 1/3: odd series in s.
S1, S2, S3, S4, S5, S6 = (FLOAT(1 / k) for k in (3, 5, 7, 9, 11, 13))
# Sums may be reordered and products fused; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}


def compiled(function: Any) -> Any:
    """`function` compiled on first call, cached on disk where a place for it can be written."""
    options = {"fastmath": FASTMATH, "nogil": True, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba finds no writable folder for its cache
        return njit(**options)(function)


inlined = njit(inline="always", fastmath=FASTMATH, error_model="numpy")


@intrinsic
def nearest(_context: Any, _x: Any) -> Any:
    """The nearest integer, as a float: one vector instruction, which no fast-math rule may undo."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic("llvm.rint", [ir.FloatType()]), args)

    return types.float32(types.float32), generate


@intrinsic
def times_power_of_two(_context: Any, _x: Any, _exponent: Any) -> Any:
    """x * 2**exponent for an integral float exponent, by adding to the exponent bits of x."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        integer = ir.IntType(32)
        shift = builder.shl(builder.fptosi(args[1], integer), ir.Constant(integer, 23))
        return builder.bitcast(builder.add(builder.bitcast(args[0], integer), shift), ir.FloatType())

    return types.float32(types.float32, types.float32), generate


@inlined
def exp2(x):
    """2**x for x <= 127, relative error below 3e-7; smaller than 2**-126 becomes 2**-126."""
    x = SMALLEST_EXPONENT if SMALLEST_EXPONENT > x else x
    whole = nearest(x)
    f = x - whole
    p = E6
    p = p * f + E5
    p = p * f + E4
    p = p * f + E3
    p = p * f + E2
    p = p * f + E1
    p = p * f + E0
    return times_power_of_two(p, whole)


@inlined
def sigmoid(x):
    x = -SATURATED if x < -SATURATED else x
    x = SATURATED if x > SATURATED else x
    return ONE / (ONE + exp2(-x * LOG2_E))


@inlined
def softplus(x):
    e = exp2(-abs(x) * LOG2_E)
    s = e / (TWO + e)
    q = s * s
    p = S6
    p = p * q + S5
    p = p * q + S4
    p = p * q + S3
    p = p * q + S2
    p = p * q + S1
    p = p * q + ONE
    return (x if x > ZERO else ZERO) + TWO * s * p


@compiled
def scan_forward(x_BLD, dt_BLD, A2_ND, B_BLN, C_BLN, skip_D, z_BLD, out_BLD):
    """Write the gated output into `out_BLD`. `A2_ND` is A log2(e), at most 0; `dt_BLD` is before softplus."""
    batch, length, channels = x_BLD.shape
    states = A2_ND.shape[0]
    A2 = np.empty((states, TILE), FLOAT)
    h = np.empty((states, TILE), FLOAT)
    delta = np.empty(TILE, FLOAT)
    drive = np.empty(TILE, FLOAT)
    y = np.empty(TILE, FLOAT)
    for first in range(0, channels, TILE):
        width = min(TILE, channels - first)
        for n in range(states):
            for j in range(width):
                A2[n, j] = A2_ND[n, first + j]
        for b in range(batch):
            h[:] = ZERO
            for t in range(length):
                for j in range(width):
                    step = softplus(dt_BLD[b, t, first + j])
                    x = x_BLD[b, t, first + j]
                    delta[j] = step
                    drive[j] = step * x
                    y[j] = skip_D[first + j] * x
                for n in range(states):
                    B, C = B_BLN[b, t, n], C_BLN[b, t, n]
                    for j in range(width):
                        state = exp2(delta[j] * A2[n, j]) * h[n, j] + drive[j] * B
                        h[n, j] = state
                        y[j] += state * C
                for j in range(width):
                    z = z_BLD[b, t, first + j]
                    out_BLD[b, t, first + j] = y[j] * z * sigmoid(z)


@compiled
def scan_backward(
    grad_BLD, x_BLD, dt_BLD, A2_ND, B_BLN, C_BLN, skip_D, z_BLD, dx_BLD, ddt_BLD, dA_ND, dB_BLN, dC_BLN, dskip_D, dz_BLD
):
    """Write the gradients of all inputs; those summed over channels or batch must come in as zeros."""
    batch, length, channels = x_BLD.shape
    states = A2_ND.shape[0]
    chunks = (length + CHUNK - 1) // CHUNK
    rows = min(CHUNK, length)
    A2 = np.empty((states, TILE), FLOAT)
    dA = np.empty((states, TILE), FLOAT)
    dskip = np.empty(TILE, FLOAT)
    h = np.empty((states, TILE), FLOAT)
    g = np.empty((states, TILE), FLOAT)
    carry = np.empty((chunks, states, TILE), FLOAT)
    decay = np.empty((rows, states, TILE), FLOAT)
    decayed = np.empty((rows, states, TILE), FLOAT)
    delta = np.empty((rows, TILE), FLOAT)
    drive = np.empty((rows, TILE), FLOAT)
    dy = np.empty((rows, TILE), FLOAT)
    y = np.empty(TILE, FLOAT)
    g_drive = np.empty(TILE, FLOAT)
    g_decay = np.empty(TILE, FLOAT)
    for first in range(0, channels, TILE):
        width = min(TILE, channels - first)
        for n in range(states):
            for j in range(width):
                A2[n, j] = A2_ND[n, first + j]
        dA[:] = ZERO
        dskip[:] = ZERO
        for b in range(batch):
            h[:] = ZERO
            carry[0] = ZERO
            for t in range((chunks - 1) * CHUNK):
                for j in range(width):
                    delta[0, j] = softplus(dt_BLD[b, t, first + j])
                    drive[0, j] = delta[0, j] * x_BLD[b, t, first + j]
                for n in range(states):
                    B = B_BLN[b, t, n]
                    for j in range(width):
                        h[n, j] = exp2(delta[0, j] * A2[n, j]) * h[n, j] + drive[0, j] * B
                if (t + 1) % CHUNK == 0:
                    carry[(t + 1) // CHUNK] = h
            g[:] = ZERO
            for chunk in range(chunks - 1, -1, -1):
                start = chunk * CHUNK
                stop = min(length, start + CHUNK)
                h[:] = carry[chunk]
                for t in range(start, stop):
                    r = t - start
                    for j in range(width):
                        step = softplus(dt_BLD[b, t, first + j])
                        x = x_BLD[b, t, first + j]
                        z = z_BLD[b, t, first + j]
                        delta[r, j] = step
                        drive[r, j] = step * x
                        dy[r, j] = grad_BLD[b, t, first + j] * z * sigmoid(z)
                        y[j] = skip_D[first + j] * x
                    for n in range(states):
                        B, C = B_BLN[b, t, n], C_BLN[b, t, n]
                        dC = ZERO
                        for j in range(width):
                            a = exp2(delta[r, j] * A2[n, j])
                            ah = a * h[n, j]
                            state = ah + drive[r, j] * B
                            decay[r, n, j] = a
                            decayed[r, n, j] = ah
                            h[n, j] = state
                            y[j] += state * C
                            dC += dy[r, j] * state
                        dC_BLN[b, t, n] += dC
                    for j in range(width):
                        z = z_BLD[b, t, first + j]
                        s = sigmoid(z)
                        dz_BLD[b, t, first + j] = grad_BLD[b, t, first + j] * y[j] * s * (ONE + z * (ONE - s))
                for t in range(stop - 1, start - 1, -1):
                    r = t - start
                    for j in range(width):
                        g_drive[j] = ZERO
                        g_decay[j] = ZERO
                    for n in range(states):
                        B, C = B_BLN[b, t, n], C_BLN[b, t, n]
                        dB = ZERO
                        for j in range(width):
                            grad = g[n, j] + dy[r, j] * C
                            through = grad * decayed[r, n, j]
                            g_drive[j] += grad * B
                            g_decay[j] += through * A2[n, j]
                            dA[n, j] += through * delta[r, j]
                            dB += grad * drive[r, j]
                            g[n, j] = grad * decay[r, n, j]
                        dB_BLN[b, t, n] += dB
                    for j in range(width):
                        x = x_BLD[b, t, first + j]
                        dskip[j] += dy[r, j] * x
                        dx_BLD[b, t, first + j] = dy[r, j] * skip_D[first + j] + delta[r, j] * g_drive[j]
                        step = g_decay[j] * LN_2 + x * g_drive[j]
                        ddt_BLD[b, t, first + j] = step * sigmoid(dt_BLD[b, t, first + j])
        for n in range(states):
            for j in range(width):
                dA_ND[n, first + j] = dA[n, j]
        for j in range(width):
            dskip_D[first + j] = dskip[j]
