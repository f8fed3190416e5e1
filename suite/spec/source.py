"""From a task's spec to the task: drawn by its family's generator, or read from a data set."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

from .located import Located
from .schema import TaskSpec

if TYPE_CHECKING:
    from ...tasks.base import Task

__all__ = ["MEASURING", "config_of", "local_folder", "task_of"]

MEASURING = ("probe_train", "probe_test", "evaluate")
"""The splits that protocols measure on, each at every evaluation length."""

_OTHERWISE = "a `path` without a `revision` names a folder on this machine"


def task_of(task: Located) -> Task:
    """The task that a spec describes; no data are read before they are needed.

    Raises
    ------
    TaskError
        For a family that cannot be found or run, and for wrong parameters.
    """
    from ...tasks import load_task
    from ...tasks.stored import StoredTask

    spec = cast("TaskSpec", task.spec)
    rules = load_task(spec.family, spec.params, spec.target, task.base)
    if spec.source == "generator":
        return rules
    return StoredTask(rules, lambda: _folder(task), config_of(spec), cast("str", spec.sha256))


def config_of(spec: TaskSpec) -> str:
    """Which task of its data set a spec reads."""
    return spec.config or spec.name


def local_folder(task: Located) -> Path | None:
    """The folder of a data set on this machine; None for a generator, or a data set on the Hub."""
    spec = cast("TaskSpec", task.spec)
    if spec.source == "generator" or spec.revision is not None:
        return None
    return task.base / os.path.expanduser(cast("str", spec.path))


def _folder(task: Located) -> Path:
    """The folder of a task's data set, fetched from the Hub where it is there."""
    from ...tasks.hub import fetch

    folder = local_folder(task)
    if folder is not None:
        return folder
    spec = cast("TaskSpec", task.spec)
    pattern = f"{config_of(spec)}/*.parquet"
    return fetch(cast("str", spec.path), cast("str", spec.revision), [pattern], otherwise=_OTHERWISE).folder
