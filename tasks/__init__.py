"""Tasks: distributions over token sequences with state variables labelled at every position."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Batch, IntArray, Task
    from .errors import TaskError
    from .registry import ENTRY_POINTS, families, family_source_digest, load_task
    from .splits import SPLITS, Seed, SplitSampler, digest, draw, split_of

__all__ = [
    "ENTRY_POINTS",
    "SPLITS",
    "Batch",
    "IntArray",
    "Seed",
    "SplitSampler",
    "Task",
    "TaskError",
    "digest",
    "draw",
    "families",
    "family_source_digest",
    "load_task",
    "split_of",
]


def __getattr__(name: str) -> Any:
    # Imported when asked for: reading and checking specs needs the errors, not numpy.
    for module in ("errors", "base", "registry", "splits"):
        found = import_module(f".{module}", __name__)
        if name in getattr(found, "__all__", ()):
            return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
