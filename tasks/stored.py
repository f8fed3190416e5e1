"""A task whose sequences are read from a data set instead of being drawn: the same contract, a fixed supply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from .base import Batch, IntArray, Task
from .contract import check_size
from .described import Origin, StateVariable, origin_of, variables_of
from .errors import TaskError
from .labels import labelled
from .splits import SPLITS, split_index, split_of
from .stored_files import Part, Parts, read_parts

__all__ = ["StoredTask"]


class StoredTask:
    """The sequences of a data set, with the rules of the family that they are of.

    Training sequences are drawn evenly and with replacement from those stored; shorter ones than any stored are the
    beginnings of stored ones, as far as these belong to the training split themselves. All other splits are given in
    the order in which they are stored, from the first on, so that measuring data are the bytes that were exported.

    The data are read, and checked in full, when first needed.

    Parameters
    ----------
    rules : Task
        The family's task, which labels, describes and corrupts; it draws nothing here.
    folder : callable
        Gives the folder of the data set.
    config : str
        Which of its tasks.
    sha256 : str
        The digest that the sequences must have.
    """

    def __init__(self, rules: Task, folder: Callable[[], Path], config: str, sha256: str) -> None:
        self._rules = rules
        self._folder = folder
        self._config = config
        self._sha256 = sha256
        self._parts: Parts | None = None
        self._beginnings: dict[int, Batch] = {}
        self.family = rules.family
        self.version = rules.version
        self.target = rules.target
        self.vocabulary = rules.vocabulary
        self.classes: Mapping[str, int] = rules.classes
        self.variables: Mapping[str, StateVariable] = variables_of(rules)

    def parts(self) -> Parts:
        """All sequences by split and length, read and checked on the first call.

        Raises
        ------
        TaskError
            If they cannot be read, or anything about them is not right.
        """
        if self._parts is None:
            self._parts = read_parts(self._folder(), self._config, self._rules, self._sha256)
        return self._parts

    def origin(self) -> Origin:
        """Where the sequences came from before they were stored."""
        return origin_of(self._rules)

    def label(self, tokens: IntArray) -> Batch:
        """`tokens` (n, length) with their states, by the family's rules."""
        return labelled(self._rules, tokens)

    def sample(self, n: int, length: int, rng: np.random.Generator) -> Batch:
        """`n` sequences of `length` tokens from all splits, with replacement."""
        check_size(n, length)
        found = [self._part(split, length) for split in SPLITS if Part(split, length) in self.parts()]
        if not found:
            raise self._none_of("sequence", length)
        which = rng.integers(0, sum(map(len, found)), n)
        return _wide(Batch.joined(found), which)

    def sample_split(self, split: str, n: int, length: int, rng: np.random.Generator) -> Batch:
        """`n` sequences of `length` tokens of one split: drawn for training, else the first that are stored."""
        check_size(n, length)
        split_index(split)
        if split == "train":
            batch = self._training(length)
            return _wide(batch, rng.integers(0, len(batch), n))
        batch = self._part(split, length)
        if n > len(batch):
            raise TaskError(
                f"the data set holds {len(batch)} sequences of split {split!r} and length {length}, {n} are asked for; "
                "lower the task's sizes, or export more",
                field="path",
            )
        return _wide(batch, np.arange(n))

    def corrupt(self, batch: Batch, position: int, rng: np.random.Generator) -> Batch:
        """As the family does."""
        return self._rules.corrupt(batch, position, rng)

    def _training(self, length: int) -> Batch:
        """Training sequences of a length: those stored, or the beginnings of the shortest longer ones."""
        parts = self.parts()
        longer = [part for part in sorted(parts) if part.split == "train" and part.length > length]
        if Part("train", length) in parts or not longer:
            return self._part("train", length)
        if length not in self._beginnings:
            whole = parts[longer[0]]
            rows = np.flatnonzero(split_of(whole.tokens[:, :length]) == split_index("train"))
            if not len(rows):
                raise TaskError(
                    f"no beginning of length {length} is in the training split; take longer ones", field="path"
                )
            cut = Batch(whole.tokens[:, :length], {name: each[:, :length] for name, each in whole.states.items()})
            self._beginnings[length] = cut.take(rows)
        return self._beginnings[length]

    def _part(self, split: str, length: int) -> Batch:
        part = self.parts().get(Part(split, length))
        if part is None:
            raise self._none_of(f"sequence of split {split!r}", length)
        return part

    def _none_of(self, what: str, length: int) -> TaskError:
        held = ", ".join(f"{part.split} {part.length}" for part in sorted(self.parts()))
        return TaskError(f"the data set holds no {what} and length {length}, only {held}", field="path")


def _wide(batch: Batch, rows: IntArray) -> Batch:
    """The sequences at `rows`, as int64."""
    taken = batch.take(rows)
    return Batch(taken.tokens.astype(np.int64), {name: each.astype(np.int64) for name, each in taken.states.items()})
