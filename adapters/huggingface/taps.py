"""Ablating a causal convolution by its taps, whoever reads them.

transformers gives the weights of a Mamba's ``conv1d`` to a function, on any device: the submodule is never called, and
a hook on it never fires. So the module that holds the convolution is watched instead, and while it runs it finds other
taps there. Gradients pass through them to the taps that are left.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from ..base import AdapterError
from ..reference.causal_conv1d import CONV1D_MODES

__all__ = ["TAP_MODES", "watch_taps"]

TAP_MODES = CONV1D_MODES


def watch_taps(holder: nn.Module, convolution: nn.Conv1d) -> None:
    """Let ``holder.ablation`` select how `convolution`, which it holds, is ablated in each of its calls.

    ``bypass``: each channel passes unchanged. ``current_tap``: the tap of the current token and the bias stay.
    None: nothing is changed. The parameters themselves are never written to.
    """
    kept: list[tuple[str, Any]] = []
    parameters = cast("dict[str, Any]", convolution._parameters)  # pyright: ignore[reportPrivateUsage]

    def before(module: nn.Module, _: Any) -> None:
        mode = getattr(module, "ablation", None)
        if mode is None:
            return
        changed = _changed(mode, convolution)
        kept.extend((name, parameters[name]) for name in changed)
        parameters.update(changed)

    def after(*_: Any) -> None:
        while kept:
            name, value = kept.pop()
            parameters[name] = value

    holder.register_forward_pre_hook(before)
    holder.register_forward_hook(after, always_call=True)


def _changed(mode: str, convolution: nn.Conv1d) -> dict[str, Tensor]:
    weight, bias = convolution.weight, convolution.bias
    if mode == "current_tap":
        mask = torch.zeros_like(weight)
        mask[..., -1] = 1.0
        return {"weight": weight * mask}
    if mode != "bypass":
        raise AdapterError(f"A convolution has no ablation {mode!r}; {' and '.join(TAP_MODES)} are there.")
    taps = torch.zeros_like(weight)
    taps[..., -1] = 1.0
    return {"weight": taps} if bias is None else {"weight": taps, "bias": torch.zeros_like(bias)}
