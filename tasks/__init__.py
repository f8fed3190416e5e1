"""Tasks: distributions over token sequences with state variables labelled at every position."""

from .base import Batch, IntArray, Task
from .errors import TaskError
from .families import ENTRY_POINTS, families, family_source_digest, load_task
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
