"""LSTM and GRU on a residual stream: each block adds what its recurrent layer has seen so far.

Sources: Hochreiter & Schmidhuber 1997 (LSTM), Cho et al. 2014, arXiv:1406.1078 (GRU). A plain stack has no residual
stream; here each block reads h and adds to it, so that a site means the same as in every other architecture.

Shape suffixes: B batch, L length, D width, C classes, N hidden size.
"""

from __future__ import annotations

from typing import ClassVar, cast

import torch
from torch import Tensor, nn

__all__ = ["GRU", "LSTM"]


class Mixer(nn.Module):
    """A recurrent layer and the linear map that writes its hidden state to the residual stream.

    ``ablation``: ``zero`` makes the output 0, so that the residual stream passes unchanged.
    """

    def __init__(self, rnn: nn.LSTM | nn.GRU, width: int) -> None:
        super().__init__()
        self.ablation: str | None = None
        self.rnn = rnn
        self.out = nn.Linear(rnn.hidden_size, width)

    def forward(self, h_BLD: Tensor) -> Tensor:
        """What the layer holds after each token (B, L, D)."""
        if self.ablation == "zero":
            return torch.zeros_like(h_BLD)
        hidden_BLN, _ = self.rnn(h_BLD)
        return self.out(hidden_BLN)


class Block(nn.Module):
    """h + mixer(norm(h))."""

    def __init__(self, rnn: nn.LSTM | nn.GRU, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mixer = Mixer(rnn, width)

    def forward(self, h_BLD: Tensor) -> Tensor:
        """Residual stream before the block to residual stream after it (B, L, D)."""
        return h_BLD + self.mixer(self.norm(h_BLD))


class Recurrent(nn.Module):
    """Blocks around one kind of recurrent layer; see `LSTM` and `GRU`."""

    components: ClassVar[dict[str, tuple[str, ...]]] = {"mixer": ("zero",)}

    def __init__(self, vocab_size: int, classes: int, layers: list[nn.LSTM] | list[nn.GRU], width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        self.blocks = nn.ModuleList([Block(layer, width) for layer in layers])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, tokens_BL: Tensor) -> Tensor:
        """Logits (B, L, C) of the target state at each position."""
        h_BLD = self.embed(tokens_BL)
        for block in self.blocks:
            h_BLD = block(h_BLD)
        return self.head(h_BLD)

    def ablatable(self, component: str) -> list[nn.Module]:  # noqa: ARG002 (one component)
        """The parts that make up `component`, one a block."""
        return [cast(nn.Module, block.mixer) for block in self.blocks]


class LSTM(Recurrent):
    """Residual-stream LSTM: int64 tokens (B, L) to logits (B, L, C).

    Parameters
    ----------
    vocab_size, classes : int
        Number of tokens and of values of the target state.
    blocks, width, hidden : int
        Depth, features of the residual stream, hidden size of each recurrent layer.
    """

    def __init__(self, vocab_size: int, classes: int, *, blocks: int, width: int, hidden: int) -> None:
        super().__init__(vocab_size, classes, [nn.LSTM(width, hidden, batch_first=True) for _ in range(blocks)], width)


class GRU(Recurrent):
    """Residual-stream GRU: int64 tokens (B, L) to logits (B, L, C).

    Parameters
    ----------
    vocab_size, classes : int
        Number of tokens and of values of the target state.
    blocks, width, hidden : int
        Depth, features of the residual stream, hidden size of each recurrent layer.
    """

    def __init__(self, vocab_size: int, classes: int, *, blocks: int, width: int, hidden: int) -> None:
        super().__init__(vocab_size, classes, [nn.GRU(width, hidden, batch_first=True) for _ in range(blocks)], width)
