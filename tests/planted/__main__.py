"""Prints the planted-truth tables: what was planted in each network, and what the protocols say.

With `--null N`, also in what share of N simulated runs a protocol claims what is not there.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from .interventions import RATES, rows
from .measuring import FILLS, cell, outcome, reading, value
from .truths import TRUTHS, Truth

HEADER = ("network", "accuracy", "shape", "best site", "causal site, gap by ruler", "refit after (means, probe)", "")


def row(truth: Truth) -> tuple[str, ...]:
    """One network: measured values, and whether they are the planted ones."""
    view = cell(truth.build(), truth.classes)
    behaviour, profile, causal = (outcome(view, name) for name in ("behaviour", "probe_profile", "causal"))
    on = {"variable": "sum", "on": "skill"}
    shape, best = (reading(profile, metric, **on).value for metric in ("shape", "best_site"))
    found: dict[str, object] = {}
    shown: list[str] = []
    for ruler, planted in truth.causal_site.items():
        at = {"ruler": ruler, "fill": FILLS[ruler]}
        found[ruler] = reading(causal, "causal_site", **at).value
        gap = reading(causal, "gap", **at).value
        shown.append(f"{ruler}: {found[ruler] or 'none'}" + (f" ({gap:+.0f})" if isinstance(gap, float) else ""))
        assert planted is None or isinstance(planted, str)
    refits = [
        f"{value(causal, 'refit_skill', site=truth.best_site or 'block.3', ruler=ruler, fill=FILLS[ruler]):.2f}"
        for ruler in ("means", "probe")
    ]
    right = (shape, best) == (truth.shape, truth.best_site) and found == dict(truth.causal_site)
    accuracy = f"{value(behaviour, 'accuracy', length=12):.3f}"
    return truth.name, accuracy, str(shape), str(best), "; ".join(shown), ", ".join(refits), "ok" if right else "WRONG"


def main() -> int:
    """Measure all planted networks, and print Markdown tables; 1 if anything is not as planted."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description="Planted truth, measured.")
    parser.add_argument("--null", type=int, default=0, metavar="N", help="runs for every false-positive rate")
    runs = parser.parse_args().null
    torch.set_num_threads(1)
    wrong = 0
    _print(HEADER, head=True)
    for truth in TRUTHS:
        found = row(truth)
        wrong += found[-1] != "ok"
        _print(found)
    print()
    for truth in TRUTHS:
        print(f"- `{truth.name}`: {truth.says}")
    print()
    _print(("protocol", "network", "planted", "found", ""), head=True)
    for protocol, network, planted, shown, right in rows():
        wrong += not right
        _print((protocol, network, planted, shown, "ok" if right else "WRONG"))
    if runs:
        print()
        _print(("false positives", f"share of {runs} runs", "seconds"), head=True)
        for claimed, rate in RATES.items():
            started = time.monotonic()
            _print((claimed, f"{rate(runs):.3f}", f"{time.monotonic() - started:.0f}"))
    return int(wrong > 0)


def _print(cells: tuple[str, ...], *, head: bool = False) -> None:
    print("| " + " | ".join(text.replace("|", "/") for text in cells) + " |", flush=True)
    if head:
        print("|" + "---|" * len(cells))


if __name__ == "__main__":
    sys.exit(main())
