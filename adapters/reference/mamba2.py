"""Mamba-2: state-space duality in matrix form (Dao and Gu 2024, arXiv:2405.21060, section 6).

Parameters inside each mixer have the names and shapes of mamba_ssm's ``Mamba2`` with one group.

Letters: B batch, L length, D width of the residual stream, H heads, P width of a head, N state size,
Z chunks, Q positions of a chunk (S as the position that is read).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..base import AdapterError
from .causal_conv1d import CONV1D_MODES, CausalConv1d
from .duality import CHUNK, state_space_duality
from .gated_norm import gated_rms_norm
from .mamba import NORM_EPS, MambaBlock, initial_dt_bias

__all__ = ["GatedRMSNorm", "Mamba2", "Mamba2Mixer"]

A_RANGE = (1.0, 16.0)


class Mamba2(nn.Module):
    """Pre-norm residual stack of Mamba-2 mixers.

    Parameters
    ----------
    vocab_size, classes : int
        Number of tokens, and of values of the target state.
    blocks, width : int
        Depth, and width of the residual stream.
    expand : float
        Inner channels are ``int(expand * width)``.
    headdim : int
        Channels a head; divides the inner channels.
    state_size : int
        States a channel.
    conv_kernel : int
        Taps of the causal convolution over x, B and C.
    chunk : int
        Sequences up to this length are one matrix; longer ones are worked on in chunks.
    conv1d : bool
        False leaves the convolution out of the model, and ``conv1d`` out of its components.

    Raises
    ------
    AdapterError
        If the inner channels do not divide into heads.
    """

    def __init__(
        self,
        vocab_size: int,
        classes: int,
        *,
        blocks: int,
        width: int,
        expand: float = 2,
        headdim: int = 32,
        state_size: int = 64,
        conv_kernel: int = 4,
        chunk: int = CHUNK,
        conv1d: bool = True,
    ) -> None:
        super().__init__()
        inner = int(expand * width)
        if inner % headdim:
            raise AdapterError(
                f"Mamba-2 has {inner} inner channels (expand {expand} x width {width}), which do not divide into heads "
                f"of {headdim}; choose headdim, expand or width so that they do."
            )
        kernel = conv_kernel if conv1d else None
        self.components: dict[str, tuple[str, ...]] = {"mixer": ("zero",)}
        if conv1d:
            self.components["conv1d"] = CONV1D_MODES
        self.embed = nn.Embedding(vocab_size, width)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.blocks = nn.ModuleList(
            MambaBlock(width, Mamba2Mixer(width, inner, headdim, state_size, kernel, chunk, depth=blocks))
            for _ in range(blocks)
        )
        self.head = nn.Sequential(nn.RMSNorm(width, eps=NORM_EPS), nn.Linear(width, classes, bias=False))

    def forward(self, tokens_BL: Tensor) -> Tensor:
        """Logits (B, L, classes) for tokens (B, L)."""
        h_BLD = self.embed(tokens_BL)
        for block in self.blocks:
            h_BLD = block(h_BLD)
        return self.head(h_BLD)

    def ablatable(self, component: str) -> list[nn.Module]:
        """The parts that make up `component`, one a block."""
        mixers = [block.get_submodule("mixer") for block in self.blocks]
        return mixers if component == "mixer" else [mixer.get_submodule(component) for mixer in mixers]


class Mamba2Mixer(nn.Module):
    """Projection, causal convolution over x, B and C, state-space duality, gated norm, projection back.

    ``ablation``: ``zero`` makes the mixer add nothing to the residual stream.
    """

    def __init__(
        self, width: int, inner: int, headdim: int, state_size: int, conv_kernel: int | None, chunk: int, *, depth: int
    ) -> None:
        super().__init__()
        self.ablation: str | None = None
        self.headdim, self.chunk = headdim, chunk
        heads, mixed = inner // headdim, inner + 2 * state_size
        self.in_splits, self.mixed_splits = [inner, mixed, heads], [inner, state_size, state_size]
        self.in_proj = nn.Linear(width, inner + mixed + heads, bias=False)
        self.conv1d = CausalConv1d(mixed, conv_kernel) if conv_kernel is not None else None
        self.dt_bias = nn.Parameter(initial_dt_bias(heads))
        self.A_log = nn.Parameter(torch.log(torch.empty(heads).uniform_(*A_RANGE)))
        self.D = nn.Parameter(torch.ones(heads))
        self.norm = GatedRMSNorm(inner)
        self.out_proj = nn.Linear(inner, width, bias=False)
        with torch.no_grad():
            self.out_proj.weight /= math.sqrt(depth)

    def forward(self, h_BLD: Tensor) -> Tensor:
        """What this block adds to the residual stream."""
        if self.ablation == "zero":
            return torch.zeros_like(h_BLD)
        z_BLI, xBC_BLI, dt_BLH = self.in_proj(h_BLD).split(self.in_splits, dim=-1)
        if self.conv1d is not None:
            xBC_BLI = self.conv1d(xBC_BLI)
        x_BLI, B_BLN, C_BLN = F.silu(xBC_BLI).split(self.mixed_splits, dim=-1)
        x_BLHP = x_BLI.unflatten(-1, (-1, self.headdim))
        delta_BLH = F.softplus(dt_BLH + self.dt_bias)
        y_BLHP = state_space_duality(x_BLHP, delta_BLH, -torch.exp(self.A_log), B_BLN, C_BLN, self.D, self.chunk)
        return self.out_proj(self.norm(y_BLHP.flatten(-2), z_BLI))


class GatedRMSNorm(nn.Module):
    """RMSNorm of y silu(z), the gate before the norm as in mamba_ssm."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, y_BLI: Tensor, z_BLI: Tensor) -> Tensor:
        """Gate and norm (B, L, I) over the last axis."""
        return gated_rms_norm(y_BLI, z_BLI, self.weight, NORM_EPS)
