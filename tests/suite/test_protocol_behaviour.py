"""What the behaviour protocol says of models whose every answer is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
from layerstate.suite.protocols import Outcome, Reading, load_protocol
from layerstate.suite.protocols.behaviour import Params, measure
from layerstate.suite.spec.schema import TaskSpec
from layerstate.tasks import Batch

CLASSES = 3


class StatesAsTokens:
    """A task whose state is the token, so that any sequence of states can be made."""

    family, version, target = "states", 1, "state"
    vocabulary = ("a", "b", "c")
    classes: ClassVar = {"state": CLASSES}

    def sample(self, n: int, length: int, rng: np.random.Generator) -> Batch:
        return as_batch(rng.integers(CLASSES, size=(n, length)))

    def corrupt(self, batch: Batch, position: int, rng: np.random.Generator) -> Batch:
        raise NotImplementedError


def as_batch(y: np.ndarray) -> Batch:
    return Batch(y, {"state": y})


@dataclass
class Answers:
    """A cell whose model is right where `right[length]` says so."""

    states: dict[tuple[str, int], np.ndarray]
    right: dict[int, np.ndarray]
    train: int
    spec: TaskSpec = field(init=False)
    task: StatesAsTokens = field(default_factory=StatesAsTokens)
    adapter: Any = None
    seed: int = 0

    def __post_init__(self) -> None:
        n = len(next(iter(self.right.values())))
        self.spec = TaskSpec.model_validate(
            {
                "kind": "task",
                "name": "states",
                "title": "States",
                "family": "states",
                "structure": "other",
                "target": "state",
                "states": ["state"],
                "lengths": {"train": self.train, "evaluate": list(self.right)},
                "sizes": {"evaluate": n},
            }
        )

    def data(self, split: str, length: int) -> Batch:
        return as_batch(self.states[split, length])

    def logits(self, split: str, length: int) -> np.ndarray:
        y = self.states[split, length]
        answer = np.where(self.right[length], y, (y + 1) % CLASSES)
        return np.eye(CLASSES, dtype=np.float32)[answer]

    def rng(self, purpose: str) -> np.random.Generator:
        return np.random.default_rng(len(purpose))


def answering(shares: dict[int, float], train: int, n: int = 400) -> Answers:
    """Uniform states; at each length a share of positions right."""
    rng = np.random.default_rng(0)
    states = {
        (split, length): rng.integers(CLASSES, size=(n, length))
        for split in ("probe_train", "evaluate")
        for length in shares
    }
    right = {length: rng.random((n, length)) < share for length, share in shares.items()}
    return Answers(states, right, train)


def run(cell: Any, **params: Any) -> Outcome:
    return measure(cell, Params(**params))


def reading(outcome: Outcome, metric: str, length: int | None = None) -> Reading:
    at = {} if length is None else {"length": length}
    (found,) = [each for each in outcome.readings if each.metric == metric and dict(each.at) == at]
    return found


def test_accuracy_skill_and_chance_of_known_answers() -> None:
    cell = answering({10: 0.7, 20: 0.4}, train=10)
    outcome = run(cell)
    for length, share in ((10, 0.7), (20, 0.4)):
        exact = cell.right[length].mean()
        accuracy, skill, chance = (reading(outcome, metric, length) for metric in ("accuracy", "skill", "chance"))
        assert accuracy.value == pytest.approx(exact)
        assert accuracy.value == pytest.approx(share, abs=0.03)
        assert chance.value == pytest.approx(1 / 3, abs=0.03)
        assert isinstance(chance.value, float)
        assert skill.value == pytest.approx((exact - chance.value) / (1 - chance.value))
        assert None not in (skill.low, skill.high)
        low, middle, high = (float(end) for end in (skill.low, skill.value, skill.high) if end is not None)
        assert low < middle < high


def test_final_and_sequence_accuracy() -> None:
    cell = answering({4: 0.8}, train=4)
    outcome = run(cell)
    assert reading(outcome, "final_accuracy", 4).value == pytest.approx(cell.right[4][:, -1].mean())
    assert reading(outcome, "sequence_accuracy", 4).value == pytest.approx(cell.right[4].all(axis=1).mean())


def test_out_of_distribution_skill_is_the_mean_over_longer_lengths_only() -> None:
    outcome = run(answering({10: 1.0, 5: 0.1, 20: 0.8, 30: 0.5}, train=10))
    skills = [reading(outcome, "skill", length).value for length in (20, 30)]
    assert reading(outcome, "ood_skill").value == pytest.approx(np.mean(skills))
    assert reading(outcome, "retention", 20).value == pytest.approx(skills[0])
    assert not [each for each in outcome.readings if each.metric == "retention" and each.at == {"length": 10}]


def test_no_longer_length_is_no_out_of_distribution_skill() -> None:
    ood = reading(run(answering({10: 1.0}, train=10)), "ood_skill")
    assert (ood.value, ood.status, ood.reason) == (None, "undefined", "no_length_beyond_training")


def test_nothing_is_retained_of_no_skill() -> None:
    retention = reading(run(answering({10: 0.33, 20: 0.33}, train=10)), "retention", 20)
    assert (retention.value, retention.status, retention.reason) == (None, "undefined", "clean_at_chance")


def test_a_state_that_the_position_fixes_has_no_skill() -> None:
    cell = answering({6: 1.0, 12: 1.0}, train=6)
    cell.states = {key: np.broadcast_to(np.arange(y.shape[1]) % CLASSES, y.shape) for key, y in cell.states.items()}
    outcome = run(cell)
    assert reading(outcome, "accuracy", 6).value == 1.0
    assert reading(outcome, "skill", 6).reason == "chance_is_one"
    assert reading(outcome, "ood_skill").status == "undefined"
    assert reading(outcome, "retention", 12).status == "undefined"


def test_one_sequence_has_a_value_and_no_interval() -> None:
    accuracy = reading(run(answering({10: 0.5}, train=10, n=1)), "accuracy", 10)
    assert isinstance(accuracy.value, float)
    assert (accuracy.low, accuracy.high, accuracy.reason) == (None, None, "no interval: one sequence")


def test_positions_before_the_first_do_not_count() -> None:
    cell = answering({10: 1.0}, train=10)
    cell.right[10][:, :4] = False
    assert reading(run(cell, min_position=4), "accuracy", 10).value == 1.0
    assert reading(run(cell), "accuracy", 10).value == pytest.approx(0.6)
    with pytest.raises(ValueError, match="leaves no position"):
        run(cell, min_position=10)


def test_counts_behind_the_readings_are_kept() -> None:
    cell = answering({10: 0.7, 20: 0.4}, train=10)
    outcome = run(cell)
    for length in (10, 20):
        np.testing.assert_array_equal(outcome.arrays[f"correct/{length}"], cell.right[length].sum(axis=1))
        np.testing.assert_array_equal(outcome.arrays[f"final/{length}"], cell.right[length][:, -1])


def test_unknown_and_impossible_parameters_are_refused() -> None:
    params = load_protocol("behaviour").params
    for wrong in ({"min_positon": 1}, {"min_position": -1}, {"draws": 1}, {"min_position": True}, {"draws": "2000"}):
        with pytest.raises(ValueError, match="validation error"):
            params.model_validate(wrong)
