"""The canonical text under an identity: one for equal values, another for any others."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layerstate.suite.spec.identity import canonical, digest


def test_canonical_texts() -> None:
    assert canonical({"b": [1.0, -0.0, 1e-4, 0.1], "a": {"é": None, "c": True}}) == (
        '{"a":{"c":true,"\\u00e9":null},"b":[1,0,0.0001,0.1]}'
    )
    assert canonical(True) != canonical(1)
    assert canonical("1") != canonical(1)
    assert canonical([]) != canonical({})
    assert canonical((1, 2)) == canonical([1, 2])


@pytest.mark.parametrize("value", [math.nan, math.inf, [-math.inf]])
def test_what_json_cannot_say_has_no_canonical_text(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical(value)


@pytest.mark.parametrize("value", [{1: 2}, {1, 2}, b"a", object()])
def test_other_types_have_no_canonical_text(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical(value)


def test_values_for_different_purposes_never_share_a_digest() -> None:
    assert digest({}, "cell") != digest({}, "measurement")
    assert len(digest({})) == 64


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values, in which true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


@given(JSON, JSON)
def test_two_values_share_a_canonical_text_exactly_if_they_are_equal(left: Any, right: Any) -> None:
    assert (canonical(left) == canonical(right)) == same(left, right)
