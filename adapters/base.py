"""The adapter contract: one view of any sequence model, whatever library it comes from.

Shape suffixes: B batch, L length, D width, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..tasks.errors import LayerstateError

if TYPE_CHECKING:
    import torch

__all__ = ["Adapter", "AdapterError", "Edit", "EditNeverFired", "FieldError", "Fired", "FloatArray", "IntArray"]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]
Edit = Callable[["torch.Tensor"], "torch.Tensor"]
"""h_BLD -> h_BLD: what an edit makes of the activations at one site."""


class AdapterError(LayerstateError):
    """A model can't be wrapped or read as asked; the message says what would be right."""


class FieldError(AdapterError):
    """A field of a model's spec does not fit the model that it describes.

    Parameters
    ----------
    message : str
        What was found, and what would be right.
    field : tuple of str or int
        The keys that lead to the field, so that its line can be pointed at.
    """

    def __init__(self, message: str, field: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.field = field

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.field))}: {self.message}" if self.field else self.message

    @property
    def message(self) -> str:
        """The message without the field."""
        return str(self.args[0])


class EditNeverFired(AdapterError):
    """An edit or ablation was set up and the model never passed through it: it measured nothing."""


@dataclass
class Fired:
    """How often each edit of a context fired, by site or component name."""

    counts: dict[str, int] = field(default_factory=dict[str, int])


@runtime_checkable
class Adapter(Protocol):
    """What a wrapper gives; no base class is needed.

    Attributes
    ----------
    version : int
        Raised whenever the same model could give other numbers; part of the identity.
    sites : tuple of str
        ``embed``, ``block.0`` … ``block.{n-1}``, in the order of the computation. ``block.i`` is the residual
        stream after block i, before any final norm.
    components : dict of str to tuple of str
        Each part that can be ablated, with the modes it can be ablated in.
    classes : int
        Number of classes of the target state: the last axis of the logits.
    module : torch.nn.Module
        The trainable model: called with int64 tokens (B, L) it returns logits (B, L, C).
    device : torch.device
        Where the module lives; arrays are moved there batch by batch.
    """

    version: int
    sites: tuple[str, ...]
    components: Mapping[str, tuple[str, ...]]
    classes: int
    module: Any
    device: Any

    def logits(self, tokens: IntArray) -> FloatArray:
        """Logits (n, length, classes) for tokens (n, length), in evaluation mode, under the edits in force."""
        ...

    def capture(
        self, tokens: IntArray, sites: Sequence[str] | None = None, positions: IntArray | None = None
    ) -> dict[str, FloatArray]:
        """Activations (n, length, width) at `sites` (all by default), in evaluation mode.

        With `positions` (n, k), the activations at those positions only: (n, k, width).
        """
        ...

    def head(self, activations: FloatArray) -> FloatArray:
        """The model's own readout: activations (n, length, width) of the last site to logits."""
        ...

    def resume(self, tokens: IntArray, site: str, activations: FloatArray) -> FloatArray:
        """Logits (n, length, classes) of the forward pass on `tokens` with `activations` standing at `site`.

        Only what comes after the site has to be computed. Edits in force at later sites, and ablations, act.
        """
        ...

    def edit(self, edits: Mapping[str, Edit]) -> AbstractContextManager[Fired]:
        """While open, replace the activations at each site by what its edit returns.

        Raises `EditNeverFired` on a clean exit if an edit never fired; hooks are removed on any exception.
        """
        ...

    def ablate(self, component: str, mode: str) -> AbstractContextManager[Fired]:
        """While open, run with `component` ablated in `mode` in every block that has it.

        Raises `EditNeverFired` on a clean exit if it never fired.
        """
        ...
