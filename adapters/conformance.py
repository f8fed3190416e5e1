"""The conformance check: whether an adapter reads and edits the model it wraps, and nothing else.

Each check compares numbers that must agree (or differ), and reports the site and the size of the worst difference.
Limits are for float32, relative to the size of the numbers where that is above 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tasks.errors import LayerstateError
from .base import Adapter, AdapterError, Edit, FloatArray, IntArray
from .running import ModelRuns

__all__ = ["CheckResult", "check"]

SAME = 1e-5
"""Largest relative difference between two passes that do the same arithmetic."""
CLOSE = 1e-4
"""Largest relative difference between two passes that do the same sums in another order."""
SEQUENCES = 32
FEW = 4


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check.

    Attributes
    ----------
    name : str
        The check: ``sites``, ``bare_model``, ``deterministic``, ``causal``, ``capture``, ``identity_edit``,
        ``random_edit``, ``batch_size``, ``head``, ``resume`` or ``ablation``.
    passed : bool
        Whether the model keeps this rule.
    site : str
        Where the difference is largest: a site, ``logits``, or ``component.mode`` for an ablation.
    difference : float or None
        The largest absolute difference found there; None where the check ended in an error.
    limit : float or None
        The most it may be (for ``random_edit`` and ``ablation``: what it must exceed).
    message : str
        One sentence for a person.
    """

    name: str
    passed: bool
    site: str
    difference: float | None
    limit: float | None
    message: str


@dataclass(frozen=True)
class Subject:
    """The adapter under test with one batch of random tokens."""

    adapter: Adapter
    tokens: IntArray
    vocab_size: int
    rng: np.random.Generator

    @cached_property
    def logits(self) -> FloatArray:
        """The logits of the untouched model."""
        return self.adapter.logits(self.tokens)

    def limit(self, relative: float, values: NDArray[Any] | None = None) -> float:
        """The absolute limit for numbers of the size of `values` (the logits by default)."""
        return relative * max(1.0, float(np.abs(self.logits if values is None else values).max()))


Check = Callable[[Subject], CheckResult]


def check(adapter: Adapter, vocab_size: int, *, length: int, rng: np.random.Generator) -> list[CheckResult]:
    """Run every check on random tokens.

    Parameters
    ----------
    adapter : Adapter
        The wrapped model; it is left as it was.
    vocab_size : int
        Number of tokens, at least 2.
    length : int
        Length of the sequences, at least 2.
    rng : numpy Generator
        Draws the tokens and the random edits.

    Returns
    -------
    list of CheckResult
        One a check, and one an ablation mode of each component. A check that ends in a `LayerstateError` has failed;
        if ``sites`` has, it stands alone, since every other check reads the sites.

    Raises
    ------
    AdapterError
        If `vocab_size` or `length` is below 2: nothing could be changed, or come before a change.
    """
    if vocab_size < 2 or length < 2:
        raise AdapterError(f"The check needs at least 2 tokens and length 2, not {vocab_size} and {length}.")
    tokens = rng.integers(0, vocab_size, (SEQUENCES, length), dtype=np.int64)
    subject = Subject(adapter, tokens, vocab_size, rng)
    sites = _outcome("sites", "sites", _sites, subject)
    if not sites.passed:
        return [sites]
    return [sites, *(_outcome(name, site, run, subject) for name, site, run in _checks(adapter))]


def _checks(adapter: Adapter) -> Iterator[tuple[str, str, Check]]:
    """Each check after the first, with its name and the place to name if it ends in an error."""
    yield "bare_model", "logits", _bare_model
    yield "deterministic", "logits", _deterministic
    yield "causal", "logits", _causal
    # Passes for every site: a few sequences show what there is, also in a model of a hundred million parameters.
    yield "capture", "logits", _on_few(_capture)
    yield "identity_edit", "logits", _on_few(_identity_edit)
    yield "random_edit", "logits", _on_few(_random_edit)
    yield "batch_size", "logits", _batch_size
    yield "head", adapter.sites[-1], _head
    yield "resume", "logits", _on_few(_resume)
    for component, modes in adapter.components.items():
        for mode in modes:
            yield "ablation", f"{component}.{mode}", partial(_ablation, component=component, mode=mode)


def _outcome(name: str, site: str, run: Check, subject: Subject) -> CheckResult:
    try:
        return run(subject)
    except LayerstateError as error:
        return CheckResult(name, False, site, None, None, f"{name} failed at {site}: {error}")


def _sites(subject: Subject) -> CheckResult:
    """n blocks give n + 1 sites, each (batch, length, width); they and the logits are finite."""
    sites = tuple(subject.adapter.sites)
    expected = ("embed", *(f"block.{index}" for index in range(len(sites) - 1)))
    if len(sites) < 2 or sites != expected:
        raise AdapterError(f"The sites are embed, block.0, block.1 … in order, not {', '.join(sites) or 'none'}.")
    captured = subject.adapter.capture(subject.tokens)
    if tuple(captured) != sites:
        raise AdapterError(f"A capture gave the sites {', '.join(captured) or 'none'}, not {', '.join(sites)}.")
    for site, values in captured.items():
        if values.ndim != 3 or values.shape[:2] != subject.tokens.shape:
            raise AdapterError(f"{site} has shape {values.shape}, not (batch, length, width).")
    for place, values in (captured | {"logits": subject.logits}).items():
        if not np.isfinite(values).all():
            raise AdapterError(f"{place} holds values that are not finite.")
    return CheckResult("sites", True, "sites", 0.0, 0.0, f"sites passed: {len(sites) - 1} blocks, {len(sites)} sites.")


def _bare_model(subject: Subject) -> CheckResult:
    """The adapter's logits are those of the module called directly."""
    import torch

    module = subject.adapter.module
    training = [part for part in module.modules() if part.training]
    module.eval()
    with torch.no_grad(), ModelRuns(subject.tokens.shape):
        logits_BLC = module(torch.as_tensor(subject.tokens, device=subject.adapter.device))
    bare = logits_BLC.to("cpu", torch.float32).numpy()
    for part in training:
        part.training = True
    return _agree(subject, "bare_model", {"logits": _difference(subject.logits, bare)}, CLOSE)


def _on_few(run: Check) -> Check:
    return lambda subject: run(replace(subject, tokens=subject.tokens[:FEW]))


def _deterministic(subject: Subject) -> CheckResult:
    """Two evaluations of the same tokens give the same logits."""
    again = subject.adapter.logits(subject.tokens)
    return _agree(subject, "deterministic", {"logits": _difference(subject.logits, again)}, SAME)


def _causal(subject: Subject) -> CheckResult:
    """Changing token t changes no activation and no logit before t."""
    tokens = subject.tokens[:FEW]
    length = tokens.shape[1]
    before = _everything(subject, tokens)
    worst = dict.fromkeys(before, 0.0)
    for t in sorted({1, length // 2, length - 1, int(subject.rng.integers(1, length))}):
        changed = tokens.copy()
        changed[:, t] = (changed[:, t] + subject.rng.integers(1, subject.vocab_size, len(tokens))) % subject.vocab_size
        for site, after in _everything(subject, changed).items():
            scale = max(1.0, float(np.abs(before[site]).max()))
            worst[site] = max(worst[site], _difference(before[site][:, :t], after[:, :t]) / scale)
    first = next((site for site, value in worst.items() if value > SAME), None)
    site = first or max(worst, key=lambda name: worst[name])
    return _result("causal", first is None, site, worst[site], SAME, AHEAD)


AHEAD = (
    "a later token changes earlier positions. A state is asked for at each position, from the tokens up to it; a model "
    "that looks ahead, as encoders do, has no such place. Give it a causal mask, or a causal configuration"
)


def _everything(subject: Subject, tokens: IntArray) -> dict[str, FloatArray]:
    return subject.adapter.capture(tokens) | {"logits": subject.adapter.logits(tokens)}


def _capture(subject: Subject) -> CheckResult:
    """Reading activations changes no logits, and gives the same numbers for one site, for all, and by position."""
    captured = subject.adapter.capture(subject.tokens)
    found = {"logits": _difference(subject.logits, subject.adapter.logits(subject.tokens))}
    positions = subject.rng.integers(0, subject.tokens.shape[1], (len(subject.tokens), 3))
    rows = np.arange(len(subject.tokens))[:, None]
    for site, values in captured.items():
        scale = max(1.0, float(np.abs(values).max()))
        alone = subject.adapter.capture(subject.tokens, [site])[site]
        chosen = subject.adapter.capture(subject.tokens, [site], positions)[site]
        found[site] = max(_difference(values, alone), _difference(values[rows, positions], chosen)) / scale
    return _agree(subject, "capture", found, SAME)


def _identity_edit(subject: Subject) -> CheckResult:
    """An edit that returns what it was given changes no logits."""
    found: dict[str, float] = {}
    for site in subject.adapter.sites:
        found[site] = _difference(subject.logits, _edited(subject, site, lambda h_BLD: h_BLD.clone()))
    return _agree(subject, "identity_edit", found, SAME)


def _random_edit(subject: Subject) -> CheckResult:
    """A large random edit changes the logits, at every site."""
    found: dict[str, float] = {}
    for site, values in subject.adapter.capture(subject.tokens[:1]).items():
        noise = subject.rng.normal(0.0, 1.0 + 3.0 * float(values.std()), subject.tokens.shape + values.shape[2:])
        found[site] = _difference(subject.logits, _edited(subject, site, partial(_add, noise)))
    site = min(found, key=lambda name: found[name])
    limit = subject.limit(SAME)
    return _result(
        "random_edit",
        found[site] > limit,
        site,
        found[site],
        limit,
        "a random edit here leaves all logits as they were",
    )


def _add(noise: NDArray[Any], h_BLD: Any) -> Any:
    return h_BLD + h_BLD.new_tensor(noise[: len(h_BLD)])


def _edited(subject: Subject, site: str, edit: Edit) -> FloatArray:
    with subject.adapter.edit({site: edit}):
        return subject.adapter.logits(subject.tokens)


def _batch_size(subject: Subject) -> CheckResult:
    """A sequence has the same logits alone as in a batch of 32."""
    alone = np.concatenate([subject.adapter.logits(row[None]) for row in subject.tokens])
    return _agree(subject, "batch_size", {"logits": _difference(subject.logits, alone)}, CLOSE)


def _head(subject: Subject) -> CheckResult:
    """The last site, read by the model's own head, gives the model's logits."""
    last = subject.adapter.sites[-1]
    read = subject.adapter.head(subject.adapter.capture(subject.tokens, [last])[last])
    return _agree(subject, "head", {last: _difference(subject.logits, read)}, CLOSE)


def _resume(subject: Subject) -> CheckResult:
    """The forward pass that goes on from clean activations gives the model's logits, from every site."""
    found = {
        site: _difference(subject.logits, subject.adapter.resume(subject.tokens, site, h_BLD))
        for site, h_BLD in subject.adapter.capture(subject.tokens).items()
    }
    return _agree(subject, "resume", found, CLOSE)


def _ablation(subject: Subject, component: str, mode: str) -> CheckResult:
    """The ablation fires in every block that has the component, and is gone afterwards.

    An ablation that fires and changes nothing passes with a remark: a fresh model may write zeros there.
    """
    with subject.adapter.ablate(component, mode) as fired:
        ablated = subject.adapter.logits(subject.tokens)
    left = _difference(subject.logits, subject.adapter.logits(subject.tokens))
    if not left <= subject.limit(SAME):
        raise AdapterError(f"After the ablation was closed the logits still differ by {left:.2g}.")
    difference, place = _difference(subject.logits, ablated), f"{component}.{mode}"
    times = f"ablation passed at {place}: fired {fired.counts[component]} times"
    remark = (
        ", though no logit changed with these weights." if difference == 0.0 else f", logits move {difference:.2g}."
    )
    return CheckResult("ablation", True, place, difference, 0.0, times + remark)


def _difference(first: NDArray[Any], second: NDArray[Any]) -> float:
    """The largest absolute difference; infinite where the shapes differ or a value is not finite."""
    if first.shape != second.shape or not (np.isfinite(first).all() and np.isfinite(second).all()):
        return float("inf")
    return float(np.abs(first.astype(np.float64) - second).max()) if first.size else 0.0


def _agree(subject: Subject, name: str, found: dict[str, float], relative: float) -> CheckResult:
    """All of `found` must be within the limit; the place of the largest is named."""
    site = max(found, key=lambda place: found[place])
    limit = subject.limit(relative)
    return _result(name, found[site] <= limit, site, found[site], limit, MEANING[name])


def _result(name: str, passed: bool, site: str, difference: float, limit: float, meaning: str) -> CheckResult:
    size = f"difference {difference:.2g}, limit {limit:.2g}"
    said = f"{name} passed: {size}." if passed else f"{name} failed at {site}: {meaning} ({size})."
    return CheckResult(name, passed, site, difference, limit, said)


MEANING = {
    "bare_model": "the adapter's logits are not the module's own",
    "deterministic": "two evaluations of the same tokens differ; is there dropout or state that stays on?",
    "capture": "reading activations changes what the model computes, or reads something else",
    "identity_edit": "an edit that changes nothing changes the logits",
    "batch_size": "a sequence alone and in a batch gives different logits",
    "resume": "the forward pass that goes on from this site's own activations gives other logits",
    "head": "the last site does not determine the logits; does something skip it, or come between it and the head?",
}
"""What it means when two numbers differ that must agree."""
