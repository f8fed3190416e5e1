"""A pre-norm decoder-only Transformer (Vaswani et al. 2017, arXiv:1706.03762; pre-norm as in GPT-2).

Shape suffixes: B batch, L length, D width, C classes, H heads, K width of a head.
"""

from __future__ import annotations

from typing import ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..base import AdapterError

__all__ = ["Transformer"]

INITIAL_DEVIATION = 0.02
ROTARY_BASE = 10_000.0


class Embedding(nn.Module):
    """Token embedding, plus learned positions where `max_length` is given.

    Parameters
    ----------
    vocab_size, width : int
        Number of tokens, and of features of the residual stream.
    max_length : int or None
        Number of learned positions; None for no positions here.
    """

    def __init__(self, vocab_size: int, width: int, max_length: int | None) -> None:
        super().__init__()
        self.max_length = max_length
        self.token = nn.Embedding(vocab_size, width)
        self.position = nn.Embedding(max_length, width) if max_length is not None else None

    def forward(self, tokens_BL: Tensor) -> Tensor:
        """Tokens (B, L) to the first residual stream (B, L, D); an `AdapterError` beyond the last position."""
        h_BLD = self.token(tokens_BL)
        if self.position is None or self.max_length is None:
            return h_BLD
        length = tokens_BL.shape[1]
        if length > self.max_length:
            raise AdapterError(
                f"A sequence of {length} tokens is longer than the {self.max_length} learned positions of this "
                f"transformer. Raise architecture.max_length to {length} or more, or set positions to rotary or none."
            )
        return h_BLD + self.position.weight[:length]


class Attention(nn.Module):
    """Causal multi-head self-attention.

    ``ablation``: ``zero`` makes the output 0, so that the residual stream passes unchanged.
    """

    def __init__(self, width: int, heads: int, rotary: bool) -> None:
        super().__init__()
        self.ablation: str | None = None
        self.heads = heads
        self.rotary = rotary
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, h_BLD: Tensor) -> Tensor:
        """What each position gathers from itself and the positions before it (B, L, D)."""
        if self.ablation == "zero":
            return torch.zeros_like(h_BLD)
        q_BHLK, k_BHLK, v_BHLK = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(h_BLD).chunk(3, dim=-1)
        )
        if self.rotary:
            q_BHLK, k_BHLK = rotate(q_BHLK), rotate(k_BHLK)
        mixed_BHLK = functional.scaled_dot_product_attention(q_BHLK, k_BHLK, v_BHLK, is_causal=True)
        return self.out(mixed_BHLK.transpose(1, 2).flatten(-2))


def rotate(x_BHLK: Tensor) -> Tensor:
    """Rotary positions (Su et al. 2021, arXiv:2104.09864): turn pairs of features by an angle that grows with L."""
    length, width = x_BHLK.shape[-2:]
    steps_L = torch.arange(length, dtype=torch.float32, device=x_BHLK.device)
    rates_K = ROTARY_BASE ** (-torch.arange(0, width, 2, dtype=torch.float32, device=x_BHLK.device) / width)
    angles_LK = torch.outer(steps_L, rates_K)
    cos_LK, sin_LK = angles_LK.cos().to(x_BHLK.dtype), angles_LK.sin().to(x_BHLK.dtype)
    first, second = x_BHLK.chunk(2, dim=-1)
    return torch.cat((first * cos_LK - second * sin_LK, first * sin_LK + second * cos_LK), dim=-1)


class MLP(nn.Module):
    """Two linear maps around a GELU. ``ablation``: ``zero`` makes the output 0."""

    def __init__(self, width: int, mlp_ratio: int) -> None:
        super().__init__()
        self.ablation: str | None = None
        self.up = nn.Linear(width, mlp_ratio * width)
        self.out = nn.Linear(mlp_ratio * width, width)

    def forward(self, h_BLD: Tensor) -> Tensor:
        """A function of each position alone (B, L, D)."""
        if self.ablation == "zero":
            return torch.zeros_like(h_BLD)
        return self.out(functional.gelu(self.up(h_BLD)))


class Block(nn.Module):
    """h + attention(norm(h)), then h + mlp(norm(h))."""

    def __init__(self, width: int, heads: int, mlp_ratio: int, rotary: bool) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, rotary)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = MLP(width, mlp_ratio)

    def forward(self, h_BLD: Tensor) -> Tensor:
        """Residual stream before the block to residual stream after it (B, L, D)."""
        h_BLD = h_BLD + self.attention(self.attention_norm(h_BLD))
        return h_BLD + self.mlp(self.mlp_norm(h_BLD))


class Transformer(nn.Module):
    """Causal Transformer: int64 tokens (B, L) to logits (B, L, C).

    Parameters
    ----------
    vocab_size, classes : int
        Number of tokens and of values of the target state.
    blocks, width, heads, mlp_ratio : int
        Depth, features of the residual stream, attention heads, features inside each MLP over `width`.
    positions : {"learned", "rotary", "none"}
        How a position is known. ``none`` leaves only the causal mask.
    max_length : int
        Number of learned positions; a longer sequence is an `AdapterError`. Unused by the other two.

    Raises
    ------
    AdapterError
        If the width doesn't divide among the heads, or a head's width is odd with rotary positions.
    """

    components: ClassVar[dict[str, tuple[str, ...]]] = {"mixer": ("zero",), "attention": ("zero",), "mlp": ("zero",)}

    def __init__(
        self,
        vocab_size: int,
        classes: int,
        *,
        blocks: int,
        width: int,
        heads: int = 4,
        mlp_ratio: int = 4,
        positions: Literal["learned", "rotary", "none"] = "learned",
        max_length: int = 256,
    ) -> None:
        super().__init__()
        rotary = positions == "rotary"
        if width % heads or (rotary and width // heads % 2):
            raise AdapterError(
                f"A transformer of width {width} can't be split over {heads} heads"
                + (" of an even width each, which rotary positions need." if rotary else ".")
                + f" Choose a width that is a multiple of {heads * (2 if rotary else 1)}."
            )
        self.embed = Embedding(vocab_size, width, max_length if positions == "learned" else None)
        self.blocks = nn.ModuleList([Block(width, heads, mlp_ratio, rotary) for _ in range(blocks)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))
        self._initialise()

    def _initialise(self) -> None:
        """Weights N(0, 0.02), biases 0: with torch's wider default, parity stays unlearned."""
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=INITIAL_DEVIATION)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)

    def forward(self, tokens_BL: Tensor) -> Tensor:
        """Logits (B, L, C) of the target state at each position."""
        h_BLD = self.embed(tokens_BL)
        for block in self.blocks:
            h_BLD = block(h_BLD)
        return self.head(h_BLD)

    def ablatable(self, component: str) -> list[nn.Module]:
        """The parts that make up `component`, one a block."""
        part = "mlp" if component == "mlp" else "attention"
        return [cast(nn.Module, getattr(block, part)) for block in self.blocks]
