"""Digests of the data that a task is measured on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from ...tasks import digest, draw, load_task
from ...tasks.code_depth import CodeDepth
from ..spec.load import Located
from ..spec.schema import TaskSpec

__all__ = ["SourceData", "measuring_digests", "read_source"]


@dataclass(frozen=True)
class SourceData:
    """What a data set holds: sequences, tokens in all, sequences that could not be used, and its fingerprint."""

    sequences: int
    tokens: int
    left_out: int
    sha256: str


def measuring_digests(task: Located) -> Iterator[tuple[str, int, int, str]]:
    """Split, length, number of sequences and sha256 of all measuring data of a task."""
    spec = cast("TaskSpec", task.spec)
    generator = load_task(spec.family, spec.params, spec.target, task.base)
    train = spec.lengths.train
    wanted = [("probe_train", train, spec.sizes.probe_train), ("probe_test", train, spec.sizes.probe_test)]
    wanted += [("evaluate", length, spec.sizes.evaluate) for length in spec.lengths.evaluate]
    for split, length, n in wanted:
        yield split, length, n, digest(draw(generator, split, n, length, seed=0))


def read_source(task: Located) -> SourceData | None:
    """The data set that a task takes its sequences from, fetched if it is not there yet; None for a pure generator."""
    spec = cast("TaskSpec", task.spec)
    generator = load_task(spec.family, spec.params, spec.target, task.base)
    if not isinstance(generator, CodeDepth):
        return None
    functions = generator.functions()
    return SourceData(len(functions.lengths), int(functions.lengths.sum()), functions.left_out, functions.digest())
