"""The method page, rendered from the YAML of protocols and suites as they stand in the result files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..suite.measure.statistics import sign_flip_test
from ..suite.spec.dump import dump_yaml
from ..suite.spec.schema import ProtocolSpec, SuiteSpec
from .boards import Board
from .site import Site

__all__ = ["MethodView", "ProtocolView", "method_view"]


@dataclass(frozen=True, slots=True)
class ProtocolView:
    """A protocol as some boards use it."""

    spec: ProtocolSpec
    boards: list[str]
    versions: list[int]
    params: str
    first: bool
    """Whether it is the first of its name, and so the one that links lead to."""


@dataclass(frozen=True, slots=True)
class SuiteView:
    """A suite as it was run."""

    board: Board
    suite: SuiteSpec
    override: str


@dataclass(frozen=True, slots=True)
class MethodView:
    """Everything on the page."""

    suites: list[SuiteView]
    protocols: list[ProtocolView]
    least_p: list[tuple[int, str]]
    """Numbers of seeds with the smallest p that they can give."""


def method_view(site: Site) -> MethodView:
    """Collect suites and protocols; a protocol that two boards use alike stands once."""
    protocols: dict[str, ProtocolView] = {}
    seen: set[str] = set()
    for board in site.boards:
        for name, spec in board.protocols.items():
            used = {r.protocol_version for e in board.entries for key, r in e.results.items() if key[2] == name}
            key = repr((spec, sorted(used)))
            view = protocols.setdefault(
                key, ProtocolView(spec, [], sorted(used), dump_yaml(spec.params), first=name not in seen)
            )
            view.boards.append(board.slug)
            seen.add(name)
    suites = [
        SuiteView(board, board.suite, dump_yaml({k: v for k, v in board.suite.override.model_dump().items() if v}))
        for board in site.boards
    ]
    return MethodView(suites, sorted(protocols.values(), key=lambda view: (view.spec.name, view.boards)), _least_p())


def _least_p() -> list[tuple[int, str]]:
    return [(seeds, f"{sign_flip_test(np.ones(seeds)).smallest:g}") for seeds in (3, 5, 6)]
