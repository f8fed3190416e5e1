"""Prints the planted-truth table: what was planted in each network, and what the protocols say."""

from __future__ import annotations

import torch

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


def main() -> None:
    """Measure all planted networks, and print a Markdown table."""
    torch.set_num_threads(1)
    print("| " + " | ".join(HEADER) + " |")
    print("|" + "---|" * len(HEADER))
    for truth in TRUTHS:
        print("| " + " | ".join(row(truth)) + " |", flush=True)
    print()
    for truth in TRUTHS:
        print(f"- `{truth.name}`: {truth.says}")


if __name__ == "__main__":
    main()
