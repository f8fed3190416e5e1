"""State-space duality of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060, section 6): one operation, two ways to compute it.

    h_t = a_t h_{t-1} + delta_t B_t x_t,  y_t = C_t . h_t
    or, at once,  y_t = sum over s <= t of (C_t . B_s) (a_{s+1} ... a_t) delta_s x_s

for each head. `state_space_duality` mixes positions by a matrix inside chunks and carries states between them, so that
cost grows linearly with length; inside a chunk it takes the fused CPU kernel where it can.

Letters: B batch, L length, H heads, P width of a head, N state size, Z chunks, Q positions of a chunk, S = Q padded.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor

from . import kernels
from .kernels import flat, padded, rows

__all__ = ["CHUNK", "mixed_within_chunks", "mixed_within_chunks_reference", "state_space_duality"]

CHUNK = 64


def state_space_duality(
    x_BLHP: Tensor,
    delta_BLH: Tensor,
    log_decay_BLH: Tensor,
    B_BLN: Tensor,
    C_BLN: Tensor,
    *,
    sign_BLH: Tensor | None = None,
    chunk: int = CHUNK,
) -> Tensor:
    """Scan `x_BLHP` through a scalar-times-identity state space that the input controls.

    Parameters
    ----------
    x_BLHP : Tensor (B, L, H, P)
        Input sequence.
    delta_BLH : Tensor (B, L, H)
        Step size, positive.
    log_decay_BLH : Tensor (B, L, H)
        log |a|: the logarithm of the size of the transition, at most 0.
    B_BLN, C_BLN : Tensor (B, L, N)
        Input and output maps, shared by the heads.
    sign_BLH : Tensor (B, L, H), optional
        Sign of the transition, 1 or -1; 1 everywhere by default.
    chunk : int
        Positions mixed by one matrix.

    Returns
    -------
    Tensor (B, L, H, P)
    """
    batch, length = x_BLHP.shape[:2]
    size = min(chunk, length)
    missing = -length % size
    # Padded positions have step size 0: they neither decay the state nor add to it.
    x, delta, log_decay, B, C = (_chunked(t, size, missing) for t in (x_BLHP, delta_BLH, log_decay_BLH, B_BLN, C_BLN))
    sums = log_decay.cumsum(1)
    sign = None
    if sign_BLH is not None:
        # Signs multiply like the decay: once into what a position writes, once into what a position reads.
        sign = torch.where(_chunked(sign_BLH, size, missing) < 0, -1.0, 1.0).to(delta.dtype).cumprod(1)
        delta = delta * sign
    y = mixed_within_chunks(x, delta, sums, B, C)
    if len(x) > batch:
        last_sign = torch.ones_like(sums[:, -1]) if sign is None else sign[:, -1]
        parts = (x * delta[..., None], sums, last_sign, B, C)
        y = y + _read_from_earlier_chunks(*(t.unflatten(0, (batch, -1)) for t in parts)).flatten(0, 1)
    if sign is not None:
        y = y * sign[..., None]
    y_BLHP = y.unflatten(0, (batch, -1)).flatten(1, 2)
    return y_BLHP[:, :length] if missing else y_BLHP


def _chunked(t_BL: Tensor, size: int, missing: int) -> Tensor:
    """(B, L, ...) as chunks (B Z, Q, ...), with zeros at `missing` positions after the last."""
    if missing:
        t_BL = torch.cat((t_BL, t_BL.new_zeros(t_BL.shape[0], missing, *t_BL.shape[2:])), 1)
    return t_BL.reshape(-1, size, *t_BL.shape[2:])


def mixed_within_chunks(x_BQHP: Tensor, delta_BQH: Tensor, sums_BQH: Tensor, B_BQN: Tensor, C_BQN: Tensor) -> Tensor:
    """What each position reads from its own chunk; `sums_BQH` is log |a| summed up to and including a position."""
    inputs = (x_BQHP, delta_BQH, sums_BQH, B_BQN, C_BQN)
    if not kernels.serve(*inputs) or x_BQHP.shape[-1] % kernels.LANES:
        return mixed_within_chunks_reference(*inputs)
    scores_BQS = C_BQN @ padded(B_BQN, axis=-2).transpose(1, 2)
    delta_BHS, sums_BHS = padded(delta_BQH.transpose(1, 2)), padded(sums_BQH.transpose(1, 2))
    return cast(Tensor, FusedMixing.apply(x_BQHP, delta_BHS, sums_BHS, scores_BQS))


def mixed_within_chunks_reference(
    x_BQHP: Tensor, delta_BQH: Tensor, sums_BQH: Tensor, B_BQN: Tensor, C_BQN: Tensor
) -> Tensor:
    """`mixed_within_chunks` in plain PyTorch, on any device and in any precision."""
    size = x_BQHP.shape[1]
    future_QS = torch.ones(size, size, dtype=torch.bool, device=x_BQHP.device).triu(1)
    sums_BHQ = sums_BQH.transpose(1, 2)
    decay_BHQS = (sums_BHQ[..., None] - sums_BHQ[..., None, :]).masked_fill(future_QS, -math.inf).exp()
    scores_BQS = C_BQN @ B_BQN.transpose(1, 2)
    drive_BHQP = (x_BQHP * delta_BQH[..., None]).transpose(1, 2)
    return ((scores_BQS[:, None] * decay_BHQS) @ drive_BHQP).transpose(1, 2)


def _read_from_earlier_chunks(
    drive_BZQHP: Tensor, sums_BZQH: Tensor, last_sign_BZH: Tensor, B_BZQN: Tensor, C_BZQN: Tensor
) -> Tensor:
    """What each position reads from the state that the chunks before its own left, but for its own sign."""
    to_end_BZQH = (sums_BZQH[:, :, -1:] - sums_BZQH).exp() * last_sign_BZH[:, :, None]
    added_BZHNP = torch.einsum("bzqn,bzqhp->bzhnp", B_BZQN, drive_BZQHP * to_end_BZQH[..., None])
    kept_BZH = sums_BZQH[:, :, -1].exp() * last_sign_BZH
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
    def forward(ctx: Any, x_BQHP: Tensor, delta_BHS: Tensor, sums_BHS: Tensor, scores_BQS: Tensor) -> Tensor:
        saved = (
            x_BQHP.flatten(2),
            delta_BHS.contiguous(),
            (sums_BHS * kernels.LOG2_E).contiguous(),
            scores_BQS.contiguous(),
        )
        out_BQHP = x_BQHP.new_empty(x_BQHP.shape)
        x_BQI, *others = saved
        kernels.duality.duality_forward(*x_BQHP.shape, *rows(x_BQI), *map(flat, (*others, out_BQHP)))
        ctx.save_for_backward(*saved)
        return out_BQHP

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_BQHP: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x_BQI, *others = cast(tuple[Tensor, ...], ctx.saved_tensors)
        dx_BQHP = grad_BQHP.new_empty(grad_BQHP.shape)
        sums = [torch.zeros_like(t) for t in others]
        arrays = (flat(grad_BQHP), *rows(x_BQI), *map(flat, (*others, dx_BQHP, *sums)))
        kernels.duality.duality_backward(*grad_BQHP.shape, *arrays)
        return dx_BQHP, *sums
