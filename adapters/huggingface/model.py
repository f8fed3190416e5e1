"""A pretrained model as a task sees it: the task's symbols in, logits of the target state out.

Letters: B batch, L length, D width of the residual stream, C classes.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from ..base import AdapterError
from .tracing import with_sequence

__all__ = ["SymbolModel"]


class SymbolModel(nn.Module):
    """A pretrained model with a fresh linear head: int64 symbols (B, L) to logits (B, L, C).

    Only the rows of the embedding that the task's symbols have are kept, where the model gives the same with them
    alone: the others never enter a pass, and would only be carried along.

    Parameters
    ----------
    backbone : nn.Module
        The model without its language-model head; gives ``last_hidden_state``.
    ids_V : Tensor (V,)
        For each symbol the number of its token.
    classes : int
        C.
    """

    ids_V: Tensor

    def __init__(self, backbone: nn.Module, ids_V: Tensor, classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.entry = nn.Identity()
        self._lengths = (0, 0)
        self.register_buffer("ids_V", ids_V, persistent=False)
        backbone.eval()
        with torch.no_grad():
            width = self._keep_rows(ids_V)
        self.head = nn.Linear(width, classes)

    def forward(self, symbols_BL: Tensor) -> Tensor:
        """Logits (B, L, C) of the target state at each position."""
        return self.head(self.hidden(symbols_BL))

    def hidden(self, symbols_BL: Tensor) -> Tensor:
        """The last hidden state (B, L, D), after the final norm."""
        self._lengths = (symbols_BL.shape[0], symbols_BL.shape[1])
        return cast(Any, self.backbone)(input_ids=self.ids_V[symbols_BL], return_dict=True).last_hidden_state

    def mark_entry(self, first_block: nn.Module) -> None:
        """Let what enters the first block pass through ``entry``, so that the site ``embed`` is there in any model."""

        def enter(_: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            changed = with_sequence(arguments, keywords, self._lengths, self.entry)
            if changed is None:
                raise AdapterError("The first block is given no residual stream (batch, length, width).")
            return changed

        first_block.register_forward_pre_hook(enter, with_kwargs=True)

    def _keep_rows(self, ids_V: Tensor) -> int:
        """Replace the embedding by its rows `ids_V` if the model computes the same; the width of the hidden state."""
        symbols_BL = torch.arange(len(ids_V))[None].repeat(2, 1)
        symbols_BL[1] = symbols_BL[1].flip(0)
        before_BLD = self.hidden(symbols_BL)
        model, whole = cast(Any, self.backbone), cast(Any, self.backbone).get_input_embeddings()
        if type(whole) is nn.Embedding:
            rows = nn.Embedding.from_pretrained(whole.weight.detach()[ids_V].clone(), freeze=False)
            model.set_input_embeddings(rows)
            self.ids_V = torch.arange(len(ids_V))
            if not self._gives(symbols_BL, before_BLD):
                model.set_input_embeddings(whole)
                self.ids_V = ids_V
        return int(before_BLD.shape[-1])

    def _gives(self, symbols_BL: Tensor, expected_BLD: Tensor) -> bool:
        try:
            return torch.equal(self.hidden(symbols_BL), expected_BLD)
        except (IndexError, RuntimeError, ValueError):
            return False
