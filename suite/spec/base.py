"""What all specs share: strict models, and the scalars that their fields are made of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

__all__ = [
    "Described",
    "Fraction",
    "Length",
    "Lengths",
    "Line",
    "Name",
    "Positive",
    "Rate",
    "Reference",
    "References",
    "Revision",
    "Seed",
    "Sha256",
    "Strict",
    "Text",
    "without_repeats",
    "wrong",
]


class Strict(BaseModel):
    """Base of all specs: unknown keys, conversions, NaN and infinity are errors."""

    # Docstrings of fields are read by json_schema.py only, and validators are built at first use: importing stays fast.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)


def wrong(field: str | tuple[str | int, ...], message: str) -> PydanticCustomError:
    """A rule between fields is broken: `field` is the one to point at, by its name or by the keys that lead to it."""
    keys = (field,) if isinstance(field, str) else field
    return PydanticCustomError("between_fields", "{message}", {"message": message, "field": keys})


def without_repeats(values: list[Any]) -> list[Any]:
    """The list as it is; ValueError if a value stands in it twice."""
    seen: list[Any] = []
    for value in values:
        if value in seen:
            raise ValueError(f"`{value}` stands twice — each entry once")
        seen.append(value)
    return values


Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
Line = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[^\r\n]*$")]
Reference = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
Revision = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._/-]{1,200}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Positive = Annotated[int, Field(ge=1, le=1_000_000_000)]
Length = Annotated[int, Field(ge=1, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Rate = Annotated[float, Field(gt=0.0, le=100.0)]
Lengths = Annotated[list[Length], Field(min_length=1), AfterValidator(without_repeats)]
References = Annotated[list[Reference], Field(min_length=1), AfterValidator(without_repeats)]


class Described(Strict):
    """What every spec has."""

    name: Name
    """The name by which other specs and the command line call it."""
    title: Line
    """A short title for pages."""
    description: Text | None = None
    """A paragraph for pages."""
    cite: list[Line] = Field(default_factory=list[str])
    """Where it comes from."""
