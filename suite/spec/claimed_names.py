"""Whether the models, tasks and the suite that claims name are ones that anybody has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, cast

from ...tasks.errors import SpecError
from .explain import Problem, problem_at
from .located import Located, find_spec
from .names import Kind, builtin_names, is_path
from .nodes import Key
from .schema import Claim, ClaimsSpec, SuiteSpec
from .suggest import closest, did_you_mean, quoted

__all__ = ["Measured", "name_problems"]

_Part = Literal["model", "task"]


@dataclass(frozen=True)
class Measured:
    """What a run folder holds.

    Attributes
    ----------
    folder : str
        For messages.
    model, task : set of str
        The names of its models and tasks.
    """

    folder: str
    model: frozenset[str]
    task: frozenset[str]


def name_problems(located: Located, claims: ClaimsSpec, measured: Measured | None) -> Iterator[Problem]:
    """Models and tasks that are not built in, in the claims' suite, declared in their file, or measured in the folder.

    Without a folder a name may be that of a spec of one's own: then only one that looks like a known one misspelt
    is wrong.
    """
    try:
        suite = find_spec("suite", claims.suite, located.base)
    except SpecError as error:
        yield problem_at(located.marks, ("suite",), str(error))
        return
    for part in ("model", "task"):
        known = {*builtin_names(part), *_of_suite(suite, part), *getattr(claims, f"{part}s")}
        known |= getattr(measured, part) if measured is not None else set()
        for number, claim in enumerate(claims.claims):
            for keys, name in _names(claim, part):
                if name in known or (measured is None and closest(name, known) is None):
                    continue
                node = located.marks.nearest(("claims", number, *keys))
                yield Problem(node.mark, node.path, _unknown(part, name, known, measured))


def _unknown(part: _Part, name: str, known: set[str], measured: Measured | None) -> str:
    where = f" or measured in {measured.folder}" if measured is not None else ""
    own = f"one of your own goes by its name into the list `{part}s` at the top of this file"
    return f"no {part} {quoted(name)} is built in{where} — {did_you_mean(name, known)} ({own})"


def _of_suite(suite: Located, part: _Part) -> Iterator[str]:
    """The names of a suite's own models or tasks."""
    kind: Kind = part
    for reference in getattr(cast(SuiteSpec, suite.spec), f"{part}s"):
        if not is_path(reference):
            yield reference
            continue
        # What is wrong with the suite itself is said where it is run.
        with suppress(SpecError):
            yield find_spec(kind, reference, suite.base).name


def _names(claim: Claim, part: _Part) -> Iterator[tuple[tuple[Key, ...], str]]:
    """Every model or task that a claim names, with its place in the claim."""
    places: list[tuple[Key, ...]] = [("expect",), *(("also", index) for index in range(len(claim.also)))]
    for place, expectation in zip(places, claim.expectations, strict=True):
        yield from _listed((*place, part), getattr(expectation, part))
        if expectation.more_than is not None:
            yield from _listed((*place, "more_than", part), getattr(expectation.more_than, part))
        if part == "model":
            for number, group in enumerate(expectation.order or []):
                yield from _listed((*place, "order", number), group)
    if claim.beside is not None:
        yield from _listed(("beside", part), getattr(claim.beside, part))


def _listed(keys: tuple[Key, ...], names: str | Iterable[str] | None) -> Iterator[tuple[tuple[Key, ...], str]]:
    if isinstance(names, str):
        yield keys, names
    else:
        yield from (((*keys, number), name) for number, name in enumerate(names or []))
