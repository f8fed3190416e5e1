"""A model page's panels of erasure and interventions: what was measured of them, nothing where it was not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .axes import Figure
from .boards import Board, Entry
from .intervention_figures import (
    Grouping,
    attribution_of_model,
    attributions,
    grouping_of_model,
    ood_ablation_of_model,
    patching_of_model,
)
from .necessity_figures import Verdicts, necessity_of_model, subspace_of_model, verdicts_of_model
from .site import Site

__all__ = ["Panels", "panels_of_model"]

MARKS = {"necessary": "●", "not necessary": "○", "not erased": "◐", "inconclusive": "?"}
"""A mark for each verdict, so that a table of them can be taken in at a glance without colour."""


@dataclass(frozen=True, slots=True)
class Panels:
    """Figures by protocol, each list empty where the protocol measured nothing.

    Attributes
    ----------
    verdicts : list of Verdicts
        What erasing says of every site, in words, a row a task and what was erased.
    columns : list of str
        The sites of the table of verdicts.
    """

    verdicts: list[Verdicts]
    columns: list[str]
    necessity: list[Figure]
    subspace: list[Figure]
    patching: list[Figure]
    attribution: list[Figure]
    ood_ablation: list[Figure]
    grouping: Grouping | None


def panels_of_model(site: Site, board: Board, entry: Entry) -> Panels:
    """Collect the panels."""

    def by_task(make: Callable[[Site, Board, Entry, str], Figure | None]) -> list[Figure]:
        return [figure for task in board.tasks if (figure := make(site, board, entry, task)) is not None]

    verdicts = verdicts_of_model(site, board, entry)
    named = {name for found in verdicts for name in found.by_site}
    order = list(dict.fromkeys(name for task in board.tasks for name in entry.sites(task)))
    return Panels(
        verdicts=verdicts,
        columns=[name for name in order if name in named],
        necessity=by_task(necessity_of_model),
        subspace=by_task(subspace_of_model),
        patching=by_task(patching_of_model),
        attribution=[
            figure
            for protocol in attributions(board, site.estimates[entry.identity])
            for task in board.tasks
            if (figure := attribution_of_model(site, board, entry, task, protocol)) is not None
        ],
        ood_ablation=by_task(ood_ablation_of_model),
        grouping=grouping_of_model(site, board, entry),
    )
