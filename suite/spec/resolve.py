"""A suite with everything it refers to: loaded, overridden, checked against each other, narrowed to what is to run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from ...tasks.errors import SpecError
from .across import problems_across, symbol_problems
from .deep import validate_deep
from .explain import Problem, problem_at, spec_error
from .located import Located, find_spec, kind_of, locate
from .names import Kind, is_path, spec_file
from .nodes import Node, PlacedError, shown
from .schema import Model, SuiteSpec
from .suggest import did_you_mean, listed, quoted

__all__ = ["ResolvedSuite", "resolve_suite", "suite_of_model"]

_Part = Literal["models", "tasks", "protocols"]
_KIND: dict[_Part, Kind] = {"models": "model", "tasks": "task", "protocols": "protocol"}
_FIXED = ("kind", "name", "extends")


@dataclass(frozen=True)
class ResolvedSuite:
    """A suite and its specs, by name, in the suite's order.

    Attributes
    ----------
    suite : SuiteSpec
        What is to run: references replaced by names, narrowed and extended by the filters.
    declared : SuiteSpec
        The whole suite as its file declares it, references replaced by names.
    path : Path
        The suite's file.
    models, tasks, protocols : dict of str to Located
        The specs of what is to run, overrides applied; protocols with every parameter filled in.
    declared_tasks : dict of str to Located
        All tasks of the suite and those that filters bring in: what a protocol may relate a cell to.
    """

    suite: SuiteSpec
    declared: SuiteSpec
    path: Path
    models: Mapping[str, Located]
    tasks: Mapping[str, Located]
    protocols: Mapping[str, Located]
    declared_tasks: Mapping[str, Located]


def resolve_suite(
    name_or_path: str,
    *,
    models: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    protocols: Sequence[str] | None = None,
) -> ResolvedSuite:
    """A suite with all its specs, narrowed by filters.

    Parameters
    ----------
    name_or_path : str
        The suite.
    models, tasks, protocols : sequence of str, optional
        What to run instead of all, if not empty: names of the suite's own, built-in names, or paths (from the current
        folder). One that the suite does not have is added.
    seeds : sequence of int, optional
        The seeds to run instead of the suite's.

    Raises
    ------
    SpecError
        Listing every error in the suite and its specs.
    """
    return _Resolver(find_spec("suite", name_or_path)).resolved(
        {"models": models, "tasks": tasks, "protocols": protocols}, seeds
    )


def suite_of_model(name_or_path: str) -> str | None:
    """The path of the suite that a model's file names, where `name_or_path` is such a file; None where it is not.

    Raises
    ------
    SpecError
        If the model is wrong, or names no suite; the message says how to run it with one.
    """
    if not is_path(name_or_path):
        return None
    path = spec_file("model", name_or_path)
    if not path.is_file() or kind_of(path) != "model":
        return None
    located = validate_deep(find_spec("model", name_or_path))
    suite = cast(Model, located.spec).suite
    if suite is None:
        message = (
            f"the model names no suite — write `suite: standard` or another one into it, or run it with the suite of "
            f"your choice: layerstate run standard --model {shlex.quote(name_or_path)}"
        )
        raise located.error((), message)
    return str(spec_file("suite", suite, located.base))


class _Resolver:
    """Loads a suite's parts, gathering errors."""

    def __init__(self, located: Located) -> None:
        self.located = located
        self.spec = cast(SuiteSpec, located.spec)
        self.errors: list[str] = []
        # Names of all specs that could be read, right or wrong.
        self.read: dict[_Part, set[str]] = {part: set() for part in _KIND}

    def resolved(self, filters: Mapping[_Part, Sequence[str] | None], seeds: Sequence[int] | None) -> ResolvedSuite:
        declared: dict[_Part, dict[str, Located]] = {part: self._declared(part) for part in _KIND}
        chosen = {part: self._chosen(part, declared[part], filters.get(part)) for part in _KIND}
        everything: dict[_Part, dict[str, Located]] = {part: declared[part] | chosen[part] for part in _KIND}
        self._note(self._override_problems())
        chosen_seeds = self._seeds(seeds)
        self._stop_if_wrong()
        names = {part: list(specs) for part, specs in declared.items()}
        whole = self.spec.model_copy(update=names)
        self._note(
            problems_across(self.located, whole, everything["models"], everything["tasks"], everything["protocols"])
        )
        for model in chosen["models"].values():
            for task in chosen["tasks"].values():
                self._note(symbol_problems(model, task))
        self._stop_if_wrong()
        update = {part: list(specs) for part, specs in chosen.items()} | {"seeds": chosen_seeds}
        return ResolvedSuite(
            self.spec.model_copy(update=update),
            whole,
            self.located.path,
            **chosen,
            declared_tasks=everything["tasks"],
        )

    def _note(self, problems: Iterable[Problem]) -> None:
        found = list(problems)
        if found:
            self.errors.append(str(spec_error(found)))

    def _stop_if_wrong(self) -> None:
        if self.errors:
            lines = [line for text in self.errors for line in text.splitlines()]
            raise SpecError("\n".join(dict.fromkeys(lines)))

    def _override(self, part: _Part) -> dict[str, Node]:
        """What the suite overrides in specs of a kind, by name."""
        override = self.located.marks.child("override")
        by_name = override.child(part) if override is not None else None
        return dict(by_name.items()) if by_name is not None else {}

    def _overrides(self, part: _Part) -> Callable[[str], list[Node]]:
        """For a spec's name the suite's overrides: those of `*` first, then its own."""
        entries = self._override(part)

        def of(name: str) -> list[Node]:
            self.read[part].add(name)
            return [entries[key].without(*_FIXED) for key in ("*", name) if key in entries]

        return of

    def _override_problems(self) -> list[Problem]:
        """Overrides of what the suite does not have, and of keys that say which spec it is."""
        problems: list[Problem] = []
        for part, names in self.read.items():
            all_read = len(names) >= len(getattr(self.spec, part))
            for name, node in self._override(part).items():
                if name != "*" and name not in names and all_read:
                    message = f"no {_KIND[part]} of this suite — {did_you_mean(name, names)}"
                    problems.append(Problem(node.key, node.path, message))
                fixed = [below for key, below in node.items() if key in _FIXED]
                message = f"{listed(_FIXED, 'and')} cannot be overridden"
                problems += [Problem(below.key, below.path, message) for below in fixed]
        return problems

    def _declared(self, part: _Part) -> dict[str, Located]:
        """The suite's own specs of a kind, by name."""
        found: dict[str, Located] = {}
        for number, reference in enumerate(getattr(self.spec, part)):
            node = self.located.marks.nearest((part, number))
            try:
                path = spec_file(_KIND[part], reference, self.located.base)
                located = self._loaded(part, path)
            except SpecError as error:
                self.errors.append(self._at(node, error))
                continue
            if located.name in found:
                other = found[located.name].path
                message = (
                    f"the file {quoted(shown(located.path), 200)} stands twice — each spec once"
                    if other.resolve() == located.path.resolve()
                    else f"two specs have the name {quoted(located.name)} ({shown(other)} and {shown(located.path)}) "
                    "— give one another name"
                )
                self._note([problem_at(node, (), message)])
            found.setdefault(located.name, located)
        return found

    def _at(self, node: Node, error: SpecError) -> str:
        """The error as it is where it has a place in a file of its own; else at the reference."""
        return str(error) if isinstance(error, PlacedError) else str(spec_error([problem_at(node, (), str(error))]))

    def _loaded(self, part: _Part, path: Path) -> Located:
        return validate_deep(locate(path, _KIND[part], self._overrides(part)))

    def _chosen(self, part: _Part, declared: dict[str, Located], filters: Sequence[str] | None) -> dict[str, Located]:
        if not filters:
            return dict(declared)
        chosen: dict[str, Located] = {}
        for reference in filters:
            try:
                located = self._one(part, declared, reference)
            except SpecError as error:
                self.errors.append(str(error))
                continue
            other = chosen.get(located.name) or declared.get(located.name)
            if other is not None and not located.is_same(other):
                both = f"{shown(other.path)} and {shown(located.path)}"
                self.errors.append(f"two specs have the name {quoted(located.name)} ({both}) — give one another name")
            chosen[located.name] = located
        in_order = [name for name in declared if name in chosen]
        return {name: chosen[name] for name in [*in_order, *(name for name in chosen if name not in in_order)]}

    def _one(self, part: _Part, declared: dict[str, Located], reference: str) -> Located:
        if not is_path(reference) and reference in declared:
            return declared[reference]
        return self._loaded(part, spec_file(_KIND[part], reference, also=declared))

    def _seeds(self, seeds: Sequence[int] | None) -> list[int]:
        if not seeds:
            return list(self.spec.seeds)
        wrong = [seed for seed in seeds if not 0 <= seed < 2**31]
        if wrong:
            self.errors.append(f"the seed {wrong[0]} — a whole number from 0 to {2**31 - 1} would be right")
        return list(dict.fromkeys(seeds))
