"""Planted networks as cells, and what the protocols say about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from layerstate.adapters.module import ModuleAdapter
from layerstate.suite.protocols import CellView, Outcome, Reading, load_protocol
from layerstate.suite.runner.view import View
from torch import nn

from .networks import without_state
from .task import RunningSum, task_spec


def adapter(network: nn.Module, classes: int) -> ModuleAdapter:
    # Planted blocks know the tokens beside the residual stream, so that a pass can't go on without them.
    return ModuleAdapter.from_blocks(network, classes=classes, batch_size=512, resumable=False)


def cell(network: nn.Module, classes: int = 2, *, seed: int = 0, stream: int = 0, **sizes: int) -> CellView:
    """A planted network as a trained cell; before any training it holds no state. `stream` chooses the data."""
    untrained = without_state(classes)
    task, spec = RunningSum(classes, stream), task_spec(classes, **sizes)
    return View(adapter(network, classes), task, spec, seed, lambda: adapter(untrained, classes))


def outcome(view: CellView, protocol: str, **params: Any) -> Outcome:
    code = load_protocol(protocol)
    return code.measure(view, code.params.model_validate(params))


def reading(found: Outcome, metric: str, **at: Any) -> Reading:
    """The one reading of a metric at these coordinates."""
    matches = [each for each in found.readings if each.metric == metric and dict(each.at) == at]
    assert len(matches) == 1, f"{metric} at {at}: {len(matches)} readings"
    return matches[0]


def value(found: Outcome, metric: str, **at: Any) -> float:
    """Its number, which must be there."""
    number = reading(found, metric, **at).value
    assert isinstance(number, float), f"{metric} at {at} is {number!r}"
    return number


FILLS: Mapping[str, str] = {"means": "mean", "probe": "zero", "probe_per_feature": "zero"}
"""The fill that goes with each ruler by default."""
