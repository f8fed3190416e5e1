"""The selective scan of Mamba (Gu and Dao 2023, section 3): one operation, two ways to compute it.

    delta_t = softplus(dt_t)
    h_t = exp(delta_t A) h_{t-1} + delta_t x_t B_t          h_t in R^(D, N), h_0 = 0
    out_t = (C_t . h_t + skip x_t) silu(z_t)

`selective_scan` takes the fused CPU kernel where it can and `selective_scan_reference` elsewhere.

Letters: B batch, L length, D channels, N state size.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

try:
    from . import scan_kernels
except ImportError:  # numba is missing or does not support this Python: the plain form serves
    scan_kernels = None

__all__ = ["fused_scan_available", "selective_scan", "selective_scan_reference"]

LOG2_E = 1.4426950408889634


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
    if fused_scan_available(*inputs):
        return FusedScan.apply(*inputs)  # pyright: ignore[reportReturnType]
    return selective_scan_reference(*inputs)


def fused_scan_available(*inputs: Tensor) -> bool:
    """Whether the fused kernel can serve: numba is there and every tensor is float32 on the CPU."""
    return scan_kernels is not None and all(t.dtype == torch.float32 and t.device.type == "cpu" for t in inputs)


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
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        inputs = tuple(t.detach().contiguous() for t in inputs)
        x_BLD, dt_BLD, A_DN, B_BLN, C_BLN, skip_D, z_BLD = inputs
        A2_ND = (A_DN.T * LOG2_E).contiguous()
        out_BLD = torch.empty_like(x_BLD)
        arrays = [t.numpy() for t in (x_BLD, dt_BLD, A2_ND, B_BLN, C_BLN, skip_D, z_BLD, out_BLD)]
        scan_kernels.scan_forward(*arrays)  # pyright: ignore[reportOptionalMemberAccess]
        ctx.save_for_backward(x_BLD, dt_BLD, A2_ND, B_BLN, C_BLN, skip_D, z_BLD)
        return out_BLD

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_BLD: Tensor) -> tuple[Tensor, ...]:
        saved = ctx.saved_tensors
        x_BLD, _, A2_ND, B_BLN, _, skip_D, _ = saved
        dx_BLD, ddt_BLD, dz_BLD = (torch.empty_like(x_BLD) for _ in range(3))
        dB_BLN, dC_BLN = torch.zeros_like(B_BLN), torch.zeros_like(B_BLN)
        dA_ND, dskip_D = torch.empty_like(A2_ND), torch.empty_like(skip_D)
        gradients = (dx_BLD, ddt_BLD, dA_ND, dB_BLN, dC_BLN, dskip_D, dz_BLD)
        arrays = [t.numpy() for t in (grad_BLD.contiguous(), *saved, *gradients)]
        scan_kernels.scan_backward(*arrays)  # pyright: ignore[reportOptionalMemberAccess]
        return dx_BLD, ddt_BLD, dA_ND.T, dB_BLN, dC_BLN, dskip_D, dz_BLD
