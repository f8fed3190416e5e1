"""Sites built once for all tests, from run folders with everything that a board must cope with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from layerstate.leaderboard import build_site

from tests.leaderboard.mechanisms import MECHANISMS
from tests.leaderboard.simulated import PROTOCOLS, Faults, Planned
from tests.leaderboard.synthetic import FIVE, write_run

PAYLOAD = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><b>&{{7*7}}\u202e\u200bjavascript:alert(3)"
ZERO = Planned("zero", "Guesses far out", "gru", {"*": 0.98}, {"*": 0.0})
"""A model whose counts beyond the training length are 0: true zeros, and skill below 0."""
CUT = Planned("cut", "Cut short", "lstm", {"*": 1.0}, {"*": 1.0}, blocks=2)
"""A model that would lead the board, had it been measured in full."""


@dataclass
class Page(HTMLParser):
    """A page's elements, flat: tag, attributes, text inside."""

    path: Path
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        """Attributes of every element of a tag."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def words(self) -> str:
        """All text, spaces joined."""
        return " ".join(" ".join(self.text).split())


@cache
def pages_of(site: Path) -> list[Page]:
    """Every page of a site."""
    return [Page(path) for path in sorted(site.rglob("*.html"))]


def change_json(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Read, change and write a JSON file."""
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), "utf-8")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A quick run with every kind of gap in it, and a small one with three seeds."""
    root = tmp_path_factory.mktemp("runs")
    faults = Faults(
        absent={("cut", "s3", 0, "causal")}, failed={("cut", "dyck", 0): "the loss became NaN at step 1,204"}
    )
    quick = write_run(root / "quick", models=[FIVE[0], FIVE[1], FIVE[4], ZERO, CUT], faults=faults, sequences=120)
    seeds = write_run(
        root / "seeds",
        suite="seeds",
        title="Three seeds",
        models=[FIVE[3], FIVE[4]],
        tasks=("parity",),
        seeds=(0, 1, 2),
        sequences=120,
        protocols=(*PROTOCOLS, *MECHANISMS),
    )
    broken = next(iter(sorted((quick / "results").glob("*.json"))))
    (quick / "results" / ("f" * 24 + ".json")).write_bytes(broken.read_bytes()[:200])
    return [quick, seeds]


@pytest.fixture(scope="session")
def site(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of `runs`."""
    return build_site(runs, tmp_path_factory.mktemp("site")).parent


@pytest.fixture(scope="session")
def hostile_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site whose every free text is an attack."""
    root = tmp_path_factory.mktemp("hostile")
    model = Planned("evil", PAYLOAD, "gru", family=PAYLOAD, description=PAYLOAD)
    lame = Planned("evil_too", f"{PAYLOAD}2", "gru", family=f"{PAYLOAD}2", description="[x](javascript:alert(4))")
    texts = {
        "title": PAYLOAD,
        "description": PAYLOAD,
        "cite": [PAYLOAD, "javascript:alert(5)", 'https://a.example/"onx='],
    }
    metric = {"title": PAYLOAD, "unit": PAYLOAD, "direction": "none", "description": PAYLOAD}
    run = write_run(
        root / "run",
        models=[model, lame],
        tasks=("s3",),
        sequences=60,
        protocols=(*PROTOCOLS, *MECHANISMS),
        faults=Faults(failed={("evil_too", "s3", 0): PAYLOAD}),
        changes={
            "suite": texts,
            "task:s3": texts | {"params": {PAYLOAD: PAYLOAD}},
            "protocol:causal": texts | {"params": {PAYLOAD: PAYLOAD}, "metrics": {"drop": metric}},
        },
    )
    for path in (run / "results").glob("*.json"):
        change_json(path, _poison)
    return build_site([run], root / "site").parent


def _poison(result: dict[str, Any]) -> None:
    """Put the payload wherever a result file holds free text."""
    result["provenance"] |= {"platform": PAYLOAD, "device": PAYLOAD, "time": PAYLOAD, "commit": PAYLOAD}
    result["digests"] = {PAYLOAD: PAYLOAD}
    result["sites"][-1] = PAYLOAD
    for metric in result["metrics"]:
        metric["unit"] = PAYLOAD if result["protocol"] == "causal" else metric["unit"]
        metric["at"] = {name: PAYLOAD if place == "block.3" else place for name, place in metric["at"].items()}
        if isinstance(metric["value"], str):
            metric["value"] = PAYLOAD
        if metric["metric"] == "gap":
            metric |= {"value": None, "low": None, "high": None, "status": "undefined", "reason": PAYLOAD}
