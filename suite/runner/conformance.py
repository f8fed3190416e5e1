"""The conformance check of a model spec, on the tokens of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from ...adapters import build_adapter, check
from ..spec.load import Located
from ..spec.schema import ReferenceModel, TaskSpec, TorchModuleModel
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


def build_model(model: Located, task: Task, seed: int, device: str) -> Adapter:
    """A model with its initial weights, for the tokens and classes of a task."""
    spec = cast("ReferenceModel | TorchModuleModel", model.spec)
    return build_adapter(
        spec.adapter,
        spec.model_dump(include={"architecture", "module", "sites", "components"}),
        vocab_size=len(task.vocabulary),
        classes=task.classes[task.target],
        seed=seed,
        device=device,
        base=model.base,
    )


def check_adapter(adapter: Adapter, task: Task, length: int) -> list[CheckResult]:
    """Every conformance check, on random tokens of a task at the training length."""
    return check(adapter, len(task.vocabulary), length=max(2, length), rng=np.random.default_rng(0))


def check_model(model: Located, task: Located) -> list[CheckResult]:
    """Build a model untrained, on the CPU, and check it."""
    with one_thread():
        generator = load_task_of(task)
        adapter = build_model(model, generator, 0, "cpu")
        return check_adapter(adapter, generator, cast("TaskSpec", task.spec).lengths.train)
