"""Mamba and Mamba-2 checkpoints in our own blocks: the matched backend, one code with and without Conv1D.

It agrees with transformers' reference in logits within 1e-4, and runs the fused scan on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from ..base import AdapterError
from ..module import ModuleAdapter
from ..reference.mamba import Mamba
from ..reference.mamba2 import Mamba2
from ..reference.state_space import NORM_EPS, StateSpaceModel, from_mamba_ssm
from .checkpoint import Checkpoint
from .lora import add_lora
from .symbols import token_ids

__all__ = ["EMBEDDING", "build_matched", "fill_state_space", "load_state_space", "read_weights", "state_space_options"]

PREFIX = "backbone."
EMBEDDING = "embed.weight"
HEAD = "head.1.weight"


def build_matched(
    checkpoint: Checkpoint,
    symbols: Sequence[str | int],
    *,
    classes: int,
    device: torch.device,
    version: int,
    lora: Mapping[str, Any] | None = None,
) -> ModuleAdapter:
    """The adapter of a Mamba or Mamba-2 checkpoint in the blocks of the reference zoo, with a fresh linear head."""
    config = checkpoint.config()
    kind, options = state_space_options(config, checkpoint.said)
    weights = read_weights(checkpoint)
    ids_V = token_ids(checkpoint, symbols, weights[EMBEDDING].shape[0], trust_remote_code=False)
    model = load_state_space(kind, options, weights, ids_V, classes, checkpoint.said)
    if lora:
        sample_BL = torch.arange(16).reshape(2, 8) % len(ids_V)
        head = cast(Any, model.head)[1]
        add_lora(model, model, list(model.blocks), lora, sample_BL, kept=(head,))
    return ModuleAdapter.from_blocks(model, classes=classes, device=device, version=version)


def state_space_options(config: Mapping[str, Any], said: str) -> tuple[type[StateSpaceModel], dict[str, Any]]:
    """The class of the reference zoo that a checkpoint's config asks for, and its options.

    Parameters
    ----------
    config : mapping
        Of transformers (``model_type``), or of mamba_ssm's ``MambaLMHeadModel`` (``d_model``).
    said : str
        How the spec calls the checkpoint.

    Raises
    ------
    AdapterError
        If it is neither a Mamba nor a Mamba-2, or has a part that the zoo's blocks don't have.
    """
    if "model_type" not in config and "d_model" in config:
        return _of_mamba_ssm(config, said)
    kind = config.get("model_type")
    if kind not in ("mamba", "mamba2"):
        raise AdapterError(
            f"{said} is of the kind {kind!r}; the matched backend has mamba and mamba2. Use backend: transformers."
        )
    expected: dict[str, Any] = {"hidden_act": "silu", "use_bias": False, "use_conv_bias": True}
    expected |= {"layer_norm_epsilon": NORM_EPS}
    expected |= {"n_groups": 1, "rms_norm": True} if kind == "mamba2" else {}
    _expect(config, expected, said)
    width = config["hidden_size"]
    options: dict[str, Any] = {"blocks": config["num_hidden_layers"], "width": width}
    options |= {"conv_kernel": config.get("conv_kernel", 4)}
    if kind == "mamba":
        inner = config.get("intermediate_size") or int(config.get("expand", 2) * width)
        rank = config.get("time_step_rank", "auto")
        return Mamba, options | {"expand": inner / width, "state_size": config.get("state_size", 16), "dt_rank": rank}
    low, high = map(_number, config.get("time_step_limit", (0.0, math.inf)))
    if low > 0.0 or high != math.inf:
        raise AdapterError(
            f"{said} has time_step_limit: [{low}, {high}], and the matched backend no limit. Use backend: transformers."
        )
    inner = config.get("expand", 2) * width
    if config["num_heads"] * config["head_dim"] != inner:
        raise AdapterError(
            f"{said}: {config['num_heads']} heads of {config['head_dim']} are not the {inner} inner channels."
        )
    return Mamba2, options | {
        "expand": inner / width,
        "headdim": config["head_dim"],
        "state_size": config.get("state_size", 128),
    }


def _of_mamba_ssm(config: Mapping[str, Any], said: str) -> tuple[type[StateSpaceModel], dict[str, Any]]:
    inside: dict[str, Any] = dict(config.get("ssm_cfg") or {})
    kind = inside.pop("layer", "Mamba1")
    if kind not in ("Mamba1", "Mamba2"):
        raise AdapterError(f"{said} has blocks of the kind {kind!r}; Mamba1 and Mamba2 are there.")
    _expect(config, {"rms_norm": True, "d_intermediate": 0, "attn_layer_idx": []}, said)
    _expect(inside, {"bias": False, "conv_bias": True, "ngroups": 1}, said)
    options = {"blocks": config["n_layer"], "width": config["d_model"]}
    options |= {"conv_kernel": inside.get("d_conv", 4), "expand": inside.get("expand", 2)}
    if kind == "Mamba1":
        return Mamba, options | {"state_size": inside.get("d_state", 16), "dt_rank": inside.get("dt_rank", "auto")}
    return Mamba2, options | {"headdim": inside.get("headdim", 64), "state_size": inside.get("d_state", 128)}


def _expect(config: Mapping[str, Any], expected: Mapping[str, Any], said: str) -> None:
    for name, value in expected.items():
        found = config.get(name, value)
        if found != value:
            raise AdapterError(
                f"{said} has {name}: {found!r}, and the matched backend {value!r}. Use backend: transformers."
            )


def _number(value: Any) -> float:
    """A number of a config; transformers writes infinity as an object."""
    return float(value["__float__"] if isinstance(value, dict) else value)


def read_weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """A checkpoint's weights, float32, under the names of `StateSpaceModel`.

    Names may be those of transformers, with or without the language-model head, or of mamba_ssm.
    """
    from safetensors.torch import load_file

    found: dict[str, Tensor] = {}
    for file in checkpoint.weights:
        found |= load_file(file)
    named = {
        name if name.startswith((PREFIX, "lm_head.")) else PREFIX + name: value.to(torch.float32)
        for name, value in found.items()
    }
    try:
        return from_mamba_ssm(named)
    except AdapterError as error:
        raise AdapterError(f"{checkpoint.said}: {error}") from error


def load_state_space(
    kind: type[StateSpaceModel],
    options: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    ids_V: Tensor,
    classes: int,
    said: str,
) -> StateSpaceModel:
    """The model with the checkpoint's weights, the embedding's rows of the symbols, and a fresh head.

    Raises
    ------
    AdapterError
        If a weight is missing, or of another shape.
    """
    model = kind(len(ids_V), classes, **options)
    fill_state_space(model, weights, ids_V, said)
    return model


def fill_state_space(model: StateSpaceModel, weights: Mapping[str, Tensor], ids_V: Tensor, said: str) -> None:
    """Put a checkpoint's weights into `model`, of the embedding the rows `ids_V`; the head is left as it is.

    Raises
    ------
    AdapterError
        If a weight is missing, or of another shape.
    """
    expected = model.state_dict()
    given = {name: value for name, value in weights.items() if name != HEAD}
    given[EMBEDDING] = weights[EMBEDDING][ids_V.to(weights[EMBEDDING].device)]
    missing = sorted(expected.keys() - given.keys() - {HEAD})
    unknown = sorted(given.keys() - expected.keys())
    misshapen = [
        f"{name} is {tuple(given[name].shape)}, not {tuple(expected[name].shape)}"
        for name in expected
        if name in given and given[name].shape != expected[name].shape
    ]
    wrong = [*(f"{name} is missing" for name in missing), *(f"{name} is unknown" for name in unknown), *misshapen]
    if wrong:
        more = f" … ({len(wrong)} in all)" if len(wrong) > 3 else ""
        raise AdapterError(f"{said}: its weights don't fit its config: {'; '.join(wrong[:3])}{more}.")
    model.load_state_dict(given, strict=False)
