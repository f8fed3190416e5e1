"""Models side by side: differences are those of the same seeds, and of the same sequences."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from layerstate.suite.runner.compare import Difference, differences
from layerstate.suite.runner.gathered import Gathered
from layerstate.suite.spec.results import Result

from .made import metric, record, result

GAP = {"ruler": "means", "fill": "mean"}


def gaps(model: str, *values: float, **more: Any) -> list[Result]:
    return [
        result("causal", metric("gap", value, at=GAP, **more), model=model, seed=seed)
        for seed, value in enumerate(values)
    ]


def difference(results: list[Result], name: str, first: str = "gru", second: str = "lstm") -> Difference:
    found = differences(Gathered(record(), results), first, second)
    return next(each for each in found if name in each.metric)


def behaviour(model: str, correct: np.ndarray, seed: int = 0) -> Result:
    accuracy = metric("accuracy", float(correct.mean() / 8), at={"length": 8})
    return result("behaviour", accuracy, model=model, seed=seed, correct_8=correct, chance_8=correct * 0)


def test_seeds_are_paired() -> None:
    """The seeds lie far apart, the differences don't: unpaired, the interval would be wide and p large."""
    base = np.array([0.0, 9.0, -7.0, 4.0, -2.0])
    found = difference(gaps("gru", *(base + [1.0, 1.1, 0.9, 1.0, 1.05])) + gaps("lstm", *base[::1]), "gap")
    assert found.difference == pytest.approx(1.01)
    assert found.low is not None
    assert found.high is not None
    assert 0.8 < found.low < 1.01 < found.high < 1.2
    assert (found.seeds, found.p, found.smallest_p) == (5, 0.0625, 0.0625)
    assert "0.0625" in found.note


def test_only_common_seeds_count() -> None:
    found = difference(gaps("gru", 1.0, 1.0, 9.0) + gaps("lstm", 0.0, 0.0), "gap")
    assert (found.seeds, found.difference, found.smallest_p) == (2, 1.0, 0.5)


def test_no_common_seed_gives_both_values_and_no_difference() -> None:
    other = [result("causal", metric("gap", 2.0, at=GAP), model="lstm", seed=7)]
    found = difference(gaps("gru", 1.0) + other, "gap")
    assert (found.values, found.difference, found.p) == ((1.0, 2.0), None, None)


def test_one_seed_is_compared_over_the_same_sequences() -> None:
    correct = np.random.default_rng(0).integers(4, 9, size=300)
    alike = difference([behaviour("gru", correct), behaviour("lstm", correct)], "accuracy")
    assert (alike.difference, alike.low, alike.high, alike.p) == (0.0, 0.0, 0.0, None)
    assert "sequences only" in alike.note
    worse = difference([behaviour("gru", correct), behaviour("lstm", correct - np.arange(300) % 2)], "accuracy")
    assert worse.difference == pytest.approx(0.0625)
    assert worse.low is not None
    assert worse.low > 0.05  # unpaired it would reach below 0.04


def test_one_seed_of_a_number_without_sequences_has_no_interval() -> None:
    found = difference(gaps("gru", 1.0) + gaps("lstm", 0.0), "gap")
    assert (found.difference, found.low, found.high) == (1.0, None, None)
    assert "one seed: no interval" in found.note


def test_a_model_below_the_gate_is_named() -> None:
    below = gaps("gru", 1.0, 2.0, status="below_gate", reason="accuracy 0.7")
    assert "below gate: gru" in difference(below + gaps("lstm", 0.0, 0.0), "gap").note


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_intervals_of_paired_differences_cover_the_truth(seeds: int) -> None:
    """Seeds on the same 60 sequences, which differ in how much the first model is better; on average by one in 8."""
    rng, runs, covered = np.random.default_rng(seeds), 200, 0
    for _ in range(runs):
        hard, better = rng.integers(3, 6, size=60), rng.binomial(2, 0.5, size=60)
        luck = rng.uniform(0.2, 0.8, size=seeds)
        found = difference(
            [behaviour("gru", hard + better + rng.binomial(1, s, size=60), seed) for seed, s in enumerate(luck)]
            + [behaviour("lstm", hard + rng.binomial(1, 0.5, size=60), seed) for seed in range(seeds)],
            "accuracy",
        )
        covered += found.low is not None and found.high is not None and found.low <= 0.125 <= found.high
    assert covered / runs >= 0.92, covered


def test_a_difference_over_seeds_is_as_wide_as_the_seeds_own_intervals() -> None:
    """Two seeds whose values happen to lie near each other, and which alone say next to nothing."""
    vague = [
        result("causal", metric("gap", value, 5.0, at=GAP), model="gru", seed=seed)
        for seed, value in enumerate((1.0, 1.01))
    ]
    found = difference(vague + gaps("lstm", 0.0, 0.0), "gap")
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1.0 - 4.9
    assert found.high > 1.0 + 4.9


def test_few_seeds_that_are_all_alike_give_a_note_in_place_of_an_interval() -> None:
    found = difference(gaps("gru", 0.0, 0.0) + gaps("lstm", 0.0, 0.0), "gap")
    assert (found.difference, found.low, found.high) == (0.0, None, None)
    assert "2 seeds, all alike" in found.note


@pytest.fixture
def finished(workshop: Any) -> Any:
    workshop.suite(models=["./tiny.yaml", "./other.yaml"], seeds=[0, 1])
    workshop.spec("other", workshop.model_spec(), name="other", training={"learning_rate": 0.02})
    assert workshop.run().exit_code == 0
    return workshop


def test_every_format_says_the_same(finished: Any) -> None:
    def of(kind: str) -> str:
        done = finished.layerstate("compare", finished.out, "--models", "tiny,other", "--format", kind)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    rows = json.loads(of("json"), parse_constant=lambda name: pytest.fail(name))["differences"]
    accuracy = next(row for row in rows if "accuracy" in row["metric"])
    assert accuracy["seeds"] == 2
    assert accuracy["smallest_p"] == 0.5
    assert accuracy["difference"] == pytest.approx(accuracy["values"][0] - accuracy["values"][1])
    assert len(of("csv").splitlines()) == len(rows) + 1
    assert f"{accuracy['difference']:+.3f}" in of("table")
    assert "| parity8 |" in of("markdown")


@pytest.mark.parametrize(
    ("models", "code", "said"),
    [
        ("tiny,othr", 1, "did you mean `other`"),
        ("tiny", 2, "two different names"),
        ("tiny,tiny", 2, "two different names"),
        ("tiny,", 2, "two different names"),
    ],
)
def test_a_wrong_name_is_said(finished: Any, models: str, code: int, said: str) -> None:
    done = finished.layerstate("compare", finished.out, "--models", models)
    assert done.exit_code == code
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_timings_set_each_protocol_beside_its_forward_passes(finished: Any) -> None:
    done = finished.layerstate("report", finished.out, "--timings", "--format", "json")
    rows = json.loads(done.stdout)["timings"]
    assert [(row["protocol"], row["model"], row["measurements"]) for row in rows] == [
        ("behaviour", "other", 2),
        ("behaviour", "tiny", 2),
    ]
    for row in rows:
        assert 0 < row["forward_s"] <= row["wall_s"]
        assert row["wall_over_forward"] == pytest.approx(row["wall_s"] / row["forward_s"])
    assert "behaviour" in finished.layerstate("report", finished.out, "--timings").stdout


def test_timings_of_an_empty_folder_say_how_to_fill_it(workshop: Any) -> None:
    workshop.out.mkdir()
    done = workshop.layerstate("report", workshop.out, "--timings")
    assert done.exit_code == 1
    assert "layerstate run" in done.stderr
    assert "Traceback" not in done.stderr
