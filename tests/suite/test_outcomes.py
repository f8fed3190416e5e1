"""What a user's own protocol gives is written as it is, or refused with what was found and what is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from layerstate.suite.measure.statistics import Resamples
from layerstate.suite.protocols import Outcome, Reading
from layerstate.suite.protocols.readings import estimate
from layerstate.suite.runner.errors import CellFailed
from layerstate.suite.runner.outcomes import checked
from layerstate.suite.spec.results import PackedArray


def outcome(**fields: Any) -> Outcome:
    return Outcome([Reading(**{"metric": "drop", "value": 0.5, **fields})])


@pytest.mark.parametrize(
    "fields",
    [
        {"value": 0},
        {"value": None},
        {"value": float("nan"), "low": float("nan"), "high": float("inf")},
        {"value": "late"},
        {"value": np.float32(0.5), "low": np.float64(0.5), "high": 1, "n": np.int32(4)},
        {"value": 0.1 + 0.2, "low": 0.3, "high": 0.3},
        {"low": 0.2},
        {"at": {"length": np.int64(8), "site": "embed"}},
        {"status": "not_converged", "reason": "slow"},
        {"value": None, "status": "undefined", "reason": "no_pairs"},
    ],
)
def test_what_results_can_hold_passes_as_it_is(fields: dict[str, Any]) -> None:
    given = outcome(**fields)
    assert checked(given, "mine") is given


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"metric": 3}, "mine gives 3 (int) as the name of a metric — a text"),
        (
            {"at": {"length": 8.5}},
            "drop at {'length': 8.5} with the coordinate length = 8.5 (float) — a whole number",
        ),
        ({"at": {"length": 8.0}}, "with the coordinate length = 8.0 (float) — a whole number or a text"),
        ({"at": {"length": True}}, "with the coordinate length = True (bool) — a whole number or a text"),
        ({"at": {"length": None}}, "with the coordinate length = None — a whole number or a text"),
        ({"at": {8: "length"}}, "with a coordinate called 8 (int) — a text"),
        ({"at": ["embed"]}, "with the coordinates ['embed'] (list) — a mapping such as {'length': 40}"),
        ({"at": None}, "with the coordinates None — a mapping"),
        ({"value": True}, "drop with the value True (bool) — a number such as float(value), a word, or None"),
        ({"value": np.bool_(1)}, "(bool) — a number such as float(value)"),
        ({"value": [0.5]}, "with the value [0.5] (list) — a number"),
        ({"value": np.array(0.5)}, "with the value a ndarray — a number such as float(value)"),
        ({"value": torch.tensor(0.5)}, "with the value a Tensor — a number such as float(value)"),
        ({"value": 10**400}, "(int) — a number"),
        ({"high": float("inf")}, "with high = inf — a finite number, or None where there is no interval"),
        ({"low": float("nan")}, "with low = nan — a finite number"),
        ({"low": "0"}, "with low = '0' (str) — a number"),
        ({"low": False}, "with low = False (bool) — a number"),
        ({"low": 0.9, "high": 0.1}, "with the interval 0.9 to 0.1 — low at most high"),
        ({"low": 0.6, "high": 0.9}, "with the value 0.5 and the interval 0.6 to 0.9 — an interval around its value"),
        ({"low": 0.51}, "with the value 0.5 and the interval 0.51 to None — an interval around its value"),
        (
            {"value": None, "low": 0.1},
            "with the value None and the interval 0.1 to None — no interval without a",
        ),
        ({"value": "late", "high": 0.1}, "with the value 'late' (str) and the interval None to 0.1 — no interval"),
        ({"n": 0}, "with n = 0 (int) — a whole number from 1, or None"),
        ({"n": 3.0}, "with n = 3.0 (float) — a whole number from 1"),
        ({"n": True}, "with n = True (bool) — a whole number from 1"),
        ({"status": "fine"}, "with the status 'fine' (str) — one of ok, below_gate, not_converged, undefined, failed"),
        ({"status": None}, "with the status None — one of ok"),
        ({"status": ["ok"]}, "with the status ['ok'] (list) — one of ok"),
        ({"status": "undefined"}, "with the status undefined and the value 0.5 (float) — the value None"),
        ({"value": None, "status": "undefined"}, "with the status undefined and no reason — a reason that says why"),
        ({"status": "not_converged", "reason": ""}, "with the status not_converged and no reason — a reason"),
        ({"reason": 7}, "with the reason 7 (int) — a text, or None"),
    ],
)
def test_a_reading_that_would_be_changed_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(CellFailed) as caught:
        checked(outcome(**fields), "mine")
    assert str(caught.value).startswith("The protocol mine gives ")
    assert said in str(caught.value)
    assert str(caught.value).endswith(" would be right.")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "mine returns None — an Outcome with its readings"),
        ([Reading("drop", 1.0)], "(list) — an Outcome with its readings"),
        (Outcome(), "mine gives no reading — at least one"),
        (Outcome(None), "mine gives None as readings — a list of Reading"),  # pyright: ignore[reportArgumentType]
        (Outcome([("drop", 1.0)]), "gives ('drop', 1.0) (tuple) as reading 1 — a Reading"),  # pyright: ignore
    ],
)
def test_what_is_no_outcome_is_refused(given: Any, said: str) -> None:
    with pytest.raises(CellFailed) as caught:
        checked(given, "mine")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, 2], "gives the array right/8 as [1, 2] (list) — a NumPy array of whole numbers"),
        (np.array([0.5]), "gives the array right/8 of float64 — whole numbers: counts"),
        (np.array([True]), "gives the array right/8 of bool — whole numbers"),
        (np.array(["a"]), "of <U1 — whole numbers"),
        (np.array([0, 2**31]), "gives the array right/8 with 0 to 2147483648 — -2147483648 to 2147483647"),
    ],
)
def test_an_array_that_would_be_cut_off_is_refused(values: Any, said: str) -> None:
    given = outcome()
    given.arrays["right/8"] = values
    with pytest.raises(CellFailed) as caught:
        checked(given, "mine")
    assert said in str(caught.value)
    if isinstance(values, np.ndarray):
        with pytest.raises(ValueError, match="a packed array holds"):
            PackedArray.pack(values)


@pytest.mark.parametrize("values", [np.array([], int), np.array([-(2**31), 2**31 - 1]), np.array([3], np.uint64)])
def test_whole_numbers_of_32_bits_come_back_as_they_were(values: Any) -> None:
    given = outcome()
    given.arrays["right/8"] = values
    checked(given, "mine")
    np.testing.assert_array_equal(PackedArray.pack(values).unpack(), values)


def test_an_estimate_lies_in_its_own_interval_however_its_draws_fall() -> None:
    shares = np.array([[0.0, 1.0, 1.0, 1.0]])
    draws = Resamples(4, np.random.default_rng(0), 200).means(shares)[:, 0]
    reading = estimate("drop", 0.75, np.clip(draws, 0.8, 1.0), at={}, n=4)
    assert (reading.low, reading.high) == (0.75, 1.0)
    checked(Outcome([reading]), "built_in")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return None", "mine returns None"),
        ("return Outcome([Reading('answer', 0.5, {'length': 8.5})])", "answer at {'length': 8.5} with the coordinate"),
        ("return Outcome([Reading('answer', 0.5, status='fine')])", "with the status 'fine'"),
        ("return Outcome([Reading('answer', 0.5)], {'right': [1]})", "gives the array right as [1] (list)"),
    ],
)
def test_a_run_says_so_in_one_line_and_keeps_the_rest(workshop: Any, body: str, said: str) -> None:
    workshop.protocol(body)
    workshop.suite(protocols=["behaviour", "./mine_protocol.yaml"])
    done = workshop.run()
    assert done.exit_code == 3
    (failure,) = workshop.failures()
    assert said in failure["message"]
    assert "pydantic" not in failure["message"]
    assert "Traceback" not in done.stderr
    assert [result["protocol"] for result in workshop.results().values()] == ["behaviour"]
