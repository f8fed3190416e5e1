"""Which other cells a protocol asks for, checked: its code says so for each task. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ...adapters.source import UserCode
from ...tasks.errors import SpecError
from ..protocols import Relation, load_protocol
from ..spec.load import Located
from ..spec.schema import ProtocolSpec

__all__ = ["declared_relations", "no_component", "no_task"]


def declared_relations(protocol: Located, task: str) -> dict[str, Relation]:
    """By name the relations that a protocol declares for a cell on `task`; most have none.

    Raises
    ------
    LayerstateError
        If its `relations` fails, or gives something else than a mapping of names to relations.
    """
    spec = cast("ProtocolSpec", protocol.spec)
    code = load_protocol(spec.measures, protocol.base)
    if code.relations is None:
        return {}
    file = protocol.base / spec.measures if spec.measures.endswith(".py") else None
    with UserCode(f"the protocol {spec.name}", f"asking for its relations on {task}", file):
        found = cast("object", code.relations(task, code.params.model_validate(spec.params)))
    if not isinstance(found, Mapping):
        raise SpecError(f"the protocol {spec.name}: relations must return a mapping, not a {type(found).__name__}")
    checked: dict[str, Relation] = {}
    for name, relation in cast("Mapping[Any, Any]", found).items():
        if not isinstance(name, str) or not isinstance(relation, Relation):
            raise SpecError(
                f"the protocol {spec.name}: relations must map names to Relation(task=…) or Relation(without=(…, …)), "
                f"not {name!r} to a {type(relation).__name__}"
            )
        if (relation.task is None) == (relation.without is None):
            raise SpecError(f"the protocol {spec.name}: the relation {name!r} must have either a task or a without")
        checked[name] = relation
    return checked


def no_task(task: str) -> str:
    """The reason why a related cell is missing: the suite does not have its task."""
    return f"no_task: {task} is not a task of the suite"


def no_component(component: str, mode: str, declared: Mapping[str, Iterable[str]]) -> str | None:
    """The reason why a model cannot be trained without a component, or None if it can."""
    if component not in declared:
        return f"no_component: the model declares {', '.join(declared) or 'none'}"
    modes = tuple(declared[component])
    if mode not in modes:
        return f"no_component: the model declares {component} with {', '.join(modes) or 'no mode'}, and not with {mode}"
    return None
