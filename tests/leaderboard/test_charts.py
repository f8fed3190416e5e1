"""The visual language: colours told apart and readable, labels apart, drawings that hold nothing but drawing."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layerstate.leaderboard.charts import Axis, Curve, Frame, Mark, Point, line_chart, spread
from layerstate.leaderboard.colours import DARK, LIGHT, assign_inks, contrast, stylesheet
from layerstate.leaderboard.render import Renderer

FAMILIES = ("transformer", "mamba", "mamba2", "lstm", "gru")
SHARE = Axis(0.0, 1.0, [(0.0, "0"), (1.0, "1")], "skill")


def _inks(further: int = 20, variants: int = 6):
    families = [*FAMILIES, *(f"family {number}" for number in range(further))]
    models = [(f"{family}_{number}" if number else family, family) for family in families for number in range(variants)]
    return assign_inks(models)


def test_no_two_models_share_a_colour() -> None:
    inks = _inks()
    assert len({ink.light for ink in inks.values()}) == len({ink.dark for ink in inks.values()}) == len(inks) == 150


def test_the_five_families_keep_their_colours_whoever_else_is_there() -> None:
    alone = assign_inks([(family, family) for family in FAMILIES])
    crowd = _inks()
    assert all(alone[family].light == crowd[family].light for family in FAMILIES)
    assert all(alone[family].dash == () for family in FAMILIES)


def test_variants_of_a_family_differ_in_dash_too() -> None:
    inks = assign_inks([(name, "mamba") for name in ("mamba", "mamba_a", "mamba_b")])
    assert len({ink.dash for ink in inks.values()}) == 3


def test_every_colour_can_be_read_as_text_on_its_page() -> None:
    for ink in _inks().values():
        assert min(contrast(ink.light, LIGHT.paper), contrast(ink.light, LIGHT.raised)) >= 4.5
        assert min(contrast(ink.dark, DARK.paper), contrast(ink.dark, DARK.raised)) >= 4.5
    for page in (LIGHT, DARK):
        for colour in (page.ink, page.muted, page.link, page.warn):
            assert min(contrast(colour, page.paper), contrast(colour, page.raised)) >= 4.5


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_the_stylesheet_has_both_schemes_for_every_ink() -> None:
    inks = _inks(2, 2)
    css = stylesheet(inks.values())
    light, dark = css.split("@media screen and (prefers-color-scheme: dark)")
    for ink in inks.values():
        assert f"--{ink.token}: {ink.light};" in light
        assert f"--{ink.token}: {ink.dark};" in dark


@given(st.lists(st.floats(0, 100), min_size=1, max_size=12), st.floats(1, 9))
def test_labels_keep_their_order_their_distance_and_the_plot(wanted: list[float], gap: float) -> None:
    placed = spread(wanted, gap, 0.0, 100.0)
    assert all(-1e-6 <= place <= 100 + 1e-6 for place in placed)
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index], -index))
    assert all(placed[b] - placed[a] >= gap - 1e-6 for a, b in pairwise(order))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9, unique=True))
def test_labels_that_have_room_stay_where_they_are(tens: list[int]) -> None:
    wanted = [10.0 * ten for ten in tens]
    assert spread(wanted, 10.0, 0.0, 100.0) == pytest.approx(wanted)


def test_more_labels_than_fit_share_the_room_evenly() -> None:
    assert spread([5.0] * 11, 50.0, 0.0, 100.0) == pytest.approx([100.0 - 10 * step for step in range(11)])


@pytest.fixture(scope="module")
def drawing() -> str:
    label = "<script>alert(1)</script>"
    curves = [
        Curve(label, "#1f68bc", [Point(0, 0.1, 0.0, 0.2), Point(1, 0.9, 0.8, 1.0)], shape="square"),
        Curve("", "#1f68bc", [Point(0, 0.1, 0.05, 0.2), Point(1, 0.2, 0.1, 0.3)], role="control"),
        Curve("over", "#ae4104", [Point(0, -3.0, -4.0, 9.0), Point(1, 7.0)], role="second"),
    ]
    frame = Frame(Axis(0, 1, [(0, "a"), (1, "b")]), SHARE, marks=(Mark(0.5, "chance"), Mark(1, "here", upright=True)))
    return str(Renderer({"#1f68bc": "var(--m0, #1f68bc)"})(line_chart(curves, frame), "what it shows"))


def test_text_in_a_drawing_is_escaped(drawing: str) -> None:
    assert "&lt;script&gt;alert(1)…" not in drawing
    assert "&lt;script&gt;" in drawing
    assert "<script" not in drawing


def test_a_drawing_has_no_identifiers_styles_or_links(drawing: str) -> None:
    names = set(re.findall(r' ([a-zA-Z-]+)="', drawing))
    assert not names & {"id", "class", "style", "href", "onclick", "clip-path"}
    assert set(re.findall(r"<([a-z]+)", drawing)) <= {"svg", "g", "path", "line", "text"}


def test_every_point_has_its_interval(drawing: str) -> None:
    upright = re.findall(r'<line transform="translate\([^)]*\)" x2="0" y2="[^"]*" stroke="(?:var|#ae)', drawing)
    assert len(upright) == 5


def test_values_beyond_the_axis_are_held_at_its_end(drawing: str) -> None:
    heights = [float(y) for y in re.findall(r'<path transform="translate\([\d.]+,([\d.-]+)\)"', drawing)]
    assert heights
    assert all(0 <= height <= 170 for height in heights)


def test_a_chart_that_was_drawn_is_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(Renderer, "_drawn", lambda self, spec: calls.append(spec) or "viewBox>")
    renderer = Renderer({})
    frame = Frame(Axis(0, 1, []), SHARE)
    for words in ("one", "two"):
        renderer(line_chart([Curve("a", "#1f68bc", [Point(0, 0.5)])], frame), words)
    assert len(calls) == 1
