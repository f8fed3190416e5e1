"""Logit differences and recovery."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from layerstate.suite.measure.patching import last_differing, logit_differences, recovery


def test_the_last_position_that_differs_is_found_and_sequences_alike_have_none() -> None:
    clean_BL = np.array([[0, 1, 2, 3], [0, 0, 0, 0], [1, 1, 1, 1], [5, 0, 0, 0]])
    corrupt_BL = np.array([[0, 2, 1, 3], [0, 0, 0, 0], [1, 1, 1, 2], [4, 0, 0, 0]])
    np.testing.assert_array_equal(last_differing(clean_BL, corrupt_BL), [2, -1, 3, 0])


def test_a_logit_difference_is_that_of_the_two_classes_at_the_position_asked_for() -> None:
    logits_BLC = np.arange(24, dtype=np.float32).reshape(2, 3, 4) ** 2
    found = logit_differences(logits_BLC, np.array([2, 0]), np.array([3, 1]), np.array([0, 2]))
    np.testing.assert_array_equal(found, [11.0**2 - 8.0**2, 13.0**2 - 14.0**2])


def test_recovery_is_0_as_corrupted_1_as_clean_and_goes_beyond() -> None:
    clean, corrupt = np.array([4.0, 4.0, 4.0, -1.0]), np.array([-2.0, -2.0, -2.0, 1.0])
    found = recovery(np.array([-2.0, 4.0, 7.0, 0.5]), clean, corrupt)
    np.testing.assert_array_equal(found, [0.0, 1.0, 1.5, 0.25])


def test_rounding_of_single_precision_is_no_recovery() -> None:
    corrupt = np.array([-16.0])
    patched = np.float32(-16.0).astype(np.float64) + np.spacing(np.float32(16.0))
    assert recovery(np.array([patched]), np.array([16.0]), corrupt)[0] == 0.0


@given(st.floats(-50, 50), st.floats(-50, 50), st.floats(0.1, 10), st.floats(-10, 10), st.floats(-1, 2))
def test_recovery_does_not_depend_on_the_scale_or_origin_of_the_logits(
    clean: float, corrupt: float, scale: float, shift: float, share: float
) -> None:
    if abs(clean - corrupt) < 0.1:
        return
    runs = [np.array([each]) for each in (corrupt + share * (clean - corrupt), clean, corrupt)]
    moved = [scale * each + shift for each in runs]
    np.testing.assert_allclose(recovery(*moved), share, atol=2e-6)
    np.testing.assert_allclose(recovery(*moved), recovery(*runs), atol=2e-6)
