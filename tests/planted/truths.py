"""What is planted in each network, and what the protocols must therefore say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from . import networks
from .networks import Network

SITES = ("embed", "block.0", "block.1", "block.2", "block.3")


@dataclass(frozen=True)
class Truth:
    """A planted network and its answer.

    Attributes
    ----------
    name, says : str
    build : callable
        Makes the network.
    solved : bool
        Whether its output is right everywhere; at chance otherwise.
    best_site : str or None
        The first site where the state is linearly readable, None if there is none.
    shape : str
    causal_site : dict of ruler to str or None
        The first site where taking out the ruler's directions breaks the output, None if there is none. Rulers that
        are not listed have no planted answer.
    erased : dict of ruler to bool
        Whether the state is gone from the best site after the ablation; True: no fresh probe reads it, False: one
        reads it as well as before.
    stray_effects : bool
        Whether directions fitted where the state is not readable break the output all the same.
    classes, rank : int
    """

    name: str
    says: str
    build: Callable[[], Network]
    solved: bool
    best_site: str | None
    shape: str
    causal_site: Mapping[str, str | None]
    erased: Mapping[str, bool] = field(default_factory=dict)
    stray_effects: bool = False
    classes: int = 2
    rank: int = 1

    def gap(self, ruler: str) -> int | None:
        """Best site minus causal site, None where there is no causal site."""
        causal = self.causal_site[ruler]
        if causal is None or self.best_site is None:
            return None
        return SITES.index(self.best_site) - SITES.index(causal)


def _written_at(block: int) -> Truth:
    site = f"block.{block}"
    return Truth(
        name=f"written_at_{block}",
        says=f"the state is written at block {block} and nowhere earlier",
        build=lambda: networks.written_at(block),
        solved=True,
        best_site=site,
        shape={0: "early", 3: "late"}.get(block, "gradual"),
        causal_site={"means": site, "probe": site, "probe_per_feature": site},
        erased={"means": True, "probe": True},
    )


TRUTHS = (
    *(_written_at(block) for block in range(4)),
    Truth(
        name="ignored_copy",
        says="a readable copy from block 1 on, which the head ignores",
        build=networks.ignored_copy,
        solved=True,
        best_site="block.1",
        shape="gradual",
        causal_site={"means": None, "probe": None, "probe_per_feature": None},
        erased={"means": True, "probe": True},
    ),
    Truth(
        name="redundant",
        says="two copies from block 1 on, either enough: the probe's direction is not necessary, the state is",
        build=networks.redundant,
        solved=True,
        best_site="block.1",
        shape="gradual",
        causal_site={"means": "block.1", "probe": None},
        erased={"means": True, "probe": False},
    ),
    Truth(
        name="early_copy_used_late",
        says="a copy readable from block 0 on that nothing uses; the one that is used comes at block 2",
        build=networks.early_copy_used_late,
        solved=True,
        best_site="block.0",
        shape="early",
        causal_site={"means": "block.2", "probe": "block.2", "probe_per_feature": "block.2"},
        erased={"means": True, "probe": True},
    ),
    Truth(
        name="spread_over_4",
        says="five classes on four directions, from block 1 on",
        build=lambda: networks.spread(5, networks.simplex(5)),
        solved=True,
        best_site="block.1",
        shape="gradual",
        causal_site={"means": "block.1", "probe": "block.1"},
        erased={"means": True, "probe": True},
        classes=5,
        rank=4,
    ),
    Truth(
        name="circle_of_6",
        says="six classes around a circle in two directions, from block 1 on",
        build=lambda: networks.spread(6, networks.circle(6)),
        solved=True,
        best_site="block.1",
        shape="gradual",
        causal_site={"means": "block.1", "probe": "block.1"},
        erased={"means": True, "probe": True},
        classes=6,
        rank=5,
    ),
    Truth(
        name="without_state",
        says="no state at all",
        build=networks.without_state,
        solved=False,
        best_site=None,
        shape="unreadable",
        causal_site={"means": None, "probe": None, "probe_per_feature": None},
    ),
    Truth(
        name="nonlinear_code",
        says="the state is held and used from block 1 on, in a form that no linear probe reads",
        build=networks.nonlinear_code,
        solved=True,
        best_site=None,
        shape="unreadable",
        causal_site={"means": None, "probe": None, "probe_per_feature": None},
        stray_effects=True,
    ),
    Truth(
        name="token_in_stream",
        says="the token from the embedding on, the state from block 2 on",
        build=networks.token_in_stream,
        solved=True,
        best_site="block.2",
        shape="gradual",
        causal_site={"means": "block.2", "probe": "block.2"},
        erased={"means": True},
        stray_effects=True,
    ),
    Truth(
        name="correlated_nuisance",
        says="one direction from block 1 on, amid nuisance that is correlated with it",
        build=networks.correlated_nuisance,
        solved=True,
        best_site="block.1",
        shape="gradual",
        causal_site={"means": "block.1", "probe": "block.1", "probe_per_feature": "block.1"},
        erased={"means": True},
    ),
)
