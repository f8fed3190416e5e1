"""Where nothing is planted, an effect is found about as rarely as its interval says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import networks
from .measuring import cell, outcome, reading
from .networks import Network

RUNS = 24
MEANS = {"ruler": "means", "fill": "mean"}


@pytest.mark.parametrize(
    ("build", "held_from"),
    [(networks.without_state, 0.0), (networks.unused_copy, 0.5)],
    ids=["no state", "unused copy"],
)
def test_a_model_at_chance_has_a_causal_site_as_rarely_as_by_chance(
    build: Callable[[], Network], held_from: float
) -> None:
    assert rate(RUNS, build, held_from) <= 3 / RUNS


def rate(runs: int, build: Callable[[], Network] = networks.unused_copy, held_from: float = 0.5) -> float:
    """The share of runs with a causal site, were it looked for in models at chance; each has data of its own.

    2.5 % of intervals may lie above 0.
    """
    found = 0
    for run in range(runs):
        view = cell(build(), seed=run, stream=run, train=150, test=50, evaluate=200)
        causal = outcome(view, "causal", ablations=[MEANS], held_from=held_from, draws=500, clean_at_chance=0.0)
        found += reading(causal, "causal_site", **MEANS).value is not None
    return found / runs
