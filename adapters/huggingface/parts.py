"""Which parts of a model's blocks can be ablated, found by what they do to sequences that they are given.

A part takes (B, L, W) to what is added to the residual stream (B, L, D). It *mixes* if changing one position of its
input changes other positions of its output. Among the parts that mix, attention is what returns the same at every
position of a constant sequence, since it averages values; a state that builds up does not. A part that works position
by position and has at least two matrices is an MLP (or a mixture of them).

Letters: B batch, L length, W width of an input, D width of the residual stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from .structure import Structure
from .tracing import Forward, fed

__all__ = ["Kind", "depthwise_convolutions", "find_parts"]

Kind = Literal["attention", "recurrence", "mlp"]

CHANGED = 2
"""The position at which the input differs."""
LARGE = 1e3
MIXES = 1e-5
"""Smallest change elsewhere, relative to the output, that counts as mixing."""
CONSTANT = 1e-3
"""Largest spread over positions, relative to the output, that counts as the same."""
PASSES_ON = 0.9
"""Cosine of output and input from which on a part passes the residual stream itself on."""
HOLDS = 0.2
"""A part that mixes is looked into if MLPs hold at least this share of its parameters."""


@dataclass(frozen=True)
class _Answers:
    """What a part returned: of random input, of that with one position changed, of a constant, of 1000 times it."""

    into: Tensor
    plain: Tensor
    changed: Tensor
    constant: Tensor
    large: Tensor


def find_parts(structure: Structure, forward: Forward) -> dict[str, list[nn.Module]]:
    """``mixer`` (all parts that mix), ``attention`` and ``mlp``, those that there are, in the order of the blocks.

    A part that several blocks share stands once.
    """
    wanted = [_candidates(structure, number) for number in range(len(structure.blocks))]
    kinds = _classified([part for parts in wanted for part in parts], structure, forward)
    parts = {
        part: kinds[part]
        for block, candidates in zip(structure.blocks, wanted, strict=True)
        for part in _outermost(block, [part for part in candidates if part in kinds], kinds)
    }
    found = {
        "mixer": [part for part, kind in parts.items() if kind != "mlp"],
        "attention": [part for part, kind in parts.items() if kind == "attention"],
        "mlp": [part for part, kind in parts.items() if kind == "mlp"],
    }
    return {name: those for name, those in found.items() if those}


def depthwise_convolutions(block: nn.Module) -> Iterator[tuple[nn.Module, nn.Conv1d]]:
    """The convolutions over time that have their own taps for each channel, each with the module that holds it."""
    for part in block.modules():
        for child in part.children():
            if not isinstance(child, nn.Conv1d) or child.kernel_size[0] == 1:
                continue
            if child.groups == child.in_channels == child.out_channels:
                yield part, child


def _candidates(structure: Structure, number: int) -> list[nn.Module]:
    """What is called inside a block with a sequence, and returns one of the residual stream's width."""
    block = structure.blocks[number]
    (own,) = [call for call in structure.calls if call.module is block]
    assert own.out is not None
    width = own.out.shape[-1]
    inside = {
        call.module: None
        for call in structure.calls
        if own.started < call.started and call.ended < own.ended
        if call.into is not None and call.out is not None and call.out.shape[-1] == width
        if _matrices(call.module)
    }
    return list(inside)


def _matrices(module: nn.Module) -> int:
    return sum(parameter.ndim >= 2 for parameter in module.parameters())


def _classified(parts: Sequence[nn.Module], structure: Structure, forward: Forward) -> dict[nn.Module, Kind]:
    """The kind of each part that has one. Parts inside others are asked in later passes: their inputs hang together."""
    kinds: dict[nn.Module, Kind] = {}
    unique = list(dict.fromkeys(parts))
    levels: dict[int, list[nn.Module]] = {}
    for part in unique:
        depth = sum(other is not part and any(inner is part for inner in other.modules()) for other in unique)
        levels.setdefault(depth, []).append(part)
    for level in levels.values():
        for part, answers in _asked(level, structure, forward).items():
            kind = _kind(part, answers)
            if kind is not None:
                kinds[part] = kind
    return kinds


def _asked(parts: Sequence[nn.Module], structure: Structure, forward: Forward) -> dict[nn.Module, _Answers]:
    generator = torch.Generator().manual_seed(0)
    lengths = (int(structure.tokens_BL.shape[0]), int(structure.tokens_BL.shape[1]))
    calls = {call.module: call for call in structure.calls}
    inputs: dict[nn.Module, list[Tensor]] = {}
    for part in parts:
        into = calls[part].into
        assert into is not None
        plain = torch.randn(into.shape, generator=generator).to(into)
        changed = plain.clone()
        changed[:, CHANGED] = torch.randn(changed[:, CHANGED].shape, generator=generator).to(into)
        inputs[part] = [plain, changed, plain[:, :1].expand_as(plain).contiguous(), LARGE * plain]
    outputs: list[dict[nn.Module, Tensor]] = []
    for number in range(4):
        with fed({part: inputs[part][number] for part in parts}, lengths) as returned:
            forward(structure.tokens_BL)
        outputs.append(returned)
    whole = [part for part in parts if all(part in returned for returned in outputs)]
    return {part: _Answers(inputs[part][0], *(returned[part] for returned in outputs)) for part in whole}


def _kind(part: nn.Module, answers: _Answers) -> Kind | None:
    size = float(answers.plain.abs().max())
    if size == 0.0 or _passes_on(answers):
        return None
    elsewhere = (answers.changed - answers.plain).abs()
    elsewhere[:, CHANGED] = 0.0
    if float(elsewhere.max()) <= MIXES * size:
        return "mlp" if _matrices(part) >= 2 else None
    spread = (answers.constant - answers.constant[:, :1]).abs().max()
    return "attention" if float(spread) <= CONSTANT * float(answers.constant.abs().max()) else "recurrence"


def _passes_on(answers: _Answers) -> bool:
    """Whether the residual stream itself comes out: of a large input, almost the input."""
    if answers.into.shape != answers.large.shape:
        return False
    cosine = nn.functional.cosine_similarity(answers.large.flatten(), answers.into.flatten(), dim=0)
    return float(cosine) > PASSES_ON


def _outermost(block: nn.Module, parts: Sequence[nn.Module], kinds: dict[nn.Module, Kind]) -> Iterator[nn.Module]:
    """The parts that are inside no other; of one that mixes and has MLPs inside, what is inside it."""
    opened = {part for part in parts if kinds[part] != "mlp" and _is_composite(part, parts, kinds)}
    closed = [part for part in parts if part not in opened]
    inside = {inner for part in closed for inner in part.modules() if inner is not part}
    order = {part: number for number, part in enumerate(block.modules())}
    yield from sorted((part for part in closed if part not in inside), key=lambda part: order[part])


def _is_composite(part: nn.Module, parts: Sequence[nn.Module], kinds: dict[nn.Module, Kind]) -> bool:
    inner = set(part.modules())
    held = {
        parameter
        for other in parts
        if other is not part and other in inner and kinds[other] == "mlp"
        for parameter in other.parameters()
    }
    total = sum(parameter.numel() for parameter in part.parameters())
    return sum(parameter.numel() for parameter in held) >= HOLDS * total
