"""One forward pass, watched: which submodules were called, with what, in which order.

Letters: B batch, L length, W width of an input, D width of the residual stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Call", "Forward", "fed", "first_sequence", "traced", "with_sequence"]

Forward = Callable[[Tensor], Tensor]
"""tokens_BL to the last hidden state (B, L, D)."""


@dataclass(frozen=True)
class Call:
    """One call of a submodule.

    Attributes
    ----------
    module : nn.Module
        What was called.
    into, out : Tensor or None
        The first sequence (B, L, …) among its arguments, and in what it returned.
    started, ended : int
        When: a count of all calls' starts and ends.
    """

    module: nn.Module
    into: Tensor | None
    out: Tensor | None
    started: int
    ended: int


def traced(root: nn.Module, forward: Forward, tokens_BL: Tensor) -> tuple[list[Call], Tensor]:
    """Every call of a submodule of `root` in one pass, in the order in which they ended; and what the pass gave."""
    calls: list[Call] = []
    open_calls: dict[int, list[tuple[int, Tensor | None]]] = {}
    clock = iter(range(1 << 60))
    lengths = tuple(tokens_BL.shape)

    def before(module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        into = first_sequence((*arguments, *keywords.values()), lengths)
        open_calls.setdefault(id(module), []).append((next(clock), None if into is None else into.detach().clone()))

    def after(module: nn.Module, _: tuple[Any, ...], __: dict[str, Any], output: Any) -> None:
        started, into = open_calls[id(module)].pop()
        out = first_sequence((output,), lengths)
        out = None if out is None else out.detach().clone()
        calls.append(Call(module, into, out, started, next(clock)))

    with ExitStack() as hooks, torch.no_grad():
        for _, module in root.named_modules():
            if module is not root:
                hooks.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
                hooks.callback(module.register_forward_hook(after, with_kwargs=True).remove)
        last_BLD = forward(tokens_BL)
    return calls, last_BLD.detach()


@contextmanager
def fed(inputs: Mapping[nn.Module, Tensor], lengths: tuple[int, int]) -> Iterator[dict[nn.Module, Tensor]]:
    """While open, each module reads its own input in place of what it is given; yields what they return."""
    outputs: dict[nn.Module, Tensor] = {}

    def before(module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return with_sequence(arguments, keywords, lengths, lambda _: inputs[module].clone())

    def after(module: nn.Module, _: tuple[Any, ...], __: dict[str, Any], output: Any) -> None:
        found = first_sequence((output,), lengths)
        if found is not None:
            outputs[module] = found.detach().clone()

    with ExitStack() as hooks, torch.no_grad():
        for module in inputs:
            hooks.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
            hooks.callback(module.register_forward_hook(after, with_kwargs=True).remove)
        yield outputs


def first_sequence(values: Sequence[Any], lengths: tuple[int, ...]) -> Tensor | None:
    """The first floating tensor (B, L, …) among `values`, or as the first element of what they hold."""
    for value in values:
        if isinstance(value, Tensor) and value.is_floating_point() and value.ndim == 3:
            if tuple(value.shape[:2]) == lengths:
                return value
        elif isinstance(value, tuple | list) and value and isinstance(value[0], Tensor):
            found = first_sequence(value[:1], lengths)
            if found is not None:
                return found
    return None


def with_sequence(
    arguments: tuple[Any, ...], keywords: dict[str, Any], lengths: tuple[int, ...], change: Callable[[Tensor], Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of a call with the first sequence (B, L, W) among them changed; None if there is none."""
    for index, value in enumerate(arguments):
        if first_sequence((value,), lengths) is value:
            return (*arguments[:index], change(value), *arguments[index + 1 :]), keywords
    for name, value in keywords.items():
        if first_sequence((value,), lengths) is value:
            return arguments, keywords | {name: change(value)}
    return None
