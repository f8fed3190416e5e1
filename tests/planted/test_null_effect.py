"""Where nothing is planted, an effect is found about as rarely as its interval says."""

from __future__ import annotations

from . import networks
from .measuring import cell, outcome, reading

RUNS = 24
MEANS = {"ruler": "means", "fill": "mean"}


def test_a_network_without_state_has_an_effect_as_rarely_as_by_chance() -> None:
    """Each run has data and random subspaces of its own; 2.5 % of intervals may lie above 0, and far from all may."""
    found = 0
    for run in range(RUNS):
        view = cell(networks.without_state(), seed=run, stream=run, train=150, test=50, evaluate=200)
        causal = outcome(view, "causal", ablations=[MEANS], held_from=0.0)
        found += reading(causal, "causal_site", **MEANS).value is not None
    assert found <= 3
