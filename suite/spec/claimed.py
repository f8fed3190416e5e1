"""Whether claims can be judged at all: the metrics, coordinates, values and names that they speak of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ...tasks.errors import SpecError
from .claimed_coordinates import Declared, coordinate_problems
from .claimed_names import Measured, name_problems
from .claimed_values import is_number, value_problems
from .explain import Problem, problem_at
from .located import Located, locate
from .names import builtin_names, spec_file
from .nodes import Key, Node
from .schema import Claim, ClaimsSpec, Expectation, MetricReference, ProtocolSpec
from .suggest import did_you_mean, quoted

__all__ = ["claims_problems"]


def claims_problems(located: Located, claims: ClaimsSpec, measured: Measured | None = None) -> list[Problem]:
    """Claims over what neither the package nor the file itself declares, or over what no number can say.

    Parameters
    ----------
    located : Located
        The file.
    claims : ClaimsSpec
        What it says.
    measured : Measured, optional
        The models and tasks of the run folder that they are to be judged on, if there is one.
    """
    protocols, problems = _protocols(located, claims)
    problems += name_problems(located, claims, measured)
    for number, claim in enumerate(claims.claims):
        problems += _claim_problems(located.marks.nearest(("claims", number)), claim, protocols)
    return problems


def _protocols(located: Located, claims: ClaimsSpec) -> tuple[dict[str, ProtocolSpec], list[Problem]]:
    """The built-in protocols and the file's own, by name."""
    known: dict[str, ProtocolSpec] = {}
    problems: list[Problem] = []
    references: list[tuple[tuple[Key, ...], str]] = [((), name) for name in builtin_names("protocol")]
    references += [(("protocols", number), name) for number, name in enumerate(claims.protocols)]
    for keys, name in references:
        try:
            spec = cast(ProtocolSpec, locate(spec_file("protocol", name, located.base), "protocol").spec)
        except SpecError as error:
            problems.append(problem_at(located.marks, keys, str(error)))
            continue
        known[spec.name] = spec
    return known, problems


def _claim_problems(node: Node, claim: Claim, protocols: dict[str, ProtocolSpec]) -> Iterator[Problem]:
    places = [node.nearest(("expect",)), *(node.nearest(("also", index)) for index in range(len(claim.also)))]
    for place, expectation in zip(places, claim.expectations, strict=True):
        yield from _expectation_problems(place, expectation, protocols)
    if claim.beside is not None:
        # What the first expectation looks over is reduced for it alone.
        yield from _reference_problems(node.nearest(("beside",)), claim.beside, claim.expect, None, protocols)


def _expectation_problems(
    place: Node, expectation: Expectation, protocols: dict[str, ProtocolSpec]
) -> Iterator[Problem]:
    found = _declared(place, expectation.metric, protocols)
    if isinstance(found, Problem):
        yield found
    else:
        yield from value_problems(place, expectation, found)
        yield from coordinate_problems(place, found, expectation.at, expectation.over)
    other = expectation.more_than
    if other is not None:
        node = place.nearest(("more_than",))
        yield from _reference_problems(node, other, expectation, expectation.over, protocols)
        declared = _declared(node, other.metric, protocols)
        own_is_number = isinstance(found, Declared) and is_number(found.metric)
        if own_is_number and isinstance(declared, Declared) and not is_number(declared.metric):
            message = f"{quoted(other.metric)} is no number — `more_than` needs one on both sides"
            yield problem_at(node, ("metric",), message)


def _reference_problems(
    node: Node, reference: MetricReference, around: Expectation, over: str | None, protocols: dict[str, ProtocolSpec]
) -> Iterator[Problem]:
    found = _declared(node, reference.metric, protocols)
    if isinstance(found, Problem):
        yield found
    else:
        own = "at" in reference.model_fields_set
        yield from coordinate_problems(node, found, reference.at_within(around), over, own=own)


def _declared(place: Node, metric: str, protocols: dict[str, ProtocolSpec]) -> Declared | Problem:
    protocol, _, name = metric.partition(".")
    if protocol not in protocols:
        message = f"{quoted(metric)}: there is no protocol {quoted(protocol)} — {did_you_mean(protocol, protocols)}"
        return problem_at(place, ("metric",), message)
    spec = protocols[protocol]
    if name not in spec.metrics:
        advice = did_you_mean(name, spec.metrics)
        message = f"the protocol {quoted(protocol)} has no metric {quoted(name)} — {advice}"
        return problem_at(place, ("metric",), message)
    return Declared(metric, spec, spec.metrics[name])
