"""The data that a task is measured on: which there are, their digests, and the data sets they are taken from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from ...tasks import digest, draw
from ...tasks.code_depth import CodeDepth
from ...tasks.stored import StoredTask
from ..spec.load import Located
from ..spec.schema import TaskSpec
from ..spec.source import task_of

__all__ = ["SourceData", "measuring_digests", "measuring_parts", "read_source"]


@dataclass(frozen=True)
class SourceData:
    """What a data set holds: sequences, tokens in all, sequences that could not be used, its commit and fingerprint."""

    sequences: int
    tokens: int
    left_out: int
    commit: str | None
    sha256: str


def measuring_parts(spec: TaskSpec) -> list[tuple[str, int, int]]:
    """Split, length and number of sequences of all measuring data of a task."""
    train = spec.lengths.train
    wanted = [("probe_train", train, spec.sizes.probe_train), ("probe_test", train, spec.sizes.probe_test)]
    return wanted + [("evaluate", length, spec.sizes.evaluate) for length in spec.lengths.evaluate]


def measuring_digests(task: Located) -> Iterator[tuple[str, int, int, str]]:
    """Split, length, number of sequences and sha256 of all measuring data of a task."""
    source = task_of(task)
    for split, length, n in measuring_parts(cast("TaskSpec", task.spec)):
        yield split, length, n, digest(draw(source, split, n, length, seed=0))


def read_source(task: Located, *, show: bool = False, again: bool = False) -> SourceData | None:
    """The data set that a task takes its sequences from, fetched if it is not there yet; None for a pure generator.

    Parameters
    ----------
    task : Located
        The task's spec.
    show : bool
        Whether progress is shown on standard error.
    again : bool
        Whether what is in a cache is fetched anew, too.
    """
    source = task_of(task)
    if isinstance(source, StoredTask):
        batches = source.parts().values()
        sequences, tokens = sum(len(batch) for batch in batches), sum(batch.tokens.size for batch in batches)
        spec = cast("TaskSpec", task.spec)
        return SourceData(sequences, tokens, 0, spec.revision, cast("str", spec.sha256))
    if not isinstance(source, CodeDepth):
        return None
    if source.source is not None:
        source.source.load(show=show, again=again)
    functions = source.functions()
    sizes = len(functions.lengths), int(functions.lengths.sum()), functions.left_out
    return SourceData(*sizes, functions.commit, functions.digest())
