"""What a claims file may say: statements over metrics, with their sources; strict pydantic models as in schema.py."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from .base import Described, Fraction, Line, Name, Reference, Strict, Text, wrong

__all__ = ["COMPARISONS", "Claim", "ClaimsSpec", "Expectation", "MetricReference"]

COMPARISONS = ("at_least", "at_most", "equals", "one_of", "more_than", "order", "not_significant")


class MetricReference(Strict):
    """A metric of some cells; what is left out is as in the expectation that it stands in."""

    metric: Line
    """protocol.metric"""
    model: Name | None = None
    """The model."""
    task: Name | None = None
    """The task."""
    at: dict[str, str | int] = Field(default_factory=dict[str, str | int])
    """Coordinates; `$train`, `$longest`, `$target` and `$last` (site) stand for those of the task and model."""


class Expectation(Strict):
    """What a claim expects of a metric, of every model on every task that it names: exactly one comparison."""

    metric: Line
    """protocol.metric"""
    model: Name | list[Name] | None = None
    """The models; all that the suite has if left out."""
    task: Name | list[Name] | None = None
    """The tasks; all that the suite has if left out."""
    at: dict[str, str | int] = Field(default_factory=dict[str, str | int])
    """Coordinates; `$train`, `$longest`, `$target` and `$last` (site) stand for those of the task and model."""
    over: Name | None = None
    """A coordinate whose values are all looked at: `site`, say."""
    reduce: Literal["max", "min", "mean", "every", "some"] | None = None
    """What is made of them: a number, or whether `every` or `some` word is as expected."""
    at_least: float | None = None
    at_most: float | None = None
    equals: str | float | None = None
    """A number, within `tolerance`, or a word."""
    one_of: Annotated[list[Line], Field(min_length=1)] | None = None
    """Words."""
    more_than: MetricReference | None = None
    """Another metric, paired by seed."""
    order: Annotated[list[list[Name]], Field(min_length=2)] | None = None
    """Groups of models, largest first: each of a group above each of the later ones, paired by seed."""
    not_significant: Literal[True] | None = None
    """The interval must contain 0."""
    tolerance: Annotated[float, Field(ge=0.0)] = 0.0
    """How far from `equals` a number may be; by how much `more_than` and `order` may be missed."""

    @model_validator(mode="after")
    def _compares(self) -> Expectation:
        given = [name for name in COMPARISONS if getattr(self, name) is not None]
        if len(given) != 1:
            found = "no comparison" if not given else " and ".join(given)
            raise wrong(given[-1] if given else "metric", f"{found} — one of {', '.join(COMPARISONS)} would be right")
        if (self.over is None) != (self.reduce is None):
            there, lacks = ("over", "reduce") if self.reduce is None else ("reduce", "over")
            raise wrong(there, f"`{there}` without `{lacks}` — both or neither would be right")
        words = self.one_of is not None or isinstance(self.equals, str)
        if self.reduce is not None and words != (self.reduce in ("every", "some")):
            right = "every or some" if words else "max, min or mean"
            raise wrong("reduce", f"`{self.reduce}` — {right} would be right for this comparison")
        if self.order is not None and self.model is not None:
            raise wrong("model", "models beside `order` — leave `model` out: `order` names them")
        return self


class Claim(Strict):
    """A declared statement over metrics, with its source."""

    id: Name
    """By which it is called, once in its file."""
    says: Text
    """The statement, in words."""
    source: dict[Literal["paper", "place", "figure"], Line]
    """Where it is made, and with which figure."""
    status: Literal["stands", "withdrawn"] = "stands"
    """Whether its authors still hold it."""
    replaced_by: Name | None = None
    """The claim that tests what stands now, for one that is withdrawn."""
    expect: Expectation
    """What must hold of the metrics."""
    also: list[Expectation] = Field(default_factory=list[Expectation])
    """What must hold beside it."""
    beside: MetricReference | None = None
    """A control shown with the verdict."""
    required_skill: Fraction | None = None
    """Skill at the training length from which cells below the gate count; the verdict then says *partially solved*."""

    @property
    def expectations(self) -> list[Expectation]:
        """All that must hold."""
        return [self.expect, *self.also]


class ClaimsSpec(Described):
    """Claims of one source."""

    kind: Literal["claims"]
    suite: Reference = "standard"
    """The suite that would measure them."""
    protocols: list[Reference] = Field(default_factory=list[Reference])
    """Paths of protocols of one's own that the claims speak of."""
    claims: Annotated[list[Claim], Field(min_length=1)]
    """The claims."""

    @model_validator(mode="after")
    def _ids_once(self) -> ClaimsSpec:
        seen: set[str] = set()
        for claim in self.claims:
            if claim.id in seen:
                raise wrong("claims", f"two claims with the id `{claim.id}` — each id once")
            seen.add(claim.id)
        for claim in self.claims:
            if claim.replaced_by is not None and claim.replaced_by not in seen:
                raise wrong("claims", f"`{claim.id}` is replaced by `{claim.replaced_by}`, which is not a claim here")
        return self
