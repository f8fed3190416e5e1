"""The adapter of any causal language model that transformers' ``AutoModel`` builds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..base import AdapterError, FieldError
from ..module import Component, ModuleAdapter
from ..reference.causal_conv1d import CONV1D_MODES
from ..torch_module import find_components
from .checkpoint import Checkpoint, find_checkpoint
from .lora import add_lora
from .matched import build_matched
from .model import SymbolModel
from .parts import depthwise_convolutions, find_parts
from .quiet import quiet
from .structure import Structure, find_structure
from .symbols import token_ids
from .taps import watch_taps

__all__ = ["build_huggingface", "load_backbone", "wrap_backbone"]

SAMPLE = (2, 8)
"""Sequences and length of the pass by which the structure is found."""


def build_huggingface(
    options: Mapping[str, Any],
    *,
    vocab_size: int,
    classes: int,
    device: torch.device,
    base: Path,
    version: int,
    trust_remote_code: bool = False,
) -> ModuleAdapter:
    """Load a checkpoint, find its blocks, final norm and components, and put a fresh linear head on it.

    Parameters
    ----------
    options : mapping
        ``checkpoint`` (see `checkpoint.find_checkpoint`), ``symbols`` (those of the task, in the order of its
        vocabulary), ``backend``, and maybe ``sites``, ``components`` and ``lora``.
    vocab_size, classes : int
        Number of the task's symbols, and of values of the target state.
    device : torch.device
        Where the module is moved to.
    base : Path
        The folder of the YAML.
    version : int
        The adapter's version.
    trust_remote_code : bool
        Whether the checkpoint's own Python code may be run. Only a person at the command line may say so.

    Raises
    ------
    AdapterError
        If the checkpoint can't be had, is not causal as far as its config tells, or can't be wrapped.
    """
    checkpoint = find_checkpoint(options["checkpoint"], base, trust_remote_code=trust_remote_code)
    symbols = options["symbols"]
    if len(symbols) != vocab_size:
        raise AdapterError(f"The task has {vocab_size} symbols, and {len(symbols)} tokens are given for them.")
    if options.get("backend") == "matched":
        return build_matched(
            checkpoint, symbols, classes=classes, device=device, version=version, lora=options.get("lora")
        )
    backbone = load_backbone(checkpoint, trust_remote_code=trust_remote_code)
    rows = int(cast(Any, backbone).get_input_embeddings().weight.shape[0])
    ids_V = token_ids(checkpoint, symbols, rows, trust_remote_code=trust_remote_code)
    return wrap_backbone(backbone, ids_V, classes, options, device=device, version=version, said=checkpoint.said)


def load_backbone(checkpoint: Checkpoint, *, trust_remote_code: bool = False) -> nn.Module:
    """The model of a checkpoint without its language-model head, float32, in evaluation mode.

    Raises
    ------
    AdapterError
        If it is an encoder-decoder, needs code of its own, or its weights don't fit its config.
    """
    from transformers import AutoConfig, AutoModel

    raw = checkpoint.config()
    if "auto_map" in raw and not trust_remote_code and not _is_known(raw.get("model_type")):
        raise AdapterError(
            f"{checkpoint.said} brings its own Python code, which is not run. If you have read it and trust it, give "
            "--trust-remote-code on the command line."
        )
    where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": trust_remote_code}
    try:
        with quiet():
            config = AutoConfig.from_pretrained(str(checkpoint.folder), **where)
            _expect_causal(config, checkpoint)
            _settle(config)
            model, info = AutoModel.from_pretrained(
                str(checkpoint.folder),
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                output_loading_info=True,
                **where,
            )
    except (AdapterError, MemoryError):
        raise
    except Exception as error:
        if "can't allocate memory" in str(error):
            raise
        last = " ".join(str(error).split())[:400] or type(error).__name__
        raise AdapterError(f"{checkpoint.said} can't be loaded: {last}") from error
    missing = sorted(info["missing_keys"])
    if missing:
        more = f" … ({len(missing)} in all)" if len(missing) > 3 else ""
        raise AdapterError(
            f"{checkpoint.said}: its weights lack {', '.join(missing[:3])}{more}, which would be left at random. Is "
            "the checkpoint whole, and of this kind of model?"
        )
    return model.eval()


def wrap_backbone(
    backbone: nn.Module,
    ids_V: Tensor,
    classes: int,
    options: Mapping[str, Any],
    *,
    device: torch.device,
    version: int,
    said: str,
) -> ModuleAdapter:
    """The adapter around a loaded backbone (see `build_huggingface`)."""
    sites = options.get("sites") or {}
    with quiet():
        try:
            model = SymbolModel(backbone, ids_V, classes)
            tokens_BL = torch.arange(SAMPLE[0] * SAMPLE[1]).reshape(SAMPLE) * 5 % len(ids_V)
            structure = find_structure(
                backbone,
                lambda _: model.hidden(tokens_BL),
                tokens_BL,
                blocks=sites.get("blocks"),
                norm=sites.get("norm"),
            )
            components = _components(model, structure, tokens_BL)
        except FieldError:
            raise
        except AdapterError as error:
            raise AdapterError(f"{said}: {error}") from error
    components |= find_components(backbone, options.get("components") or {})
    model.mark_entry(structure.blocks[0])
    if options.get("lora"):
        add_lora(model, backbone, structure.blocks, options["lora"], tokens_BL, kept=(model.head,))
    norm = structure.norm or nn.Identity()
    return ModuleAdapter(
        model,
        classes=classes,
        sites={"embed": model.entry} | {f"block.{i}": block for i, block in enumerate(structure.blocks)},
        components=components,
        head=(lambda h_BLD: model.head(norm(h_BLD))) if structure.direct else None,
        output=0,
        device=device,
        version=version,
    )


def _components(model: SymbolModel, structure: Structure, tokens_BL: Tensor) -> dict[str, Component]:
    parts = find_parts(structure, lambda _: model.hidden(tokens_BL))
    components = {kind: Component(("zero",), tuple(found)) for kind, found in parts.items()}
    called = {call.module for call in structure.calls}
    holders: list[nn.Module] = []
    for block in structure.blocks:
        for holder, convolution in depthwise_convolutions(block):
            if holder in called and holder not in holders:
                watch_taps(holder, convolution)
                holders.append(holder)
    if holders:
        components["conv1d"] = Component(CONV1D_MODES, tuple(holders), switched=True)
    return components


def _is_known(model_type: Any) -> bool:
    from transformers import CONFIG_MAPPING

    return model_type in CONFIG_MAPPING


def _expect_causal(config: Any, checkpoint: Checkpoint) -> None:
    if getattr(config, "is_encoder_decoder", False):
        raise AdapterError(
            f"{checkpoint.said} is an encoder-decoder ({config.model_type}): its encoder sees the whole sequence, so "
            "that no position holds the state of its prefix alone. A causal language model would be right."
        )


def _settle(config: Any) -> None:
    """Settings that hold in every pass: no cache, and nothing that rewrites weights between training and evaluation."""
    config.use_cache = False
    if getattr(config, "rescale_every", 0):
        config.rescale_every = (
            0  # RWKV halves activations every few blocks, for half precision; the logits are the same
        )
