"""What Mamba and Mamba-2 share: the residual stack around their mixers, and the names of their weights elsewhere.

Inside a mixer, parameters have the names and shapes of mamba_ssm. Around it:

| here            | mamba_ssm ``MambaLMHeadModel`` | transformers ``MambaForCausalLM``, ``Mamba2ForCausalLM`` |
|-----------------|--------------------------------|----------------------------------------------------------|
| ``embed``       | ``backbone.embedding``         | ``backbone.embeddings``                                  |
| ``blocks.i``    | ``backbone.layers.i``          | ``backbone.layers.i``                                    |
| ``head.0``      | ``backbone.norm_f``            | ``backbone.norm_f``                                      |
| ``head.1``      | ``lm_head``                    | ``lm_head``                                              |

Letters: B batch, L length, D width, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from ..base import AdapterError
from .causal_conv1d import CONV1D_MODES

__all__ = [
    "StateSpaceBlock",
    "StateSpaceModel",
    "from_mamba_ssm",
    "initial_dt_bias",
    "shrink_output",
    "to_mamba_ssm",
    "to_transformers",
]

NORM_EPS = 1e-5
EMBEDDING_DEVIATION = 0.02
DT_RANGE = (1e-3, 1e-1)
DT_FLOOR = 1e-4
MAMBA_SSM = {
    "embed.": "backbone.embedding.",
    "blocks.": "backbone.layers.",
    "head.0.": "backbone.norm_f.",
    "head.1.": "lm_head.",
}
TRANSFORMERS = MAMBA_SSM | {"embed.": "backbone.embeddings."}


class StateSpaceModel(nn.Module):
    """Embedding, pre-norm residual blocks, final norm and linear head: int64 tokens (B, L) to logits (B, L, C).

    Parameters
    ----------
    vocab_size, classes, width : int
        Number of tokens, of values of the target state, and of features of the residual stream.
    mixers : sequence of nn.Module
        One a block: (B, L, D) to (B, L, D), with an attribute ``ablation``.
    conv1d : bool
        Whether the mixers have a part ``conv1d`` that can be ablated.
    """

    def __init__(self, vocab_size: int, classes: int, width: int, mixers: Sequence[nn.Module], conv1d: bool) -> None:
        super().__init__()
        self.components: dict[str, tuple[str, ...]] = {"mixer": ("zero",)}
        if conv1d:
            self.components["conv1d"] = CONV1D_MODES
        self.embed = nn.Embedding(vocab_size, width)
        nn.init.normal_(self.embed.weight, std=EMBEDDING_DEVIATION)
        self.blocks = nn.ModuleList(StateSpaceBlock(width, mixer) for mixer in mixers)
        self.head = nn.Sequential(nn.RMSNorm(width, eps=NORM_EPS), nn.Linear(width, classes, bias=False))

    def forward(self, tokens_BL: Tensor) -> Tensor:
        """Logits (B, L, C) of the target state at each position."""
        h_BLD = self.embed(tokens_BL)
        for block in self.blocks:
            h_BLD = block(h_BLD)
        return self.head(h_BLD)

    def ablatable(self, component: str) -> list[nn.Module]:
        """The parts that make up `component`, one a block."""
        path = "mixer" if component == "mixer" else f"mixer.{component}"
        return [block.get_submodule(path) for block in self.blocks]


class StateSpaceBlock(nn.Module):
    """h + mixer(norm(h))."""

    def __init__(self, width: int, mixer: nn.Module) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=NORM_EPS)
        self.mixer = mixer

    def forward(self, h_BLD: Tensor) -> Tensor:
        """Residual stream before the block to residual stream after it (B, L, D)."""
        return h_BLD + self.mixer(self.norm(h_BLD))


def initial_dt_bias(channels: int) -> Tensor:
    """Biases whose softplus is log-uniform in [1e-3, 1e-1], as mamba_ssm draws them."""
    low, high = (math.log(limit) for limit in DT_RANGE)
    dt = torch.exp(torch.rand(channels) * (high - low) + low).clamp(min=DT_FLOOR)
    return dt + torch.log(-torch.expm1(-dt))


def shrink_output(projection: nn.Linear, blocks: int) -> None:
    """Divide a mixer's output weights by sqrt(blocks), so that the residual stream starts at one size at any depth."""
    with torch.no_grad():
        projection.weight /= math.sqrt(blocks)


def to_mamba_ssm(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict of `StateSpaceModel` under the names of mamba_ssm."""
    return _renamed(state, MAMBA_SSM)


def to_transformers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict of `StateSpaceModel` under the names of transformers."""
    return _renamed(state, TRANSFORMERS)


def from_mamba_ssm(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict of mamba_ssm, or of transformers, under the names of `StateSpaceModel`."""
    return _renamed(state, {theirs: ours for names in (MAMBA_SSM, TRANSFORMERS) for ours, theirs in names.items()})


def _renamed(state: Mapping[str, Tensor], prefixes: Mapping[str, str]) -> dict[str, Tensor]:
    """`state` with the prefix of each name replaced; an `AdapterError` for a name that has none of them."""
    renamed: dict[str, Tensor] = {}
    for name, value in state.items():
        prefix = next((prefix for prefix in prefixes if name.startswith(prefix)), None)
        if prefix is None:
            raise AdapterError(f"The weight {name!r} has no place in a Mamba; names start with {', '.join(prefixes)}.")
        renamed[prefixes[prefix] + name.removeprefix(prefix)] = value
    return renamed
