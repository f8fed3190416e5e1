"""A user's own nn.Module: built by a function, its sites and components found by the names of its submodules."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from .base import AdapterError
from .module import Component, ModuleAdapter
from .naming import instead_of
from .source import UserCode, load_function

__all__ = ["build_torch_module", "find_submodules"]


def build_torch_module(
    options: Mapping[str, Any],
    *,
    vocab_size: int,
    classes: int,
    device: torch.device,
    base: Path,
    version: int,
    length: int = 3,
) -> ModuleAdapter:
    """Build the user's module, find its sites, and run it once on two sequences.

    Parameters
    ----------
    options : mapping
        ``module`` (``my_model.py:build``), ``sites`` (``embed``, ``blocks`` and maybe ``output``) and maybe
        ``components`` (name to a pattern, or to ``{pattern, modes}``).
    vocab_size, classes : int
        What the function is called with.
    device : torch.device
        Where the module is moved to.
    base : Path
        The folder of the YAML.
    version : int
        The adapter's version.
    length : int
        Of these sequences, in tokens: one that the module must take.

    Raises
    ------
    AdapterError
        If the code can't be found or run, the result isn't a module that gives logits, or a pattern matches nothing.
    """
    source = options["module"]
    with _undisturbed():
        build, file = load_function(source, base)
    with _undisturbed(), UserCode(source, f"calling it with vocab_size={vocab_size}, classes={classes}", file):
        module = build(vocab_size, classes)
    if not isinstance(module, nn.Module):
        raise AdapterError(f"{source} returned a {type(module).__name__}; it must return a torch.nn.Module.")
    adapter = ModuleAdapter(
        module,
        classes=classes,
        sites=_find_sites(module, options["sites"]),
        components=_find_components(module, options.get("components") or {}),
        output=options["sites"].get("output"),
        device=device,
        version=version,
    )
    with _undisturbed():
        adapter.capture(np.arange(2 * length, dtype=np.int64).reshape(2, length) % vocab_size)
    return adapter


@contextmanager
def _undisturbed() -> Iterator[None]:
    """The working folder and torch's defaults come back: what a user's code sets reaches neither files nor cells."""
    folder, dtype = os.getcwd(), torch.get_default_dtype()
    device, gradients = torch.get_default_device(), torch.is_grad_enabled()
    try:
        yield
    finally:
        os.chdir(folder)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)
        if torch.get_default_device() != device:
            torch.set_default_device(device)


def find_submodules(module: nn.Module, pattern: str, field: str) -> list[nn.Module]:
    """The submodules whose names match `pattern`, in the order of their indices (layers.10 after layers.9).

    Parameters
    ----------
    module : nn.Module
        Where to look.
    pattern : str
        A dotted name as in ``module.named_modules()``; ``*`` stands for an index.
    field : str
        The field of the spec, for the message.

    Raises
    ------
    AdapterError
        If none matches; the message lists the nearest names.
    """
    expression = re.compile(r"(\d+)".join(re.escape(part) for part in pattern.split("*")))
    found: list[tuple[tuple[int, ...], nn.Module]] = []
    names: list[str] = []
    for name, part in module.named_modules(remove_duplicate=False):
        match = expression.fullmatch(name)
        if match and name:
            found.append((tuple(map(int, match.groups())), part))
        names.append(name)
    if not found:
        raise AdapterError(f"{field}: no submodule is called {pattern!r}{instead_of(pattern, filter(None, names))}")
    return [part for _, part in sorted(found, key=lambda pair: pair[0])]


def _find_sites(module: nn.Module, rules: Mapping[str, Any]) -> dict[str, nn.Module]:
    embed = find_submodules(module, rules["embed"], "sites.embed")
    if len(embed) > 1:
        raise AdapterError(f"sites.embed: {rules['embed']!r} matches {len(embed)} submodules; it must match one.")
    patterns: Sequence[str] = [rules["blocks"]] if isinstance(rules["blocks"], str) else rules["blocks"]
    blocks = [block for pattern in patterns for block in find_submodules(module, pattern, "sites.blocks")]
    return {"embed": embed[0]} | {f"block.{index}": block for index, block in enumerate(blocks)}


def _find_components(module: nn.Module, rules: Mapping[str, Any]) -> dict[str, Component]:
    components: dict[str, Component] = {}
    for name, rule in rules.items():
        pattern, modes = (rule, ["zero"]) if isinstance(rule, str) else (rule["pattern"], rule.get("modes", ["zero"]))
        components[name] = Component(tuple(modes), tuple(find_submodules(module, pattern, f"components.{name}")))
    return components
