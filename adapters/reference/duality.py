"""State-space duality of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060, section 6): one operation, two ways to compute it.

    y_t = sum over s <= t of (C_t . B_s) exp(A (delta_{s+1} + ... + delta_t)) delta_s x_s + skip x_t

for each head. `state_space_duality` mixes positions by a matrix inside chunks and carries states between them, so that
cost grows linearly with length; inside a chunk it takes the fused CPU kernel where it can.

Letters: B batch, L length, H heads, P width of a head, N state size, Z chunks, Q positions of a chunk, S = Q padded.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from .rows import flat, kernels_serve, padded, rows

try:
    from . import duality_kernels, vector_math
except ImportError:  # numba is missing or does not support this Python: the plain form serves
    duality_kernels = vector_math = None

__all__ = ["CHUNK", "mixed_within_chunks", "mixed_within_chunks_reference", "state_space_duality"]

CHUNK = 64


def state_space_duality(
    x_BLHP: Tensor, delta_BLH: Tensor, A_H: Tensor, B_BLN: Tensor, C_BLN: Tensor, skip_H: Tensor, chunk: int = CHUNK
) -> Tensor:
    """Scan `x_BLHP` through a scalar-times-identity state space that the input controls.

    Parameters
    ----------
    x_BLHP : Tensor (B, L, H, P)
        Input sequence.
    delta_BLH : Tensor (B, L, H)
        Step size, positive.
    A_H : Tensor (H,)
        Continuous transition, negative.
    B_BLN, C_BLN : Tensor (B, L, N)
        Input and output maps, shared by the heads.
    skip_H : Tensor (H,)
        Weight of the input in the output.
    chunk : int
        Positions mixed by one matrix.

    Returns
    -------
    Tensor (B, L, H, P)
    """
    batch, length = x_BLHP.shape[:2]
    size = min(chunk, length)
    missing = -length % size
    if missing:  # padded positions have step size 0: they neither decay the state nor add to it
        x_BLHP, B_BLN, C_BLN = (padded_rows(t, missing) for t in (x_BLHP, B_BLN, C_BLN))
        delta_BLH = padded_rows(delta_BLH, missing)
    x, delta, B, C = (t.reshape(-1, size, *t.shape[2:]) for t in (x_BLHP, delta_BLH, B_BLN, C_BLN))
    sums = (delta * A_H).cumsum(1)
    y = mixed_within_chunks(x, delta, sums, B, C, skip_H)
    if len(x) > batch:
        drive, sums, B, C = (t.unflatten(0, (batch, -1)) for t in (x * delta[..., None], sums, B, C))
        y = y + read_from_earlier_chunks(drive, sums, B, C).flatten(0, 1)
    y_BLHP = y.unflatten(0, (batch, -1)).flatten(1, 2)
    return y_BLHP[:, :length] if missing else y_BLHP


def padded_rows(x_BL: Tensor, missing: int) -> Tensor:
    """`x_BL` (B, L, ...) with `missing` positions of zeros appended."""
    return torch.cat((x_BL, x_BL.new_zeros(x_BL.shape[0], missing, *x_BL.shape[2:])), 1)


def mixed_within_chunks(
    x_BQHP: Tensor, delta_BQH: Tensor, sums_BQH: Tensor, B_BQN: Tensor, C_BQN: Tensor, skip_H: Tensor
) -> Tensor:
    """What each position reads from its own chunk; `sums_BQH` is delta A summed up to and including a position."""
    inputs = (x_BQHP, delta_BQH, sums_BQH, B_BQN, C_BQN, skip_H)
    if (
        duality_kernels is None
        or vector_math is None
        or not kernels_serve(*inputs)
        or x_BQHP.shape[-1] % vector_math.LANES
    ):
        return mixed_within_chunks_reference(*inputs)
    lanes = vector_math.LANES
    scores_BQS = C_BQN @ padded(B_BQN, lanes, axis=-2).transpose(1, 2)
    delta_BHS, sums_BHS = (padded(t.transpose(1, 2), lanes) for t in (delta_BQH, sums_BQH))
    return cast(Tensor, FusedMixing.apply(x_BQHP, delta_BHS, sums_BHS, scores_BQS, skip_H))


def mixed_within_chunks_reference(
    x_BQHP: Tensor, delta_BQH: Tensor, sums_BQH: Tensor, B_BQN: Tensor, C_BQN: Tensor, skip_H: Tensor
) -> Tensor:
    """`mixed_within_chunks` in plain PyTorch, on any device and in any precision."""
    size = x_BQHP.shape[1]
    future_QS = torch.ones(size, size, dtype=torch.bool, device=x_BQHP.device).triu(1)
    sums_BHQ = sums_BQH.transpose(1, 2)
    decay_BHQS = (sums_BHQ[..., None] - sums_BHQ[..., None, :]).masked_fill(future_QS, -math.inf).exp()
    scores_BQS = C_BQN @ B_BQN.transpose(1, 2)
    drive_BHQP = (x_BQHP * delta_BQH[..., None]).transpose(1, 2)
    y_BHQP = (scores_BQS[:, None] * decay_BHQS) @ drive_BHQP
    return y_BHQP.transpose(1, 2) + skip_H[:, None] * x_BQHP


def read_from_earlier_chunks(drive_BZQHP: Tensor, sums_BZQH: Tensor, B_BZQN: Tensor, C_BZQN: Tensor) -> Tensor:
    """What each position reads from the state that the chunks before its own left."""
    to_end_BZQH = (sums_BZQH[:, :, -1:] - sums_BZQH).exp()
    added_BZHNP = torch.einsum("bzqn,bzqhp->bzhnp", B_BZQN, drive_BZQHP * to_end_BZQH[..., None])
    kept_BZH = sums_BZQH[:, :, -1].exp()
    state_BHNP = torch.zeros_like(added_BZHNP[:, 0])
    states: list[Tensor] = []
    for z in range(added_BZHNP.shape[1]):
        states.append(state_BHNP)
        state_BHNP = kept_BZH[:, z, :, None, None] * state_BHNP + added_BZHNP[:, z]
    read_BZQHP = torch.einsum("bzqn,bzhnp->bzqhp", C_BZQN, torch.stack(states, 1))
    return read_BZQHP * sums_BZQH.exp()[..., None]


class FusedMixing(torch.autograd.Function):
    """The fused kernels as a differentiable operation; saves its inputs and nothing else."""

    @staticmethod
    def forward(
        ctx: Any, x_BQHP: Tensor, delta_BHS: Tensor, sums_BHS: Tensor, scores_BQS: Tensor, skip_H: Tensor
    ) -> Tensor:
        assert duality_kernels is not None
        assert vector_math is not None
        saved = (
            x_BQHP.flatten(2),
            delta_BHS.contiguous(),
            (sums_BHS * vector_math.LOG2_E).contiguous(),
            scores_BQS.contiguous(),
            skip_H.contiguous(),
        )
        out_BQHP = x_BQHP.new_empty(x_BQHP.shape)
        x_BQI, *others = saved
        duality_kernels.duality_forward(*x_BQHP.shape, *rows(x_BQI), *map(flat, (*others, out_BQHP)))
        ctx.save_for_backward(*saved)
        return out_BQHP

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_BQHP: Tensor) -> tuple[Tensor, ...]:
        assert duality_kernels is not None
        x_BQI, *others = cast(tuple[Tensor, ...], ctx.saved_tensors)
        dx_BQHP = grad_BQHP.new_empty(grad_BQHP.shape)
        sums = [torch.zeros_like(t) for t in others]
        arrays = (flat(grad_BQHP.contiguous()), *rows(x_BQI), *map(flat, (*others, dx_BQHP, *sums)))
        duality_kernels.duality_backward(*grad_BQHP.shape, *arrays)
        return dx_BQHP, *sums
