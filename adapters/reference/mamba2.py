"""Mamba-2: state-space duality in matrix form (Dao and Gu 2024, arXiv:2405.21060).

Parameters inside each mixer have the names, shapes and initial values of mamba_ssm's ``Mamba2`` with one group; see
`layerstate.adapters.reference.state_space` for the others.

Letters: B batch, L length, D width of the residual stream, I inner channels, H heads, P width of a head, N state size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..base import AdapterError
from .causal_conv1d import CausalConv1d
from .duality import CHUNK, state_space_duality
from .gated_norm import GatedRMSNorm
from .state_space import StateSpaceModel, initial_dt_bias, shrink_output

__all__ = ["Mamba2", "Mamba2Mixer"]

A_RANGE = (1.0, 16.0)
# A transition that crosses 0 has no logarithm there; this close to 0 it forgets all the same.
SMALLEST_SIGNED_TRANSITION = 1e-3


class Mamba2(StateSpaceModel):
    """Pre-norm residual stack of Mamba-2 mixers: int64 tokens (B, L) to logits (B, L, C).

    Parameters
    ----------
    vocab_size, classes : int
        Number of tokens, and of values of the target state.
    blocks, width : int
        Depth, and features of the residual stream.
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
    signed : bool
        Let the transition be 2 exp(delta A) - 1, in [-1, 1] (Grazzi et al. 2025, arXiv:2411.12537), and not
        exp(delta A), in [0, 1].
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
        signed: bool = False,
        conv1d: bool = True,
    ) -> None:
        inner, kernel = int(expand * width), conv_kernel if conv1d else None
        if inner % headdim or inner < 1:
            raise AdapterError(
                f"Mamba-2 has {inner} inner channels (expand {expand} times width {width}), which do not divide into "
                f"heads of {headdim}. Choose headdim, expand or width so that they do."
            )
        mixers = [Mamba2Mixer(width, inner, headdim, state_size, kernel, chunk, signed) for _ in range(blocks)]
        for mixer in mixers:
            shrink_output(mixer.out_proj, blocks)
        super().__init__(vocab_size, classes, width, mixers, conv1d)


class Mamba2Mixer(nn.Module):
    """Projection, causal convolution over x, B and C, state-space duality, gated norm, projection back.

    ``ablation``: ``zero`` makes the output 0, so that the residual stream passes unchanged.
    """

    def __init__(
        self, width: int, inner: int, headdim: int, state_size: int, conv_kernel: int | None, chunk: int, signed: bool
    ) -> None:
        super().__init__()
        self.ablation: str | None = None
        self.headdim, self.chunk, self.signed = headdim, chunk, signed
        heads, mixed = inner // headdim, inner + 2 * state_size
        self.in_splits, self.mixed_splits = [inner, mixed, heads], [inner, state_size, state_size]
        self.in_proj = nn.Linear(width, inner + mixed + heads, bias=False)
        self.conv1d = CausalConv1d(mixed, conv_kernel) if conv_kernel is not None else None
        self.dt_bias = nn.Parameter(initial_dt_bias(heads))
        self.A_log = nn.Parameter(torch.log(torch.empty(heads).uniform_(*A_RANGE)))
        self.D = nn.Parameter(torch.ones(heads))
        self.norm = GatedRMSNorm(inner)
        self.out_proj = nn.Linear(inner, width, bias=False)

    def forward(self, h_BLD: Tensor) -> Tensor:
        """What this block adds to the residual stream (B, L, D)."""
        if self.ablation == "zero":
            return torch.zeros_like(h_BLD)
        z_BLI, xBC_BLM, dt_BLH = self.in_proj(h_BLD).split(self.in_splits, dim=-1)
        if self.conv1d is not None:
            xBC_BLM = self.conv1d(xBC_BLM)
        x_BLI, B_BLN, C_BLN = F.silu(xBC_BLM).split(self.mixed_splits, dim=-1)
        x_BLHP = x_BLI.unflatten(-1, (-1, self.headdim))
        delta_BLH = F.softplus(dt_BLH + self.dt_bias)
        log_decay_BLH, sign_BLH = self._transition(delta_BLH)
        y_BLHP = state_space_duality(
            x_BLHP, delta_BLH, log_decay_BLH, B_BLN, C_BLN, sign_BLH=sign_BLH, chunk=self.chunk
        )
        y_BLHP = torch.addcmul(y_BLHP, x_BLHP, self.D[:, None])
        return self.out_proj(self.norm(y_BLHP.flatten(-2), z_BLI))

    def _transition(self, delta_BLH: Tensor) -> tuple[Tensor, Tensor | None]:
        """log |a|, and the sign of a where it has one, for the transition a."""
        log_decay_BLH = delta_BLH * -torch.exp(self.A_log)
        if not self.signed:
            return log_decay_BLH, None
        a_BLH = 2 * torch.exp(log_decay_BLH) - 1
        return torch.log(a_BLH.abs().clamp(min=SMALLEST_SIGNED_TRANSITION)), a_BLH.detach().sign()
