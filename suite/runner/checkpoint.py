"""The state of a training that is not finished: one safetensors file from which it goes on with the same numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from .files import set_aside, translated, write_atomic

__all__ = ["Position", "load_state", "save_state"]

_KEY = "position"
_ADAMW = ("step", "exp_avg", "exp_avg_sq")


@dataclass
class Position:
    """How far a training has come, apart from the weights.

    Attributes
    ----------
    step : int
        Steps taken.
    steps, losses, accuracies : list
        The curve so far, one entry an evaluation.
    loss_sum : float
        Sum of the losses since the last evaluation.
    loss_count : int
        How many they are.
    streak : int
        Evaluations running that reached the accuracy at which training stops.
    seconds : float
        Wall time so far, over all processes that worked on it.
    """

    step: int = 0
    steps: list[int] = field(default_factory=list[int])
    losses: list[float] = field(default_factory=list[float])
    accuracies: list[float] = field(default_factory=list[float])
    loss_sum: float = 0.0
    loss_count: int = 0
    streak: int = 0
    seconds: float = 0.0


def save_state(path: Path, module: nn.Module, optimizer: torch.optim.Optimizer, position: Position) -> None:
    """Write weights, buffers, optimiser state and position to `path`, all in one atomic file."""
    tensors = {f"module/{name}": value for name, value in module.state_dict().items()}
    for name, parameter in module.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = value
    owned = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
    write_atomic(path, save(owned, metadata={_KEY: json.dumps(asdict(position), allow_nan=False)}))


def load_state(
    path: Path, module: nn.Module, optimizer: torch.optim.Optimizer, tell: Callable[[str], None]
) -> Position | None:
    """Put a saved state into `module` and `optimizer`; None if there is none, or if it is damaged and set aside."""
    try:
        position, tensors = _read(path)
        _check(tensors, module, position)
    except FileNotFoundError:
        return None
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        set_aside(path, f"as the state of a training: {error}", tell)
        return None
    except OSError as error:
        raise translated(error, path) from error
    module.load_state_dict({name: tensors[f"module/{name}"] for name in module.state_dict()})
    for name, parameter in module.named_parameters():
        found = {
            key: tensors[f"{key}/{name}"] for key in ("step", "exp_avg", "exp_avg_sq") if f"{key}/{name}" in tensors
        }
        if found:
            optimizer.state[parameter] = _placed(found, parameter, optimizer)
    return position


def _read(path: Path) -> tuple[Position, dict[str, Tensor]]:
    with cast("Any", safe_open)(path, framework="pt") as file:
        return Position(**json.loads(file.metadata()[_KEY])), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _placed(found: dict[str, Tensor], parameter: nn.Parameter, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The optimiser's tensors of a parameter, in fresh (aligned) memory where the optimiser keeps them."""
    step_device = parameter.device if optimizer.defaults.get("fused") else torch.device("cpu")
    placed = {"step": torch.empty_like(found["step"], device=step_device).copy_(found["step"])}
    for key in ("exp_avg", "exp_avg_sq"):
        placed[key] = torch.empty_like(parameter, memory_format=torch.preserve_format).copy_(found[key])
        placed[key] = placed[key].detach()
    return placed


def _check(tensors: dict[str, Tensor], module: nn.Module, position: Position) -> None:
    for name, value in module.state_dict().items():
        found = tensors.get(f"module/{name}")
        if found is None or found.shape != value.shape:
            raise ValueError(f"{name} is missing or of another shape")
    if position.step < 0 or not math.isfinite(position.loss_sum):
        raise ValueError("its position is not one of a training")
