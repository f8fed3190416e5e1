"""Whether the metrics that claims speak of exist: looked at before anything is judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ...tasks.errors import SpecError
from .explain import Problem, problem_at
from .located import Located, locate
from .names import builtin_names, spec_file
from .nodes import Key
from .schema import ClaimsSpec, ProtocolSpec
from .suggest import did_you_mean, quoted

__all__ = ["claims_problems"]


def claims_problems(located: Located, claims: ClaimsSpec) -> list[Problem]:
    """Claims over protocols or metrics that neither the package nor the file's own `protocols` have."""
    known: dict[str, list[str]] = {}
    problems: list[Problem] = []
    references: list[tuple[tuple[Key, ...], str]] = [((), name) for name in builtin_names("protocol")]
    references += [(("protocols", number), name) for number, name in enumerate(claims.protocols)]
    for keys, name in references:
        try:
            spec = cast(ProtocolSpec, locate(spec_file("protocol", name, located.base), "protocol").spec)
        except SpecError as error:
            problems.append(problem_at(located.marks, keys, str(error)))
            continue
        known[spec.name] = list(spec.metrics)
    for keys, metric in _metrics(claims):
        protocol, _, name = metric.partition(".")
        if protocol not in known:
            message = f"{quoted(metric)}: there is no protocol {quoted(protocol)} — {did_you_mean(protocol, known)}"
            problems.append(problem_at(located.marks, keys, message))
        elif name not in known[protocol]:
            advice = did_you_mean(name, known[protocol])
            message = f"the protocol {quoted(protocol)} has no metric {quoted(name)} — {advice}"
            problems.append(problem_at(located.marks, keys, message))
    return problems


def _metrics(claims: ClaimsSpec) -> Iterator[tuple[tuple[Key, ...], str]]:
    """Every metric with its place."""
    for number, claim in enumerate(claims.claims):
        at: tuple[Key, ...] = ("claims", number)
        expectations = [((*at, "expect"), claim.expect)]
        expectations += [((*at, "also", index), each) for index, each in enumerate(claim.also)]
        for place, expectation in expectations:
            yield (*place, "metric"), expectation.metric
            if expectation.more_than is not None:
                yield (*place, "more_than", "metric"), expectation.more_than.metric
        if claim.beside is not None:
            yield (*at, "beside", "metric"), claim.beside.metric
