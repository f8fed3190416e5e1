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

from .base import AdapterError, FieldError
from .module import Component, ModuleAdapter
from .naming import instead_of
from .running import ForwardFailed
from .source import UserCode, load_function

__all__ = ["build_torch_module", "find_components", "find_submodules"]


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
        ``components`` (name to a pattern, or to ``{pattern, modes, output}``); a pattern may be a list of them.
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
        If the code can't be found or run, or the result isn't a module that gives logits; as a `FieldError` if a
        pattern matches nothing or twice, or a site can't be read.
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
        components=find_components(module, options.get("components") or {}),
        output=options["sites"].get("output"),
        device=device,
        version=version,
    )
    with _undisturbed(), _about_sites():
        adapter.capture(np.arange(2 * length, dtype=np.int64).reshape(2, length) % vocab_size)
    return adapter


@contextmanager
def _about_sites() -> Iterator[None]:
    """What cannot be captured is a matter of the spec's sites, unless the model itself fails."""
    try:
        yield
    except (FieldError, ForwardFailed):
        raise
    except AdapterError as error:
        raise FieldError(str(error), ("sites",)) from error


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


def find_submodules(module: nn.Module, patterns: str | Sequence[str], field: tuple[str, ...]) -> dict[str, nn.Module]:
    """The submodules that patterns match, by name: pattern by pattern, each by its indices (layers.10 after layers.9).

    Parameters
    ----------
    module : nn.Module
        Where to look.
    patterns : str or sequence of str
        Dotted names as in ``module.named_modules()``; ``*`` stands for an index, also inside a name (``block_*``).
    field : tuple of str
        The field of the spec, for the message.

    Raises
    ------
    FieldError
        If a pattern matches nothing (the message lists the nearest names, or says what is there that is no module), or
        a submodule is matched twice.
    """
    by: dict[str, str] = {}
    found: dict[str, nn.Module] = {}
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        for name, part in _matches(module, pattern, field):
            if name in found:
                raise FieldError(
                    f"the submodule {name} is matched by {by[name]!r} and by {pattern!r}; once is right", field
                )
            by[name], found[name] = pattern, part
    return found


def _matches(module: nn.Module, pattern: str, field: tuple[str, ...]) -> list[tuple[str, nn.Module]]:
    expression = re.compile(r"(\d+)".join(re.escape(part) for part in pattern.split("*")))
    parts = {name: part for name, part in module.named_modules(remove_duplicate=False) if name}
    indices = {name: match.groups() for name in parts if (match := expression.fullmatch(name))}
    if not indices:
        found = _reached(module, pattern)
        if found is not None:
            owner = pattern.rpartition(".")[0]
            hint = f". Did you mean {owner}?" if owner in parts else instead_of(pattern, parts)
            raise FieldError(f"{pattern!r} is a {type(found).__name__} and no submodule{hint}", field)
        patterns = {re.sub(r"\d+", "*", name) for name in parts} if "*" in pattern else set[str]()
        raise FieldError(f"no submodule is called {pattern!r}{instead_of(pattern, {*parts, *patterns})}", field)
    return [(name, parts[name]) for name in sorted(indices, key=lambda name: tuple(map(int, indices[name])))]


def _reached(module: nn.Module, path: str) -> object | None:
    """What stands at a dotted path of attributes, if anything does."""
    found: object = module
    for name in path.split("."):
        try:
            found = getattr(found, name, None)
        except Exception:  # a property of the user's
            return None
    return found


def _find_sites(module: nn.Module, rules: Mapping[str, Any]) -> dict[str, nn.Module]:
    embed = find_submodules(module, rules["embed"], ("sites", "embed"))
    if len(embed) > 1:
        raise FieldError(f"{rules['embed']!r} matches {len(embed)} submodules; it must match one", ("sites", "embed"))
    field = ("sites", "blocks")
    names: dict[int, str] = {id(part): f"{name}, the site embed," for name, part in embed.items()}
    blocks = find_submodules(module, rules["blocks"], field)
    for name, part in blocks.items():
        if id(part) in names:
            raise FieldError(f"{names[id(part)]} and {name} are one submodule; each block needs its own", field)
        names[id(part)] = name
    sites = {f"block.{index}": block for index, block in enumerate(blocks.values())}
    return {"embed": next(iter(embed.values()))} | sites


def find_components(module: nn.Module, rules: Mapping[str, Any]) -> dict[str, Component]:
    """The components that a spec names: each a pattern, ablated to zero, or ``{pattern, modes}``.

    Raises
    ------
    AdapterError
        If a pattern matches nothing.
    """
    components: dict[str, Component] = {}
    for name, written in rules.items():
        rule: Mapping[str, Any] = written if isinstance(written, Mapping) else {"pattern": written}
        field = ("components", name) if rule is not written else ("components", name, "pattern")
        parts = find_submodules(module, rule["pattern"], field).values()
        distinct = tuple({id(part): part for part in parts}.values())  # blocks may share one
        components[name] = Component(tuple(rule.get("modes", ["zero"])), distinct, output=rule.get("output"))
    return components
