"""What a claims file may say: statements over metrics, with their sources; strict pydantic models as in schema.py."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from .base import Described, Fraction, Line, Name, Reference, Strict, Text, without_repeats, wrong
from .suggest import did_you_mean

__all__ = ["COMPARISONS", "Claim", "ClaimsSpec", "Expectation", "MetricReference"]

COMPARISONS = ("at_least", "at_most", "equals", "one_of", "more_than", "order", "not_significant")
Names = Annotated[list[Name], Field(min_length=1), AfterValidator(without_repeats)]


class MetricReference(Strict):
    """A metric of some cells; what is left out is as in the expectation that it stands in or, `beside`, in `expect`."""

    metric: Line
    """protocol.metric"""
    model: Name | None = None
    """The model."""
    task: Name | None = None
    """The task."""
    at: dict[str, str | int] = Field(default_factory=dict[str, str | int])
    """Coordinates; `$train`, `$longest`, `$target` and `$last` (site) stand for those of the task and model."""

    def at_within(self, around: Expectation) -> dict[str, str | int]:
        """Its coordinates; those of the expectation that it belongs to if it is given none, not even `{}`."""
        return self.at if "at" in self.model_fields_set else around.at


class Expectation(Strict):
    """What a claim expects of a metric, of every model on every task that it names: exactly one comparison."""

    metric: Line
    """protocol.metric"""
    model: Name | Names | None = None
    """The models; all that the suite has if left out."""
    task: Name | Names | None = None
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
    one_of: Annotated[list[Line], Field(min_length=1), AfterValidator(without_repeats)] | None = None
    """Words."""
    more_than: MetricReference | None = None
    """Another metric, paired by seed."""
    order: Annotated[list[Names], Field(min_length=2)] | None = None
    """Groups of models, largest first: each of a group above each of the later ones, paired by seed."""
    not_significant: bool | None = None
    """`true`: the interval must contain 0."""
    tolerance: Annotated[float, Field(ge=0.0)] = 0.0
    """How far from the number of `equals` one may be; by how much `more_than` and `order` may be missed."""

    @property
    def comparison(self) -> str:
        """The one of `COMPARISONS` that is given."""
        return next(name for name in COMPARISONS if getattr(self, name) is not None)

    @property
    def words(self) -> list[str] | None:
        """The words that are expected; None where numbers are compared."""
        return [self.equals] if isinstance(self.equals, str) else self.one_of

    @model_validator(mode="after")
    def _compares(self) -> Expectation:
        if self.not_significant is False:
            right = "true would be right, or at_least or at_most for an effect that is there"
            raise wrong("not_significant", f"false — {right}")
        given = [name for name in COMPARISONS if getattr(self, name) is not None]
        if len(given) != 1:
            found = "no comparison" if not given else " and ".join(given)
            raise wrong(given[-1] if given else "metric", f"{found} — one of {', '.join(COMPARISONS)} would be right")
        if (self.over is None) != (self.reduce is None):
            there, lacks = ("over", "reduce") if self.reduce is None else ("reduce", "over")
            raise wrong(there, f"`{there}` without `{lacks}` — both or neither would be right")
        words = self.words is not None
        if self.reduce is not None and words != (self.reduce in ("every", "some")):
            right = "every or some" if words else "max, min or mean"
            raise wrong("reduce", f"`{self.reduce}` — {right} would be right for this comparison")
        if self.order is not None and self.model is not None:
            raise wrong("model", "models beside `order` — leave `model` out: `order` names them")
        if "tolerance" in self.model_fields_set and (words or self.comparison not in ("equals", "more_than", "order")):
            right = "it belongs to `equals` with a number, `more_than` and `order`"
            raise wrong("tolerance", f"`{self.comparison}`{' with a word' * words} takes none — {right}; leave it out")
        return self

    @model_validator(mode="after")
    def _compares_two(self) -> Expectation:
        """Nothing is compared with itself."""
        seen: set[str] = set()
        for place, group in enumerate(self.order or []):
            for number, model in enumerate(group):
                if model in seen:
                    raise wrong(("order", place, number), f"`{model}` stands twice in the order — each model once")
                seen.add(model)
        other = self.more_than
        if other is None or (other.metric, other.at_within(self)) != (self.metric, self.at):
            return self
        for name in ("model", "task"):
            own, its = getattr(self, name), getattr(other, name)
            if its is not None and its not in ([own] if isinstance(own, str) else own or []):
                return self
        right = "another model, task, metric or coordinate would be right"
        raise wrong("more_than", f"`{self.metric}` is compared with itself — {right}")


class Claim(Strict):
    """A declared statement over metrics, with its source."""

    id: Name
    """By which it is called, once in its file."""
    says: Text
    """The statement, in words."""
    source: Annotated[dict[Literal["paper", "place", "figure"], Line], Field(min_length=1)]
    """Where it is made, and with which figure."""
    status: Literal["stands", "withdrawn"] = "stands"
    """Whether its authors still hold it."""
    replaced_by: Name | None = None
    """For a claim that is withdrawn, the one that tests what stands now."""
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
    models: list[Name] = Field(default_factory=list[str])
    """Names of models that the claims speak of and that are not built in: one's own, or a paper's."""
    tasks: list[Name] = Field(default_factory=list[str])
    """Names of tasks that the claims speak of and that are not built in."""
    claims: Annotated[list[Claim], Field(min_length=1)]
    """The claims."""

    @model_validator(mode="after")
    def _ids_once(self) -> ClaimsSpec:
        seen: set[str] = set()
        for number, claim in enumerate(self.claims):
            if claim.id in seen:
                raise wrong(("claims", number, "id"), f"two claims with the id `{claim.id}` — each id once")
            seen.add(claim.id)
        return self

    @model_validator(mode="after")
    def _replaced_by_others(self) -> ClaimsSpec:
        next_of = {claim.id: claim.replaced_by for claim in self.claims}
        for number, claim in enumerate(self.claims):
            at = ("claims", number, "replaced_by")
            if claim.replaced_by is None:
                continue
            if claim.replaced_by not in next_of:
                advice = did_you_mean(claim.replaced_by, next_of.keys() - {claim.id})
                raise wrong(at, f"`{claim.replaced_by}`, which is not a claim here — {advice}")
            if claim.status != "withdrawn":
                right = "`status: withdrawn` beside it would be right, or no `replaced_by`"
                raise wrong(at, f"`{claim.id}` is replaced by `{claim.replaced_by}`, yet it stands — {right}")
            if claim.replaced_by == claim.id:
                raise wrong(at, f"`{claim.id}` is replaced by itself — another claim here would be right")
            chain = [claim.id]
            while (following := next_of[chain[-1]]) is not None and following in next_of:
                chain.append(following)
                if following in chain[:-1]:
                    shown = " → ".join(chain)
                    raise wrong(at, f"{shown} goes round in a circle — a claim that is not replaced must end it")
        return self
