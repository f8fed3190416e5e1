"""A claim that no number can decide is wrong where it is written, and is not judged."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from layerstate.suite.spec.claimed_names import Measured
from layerstate.suite.spec.claimed_values import value_of
from layerstate.suite.spec.load import builtin_names, find_spec, load_spec, validate_deep
from layerstate.suite.spec.schema import ProtocolSpec
from layerstate.tasks.errors import SpecError

from .test_claims_spec import CLAIM, claims_file

SHAPE: dict[str, Any] = {"metric": "probe_profile.shape", "at": {"variable": "$target", "on": "skill"}}
ACCURACY: dict[str, Any] = {"metric": "behaviour.accuracy", "at": {"length": "$train"}}
EFFECT: dict[str, Any] = {"metric": "causal.effect", "at": {"ruler": "means", "fill": "mean", "site": "$last"}}
SITE: dict[str, Any] = {"metric": "causal.causal_site", "at": {"ruler": "means", "fill": "mean"}}
SKILL: dict[str, Any] = {"metric": "behaviour.ood_skill"}
OVER: dict[str, Any] = {"over": "site", "reduce": "max"}
HALF: dict[str, Any] = {"at_least": 0.5}


def at(expect: dict[str, Any], **places: Any) -> dict[str, Any]:
    """The expectation with other coordinates; None leaves one out."""
    return expect | HALF | {"at": {k: v for k, v in (expect.get("at", {}) | places).items() if v is not None}}


VALUES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a number of a word": (
        SHAPE | HALF,
        "at_least",
        r"is a word, no number — equals or one_of with `unreadable`, `early`",
    ),
    "a number of a site": (
        SITE | {"equals": 2},
        "equals",
        r"the name of a site.* the number `causal.causal_site_index`",
    ),
    "an effect of a word": (SHAPE | {"not_significant": True}, "not_significant", r"is a word, no number"),
    "an order of words": (SHAPE | {"order": [["gru"], ["lstm"]]}, "order", r"is a word, no number"),
    "more than of words": (
        SHAPE | {"more_than": {"metric": "causal.gap", "at": SITE["at"]}},
        "more_than",
        r"is a word",
    ),
    "a number above a word": (ACCURACY | {"more_than": SHAPE}, "more_than.metric", r"is no number — .* both sides"),
    "a word of a number": (ACCURACY | {"equals": "gradual"}, "equals", r"is a number \(share\), no word"),
    "a quoted number": (
        ACCURACY | {"one_of": ["0.9"]},
        "one_of",
        r"no word — .* would be right; write numbers without quotes",
    ),
    "a misspelt word": (SHAPE | {"equals": "gradaul"}, "equals", r"no word of .* did you mean `gradual`\?"),
    "one misspelt word of two": (SHAPE | {"one_of": ["late", "erly"]}, r"one_of\[1\]", r"did you mean `early`\?"),
    "no site": (SITE | {"equals": "blok.2"}, "equals", r"`blok.2` is no site — `embed`, `block.0`"),
}
VALUES["tied sites as a number"] = (
    SHAPE | HALF | {"metric": "probe_profile.tie_set"},
    "at_least",
    r"is a word, no number",
)
COORDINATES: dict[str, tuple[dict[str, Any], str, str]] = {
    "misspelt": (at(ACCURACY, lenght=8, length=None), "at.lenght", r"no coordinate `lenght` — did you mean `length`\?"),
    "another metric's": (at(ACCURACY, site="embed"), "at.site", r"no coordinate `site` — `length` would be right"),
    "of a metric without": (at(SKILL, length=8), "at.length", r"has no coordinates, so no `length` — leave it out"),
    "none": ({"metric": "behaviour.accuracy"} | HALF, "metric", r"`length` is missing — \{length: \$train\} in `at`"),
    "too few": (
        at(EFFECT, site=None, fill=None),
        "at",
        r"`site` and `fill` are missing — \{site: \$last, fill: mean\}",
    ),
    "misspelt placeholder": (
        at(ACCURACY, length="$trian"),
        "at.length",
        r"`\$trian` stands for nothing — did you mean",
    ),
    "wrong placeholder": (
        at(EFFECT, site="$train"),
        "at.site",
        r"stands for a length — `embed`, .* or `\$last` would be",
    ),
    "placeholder for a word": (at(EFFECT, fill="$mean"), "at.fill", r"did you mean `mean`\? \(`mean` or `zero`\)"),
    "text for a length": (
        at(ACCURACY, length="8"),
        "at.length",
        r"a whole number.* would be right; write it without quotes",
    ),
    "a length below 1": (at(ACCURACY, length=0), "at.length", r"the number 0 — a length"),
    "number for a site": (at(EFFECT, site=2), "at.site", r"the number 2 — `embed`, `block.0`"),
    "number for a variable": (at(SHAPE, variable=2), "at.variable", r"or `\$target` would be right"),
    "unknown word": (at(EFFECT, ruler="mean"), "at.ruler", r"did you mean `means`\?"),
    "over a misspelt one": (
        at(EFFECT, site=None) | {"over": "sites", "reduce": "max"},
        "over",
        r"did you mean `site`\?",
    ),
    "over one that is given": (at(EFFECT) | OVER, "over", r"it can't stand in `at` too"),
    "of the other metric": (
        ACCURACY | {"more_than": {**SKILL}},
        "more_than.metric",
        r"no `length` — write `at: \{\}` here",
    ),
}
SELVES: dict[str, tuple[dict[str, Any], str, str]] = {
    "no model": (SKILL | HALF | {"model": []}, "model", r"at least one entry is needed"),
    "no task": (SKILL | HALF | {"task": []}, "task", r"at least one entry is needed"),
    "a model twice": (SKILL | HALF | {"model": ["gru", "gru"]}, "model", r"`gru` stands twice"),
    "a word twice": (SHAPE | {"one_of": ["late", "late"]}, "one_of", r"`late` stands twice"),
    "empty groups": (SKILL | {"order": [[], []]}, r"order\[0\]", r"at least one entry is needed"),
    "an order of one": (SKILL | {"order": [["gru"]]}, "order", r"a list of 1 — at least 2 entries are needed"),
    "a model above itself": (SKILL | {"order": [["gru"], ["gru"]]}, r"order\[1\]\[0\]", r"`gru` stands twice"),
    "more than itself": (SKILL | {"model": "gru", "more_than": SKILL}, "more_than", r"is compared with itself"),
    "one more than itself": (
        SKILL | {"model": ["gru", "lstm"], "more_than": SKILL | {"model": "gru"}},
        "more_than",
        r"is compared with itself",
    ),
    "no effect, denied": (
        SKILL | {"not_significant": False},
        "not_significant",
        r"^.*false — true would be right, or at_",
    ),
    "tolerance of a bound": (SKILL | HALF | {"tolerance": 0.1}, "tolerance", r"`at_least` takes none — it belongs to"),
    "tolerance of a word": (
        SHAPE | {"equals": "late", "tolerance": 0.1},
        "tolerance",
        r"`equals` with a word takes none",
    ),
    "tolerance of words": (
        SHAPE | {"one_of": ["late"], "tolerance": 0.1},
        "tolerance",
        r"`one_of` with a word takes none",
    ),
    "tolerance of no effect": (SKILL | {"not_significant": True, "tolerance": 0.0}, "tolerance", r"takes none"),
}


def problems(path: Path, measured: Measured | None = None) -> str:
    with pytest.raises(SpecError) as error:
        validate_deep(load_spec(path), measured)
    return str(error.value)


@pytest.mark.parametrize("case", [*VALUES, *COORDINATES, *SELVES])
def test_an_expectation_that_nothing_can_decide_is_wrong_at_its_place(tmp_path: Path, case: str) -> None:
    expect, place, said = (VALUES | COORDINATES | SELVES)[case]
    path = claims_file(tmp_path, CLAIM | {"expect": expect})
    found = problems(path).splitlines()
    assert any(
        re.search(rf"claims\.yaml:\d+:\d+: claims\[0\]\.expect\.{place}: ", line) and re.search(said, line)
        for line in found
    ), found


@pytest.mark.parametrize(
    "expect",
    [
        at(EFFECT, site=None) | OVER,
        at(EFFECT, site="embed"),
        at(ACCURACY, length=60),
        SHAPE | {"one_of": ["early", "unreadable"]},
        SITE | {"equals": "block.11"},
        SKILL | {"model": ["gru", "lstm"], "more_than": SKILL | {"task": "s3"}, "task": "dyck", "tolerance": 0.0},
        ACCURACY | {"more_than": {**SKILL, "at": {}}},
        {"metric": "patching.recovery", "at": {"site": "$last", "read": "self", "trivial": "true"}} | HALF,
        {"metric": "patching.recovery", "at": {"site": "$last", "read": "self"}} | HALF,
    ],
)
def test_what_a_number_can_decide_is_right(tmp_path: Path, expect: dict[str, Any]) -> None:
    validate_deep(load_spec(claims_file(tmp_path, CLAIM | {"expect": expect})))


def test_a_control_is_looked_up_where_the_expectation_is(tmp_path: Path) -> None:
    validate_deep(
        load_spec(claims_file(tmp_path, CLAIM | {"expect": ACCURACY | HALF, "beside": {"metric": "behaviour.skill"}}))
    )
    found = problems(claims_file(tmp_path, CLAIM | {"expect": ACCURACY | HALF, "beside": SKILL}))
    assert "beside.metric: `behaviour.ood_skill` has no coordinates, so no `length` — write `at: {}` here" in found


@pytest.mark.parametrize(
    ("claims", "place", "said"),
    [
        ([CLAIM | {"source": {}}], r"\[0\]\.source", "an empty mapping"),
        ([CLAIM | {"replaced_by": "one", "status": "withdrawn"}], r"\[0\]\.replaced_by", "replaced by itself"),
        ([CLAIM, CLAIM | {"id": "two", "replaced_by": "one"}], r"\[1\]\.replaced_by", "yet it stands"),
        (
            [CLAIM | {"id": a, "replaced_by": b, "status": "withdrawn"} for a, b in (("a", "b"), ("b", "a"))],
            r"\[0\]\.replaced_by",
            "a → b → a goes round in a circle",
        ),
        ([CLAIM, CLAIM], r"\[1\]\.id", "two claims with the id"),
    ],
)
def test_a_claim_that_refers_to_nothing_or_itself_is_wrong_at_its_place(
    tmp_path: Path, claims: list[dict[str, Any]], place: str, said: str
) -> None:
    assert re.search(rf"claims\.yaml:\d+:\d+: claims{place}: .*{said}", problems(claims_file(tmp_path, *claims)))


def test_a_misspelt_name_is_wrong_and_one_of_ones_own_is_right_where_it_is_declared_or_measured(tmp_path: Path) -> None:
    expect = SKILL | HALF | {"model": ["grru", "gru"], "task": "parityy"}
    path = claims_file(tmp_path, CLAIM | {"expect": expect})
    found = problems(path)
    assert "expect.model[0]: no model `grru` is built in — did you mean `gru`?" in found
    assert "expect.task: no task `parityy` is built in — did you mean `parity`?" in found
    validate_deep(load_spec(path), Measured("runs", frozenset({"grru"}), frozenset({"parityy"})))
    validate_deep(load_spec(claims_file(tmp_path, CLAIM | {"expect": expect}, models=["grru"], tasks=["parityy"])))


def test_a_name_that_nobody_has_is_wrong_once_there_is_a_folder_to_look_in(tmp_path: Path) -> None:
    expect = SKILL | {"order": [["gru"], ["somebody"]]}
    path = claims_file(tmp_path, CLAIM | {"expect": expect}, suite="quick")
    validate_deep(load_spec(path))
    found = problems(path, Measured("runs", frozenset({"gru"}), frozenset({"parity"})))
    assert "expect.order[1][0]: no model `somebody` is built in or measured in runs — " in found
    assert "the list `models`" in found


def test_a_misspelt_suite_is_wrong(tmp_path: Path) -> None:
    assert "suite: no suite is called `quikc` — did you mean `quick`?" in problems(claims_file(tmp_path, suite="quikc"))


@pytest.mark.parametrize("name", builtin_names("protocol"))
def test_every_built_in_metric_declares_where_it_stands_and_what_it_is(name: str) -> None:
    spec = validate_deep(find_spec("protocol", name)).spec
    assert isinstance(spec, ProtocolSpec)
    for metric, declared in spec.metrics.items():
        assert declared.at is not None, metric
        assert value_of(declared) is not None, metric
    used = {name for declared in spec.metrics.values() for name in [*(declared.at or []), *declared.sometimes]}
    assert used == set(spec.coordinates)


def test_a_protocol_declares_the_coordinates_that_its_metrics_have(workshop: Any) -> None:
    answer = {"title": "the answer", "unit": "share", "direction": "none", "at": ["sites"]}
    path = workshop.protocol(metrics={"answer": answer}, coordinates={"site": "site"})
    assert re.search(r"metrics\.answer\.at\[0\]: `sites` is not declared — did you mean `site`\?", problems(path)), (
        os.fspath(path)
    )


def test_a_protocol_that_measures_elsewhere_than_it_declares_fails_and_says_so(workshop: Any) -> None:
    answer = {"title": "the answer", "unit": "share", "direction": "none", "at": ["site"]}
    workshop.protocol(metrics={"answer": answer}, coordinates={"site": "site"})
    workshop.suite(protocols=["behaviour", "./mine_protocol.yaml"])
    assert workshop.run().exit_code == 3
    (failure,) = workshop.failures()
    assert "gives answer at no coordinates, and its YAML declares site" in str(failure)
