"""Did-you-mean, and lists of what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["closest", "did_you_mean", "did_you_mean_of", "listed", "printable", "quoted"]


def printable(text: str) -> str:
    """The text on one line: what cannot be printed is written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def quoted(word: str, limit: int = 60) -> str:
    """`word` in backquotes, on one line and not too long."""
    return f"`{printable(word if len(word) <= limit else word[: limit - 1] + '…')}`"


def listed(options: Iterable[str], last: str = "or") -> str:
    """The options as a phrase: `a`, `b` or `c`."""
    names = [quoted(option) for option in options]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}" if names else "none"


def closest(word: str, options: Iterable[str]) -> str | None:
    """The option that `word` most likely meant, or None."""

    def folded(name: str) -> str:
        return name.casefold().replace("-", "_").replace(" ", "_")

    by_fold = {folded(option): option for option in options}
    # A very long word can mean nothing here, and comparing it would take long.
    found = get_close_matches(folded(word[:100]), list(by_fold), n=1, cutoff=0.6)
    return by_fold[found[0]] if found else None


def did_you_mean(word: str, options: Iterable[str], limit: int = 12) -> str:
    """``did you mean `x`?``, or the list of what there is."""
    names = sorted(set(options))
    best = closest(word, names)
    if best is not None:
        return f"did you mean {quoted(best)}?"
    if not names:
        return "there is none to choose from"
    if len(names) > limit:
        return f"one of {len(names)}, such as {listed(names[:limit])}, would be right"
    return f"{listed(names)} would be right"


def did_you_mean_of(word: str, options: list[str]) -> str:
    """The same, with the few options beside it in their own order: ``did you mean `x`? (`x` or `y`)``."""
    if closest(word, options) is None:
        return f"{listed(options)} would be right"
    return did_you_mean(word, options) + (f" ({listed(options)})" if len(options) > 1 else "")
