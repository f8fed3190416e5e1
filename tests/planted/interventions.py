"""Rows of the planted-truth table for the protocols that intervene, and how often they find what is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from layerstate.suite.protocols import Related

from . import (
    networks,
    parts,
    subspaces,
    test_attribution,
    test_grouping,
    test_necessity,
    test_ood_ablation,
    test_patching,
    test_subspace,
)
from . import test_null_effect as test_causal
from .measuring import cell, outcome, reading, value

PROBE, MEANS = {"ruler": "probe", "fill": "mean"}, {"ruler": "means", "fill": "mean"}
Row = tuple[str, str, str, str, bool]
"""Protocol, network, what was planted, what was found, and whether it is the same."""

RATES: dict[str, Callable[[int], float]] = {
    "causal: a causal site, class means": test_causal.rate,
    "subspace: an effect, class means, k = 1": test_subspace.rate,
    "subspace: an effect, principal directions, k = 4": lambda runs: test_subspace.rate(runs, "pca", 4),
    "ood_ablation: an effect, class means": test_ood_ablation.rate,
    "ood_ablation: an effect, probe": lambda runs: test_ood_ablation.rate(runs, "probe"),
    "necessity: necessary, INLP": lambda runs: test_necessity.rate(networks.unused_copy, runs, "inlp"),
    "necessity: necessary, LEACE": lambda runs: test_necessity.rate(networks.unused_copy, runs, "leace"),
    "component_attribution: an effect": test_attribution.rate,
    "patching: a recovery": test_patching.rate,
}
"""The share of so many simulated runs in which a protocol claims what is not there."""


def rows() -> Iterator[Row]:
    """Everything measured, one protocol after the other."""
    yield from _necessity()
    yield from _subspace()
    yield from _ood_ablation()
    yield from _attribution()
    yield from _patching()
    yield from _grouping()


def _necessity() -> Iterator[Row]:
    for name, planted in test_necessity.PLANTED.items():
        view = cell(planted.build(), planted.classes, **test_necessity.LARGE)
        found = outcome(view, "necessity", sites=["block.1"])
        at = {"site": "block.1", "method": "inlp"}
        verdict, rank = reading(found, "verdict", **at).value, reading(found, "erased_rank", **at).value
        enough = reading(found, "single_direction_is_enough", site="block.1", **PROBE).value
        shown = f"{verdict}, erased at rank {rank:g}; one probe is enough: {enough}"
        wanted = f"{planted.verdict}, erased at rank {planted.rank:g}; one probe is enough: {planted.enough}"
        yield "necessity", name, wanted, shown, shown == wanted
    found = outcome(cell(networks.redundant()), "necessity", sites=["block.1"])
    drop = value(found, "single_direction_drop", site="block.1", **PROBE)
    reversed_ = reading(found, "verdict_reversed", site="block.1", method="inlp", **PROBE).value
    refit = value(found, "single_direction_refit_accuracy", site="block.1", **PROBE)
    shown = f"one probe: drop {drop:.1f}, refit {refit:.2f}; erasure reverses the verdict: {reversed_}"
    wanted = "one probe: drop 0, refit 1; erasure reverses the verdict: yes"
    yield "necessity", "two redundant copies", wanted, shown, abs(drop) < 0.1 and refit > 0.99 and reversed_ == "yes"
    found = outcome(cell(networks.ignored_copy()), "necessity", sites=["block.1"])
    words = {method: reading(found, "verdict", site="block.1", method=method).value for method in ("inlp", "leace")}
    yield "necessity", "ignored copy", "not_necessary", str(words["inlp"]), set(words.values()) == {"not_necessary"}


def _subspace() -> Iterator[Row]:
    found = test_subspace.measured(lambda: networks.spread(5, networks.simplex(5)), 5)
    at = {"site": "block.1", "basis": "class_means"}
    effects = [value(found, "effect", k=k, **at) for k in (1, 2, 4)]
    shown = "effect " + ", ".join(f"{effect:.1f}" for effect in effects) + " at k = 1, 2, 4"
    right = abs(effects[2] - 80) < 3 and effects[0] < 25 and effects[1] < 60
    yield "subspace", "five classes on four directions", "effect 80 at k = 4, less before", shown, right


def _ood_ablation() -> Iterator[Row]:
    found = test_ood_ablation.measured(subspaces.other_copy_beyond_training(), ablations=[MEANS])
    share = value(found, "ood_effect_share", site="block.1", **MEANS)
    shown = f"share of the effect left at twice the length: {share:.2f}"
    yield "ood_ablation", "another copy beyond training", "half of the effect is left", shown, abs(share - 0.5) < 0.06


def _attribution() -> Iterator[Row]:
    cases = (
        ("convolution that carries the state", parts.convolving("state"), None, -50.0),
        ("the same, on a task without a state", parts.convolving("token"), test_attribution.OwnSummand(2), 0.0),
    )
    for name, network, task, planted in cases:
        found = test_attribution.measured(test_attribution.view_of(network, task), retrain=False)
        effect = value(found, "posthoc_effect", mode="bypass", length=test_attribution.LENGTHS[0])
        yield "conv1d_attribution", name, f"bypass {planted:g}", f"bypass {effect:.1f}", abs(effect - planted) < 3
    for name, build, planted in (
        ("twin that never learns", networks.without_state, -50.0),
        ("twin that learns", lambda: networks.written_at(2), 0.0),
    ):
        twin: Related = test_attribution.twin_of(build())
        found = test_attribution.measured(test_attribution.view_of(parts.convolving("state")), twin)
        effect = value(found, "retrain_effect", length=test_attribution.LENGTHS[0])
        yield "conv1d_attribution", name, f"retrained {planted:g}", f"retrained {effect:.1f}", abs(effect - planted) < 3


def _patching() -> Iterator[Row]:
    cases: tuple[tuple[str, Callable[[], networks.Network], list[float], list[float]], ...] = (
        ("state computed from the stream", networks.token_in_stream, [1, 1, 1, 1, 1], [1, 1, 1, 0, 0]),
        ("state handed on at block 1", parts.handed_on, [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]),
        ("0.7 of it written early", lambda: parts.in_two_parts(0.7), [0, 0, 0.7, 0.7, 1], [0, 0, 0, 0, 0]),
    )
    for name, build, own, downstream in cases:
        view = cell(build(), **test_patching.SIZES)
        found = [test_patching.recoveries(view, read) for read in ("self", "downstream")]
        right = all(
            abs(a - b) < 1e-5
            for values, planted in zip(found, (own, downstream), strict=True)
            for a, b in zip(values, planted, strict=True)
        )
        yield "patching", name, f"{_row(own)} | {_row(downstream)}", f"{_row(found[0])} | {_row(found[1])}", right


def _grouping() -> Iterator[Row]:
    cases = (
        ("S3 at block 1 as Parity, Dyck at 3", (1, 1, 3), 0.4),
        ("S3 at block 0, Parity at 3, Dyck at 1", (0, 3, 1), -0.4),
    )
    for name, blocks, planted in cases:
        found = test_grouping.measured(*(networks.written_at(block) for block in blocks))
        number = value(found, "grouping")
        yield "grouping", name, f"{planted:+.1f}", f"{number:+.2f}", abs(number - planted) < 0.03


def _row(values: list[float]) -> str:
    return " ".join(f"{number + 0.0:.2g}" for number in values)
