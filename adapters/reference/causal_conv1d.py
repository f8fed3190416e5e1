"""The depthwise causal convolution of Mamba and Mamba-2, channels last, with its ablations.

Letters: B batch, L length, D channels, K taps.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import kernels
from .kernels import flat, padded, rows

__all__ = ["CONV1D_MODES", "CausalConv1d", "causal_conv1d", "causal_conv1d_reference"]

CONV1D_MODES = ("bypass", "current_tap")


class CausalConv1d(nn.Module):
    """Each channel becomes a weighted sum of its last `kernel` values; weights are named as in mamba_ssm.

    ``ablation``: ``bypass`` returns the input unchanged; ``current_tap`` keeps the tap of the current token
    (and the bias) and drops the taps of earlier tokens.

    Parameters
    ----------
    channels : int
        Channels D, each with its own taps.
    kernel : int
        Number of taps K; the last one meets the current token.
    """

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.ablation: str | None = None
        # nn.Conv1d's own default: uniform within 1 / sqrt(taps).
        bound = kernel**-0.5
        self.weight = nn.Parameter(torch.empty(channels, 1, kernel).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound))

    def forward(self, x_BLD: Tensor) -> Tensor:
        """Map (B, L, D) to (B, L, D); position t sees positions up to t."""
        if self.ablation == "bypass":
            return x_BLD
        weight_DK = self.weight.squeeze(1)
        if self.ablation == "current_tap":
            return x_BLD * weight_DK[:, -1] + self.bias
        return causal_conv1d(x_BLD, weight_DK, self.bias)


def causal_conv1d(x_BLD: Tensor, weight_DK: Tensor, bias_D: Tensor) -> Tensor:
    """Depthwise causal convolution (B, L, D) -> (B, L, D), by the fused CPU kernel where it can serve."""
    if not kernels.serve(x_BLD, weight_DK, bias_D):
        return causal_conv1d_reference(x_BLD, weight_DK, bias_D)
    channels = x_BLD.shape[-1]
    out_BLD = cast(Tensor, FusedConv.apply(padded(x_BLD), padded(weight_DK, axis=-2), padded(bias_D)))
    return out_BLD if out_BLD.shape[-1] == channels else out_BLD[..., :channels]


def causal_conv1d_reference(x_BLD: Tensor, weight_DK: Tensor, bias_D: Tensor) -> Tensor:
    """`causal_conv1d` in plain PyTorch, on any device and in any precision."""
    channels, taps = weight_DK.shape
    x_BDL = F.pad(x_BLD.transpose(1, 2), (taps - 1, 0))
    return F.conv1d(x_BDL, weight_DK.unsqueeze(1), bias_D, groups=channels).transpose(1, 2)


class FusedConv(torch.autograd.Function):
    """The convolution kernels as a differentiable operation."""

    @staticmethod
    def forward(ctx: Any, x_BLD: Tensor, weight_DK: Tensor, bias_D: Tensor) -> Tensor:
        weight_KD = weight_DK.detach().T.contiguous()
        out_BLD = x_BLD.new_empty(x_BLD.shape)
        arrays = (*rows(x_BLD), flat(weight_KD), flat(bias_D), flat(out_BLD))
        kernels.conv.conv_forward(*x_BLD.shape, len(weight_KD), *arrays)
        ctx.save_for_backward(x_BLD, weight_KD)
        return out_BLD

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_BLD: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x_BLD, weight_KD = cast(tuple[Tensor, Tensor], ctx.saved_tensors)
        dx_BLD, dweight_KD = x_BLD.new_empty(x_BLD.shape), torch.zeros_like(weight_KD)
        dbias_D = x_BLD.new_zeros(x_BLD.shape[-1])
        arrays = (flat(grad_BLD), *rows(x_BLD), *map(flat, (weight_KD, dx_BLD, dweight_KD, dbias_D)))
        kernels.conv.conv_backward(*x_BLD.shape, len(weight_KD), *arrays)
        return dx_BLD, dweight_KD.T, dbias_D
