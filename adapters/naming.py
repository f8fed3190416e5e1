"""What a person probably meant: the nearest of the names that exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["instead_of"]


def instead_of(found: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest names, or all of them if none is near."""
    known = sorted(names)
    near = get_close_matches(found, known, n=3, cutoff=0.6)
    if near:
        return f". Did you mean {' or '.join(near)}?"
    return f". There is {', '.join(known)}." if known else ". There are none."
