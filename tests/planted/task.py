"""The task of the planted networks: a running sum modulo C, with tokens that carry noise beside it."""

from __future__ import annotations

import numpy as np
from layerstate.suite.spec.schema import TaskSpec
from layerstate.tasks import Batch

NOISE_SYMBOLS = 64
LENGTH = 12


class RunningSum:
    """Token c + C·z: the state is the sum of all c so far, modulo C; z says nothing about it.

    So what a network makes of the prefix of z is independent of the state, exactly. `stream` chooses the data.
    """

    family = "running_sum"
    version = 1
    target = "sum"

    def __init__(self, classes: int, stream: int = 0) -> None:
        self.stream = stream
        self.classes = {"sum": classes}
        self.vocabulary = tuple(f"{c}.{z}" for z in range(NOISE_SYMBOLS) for c in range(classes))

    def sample(self, n: int, length: int, rng: np.random.Generator) -> Batch:
        rng = np.random.default_rng([self.stream, *rng.integers(2**32, size=4)])
        return self._labelled(rng.integers(len(self.vocabulary), size=(n, length)))

    def corrupt(self, batch: Batch, position: int, rng: np.random.Generator) -> Batch:
        tokens, classes = batch.tokens.copy(), self.classes["sum"]
        shift = rng.integers(1, classes, size=len(tokens))
        noise, summand = np.divmod(tokens[:, position], classes)
        tokens[:, position] = noise * classes + (summand + shift) % classes
        return self._labelled(tokens)

    def _labelled(self, tokens: np.ndarray) -> Batch:
        classes = self.classes["sum"]
        return Batch(tokens, {"sum": np.cumsum(tokens % classes, axis=1) % classes})


def task_spec(classes: int, *, train: int = 400, test: int = 300, evaluate: int = 300) -> TaskSpec:
    return TaskSpec.model_validate(
        {
            "kind": "task",
            "name": f"running_sum_{classes}",
            "title": "Running sum",
            "family": "running_sum",
            "structure": "prefix_update",
            "target": "sum",
            "states": ["sum"],
            "lengths": {"train": LENGTH, "evaluate": [LENGTH, 2 * LENGTH]},
            "sizes": {"probe_train": train, "probe_test": test, "evaluate": evaluate},
        }
    )
