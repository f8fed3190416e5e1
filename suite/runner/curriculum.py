"""From a recipe's curriculum to stages of training data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...tasks import load_task
from ...tasks.base import Task
from ..spec.schema import TaskSpec, Training
from .errors import CellFailed

__all__ = ["Stage", "make_stages"]


@dataclass(frozen=True)
class Stage:
    """A stretch of training: its data, up to (not including) step `until`."""

    until: int
    task: Task
    length: int


def make_stages(task: Task, spec: TaskSpec, training: Training, base: Path) -> list[Stage]:
    """The curriculum's stages, and after them the task itself up to the last step.

    Raises
    ------
    CellFailed
        If a stage's parameters change the tokens or the classes, so that one model can't see both, or the sequences
        are read from a data set, which has no parameters.
    """
    stages: list[Stage] = []
    for number, stage in enumerate(training.curriculum, 1):
        if stage.params and spec.source == "dataset":
            raise CellFailed(
                f"Curriculum stage {number} of the training on {spec.name} changes parameters "
                f"({', '.join(stage.params)}), but its sequences are read from a data set. "
                "A stage may change only their length there."
            )
        easier = load_task(spec.family, {**spec.params, **stage.params}, spec.target, base) if stage.params else task
        if easier.vocabulary != task.vocabulary or easier.classes != task.classes:
            raise CellFailed(
                f"Curriculum stage {number} of the training on {spec.name} has other tokens or classes than the task "
                f"({len(easier.vocabulary)} tokens instead of {len(task.vocabulary)}, or another number of states). "
                "A stage may change only how likely sequences are and how long they are."
            )
        stages.append(Stage(round(stage.until * training.steps), easier, stage.length or spec.lengths.train))
    return [*stages, Stage(training.steps, task, spec.lengths.train)]
