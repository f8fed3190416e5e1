"""The selective scan of Mamba (Gu and Dao 2023, arXiv:2312.00752, section 3): one operation, two ways to compute it.

    delta_t = softplus(dt_t)
    h_t = exp(delta_t A) h_{t-1} + delta_t x_t B_t          h_t in R^(D, N), h_0 = 0
    out_t = (C_t . h_t + skip x_t) silu(z_t)

`selective_scan` takes the fused CPU kernel where it can and `selective_scan_reference` elsewhere.

Letters: B batch, L length, D channels, N state size, T tiles of V channels.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from . import kernels
from .kernels import flat, padded, rows

__all__ = ["fused_scan_serves", "selective_scan", "selective_scan_reference"]


def selective_scan(
    x_BLD: Tensor, dt_BLD: Tensor, A_DN: Tensor, B_BLN: Tensor, C_BLN: Tensor, skip_D: Tensor, z_BLD: Tensor
) -> Tensor:
    """Scan `x_BLD` through a diagonal state space that the input controls, and gate the result.

    Parameters
    ----------
    x_BLD : Tensor (B, L, D)
        Input sequence.
    dt_BLD : Tensor (B, L, D)
        Step size before softplus, bias included.
    A_DN : Tensor (D, N)
        Continuous transition, negative.
    B_BLN, C_BLN : Tensor (B, L, N)
        Input and output maps.
    skip_D : Tensor (D,)
        Weight of the input in the output.
    z_BLD : Tensor (B, L, D)
        Gate before silu.

    Returns
    -------
    Tensor (B, L, D)
    """
    inputs = (x_BLD, dt_BLD, A_DN, B_BLN, C_BLN, skip_D, z_BLD)
    if not fused_scan_serves(*inputs):
        return selective_scan_reference(*inputs)
    channels = x_BLD.shape[-1]
    x_BLD, dt_BLD, skip_D, z_BLD = (padded(t) for t in (x_BLD, dt_BLD, skip_D, z_BLD))
    A_DN = padded(A_DN, axis=-2)
    out_BLD = cast(Tensor, FusedScan.apply(x_BLD, dt_BLD, A_DN, B_BLN, C_BLN, skip_D, z_BLD))
    return out_BLD if out_BLD.shape[-1] == channels else out_BLD[..., :channels]


def fused_scan_serves(*inputs: Tensor) -> bool:
    """Whether the fused kernel can take the inputs of `selective_scan`: float32 on the CPU, and no growing state."""
    return kernels.serve(*inputs) and bool(inputs[2].detach().max() <= 0)


def selective_scan_reference(
    x_BLD: Tensor, dt_BLD: Tensor, A_DN: Tensor, B_BLN: Tensor, C_BLN: Tensor, skip_D: Tensor, z_BLD: Tensor
) -> Tensor:
    """`selective_scan` one position at a time, in plain PyTorch, on any device and in any precision."""
    delta_BLD = F.softplus(dt_BLD)
    drive_BLD = delta_BLD * x_BLD
    h_BDN = x_BLD.new_zeros(x_BLD.shape[0], *A_DN.shape)
    outputs: list[Tensor] = []
    for t in range(x_BLD.shape[1]):
        decay_BDN = torch.exp(delta_BLD[:, t, :, None] * A_DN)
        h_BDN = decay_BDN * h_BDN + drive_BLD[:, t, :, None] * B_BLN[:, t, None, :]
        outputs.append(torch.einsum("bdn,bn->bd", h_BDN, C_BLN[:, t]))
    return (torch.stack(outputs, 1) + skip_D * x_BLD) * F.silu(z_BLD)


class FusedScan(torch.autograd.Function):
    """The fused kernels as a differentiable operation; saves its inputs and nothing else."""

    @staticmethod
    def forward(
        ctx: Any,
        x_BLD: Tensor,
        dt_BLD: Tensor,
        A_DN: Tensor,
        B_BLN: Tensor,
        C_BLN: Tensor,
        skip_D: Tensor,
        z_BLD: Tensor,
    ) -> Tensor:
        A2_TNV = (A_DN.detach() * kernels.LOG2_E).unflatten(0, (-1, kernels.LANES)).transpose(1, 2).contiguous()
        saved = (x_BLD, dt_BLD, A2_TNV, B_BLN, C_BLN, skip_D, z_BLD)
        out_BLD = x_BLD.new_empty(x_BLD.shape)
        kernels.scan.scan_forward(*x_BLD.shape, A_DN.shape[1], *_kernel_inputs(*saved), flat(out_BLD))
        ctx.save_for_backward(*saved)
        return out_BLD

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_BLD: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        saved = cast(tuple[Tensor, ...], ctx.saved_tensors)
        x_BLD, _, A2_TNV, B_BLN, _, skip_D, _ = saved
        dx_BLD, ddt_BLD, dz_BLD = (x_BLD.new_empty(x_BLD.shape) for _ in range(3))
        dB_BLN, dC_BLN = (B_BLN.new_zeros(B_BLN.shape) for _ in range(2))
        dA_TNV, dskip_D = torch.zeros_like(A2_TNV), skip_D.new_zeros(skip_D.shape)
        gradients = (dx_BLD, ddt_BLD, dA_TNV, dB_BLN, dC_BLN, dskip_D, dz_BLD)
        kernels.scan.scan_backward(
            *x_BLD.shape, B_BLN.shape[-1], flat(grad_BLD), *_kernel_inputs(*saved), *map(flat, gradients)
        )
        return dx_BLD, ddt_BLD, dA_TNV.transpose(1, 2).flatten(0, 1), dB_BLN, dC_BLN, dskip_D, dz_BLD


def _kernel_inputs(
    x_BLD: Tensor, dt_BLD: Tensor, A2_TNV: Tensor, B_BLN: Tensor, C_BLN: Tensor, skip_D: Tensor, z_BLD: Tensor
) -> tuple[Any, ...]:
    """What both kernels read, in their order."""
    return (
        *rows(x_BLD),
        *rows(dt_BLD),
        flat(A2_TNV),
        *rows(B_BLN),
        *rows(C_BLN),
        flat(skip_D),
        *rows(z_BLD),
    )
