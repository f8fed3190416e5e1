"""What a person probably meant: the nearest of the names that exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["instead_of"]

SHOWN = 12


def instead_of(found: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest names, or the first dozen if none is near."""
    known = sorted(names)
    near = get_close_matches(found[:100], known, n=3, cutoff=0.6)
    if near:
        return f". Did you mean {' or '.join(near)}?"
    if not known:
        return ". There are none."
    more = f" … ({len(known)} in all)" if len(known) > SHOWN else ""
    return f". Known: {', '.join(known[:SHOWN])}{more}."
