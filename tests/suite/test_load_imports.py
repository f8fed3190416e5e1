"""Specs are read, listed and identified without torch, and without anything slow."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "sklearn", "scipy", "transformers", "altair", "pyarrow", "numba"}
ROOMS = ["load", "identity", "schema", "results", "json_schema"]


def imported(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("room", ROOMS)
def test_the_spec_room_imports_nothing_heavy(room: str) -> None:
    assert imported(f"import layerstate.suite.spec.{room}") & HEAVY == set()


def test_listing_specs_imports_nothing_heavy() -> None:
    code = "from layerstate.suite.spec.load import KINDS, headings\nfor kind in KINDS: headings(kind)"
    assert imported(code) & HEAVY == set()


def test_a_suite_is_resolved_without_torch() -> None:
    assert "torch" not in imported("from layerstate.suite.spec.load import resolve_suite\nresolve_suite('standard')")
