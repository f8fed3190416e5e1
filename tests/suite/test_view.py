"""A cell's view: what is made once, what is forgotten, and what forward passes cost whom."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from layerstate.adapters import build_adapter
from layerstate.suite.runner.errors import CellFailed
from layerstate.suite.runner.view import View
from layerstate.suite.spec.schema import TaskSpec
from layerstate.tasks import load_task

from .conftest import TASK


def view(**options: int) -> View:
    task = load_task("parity", {}, "parity")
    architecture = {"type": "gru", "blocks": 2, "width": 8, "hidden": 8}
    adapter = build_adapter(
        "reference", {"architecture": architecture}, vocab_size=2, classes=2, seed=0, device="cpu", base=None
    )
    torch.set_num_threads(1)
    return View(adapter, task, TaskSpec.model_validate(TASK), 0, lambda: adapter, **options)


def test_activations_are_captured_once_and_logits_computed_once() -> None:
    cell = view()
    first = cell.activations("evaluate", 8)
    assert cell.activations("evaluate", 8) is first
    assert cell.logits("evaluate", 8) is cell.logits("evaluate", 8)


def test_only_so_much_is_held_and_the_oldest_goes_first() -> None:
    one = sum(values.nbytes for values in view().activations("evaluate", 8).values())
    cell = view(keep_bytes=int(2.6 * one))
    kept = cell.activations("evaluate", 8)
    dropped = cell.activations("probe_test", 8)
    cell.activations("evaluate", 8)
    cell.activations("evaluate", 12)
    assert cell.activations("evaluate", 8) is kept
    again = cell.activations("probe_test", 8)
    assert again is not dropped
    np.testing.assert_array_equal(again["block.1"], dropped["block.1"])


def test_a_protocol_is_charged_for_what_another_one_made() -> None:
    """Each needs the same passes; only the first had to wait for them."""
    cell = view()
    for _ in range(2):
        cell.activations("evaluate", 8)
        cell.activations("evaluate", 8)
        cell.once(("logits", 1), lambda: cell.logits("evaluate", 8))
        needed, shared = cell.take_forward_seconds()
        assert needed > 0
        if _ == 0:
            first, shared_first = needed, shared
    assert shared_first == 0
    assert shared == pytest.approx(needed)
    assert needed == pytest.approx(first)


def test_what_is_made_once_is_made_once_a_key() -> None:
    cell, made = view(), []
    for key in ("a", "b", "a"):
        assert cell.once((key,), lambda key=key: made.append(key) or key) == key
    assert made == ["a", "b"]


def test_a_related_cell_that_was_not_declared_is_an_error() -> None:
    with pytest.raises(CellFailed, match="asks for the related cell 'near' and declares none"):
        view().related("near")
