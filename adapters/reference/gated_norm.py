"""The gated RMSNorm of Mamba-2: the norm of y silu(z), the gate before the norm as in mamba_ssm.

Letters: B batch, L length, I channels, R rows.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import kernels
from .kernels import flat, rows

__all__ = ["GatedRMSNorm", "gated_rms_norm", "gated_rms_norm_reference"]


NORM_EPS = 1e-5


class GatedRMSNorm(nn.Module):
    """RMSNorm of y silu(z) over the last axis; the weight is named as in mamba_ssm."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, y_BLI: Tensor, z_BLI: Tensor) -> Tensor:
        """Gate and norm (B, L, I)."""
        return gated_rms_norm(y_BLI, z_BLI, self.weight, NORM_EPS)


def gated_rms_norm(y_BLI: Tensor, z_BLI: Tensor, weight_I: Tensor, epsilon: float) -> Tensor:
    """Gate `y_BLI` by silu of `z_BLI`, divide each position by its root mean square, multiply by `weight_I`."""
    if not kernels.serve(y_BLI, z_BLI, weight_I) or len(weight_I) % kernels.LANES:
        return gated_rms_norm_reference(y_BLI, z_BLI, weight_I, epsilon)
    return cast(Tensor, FusedNorm.apply(y_BLI, z_BLI, weight_I, epsilon))


def gated_rms_norm_reference(y_BLI: Tensor, z_BLI: Tensor, weight_I: Tensor, epsilon: float) -> Tensor:
    """`gated_rms_norm` in plain PyTorch, on any device and in any precision."""
    return F.rms_norm(y_BLI * F.silu(z_BLI), weight_I.shape, weight_I, epsilon)


class FusedNorm(torch.autograd.Function):
    """The norm kernels as a differentiable operation."""

    @staticmethod
    def forward(ctx: Any, y_BLI: Tensor, z_BLI: Tensor, weight_I: Tensor, epsilon: float) -> Tensor:
        y_BLI = y_BLI.contiguous()
        count, channels = y_BLI.numel() // y_BLI.shape[-1], y_BLI.shape[-1]
        out_BLI, inverse_R = y_BLI.new_empty(y_BLI.shape), y_BLI.new_empty(count)
        arrays = (flat(y_BLI), *rows(z_BLI), flat(weight_I), flat(out_BLI), flat(inverse_R))
        kernels.norm.norm_forward(count, channels, epsilon, *arrays)
        ctx.save_for_backward(y_BLI, z_BLI, weight_I, inverse_R)
        return out_BLI

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_BLI: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        y_BLI, z_BLI, weight_I, inverse_R = cast(tuple[Tensor, ...], ctx.saved_tensors)
        dy_BLI, dz_BLI, dweight_I = (
            y_BLI.new_empty(y_BLI.shape),
            y_BLI.new_empty(y_BLI.shape),
            torch.zeros_like(weight_I),
        )
        arrays = (flat(grad_BLI), flat(y_BLI), *rows(z_BLI), *map(flat, (weight_I, inverse_R)))
        kernels.norm.norm_backward(len(inverse_R), y_BLI.shape[-1], *arrays, *map(flat, (dy_BLI, dz_BLI, dweight_I)))
        return dy_BLI, dz_BLI, dweight_I, None
