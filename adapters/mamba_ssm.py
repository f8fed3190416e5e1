"""Mamba and Mamba-2 by mamba_ssm's CUDA kernels: its mixers in the residual stack of the reference zoo.

The weights have the names and shapes of `reference.state_space`, so that a state dict goes from one backend to another.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from .base import AdapterError
from .huggingface.checkpoint import find_checkpoint
from .huggingface.matched import EMBEDDING, fill_state_space, read_weights, state_space_options
from .huggingface.parts import depthwise_convolutions
from .huggingface.symbols import token_ids
from .huggingface.taps import watch_taps
from .module import Component, ModuleAdapter
from .reference.causal_conv1d import CONV1D_MODES
from .reference.mamba2 import Mamba2
from .reference.state_space import StateSpaceModel, shrink_output

__all__ = ["build_mamba_ssm", "wrap_mixers"]

MakeMixer = Callable[[int, int], nn.Module]
"""(width, number of the block) to a mixer (B, L, D) -> (B, L, D) that holds its ``conv1d``."""

INSTEAD = (
    "`adapter: reference` has the same architectures, and `adapter: huggingface` with `backend: matched` loads their "
    "checkpoints; both run anywhere."
)


def build_mamba_ssm(
    options: Mapping[str, Any], *, vocab_size: int, classes: int, device: torch.device, base: Path, version: int
) -> ModuleAdapter:
    """A Mamba or Mamba-2 of mamba_ssm, freshly initialised or from a checkpoint of ``MambaLMHeadModel``.

    Parameters
    ----------
    options : mapping
        ``architecture`` (as for the reference zoo); or ``checkpoint`` and ``symbols``.
    vocab_size, classes : int
        Number of symbols, and of values of the target state.
    device : torch.device
        A CUDA device.
    base : Path
        The folder of the YAML.
    version : int
        The adapter's version.

    Raises
    ------
    AdapterError
        If there is no CUDA device or no mamba_ssm, or the checkpoint doesn't fit.
    """
    if device.type != "cuda":
        raise AdapterError(f"`adapter: mamba_ssm` computes on CUDA only, and the device is {device.type}. {INSTEAD}")
    if options.get("lora"):
        raise AdapterError(
            "`adapter: mamba_ssm` gives weights to its kernels, which low-rank updates never reach. "
            "Use `method: full`, or `adapter: huggingface` with `backend: matched`."
        )
    if options.get("checkpoint") is None:
        architecture = dict(options["architecture"])
        second = architecture.pop("type") == "mamba2"
        model_options = {name: value for name, value in architecture.items() if name not in ("conv1d", "signed")}
        return wrap_mixers(
            _factory(second, model_options), model_options, vocab_size, classes, device=device, version=version
        )
    checkpoint = find_checkpoint(options["checkpoint"], base)
    kind, model_options = state_space_options(checkpoint.config(), checkpoint.said)
    weights = read_weights(checkpoint)
    ids_V = token_ids(checkpoint, options["symbols"], weights[EMBEDDING].shape[0], trust_remote_code=False)
    adapter = wrap_mixers(
        _factory(kind is Mamba2, model_options), model_options, len(ids_V), classes, device=device, version=version
    )
    fill_state_space(cast("StateSpaceModel", adapter.module), weights, ids_V, checkpoint.said)
    return adapter


def wrap_mixers(
    make_mixer: MakeMixer,
    options: Mapping[str, Any],
    vocab_size: int,
    classes: int,
    *,
    device: str | torch.device,
    version: int = 1,
) -> ModuleAdapter:
    """The adapter around a stack of mixers that were written elsewhere.

    Parameters
    ----------
    make_mixer : callable
        (width, number of the block) to a mixer.
    options : mapping
        ``blocks`` and ``width``, and what the mixer was made with.
    vocab_size, classes : int
        Number of symbols, and of values of the target state.
    device : str or torch.device
        Where the model is moved to.
    version : int
        The adapter's version.
    """
    mixers = [make_mixer(options["width"], number) for number in range(options["blocks"])]
    for mixer in mixers:
        shrink_output(mixer.get_submodule("out_proj"), options["blocks"])  # pyright: ignore[reportArgumentType]
        for holder, convolution in depthwise_convolutions(mixer):
            watch_taps(holder, convolution)
    model = StateSpaceModel(vocab_size, classes, options["width"], mixers, conv1d=False)
    return ModuleAdapter(
        model,
        classes=classes,
        sites={"embed": model.embed} | {f"block.{number}": block for number, block in enumerate(model.blocks)},
        components={
            "mixer": Component(("zero",), tuple(mixers)),
            "conv1d": Component(CONV1D_MODES, tuple(mixers), switched=True),
        },
        head=model.head,
        device=device,
        version=version,
    )


def _factory(second: bool, options: Mapping[str, Any]) -> MakeMixer:
    """mamba_ssm's own mixer; the package can't be imported without its CUDA extension, so that this is done last."""
    try:
        kind: Any = getattr(importlib.import_module("mamba_ssm"), "Mamba2" if second else "Mamba")
    except ImportError as error:
        raise AdapterError(
            f"mamba_ssm can't be imported ({error}): install layerstate[mamba] where CUDA's compiler is. {INSTEAD}"
        ) from error
    named = {"state_size": "d_state", "conv_kernel": "d_conv", "expand": "expand"}
    named |= {"headdim": "headdim"} if second else {"dt_rank": "dt_rank"}
    given = {theirs: options[ours] for ours, theirs in named.items() if ours in options}
    return lambda width, number: kind(width, layer_idx=number, **given)
