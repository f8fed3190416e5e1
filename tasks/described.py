"""A task in words: what its state variables and their values mean, and under which licence its data may be passed on.

A family may say so itself (`variables`, `origin`); for one that doesn't, values are named by their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from .base import Task

__all__ = ["GENERATED", "Origin", "StateVariable", "numbered", "origin_of", "variables_of"]


@dataclass(frozen=True, slots=True)
class StateVariable:
    """A state variable in words.

    Attributes
    ----------
    meaning : str
        What it is, in one sentence.
    values : tuple of str
        A name for each value, all different.
    """

    meaning: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a task's sequences come from.

    Attributes
    ----------
    licences : tuple of str
        Identifiers as the Hugging Face Hub writes them, such as ``apache-2.0``.
    note : str
        Who made what they were made from.
    """

    licences: tuple[str, ...]
    note: str


GENERATED = Origin(
    ("apache-2.0",), "Made by layerstate's generator from random numbers; nothing in it is anyone else's."
)


@runtime_checkable
class _WithVariables(Protocol):
    @property
    def variables(self) -> Mapping[str, StateVariable]: ...


@runtime_checkable
class _WithOrigin(Protocol):
    def origin(self) -> Origin: ...


def variables_of(task: Task) -> dict[str, StateVariable]:
    """Every state variable of a task in words, in the order of `task.classes`."""
    said: Mapping[str, StateVariable] = task.variables if isinstance(task, _WithVariables) else {}
    return {
        name: said[name] if name in said else StateVariable(f"The state `{name}` of the family.", numbered(classes))
        for name, classes in task.classes.items()
    }


def origin_of(task: Task) -> Origin:
    """Where a task's sequences come from; a family that doesn't say is a generator."""
    return task.origin() if isinstance(task, _WithOrigin) else GENERATED


def numbered(classes: int) -> tuple[str, ...]:
    """``"0"``, ``"1"`` …, a name for each of so many values."""
    return tuple(str(value) for value in range(classes))
