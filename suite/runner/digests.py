"""Digests of the data that a task is measured on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ...tasks import digest, draw, load_task
from ..spec.load import Located
from ..spec.schema import TaskSpec

__all__ = ["measuring_digests"]


def measuring_digests(task: Located) -> Iterator[tuple[str, int, int, str]]:
    """Split, length, number of sequences and sha256 of all measuring data of a task."""
    spec = cast("TaskSpec", task.spec)
    generator = load_task(spec.family, spec.params, spec.target, task.base)
    train = spec.lengths.train
    wanted = [("probe_train", train, spec.sizes.probe_train), ("probe_test", train, spec.sizes.probe_test)]
    wanted += [("evaluate", length, spec.sizes.evaluate) for length in spec.lengths.evaluate]
    for split, length, n in wanted:
        yield split, length, n, digest(draw(generator, split, n, length, seed=0))
