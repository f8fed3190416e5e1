"""Mamba: a selective state-space model (Gu and Dao 2023, arXiv:2312.00752).

Parameters inside each mixer have the names, shapes and initial values of mamba_ssm's ``Mamba``; see
`layerstate.adapters.reference.state_space` for the others.

Letters: B batch, L length, D width of the residual stream, I inner channels, N state size, R rank of the step size.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..base import AdapterError
from .causal_conv1d import CausalConv1d
from .selective_scan import selective_scan
from .state_space import StateSpaceModel, initial_dt_bias, shrink_output

__all__ = ["Mamba", "MambaMixer"]


class Mamba(StateSpaceModel):
    """Pre-norm residual stack of Mamba mixers: int64 tokens (B, L) to logits (B, L, C).

    Parameters
    ----------
    vocab_size, classes : int
        Number of tokens, and of values of the target state.
    blocks, width : int
        Depth, and features of the residual stream.
    expand : float
        Inner channels are ``int(expand * width)``.
    state_size : int
        States a channel.
    conv_kernel : int
        Taps of the causal convolution.
    dt_rank : int or "auto"
        Rank of the step size; "auto" is ``ceil(width / 16)``.
    conv1d : bool
        False leaves the convolution out of the model, and ``conv1d`` out of its components.

    Raises
    ------
    AdapterError
        If `dt_rank` is neither a positive number nor "auto".
    """

    def __init__(
        self,
        vocab_size: int,
        classes: int,
        *,
        blocks: int,
        width: int,
        expand: float = 2,
        state_size: int = 16,
        conv_kernel: int = 4,
        dt_rank: int | Literal["auto"] = "auto",
        conv1d: bool = True,
    ) -> None:
        rank = math.ceil(width / 16) if dt_rank == "auto" else dt_rank
        if not isinstance(rank, int) or rank < 1:
            raise AdapterError(f"dt_rank of Mamba is {dt_rank!r}; it has to be a number from 1 on, or auto.")
        inner, kernel = int(expand * width), conv_kernel if conv1d else None
        mixers = [MambaMixer(width, inner, state_size, kernel, rank) for _ in range(blocks)]
        for mixer in mixers:
            shrink_output(mixer.out_proj, blocks)
        super().__init__(vocab_size, classes, width, mixers, conv1d)


class MambaMixer(nn.Module):
    """Projection, causal convolution, selective scan with gate, projection back.

    ``ablation``: ``zero`` makes the output 0, so that the residual stream passes unchanged.
    """

    def __init__(self, width: int, inner: int, state_size: int, conv_kernel: int | None, dt_rank: int) -> None:
        super().__init__()
        self.ablation: str | None = None
        self.splits = [dt_rank, state_size, state_size]
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.conv1d = CausalConv1d(inner, conv_kernel) if conv_kernel is not None else None
        self.x_proj = nn.Linear(inner, dt_rank + 2 * state_size, bias=False)
        self.dt_proj = nn.Linear(dt_rank, inner)
        self.A_log = nn.Parameter(torch.log(torch.arange(1.0, state_size + 1)).repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)
        nn.init.uniform_(self.dt_proj.weight, -(dt_rank**-0.5), dt_rank**-0.5)
        with torch.no_grad():
            self.dt_proj.bias.copy_(initial_dt_bias(inner))

    def forward(self, h_BLD: Tensor) -> Tensor:
        """What this block adds to the residual stream (B, L, D)."""
        if self.ablation == "zero":
            return torch.zeros_like(h_BLD)
        x_BLI, z_BLI = self.in_proj(h_BLD).chunk(2, dim=-1)
        if self.conv1d is not None:
            x_BLI = self.conv1d(x_BLI)
        x_BLI = F.silu(x_BLI)
        dt_BLR, B_BLN, C_BLN = self.x_proj(x_BLI).split(self.splits, dim=-1)
        y_BLI = selective_scan(x_BLI, self.dt_proj(dt_BLR), -torch.exp(self.A_log), B_BLN, C_BLN, self.D, z_BLI)
        return self.out_proj(y_BLI)
