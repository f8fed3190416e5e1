"""A claim's verdict follows from the numbers and their intervals, and from nothing that may not be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from layerstate.suite.claims import Verdict, judge
from layerstate.suite.spec.results import Metric, Result
from layerstate.suite.spec.schema import ClaimsSpec

from .made import metric, record, result

HERE: dict[str, Any] = {"metric": "causal.effect", "model": "gru", "task": "dyck", "at": {"site": "block.0"}}
AT = {"site": "block.0"}
ANYWHERE = {key: value for key, value in HERE.items() if key != "at"}


def judged(expect: dict[str, Any], *results: Result, **claim: Any) -> Verdict:
    source = {"paper": "a paper"}
    entry = {"id": "one", "says": "Something.", "source": source, "expect": expect, **claim}
    spec = ClaimsSpec.model_validate({"kind": "claims", "name": "mine", "title": "Mine", "claims": [entry]})
    return judge(spec, results, record(), folder=Path("runs/a b"))[0]


def effect(value: float | str | None, spread: float | None = None, **more: Any) -> Metric:
    return metric("effect", value, spread, **{"at": AT, **more})


def causal(*values: Metric, **where: Any) -> Result:
    return result("causal", *values, **where)


@pytest.mark.parametrize(
    ("comparison", "holds", "straddles", "fails"),
    [
        ({"at_least": 5.0}, (8.0, 2.0), (6.0, 2.0), (2.0, 1.0)),
        ({"at_most": 5.0}, (2.0, 1.0), (4.5, 2.0), (8.0, 2.0)),
        ({"equals": -12.0, "tolerance": 3.0}, (-13.0, 1.0), (-14.0, 2.0), (-4.0, 1.0)),
        ({"not_significant": True}, (1.0, 2.0), None, (3.0, 2.0)),
    ],
    ids=["at_least", "at_most", "equals", "not_significant"],
)
def test_a_number_is_judged_by_all_of_its_interval(
    comparison: dict[str, Any],
    holds: tuple[float, float],
    straddles: tuple[float, float] | None,
    fails: tuple[float, float],
) -> None:
    assert judged(HERE | comparison, causal(effect(*holds))).verdict == "reproduced"
    assert judged(HERE | comparison, causal(effect(*fails))).verdict == "not_reproduced"
    if straddles is not None:
        assert judged(HERE | comparison, causal(effect(*straddles))).verdict == "inconclusive"


def test_a_number_without_an_interval_decides_nothing() -> None:
    assert judged(HERE | {"at_least": 5.0}, causal(effect(50.0))).verdict == "inconclusive"


@pytest.mark.parametrize("comparison", [{"equals": "late"}, {"one_of": ["late", "gradual"]}])
def test_words_hold_where_every_seed_says_them(comparison: dict[str, Any]) -> None:
    def of(*words: str) -> str:
        return judged(HERE | comparison, *(causal(effect(word), seed=seed) for seed, word in enumerate(words))).verdict

    assert of("late", "late") == "reproduced"
    assert of("early", "early") == "not_reproduced"
    assert of("late", "early") == "inconclusive"


def test_more_than_compares_seed_with_seed() -> None:
    """Two seeds far apart, each with the same difference: paired it is certain, unpaired it would not be."""
    other = {"metric": "causal.effect", "task": "dyck", "model": "lstm", "at": AT}
    results = [
        causal(effect(base + above, 0.5), seed=seed, model=model)
        for seed, base in enumerate((10.0, 60.0, 30.0, 80.0, 45.0))
        for model, above in (("gru", 4.0), ("lstm", 0.0))
    ]
    found = judged(HERE | {"more_than": other}, *results)
    assert found.verdict == "reproduced"
    assert found.measured[0].value == pytest.approx(4.0)
    assert found.measured[0].n_seeds == 5
    assert (found.p, found.smallest_p) == (0.0625, 0.0625)
    assert "0.0625" in found.why
    assert judged(HERE | {"model": "lstm", "more_than": other | {"model": "gru"}}, *results).verdict == "not_reproduced"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [((30.0, 20.0, 10.0), "reproduced"), ((30.0, 10.0, 20.0), "not_reproduced"), ((30.0, 20.0, 19.9), "inconclusive")],
)
def test_an_order_needs_every_pair(values: tuple[float, ...], verdict: str) -> None:
    expect = {key: value for key, value in HERE.items() if key != "model"} | {"order": [["gru"], ["lstm"], ["mamba"]]}
    models = zip(("gru", "lstm", "mamba"), values, strict=True)
    found = judged(expect, *(causal(effect(value, 1.0), model=model) for model, value in models))
    assert found.verdict == verdict
    assert len(found.measured) == 3


@pytest.mark.parametrize(
    ("reduce", "comparison", "verdict"),
    [
        ("max", {"at_least": 25.0}, "reproduced"),
        ("min", {"at_least": 25.0}, "not_reproduced"),
        ("min", {"at_most": 5.0}, "reproduced"),
        ("mean", {"at_least": 1.0}, "reproduced"),
        ("mean", {"at_least": 16.0}, "inconclusive"),  # 16.5, which reaches as far as its places do
    ],
)
def test_a_number_is_made_of_all_places(reduce: str, comparison: dict[str, Any], verdict: str) -> None:
    places = [effect(value, 1.0, at={"site": site}) for site, value in (("block.0", 3.0), ("block.1", 30.0))]
    assert judged(ANYWHERE | {"over": "site", "reduce": reduce} | comparison, causal(*places)).verdict == verdict


@pytest.mark.parametrize(
    ("reduce", "words", "verdict"),
    [
        ("every", ("yes", "yes"), "reproduced"),
        ("every", ("yes", "no"), "not_reproduced"),
        ("some", ("no", "yes"), "reproduced"),
        ("some", ("no", "no"), "not_reproduced"),
    ],
)
def test_words_are_asked_for_at_every_or_some_place(reduce: str, words: tuple[str, str], verdict: str) -> None:
    places = [effect(word, at={"site": site}) for site, word in zip(("block.0", "block.1"), words, strict=True)]
    expect = ANYWHERE | {"over": "site", "reduce": reduce, "equals": "yes"}
    assert judged(expect, causal(*places)).verdict == verdict


def test_what_is_missing_comes_with_the_command_that_measures_it() -> None:
    found = judged(HERE | {"at_least": 5.0})
    assert found.verdict == "not_measured"
    assert found.command == ("layerstate run quick --model gru --task dyck --protocol causal --out 'runs/a b'")


def test_the_command_names_the_tasks_that_a_protocol_needs_beside_its_own() -> None:
    found = judged({"metric": "grouping.grouping", "model": "gru", "task": "s3", "at_least": 0.0})
    assert "--task s3 --task parity --task dyck --protocol grouping" in str(found.command)


def test_a_part_that_fails_decides_also_where_others_are_missing() -> None:
    expect = HERE | {"model": ["gru", "lstm"], "at_least": 5.0}
    assert judged(expect, causal(effect(1.0, 0.5))).verdict == "not_reproduced"
    assert judged(expect, causal(effect(9.0, 0.5))).verdict == "not_measured"


def test_everything_beside_the_first_expectation_must_hold() -> None:
    also = [HERE | {"at": {"site": "block.1"}, "at_most": 2.0}]
    here, there = effect(9.0, 0.5), effect(9.0, 0.5, at={"site": "block.1"})
    assert judged(HERE | {"at_least": 5.0}, causal(here, there), also=also).verdict == "not_reproduced"
    small = effect(1.0, 0.5, at={"site": "block.1"})
    assert judged(HERE | {"at_least": 5.0}, causal(here, small), also=also).verdict == "reproduced"


@pytest.mark.parametrize(
    "status", [{"status": "not_converged", "reason": "a probe"}, {"status": "undefined", "reason": "unreadable"}]
)
def test_what_is_not_sound_is_not_used(status: dict[str, Any]) -> None:
    value = None if status["status"] == "undefined" else 9.0
    found = judged(HERE | {"at_least": 5.0}, causal(effect(value, 0.5, **status)))
    assert found.verdict == "inconclusive"
    assert found.measured[0].value is None
    assert status["reason"] in found.why


BELOW = {"status": "below_gate", "reason": "accuracy 0.7"}


@pytest.mark.parametrize(
    ("required", "verdict", "badge"),
    [(None, "inconclusive", None), (0.8, "inconclusive", None), (0.25, "reproduced", "partially solved")],
)
def test_below_the_gate_counts_only_where_the_claim_lowers_it(
    required: float | None, verdict: str, badge: str | None
) -> None:
    behaviour = result("behaviour", metric("skill", 0.5, 0.01, at={"length": 8}))
    lowered = {} if required is None else {"required_skill": required}
    found = judged(HERE | {"at_least": 5.0}, causal(effect(9.0, 0.5, **BELOW)), behaviour, **lowered)
    assert (found.verdict, found.badge) == (verdict, badge)


def test_a_gate_is_not_lowered_where_the_skill_is_unknown() -> None:
    found = judged(HERE | {"at_least": 5.0}, causal(effect(9.0, 0.5, **BELOW)), required_skill=0.1)
    assert (found.verdict, found.badge) == ("inconclusive", None)


def test_one_seed_says_so_and_gives_no_p() -> None:
    found = judged(HERE | {"equals": 9.0, "tolerance": 3.0}, causal(effect(9.0, 0.5)))
    assert found.p is None
    assert "one seed" in found.why


def test_places_stand_for_those_of_the_task_and_the_model() -> None:
    at = {"length": "$longest", "site": "$last", "variable": "$target"}
    there = effect(9.0, 0.5, at={"length": 16, "site": "block.1", "variable": "parity"})
    assert judged(HERE | {"at": at, "at_least": 5.0}, causal(effect(1.0, 0.5), there)).verdict == "reproduced"


def test_the_control_stands_beside_and_decides_nothing() -> None:
    beside = {"metric": "causal.refit_accuracy", "at": AT}
    refit = metric("refit_accuracy", 0.99, 0.01, at=AT)
    found = judged(HERE | {"at_least": 5.0}, causal(effect(9.0, 0.5), refit), beside=beside)
    assert found.verdict == "reproduced"
    assert [part.value for part in found.beside] == [0.99]


def test_a_control_stands_where_the_expectation_does_if_it_says_nothing_else() -> None:
    """One that is given no coordinates, and wants none, says `at: {}`."""
    refit, gap = metric("refit_accuracy", 0.99, 0.01, at=AT), metric("gap", 1.0, 0.01)
    found = judged(
        HERE | {"at_least": 5.0}, causal(effect(9.0, 0.5), refit), beside={"metric": "causal.refit_accuracy"}
    )
    assert [part.value for part in found.beside] == [0.99]
    found = judged(HERE | {"at_least": 5.0}, causal(effect(9.0, 0.5), gap), beside={"metric": "causal.gap", "at": {}})
    assert [part.value for part in found.beside] == [1.0]


def test_beside_an_order_stand_the_models_of_the_order() -> None:
    expect = {key: value for key, value in HERE.items() if key != "model"} | {"order": [["lstm"], ["gru"]]}
    results = [causal(effect(value, 0.5), model=model) for model, value in (("lstm", 9.0), ("gru", 2.0))]
    found = judged(expect, *results, beside={"metric": "causal.effect"})
    assert [(part.model, part.value) for part in found.beside] == [("lstm", 9.0), ("gru", 2.0)]


COMPARED_WITH_NUMBERS: list[dict[str, Any]] = [
    {"at_least": 0.5},
    {"at_most": 0.5},
    {"equals": 2.0},
    {"not_significant": True},
    {"more_than": {"metric": "causal.effect", "model": "lstm", "task": "dyck", "at": AT}},
]


@pytest.mark.parametrize("comparison", COMPARED_WITH_NUMBERS, ids=lambda comparison: next(iter(comparison)))
def test_a_word_is_neither_above_nor_below_a_number(comparison: dict[str, Any]) -> None:
    found = judged(HERE | comparison, *(causal(effect("late"), model=model) for model in ("gru", "lstm")))
    assert found.verdict == "inconclusive"
    assert [part.status for part in found.measured] == ["undefined"]
    assert "`late` is a word, and a number is expected" in found.why


@pytest.mark.parametrize("comparison", [{"equals": "gradual"}, {"one_of": ["0.9"]}])
def test_a_number_is_no_word(comparison: dict[str, Any]) -> None:
    found = judged(HERE | comparison, causal(effect(0.9, 0.05)))
    assert (found.verdict, found.measured[0].status) == ("inconclusive", "undefined")
    assert "`0.9` is a number, and a word is expected" in found.why


def test_a_number_is_no_word_at_any_place() -> None:
    places = [effect(value, 1.0, at={"site": site}) for site, value in (("block.0", 3.0), ("block.1", 30.0))]
    found = judged(ANYWHERE | {"over": "site", "reduce": "some", "equals": "3.0"}, causal(*places))
    assert (found.verdict, found.measured[0].status) == ("inconclusive", "undefined")


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ({"site": "block.7"}, "causal.effect has no site `block.7` there; it has `block.0` and `block.1`"),
        ({"sites": "block.0"}, "has no coordinate `sites`, it has `site` — did you mean `site`?"),
        ({}, "has the coordinates `site`; `site` is missing"),
        ({"site": "$last", "fill": "mean"}, "has no coordinate `fill`"),
    ],
)
def test_where_nothing_was_measured_is_no_doubt(at: dict[str, Any], why: str) -> None:
    """A run can't be doubtful about a site that the model does not have; and no command would measure it."""
    results = causal(effect(9.0, 0.5), effect(9.0, 0.5, at={"site": "block.1"}))
    found = judged(ANYWHERE | {"at": at, "at_least": 5.0}, results)
    assert (found.verdict, found.measured[0].status, found.command) == ("not_measured", "not_measured", None)
    assert why in found.why


def test_a_reading_without_a_value_stands_at_its_place_all_the_same() -> None:
    found = judged(HERE | {"at_least": 5.0}, causal(effect(None, status="undefined", reason="unreadable")))
    assert found.verdict == "inconclusive"
    assert "unreadable" in found.why


def test_of_all_models_none_is_compared_with_itself() -> None:
    expect = ANYWHERE | {"at": AT, "more_than": {"metric": "causal.effect", "model": "lstm"}}
    del expect["model"]
    results = [causal(effect(v, 0.5), model=m) for m, v in (("gru", 9.0), ("lstm", 2.0), ("mamba", 7.0))]
    found = judged(expect, *results)
    assert [part.model for part in found.measured] == ["gru", "mamba"]
    assert found.verdict == "reproduced"


GRU: dict[str, Any] = {"metric": "causal.gap", "model": "gru", "task": "dyck", "at_least": 0.0}
OWN = {"model": "own", "task": "task8"}


@pytest.mark.parametrize(
    ("on", "expect", "suite", "command"),
    [
        ("quick", {}, None, "run quick --model gru --task dyck"),
        ("quick", {}, "standard", "run quick --model gru --task dyck"),
        ("mine", {}, None, "run mine.yaml --model gru --task dyck # mine.yaml: your own file"),
        ("mine", {}, "standard", "run standard --model gru --task dyck"),
        ("mine", {}, "./a.yaml", "run ./a.yaml --model gru --task dyck"),
        ("mine", OWN, "standard", "run mine.yaml --model own --task task8 # mine.yaml: your own file"),
        ("quick", OWN, None, "run quick --model own.yaml --task task8.yaml # own.yaml, task8.yaml: your own files"),
        (
            "quick",
            {"task": "other"},
            None,
            "# add a spec of the task other first: a YAML file, given as --task other.yaml",
        ),
        (
            "quick",
            {"model": "two"},
            None,
            "# add a spec of the model two first: a YAML file, given as --model two.yaml",
        ),
    ],
)
def test_the_command_runs_the_suite_that_the_folder_holds(
    on: str, expect: dict[str, Any], suite: str | None, command: str
) -> None:
    """A suite, model or task that is not built in is named by its file."""
    entry = {"id": "one", "says": "Something.", "source": {"paper": "a paper"}, "expect": GRU | expect}
    made = {"kind": "claims", "name": "mine", "title": "Mine", "claims": [entry]} | ({"suite": suite} if suite else {})
    folder = record(models=("gru", "own"), tasks=("dyck", "task8"))
    folder.suite["name"] = on
    (found,) = judge(ClaimsSpec.model_validate(made), [], folder, folder=Path("runs"))
    assert str(found.command).replace(" --protocol causal --out runs", "").replace("  #", " #") == (
        command if command.startswith("#") else f"layerstate {command}"
    )
