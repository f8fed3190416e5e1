"""The conformance check of a model spec, on the tokens of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from ...adapters import AdapterError, FieldError, build_adapter, check
from ..spec.load import Located
from ..spec.schema import AnyModel, FineTuning, HuggingFaceModel, LoraOptions, MambaSsmModel, TaskSpec, symbols_for
from ..spec.source import task_of
from .threads import one_thread

if TYPE_CHECKING:
    from ...adapters import CheckResult
    from ...adapters.base import Adapter
    from ...tasks.base import Task

__all__ = ["build_model", "check_adapter", "check_model", "load_task_of"]


def load_task_of(task: Located) -> Task:
    """The task that a spec describes."""
    return task_of(task)


def build_model(
    model: Located,
    task: Located,
    generator: Task,
    seed: int,
    device: str,
    *,
    length: int = 3,
    trust_remote_code: bool = False,
) -> Adapter:
    """A model with its initial weights, for the tokens and classes of a task.

    Parameters
    ----------
    model, task : Located
        Their specs.
    generator : Task
        What stands behind the task's spec.
    seed : int
        Of the initial weights; of a pretrained model, those of its head and low-rank updates.
    device : str
        Where it is moved to.
    length : int
        Of sequences that it must take.
    trust_remote_code : bool
        Whether a checkpoint's own Python code may be run.
    """
    spec = cast("AnyModel", model.spec)
    try:
        return build_adapter(
            spec.adapter,
            _options(spec, cast("TaskSpec", task.spec)),
            vocab_size=len(generator.vocabulary),
            classes=generator.classes[generator.target],
            seed=seed,
            device=device,
            base=model.base,
            length=length,
            trust_remote_code=trust_remote_code,
        )
    except FieldError as error:
        raise model.error(error.field, error.message) from error


_FIELDS = {"architecture", "module", "sites", "components", "checkpoint", "backend"}


def _options(spec: AnyModel, task: TaskSpec) -> dict[str, Any]:
    """The fields of a model's spec that its adapter reads, of symbols and recipe what concerns the task."""
    options = spec.model_dump(include=_FIELDS)
    if isinstance(spec, HuggingFaceModel | MambaSsmModel):
        options["symbols"] = symbols_for(spec, task)
        options["lora"] = _lora(spec.training.resolve(task.name))
        if spec.checkpoint is not None and options["symbols"] is None:
            raise AdapterError(
                f"The model {spec.name} has no symbols for the task {task.name}. Say which of its tokens stand for "
                f"them: symbols: {{{task.name}: [...]}}."
            )
    return options


def _lora(training: FineTuning) -> dict[str, Any] | None:
    return (training.lora or LoraOptions()).model_dump() if training.method == "lora" else None


def check_adapter(adapter: Adapter, task: Task, length: int) -> list[CheckResult]:
    """Every conformance check, on random tokens of a task at the training length."""
    return check(adapter, len(task.vocabulary), length=max(2, length), rng=np.random.default_rng(0))


def check_model(model: Located, task: Located, *, trust_remote_code: bool = False) -> list[CheckResult]:
    """Build a model untrained and check it, on the CPU unless it computes on CUDA only."""
    with one_thread():
        generator = load_task_of(task)
        device = "cuda" if isinstance(model.spec, MambaSsmModel) and torch.cuda.is_available() else "cpu"
        length = cast("TaskSpec", task.spec).lengths.train
        adapter = build_model(model, task, generator, 0, device, length=length, trust_remote_code=trust_remote_code)
        return check_adapter(adapter, generator, length)
