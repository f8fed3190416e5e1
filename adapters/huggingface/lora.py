"""Low-rank adaptation (Hu et al. 2022, arXiv:2106.09685) through peft."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..base import AdapterError, FieldError
from .tracing import traced

__all__ = ["add_lora"]

TARGETS = ("training", "lora", "targets")


def add_lora(
    model: nn.Module,
    within: nn.Module,
    blocks: Sequence[nn.Module],
    options: Mapping[str, Any],
    tokens_BL: Tensor,
    *,
    kept: Sequence[nn.Module],
) -> None:
    """Freeze `model`, and give the linear maps of its blocks low-rank updates that are trained in their place.

    Parameters
    ----------
    model : nn.Module
        The whole model; called with tokens.
    within : nn.Module
        The part of it that holds the blocks.
    blocks : sequence of nn.Module
        Where linear maps are adapted.
    options : mapping
        ``rank``, ``alpha``, ``dropout``, and maybe ``targets``: names, or ends of names, of linear maps. Without them
        all that a pass calls are adapted.
    tokens_BL : Tensor
        Some tokens, to see which maps a pass in training goes through.
    kept : sequence of nn.Module
        What is trained whole besides: the head.

    Raises
    ------
    AdapterError
        If peft is not installed or refuses a target, a target is no linear map of the blocks, or no pass goes through
        one: transformers gives the weights of some maps to a function, where an update would have no effect.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise AdapterError("`method: lora` needs peft: install layerstate[lora], or use `method: full`.") from None
    called = _called(model, within, tokens_BL)
    names = _targets(within, blocks, options.get("targets"), called)
    config = LoraConfig(
        r=options["rank"], lora_alpha=options["alpha"], lora_dropout=options["dropout"], target_modules=names
    )
    model.requires_grad_(False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inject_adapter_in_model(config, within)
    except ValueError as error:  # peft refuses some maps, such as out_proj of transformers' Mamba
        ends = ", ".join(sorted({name.rpartition(".")[2] for name in names}))
        raise FieldError(
            f"{error} The maps that could be named are {ends}; for Mamba the matched backend has no such limit",
            TARGETS,
        ) from error
    for part in kept:
        part.requires_grad_(True)


def _called(model: nn.Module, within: nn.Module, tokens_BL: Tensor) -> set[nn.Module]:
    """What a pass in training calls; some models take other ways then."""
    modes = {part: part.training for part in model.modules()}
    model.train()
    with torch.random.fork_rng(devices=[]):
        calls, _ = traced(within, lambda tokens: model(tokens), tokens_BL)
    for part, mode in modes.items():
        part.training = mode
    return {call.module for call in calls}


def _targets(
    within: nn.Module, blocks: Sequence[nn.Module], wanted: Sequence[str] | None, called: set[nn.Module]
) -> list[str]:
    inside = {part for block in blocks for part in block.modules()}
    linear = {name: part for name, part in within.named_modules() if part in inside and _is_linear(part)}
    if wanted is None:
        return [name for name, part in linear.items() if part in called]
    found: list[str] = []
    for target in wanted:
        names = [name for name in linear if name == target or name.endswith(f".{target}")]
        if not names:
            ends = sorted({name.rpartition(".")[2] for name in linear})
            raise FieldError(f"{target!r} is no linear map of the blocks. There are {', '.join(ends)}", TARGETS)
        deaf = [name for name in names if linear[name] not in called]
        if deaf:
            raise FieldError(
                f"{deaf[0]} is never called in training: its weights are given to a function, and an "
                "update of it would have no effect. Leave it out, or use the matched backend",
                TARGETS,
            )
        found += names
    return list(dict.fromkeys(found))


def _is_linear(part: nn.Module) -> bool:
    """nn.Linear, or GPT-2's linear map, which transformers calls Conv1D."""
    return isinstance(part, nn.Linear) or (type(part).__name__ == "Conv1D" and hasattr(part, "nf"))
