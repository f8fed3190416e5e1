"""Mamba: a selective state-space model (Gu and Dao 2023, arXiv:2312.00752).

Parameters inside each mixer have the names and shapes of mamba_ssm's ``Mamba``; `to_mamba_ssm` and
`from_mamba_ssm` rename the rest.

Letters: B batch, L length, D width of the residual stream, I inner channels, N state size, R rank of the step size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .causal_conv1d import CONV1D_MODES, CausalConv1d
from .selective_scan import selective_scan

__all__ = ["Mamba", "MambaBlock", "MambaMixer", "from_mamba_ssm", "initial_dt_bias", "to_mamba_ssm"]

DT_RANGE = (1e-3, 1e-1)
DT_FLOOR = 1e-4
NORM_EPS = 1e-5
# Ours -> mamba_ssm's MambaLMHeadModel; transformers' MambaForCausalLM differs in `embeddings` alone.
NAMES = {"embed.": "backbone.embedding.", "blocks.": "backbone.layers.", "head.0.": "backbone.norm_f.", "head.1.": "lm_head."}


class Mamba(nn.Module):
    """Pre-norm residual stack of Mamba mixers.

    Parameters
    ----------
    vocab_size, classes : int
        Number of tokens, and of values of the target state.
    blocks, width : int
        Depth, and width of the residual stream.
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
        dt_rank: int | str = "auto",
        conv1d: bool = True,
    ) -> None:
        super().__init__()
        inner = int(expand * width)
        rank = math.ceil(width / 16) if dt_rank == "auto" else int(dt_rank)
        kernel = conv_kernel if conv1d else None
        self.components: dict[str, tuple[str, ...]] = {"mixer": ("zero",)}
        if conv1d:
            self.components["conv1d"] = CONV1D_MODES
        self.embed = nn.Embedding(vocab_size, width)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.blocks = nn.ModuleList(
            MambaBlock(width, MambaMixer(width, inner, state_size, kernel, rank, depth=blocks)) for _ in range(blocks)
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


class MambaBlock(nn.Module):
    """Residual stream in, residual stream out: h + mixer(norm(h))."""

    def __init__(self, width: int, mixer: nn.Module) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=NORM_EPS)
        self.mixer = mixer

    def forward(self, h_BLD: Tensor) -> Tensor:
        """Add what the mixer makes of the normed stream."""
        return h_BLD + self.mixer(self.norm(h_BLD))


class MambaMixer(nn.Module):
    """Projection, causal convolution, selective scan with gate, projection back.

    ``ablation``: ``zero`` makes the mixer add nothing to the residual stream.
    """

    def __init__(
        self, width: int, inner: int, state_size: int, conv_kernel: int | None, dt_rank: int, *, depth: int
    ) -> None:
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
            self.out_proj.weight /= math.sqrt(depth)

    def forward(self, h_BLD: Tensor) -> Tensor:
        """What this block adds to the residual stream."""
        if self.ablation == "zero":
            return torch.zeros_like(h_BLD)
        x_BLI, z_BLI = self.in_proj(h_BLD).chunk(2, dim=-1)
        if self.conv1d is not None:
            x_BLI = self.conv1d(x_BLI)
        x_BLI = F.silu(x_BLI)
        dt_BLR, B_BLN, C_BLN = self.x_proj(x_BLI).split(self.splits, dim=-1)
        y_BLI = selective_scan(x_BLI, self.dt_proj(dt_BLR), -torch.exp(self.A_log), B_BLN, C_BLN, self.D, z_BLI)
        return self.out_proj(y_BLI)


def initial_dt_bias(channels: int) -> Tensor:
    """Biases whose softplus is log-uniform in [1e-3, 1e-1], as mamba_ssm draws them."""
    low, high = (math.log(limit) for limit in DT_RANGE)
    dt = torch.exp(torch.rand(channels) * (high - low) + low).clamp(min=DT_FLOOR)
    return dt + torch.log(-torch.expm1(-dt))


def to_mamba_ssm(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our state dict under the names of mamba_ssm's ``MambaLMHeadModel``."""
    return _renamed(state, NAMES)


def from_mamba_ssm(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict of mamba_ssm's ``MambaLMHeadModel`` or transformers' ``MambaForCausalLM`` under our names."""
    back = {theirs: ours for ours, theirs in NAMES.items()} | {"backbone.embeddings.": "embed."}
    return _renamed(state, back)


def _renamed(state: Mapping[str, Tensor], prefixes: Mapping[str, str]) -> dict[str, Tensor]:
    renamed: dict[str, Tensor] = {}
    for name, value in state.items():
        prefix = next(prefix for prefix in prefixes if name.startswith(prefix))
        renamed[prefixes[prefix] + name.removeprefix(prefix)] = value
    return renamed
