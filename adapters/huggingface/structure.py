"""Where a model's blocks and its final norm are, found by what a forward pass does, not by names of classes.

Letters: B batch, L length, D width of the residual stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from ..base import AdapterError, FieldError
from ..torch_module import find_submodules
from .tracing import Call, Forward, traced

__all__ = ["Structure", "find_structure"]


@dataclass(frozen=True)
class Structure:
    """The parts of a causal language model, without its head.

    Attributes
    ----------
    blocks : tuple of nn.Module
        Each adds to the residual stream, in the order of the forward pass.
    names : tuple of str
        Their names in the model.
    norm : nn.Module or None
        What stands between the last block and the last hidden state; None if there is nothing, or more than a module.
    direct : bool
        Whether the last hidden state is `norm` (or nothing) applied to the last block's output.
    calls : tuple of Call
        The pass that was watched.
    tokens_BL : Tensor
        What it was given.
    """

    blocks: tuple[nn.Module, ...]
    names: tuple[str, ...]
    norm: nn.Module | None
    direct: bool
    calls: tuple[Call, ...]
    tokens_BL: Tensor


def find_structure(
    model: nn.Module,
    forward: Forward,
    tokens_BL: Tensor,
    *,
    blocks: str | Sequence[str] | None = None,
    norm: str | None = None,
) -> Structure:
    """Watch one forward pass of `model`, and find its blocks and final norm.

    The blocks are the longest list of submodules that are each called once, one after the other, from a residual
    stream (B, L, D) to the next, D being the width of the last hidden state.

    Parameters
    ----------
    model : nn.Module
        The model without its head.
    forward : callable
        tokens_BL to its last hidden state (B, L, D).
    tokens_BL : Tensor
        Some tokens to run it on.
    blocks, norm : optional
        The names of the blocks (a pattern, or a list) and of the final norm, where a person knows better.

    Raises
    ------
    AdapterError
        If the blocks can't be told, or what was named isn't what the pass shows.
    """
    calls, last_BLD = traced(model, forward, tokens_BL)
    if last_BLD.ndim != 3 or last_BLD.shape[:2] != tokens_BL.shape:
        raise AdapterError(
            f"For tokens {tuple(tokens_BL.shape)} the model's last hidden state is {tuple(last_BLD.shape)}; a causal "
            "language model gives (batch, length, width)."
        )
    named = {id(part): name for name, part in reversed(list(model.named_modules(remove_duplicate=False)))}
    found = _named_blocks(model, blocks) if blocks is not None else _longest_list(model, calls, last_BLD.shape[-1])
    names = tuple(named[id(block)] for block in found)
    end = _ends(calls, dict(zip(names, found, strict=True)))[-1]
    end_BLD = cast(Tensor, end.out)
    final = _named_norm(model, norm, end_BLD, last_BLD) if norm is not None else _find_norm(calls, end, last_BLD)
    return Structure(
        blocks=tuple(found),
        names=names,
        norm=final,
        direct=final is not None or torch.equal(end_BLD, last_BLD),
        calls=tuple(calls),
        tokens_BL=tokens_BL,
    )


def _ends(calls: Sequence[Call], blocks: Mapping[str, nn.Module]) -> list[Call]:
    """The one call of each block."""
    ends: list[Call] = []
    for name, block in blocks.items():
        found = [call for call in calls if call.module is block]
        if len(found) != 1 or found[0].out is None:
            times = f"is called {len(found)} times" if len(found) != 1 else "returns no sequence (batch, length, width)"
            raise FieldError(f"{name} {times} in a forward pass; a block is called once", ("sites", "blocks"))
        ends += found
    return ends


def _named_blocks(model: nn.Module, blocks: str | Sequence[str]) -> list[nn.Module]:
    return list(find_submodules(model, blocks, ("sites", "blocks")).values())


def _longest_list(model: nn.Module, calls: Sequence[Call], width: int) -> list[nn.Module]:
    by_module: dict[int, list[Call]] = {}
    for call in calls:
        by_module.setdefault(id(call.module), []).append(call)
    candidates: dict[str, list[nn.Module]] = {}
    for name, part in model.named_modules():
        members = list(part.children()) if isinstance(part, nn.ModuleList | nn.Sequential) else []
        inside = any(name.startswith(f"{outer}.") for outer in candidates)
        if members and not inside and _is_stack([by_module.get(id(member), []) for member in members], width):
            candidates[name] = members
    if not candidates:
        raise AdapterError(
            "No list of blocks was found in the model: no submodules that are each called once, one after the other, "
            'from (batch, length, width) to the same. Name them: sites: {blocks: "layers.*"}.'
        )
    most = max(map(len, candidates.values()))
    longest = [name for name, members in candidates.items() if len(members) == most]
    if len(longest) > 1:
        raise AdapterError(
            f"The model has several lists of {most} blocks: {', '.join(longest)}. Name the one that is meant: "
            f'sites: {{blocks: "{longest[0]}.*"}}.'
        )
    return candidates[longest[0]]


def _is_stack(found: Sequence[Sequence[Call]], width: int) -> bool:
    """Whether each was called once, after the one before it had ended, from (B, L, D) to (B, L, D)."""
    if any(len(calls) != 1 for calls in found):
        return False
    stack = [calls[0] for calls in found]
    shapes = all(
        call.into is not None and call.out is not None and call.into.shape[-1] == call.out.shape[-1] == width
        for call in stack
    )
    return shapes and all(first.ended < second.started for first, second in pairwise(stack))


def _find_norm(calls: Sequence[Call], end: Call, last_BLD: Tensor) -> nn.Module | None:
    """The one module that makes the last hidden state of the last block's output, if there is one."""
    for call in calls:
        if call.started < end.ended or call.into is None or call.out is None or end.out is None:
            continue
        if torch.equal(call.into, end.out) and torch.equal(call.out, last_BLD):
            return call.module
    return None


def _named_norm(model: nn.Module, name: str, end_BLD: Tensor, last_BLD: Tensor) -> nn.Module:
    found = list(find_submodules(model, name, ("sites", "norm")).values())
    if len(found) > 1:
        raise FieldError(f"{name!r} matches {len(found)} submodules; it must match one", ("sites", "norm"))
    with torch.no_grad():
        made = found[0](end_BLD)
    if not isinstance(made, Tensor) or made.shape != last_BLD.shape or not torch.allclose(made, last_BLD, atol=1e-5):
        raise FieldError(
            f"{name} applied to the last block's output is not the model's last hidden state. Leave the key out, and "
            "the norm is found",
            ("sites", "norm"),
        )
    return found[0]
