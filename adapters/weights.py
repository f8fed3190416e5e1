"""A model's weights as a safetensors file: written whole or not at all, read only if they fit. Torch comes lazily."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .base import Adapter, AdapterError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["load_weights", "save_weights"]


def save_weights(adapter: Adapter, path: Path) -> None:
    """Write the module's parameters and buffers to `path`; a tensor with several names is written once.

    The file appears complete (temporary file, fsync, replace) or not at all; an `OSError` passes through.
    """
    from safetensors.torch import save

    state = adapter.module.state_dict()
    written = {names[0]: state[names[0]].detach().cpu().contiguous() for names in _shared_names(state)}
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(save(written))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_weights(adapter: Adapter, path: Path) -> None:
    """Read weights written by `save_weights` into the module, on whatever device it is.

    Raises
    ------
    AdapterError
        If the file is missing or damaged, or a name or a shape differs from the module's; nothing is changed then.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        found = load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise AdapterError(f"{path} can't be read as weights: {error}") from error
    state = adapter.module.state_dict()
    shared = _shared_names(state)
    missing = [names[0] for names in shared if not any(name in found for name in names)]
    unknown = [name for name in found if name not in state]
    misshapen = [
        f"{name} is {tuple(found[name].shape)}, the model's {tuple(state[name].shape)}"
        for name in state
        if name in found and found[name].shape != state[name].shape
    ]
    if missing or unknown or misshapen:
        raise AdapterError(f"The weights in {path} are not this model's. " + _difference(missing, unknown, misshapen))
    complete = {name: found[known] for names in shared for known in names if known in found for name in names}
    adapter.module.load_state_dict(complete)


def _shared_names(state: dict[str, Tensor]) -> list[list[str]]:
    """The names in the state, grouped by tensor: names of one memory, shape and layout stand together."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, tensor in state.items():
        layout = (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        key = layout if tensor.numel() else (name,)
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def _difference(missing: list[str], unknown: list[str], misshapen: list[str]) -> str:
    parts = [("missing", missing), ("unknown", unknown), ("of another shape", misshapen)]
    said = [f"{what.capitalize()}: {', '.join(names[:3])}" + " …" * (len(names) > 3) for what, names in parts if names]
    return ". ".join(said) + "."
