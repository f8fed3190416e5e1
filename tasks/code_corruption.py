"""How `code_depth` corrupts a window: another bracket depth at one position, with brackets that still match.

A sequence of lexical classes is *valid* here if each closing bracket closes the innermost open one and NEWLINE, INDENT
and DEDENT stand outside all brackets, as in every window of code. A corrupted window need not be a Python program.
"""

from __future__ import annotations

from dataclasses import dataclass

from .lexical import CLASS_NUMBER, CLOSE_OF, LAYOUT

__all__ = ["corrupted_window"]

_NAME, _NUMBER = CLASS_NUMBER["NAME"], CLASS_NUMBER["NUMBER"]
_CLOSING = frozenset(CLOSE_OF.values())


def corrupted_window(tokens: list[int], position: int, max_depth: int) -> list[int]:
    """A valid window whose depth, clipped at `max_depth`, differs from that of `tokens` at `position`.

    The token at `position` changes, none before it:

    - an opening bracket becomes NAME, and so does its partner;
    - a closing bracket becomes NAME and closes later;
    - any other token becomes an opening bracket, of the type of the innermost open one or round, that closes later.

    To close later, the last word or operator at the same level becomes the closing bracket, so that the depth differs
    as long as it may. Where there is none before the enclosing bracket closes, the closing bracket takes that one's
    place, which then closes later in its turn; where there is none before the line ends, it takes the place of
    NEWLINE, INDENT or DEDENT; where the window ends first, the bracket stays open.

    Where the depth is so far above `max_depth` that one bracket more or less is not seen, the token at `position`
    becomes NAME (or NUMBER), and so do the innermost enclosing brackets, until the depth is ``max_depth - 1``: the one
    case in which tokens before `position` change.

    Parameters
    ----------
    tokens : list of int
        A valid window of lexical classes.
    position : int
        An index into it.
    max_depth : int
        Where the depth is clipped; at least 1.
    """
    brackets = _Brackets.of(tokens)
    open_before = brackets.open_before(position)
    token = tokens[position]
    depth = len(open_before) + (token in CLOSE_OF) - (token in _CLOSING)
    changed = list(tokens)
    if depth - (token in CLOSE_OF) >= max_depth:
        return _brought_below(changed, position, open_before, brackets, max_depth)
    if token in CLOSE_OF:
        changed[position] = _NAME
        _rename_partner(changed, brackets.partner[position])
    elif token in _CLOSING:
        changed[position] = _NAME
        _close_later(changed, position + 1, token)
    else:
        opening = tokens[open_before[-1]] if open_before else 0
        changed[position] = opening
        _close_later(changed, position + 1, CLOSE_OF[opening])
    return changed


@dataclass(frozen=True, slots=True)
class _Brackets:
    """For each position the partner of the bracket there: an index, or -1 for a bracket left open or no bracket."""

    partner: list[int]
    opening: list[bool]

    @classmethod
    def of(cls, tokens: list[int]) -> _Brackets:
        partner = [-1] * len(tokens)
        stack: list[int] = []
        for index, token in enumerate(tokens):
            if token in CLOSE_OF:
                stack.append(index)
            elif token in _CLOSING:
                partner[index] = stack.pop()
                partner[partner[index]] = index
        return cls(partner, [token in CLOSE_OF for token in tokens])

    def open_before(self, position: int) -> list[int]:
        """Indices of the brackets that are open before `position`, outermost first."""
        return [
            index
            for index in range(position)
            if self.opening[index] and (self.partner[index] == -1 or self.partner[index] >= position)
        ]


def _close_later(tokens: list[int], start: int, closing: int) -> None:
    """Put `closing` at the right place from `start` on, in place; see `corrupted_window`."""
    level = 0
    room = -1
    for index in range(start, len(tokens)):
        token = tokens[index]
        if token in CLOSE_OF:
            level += 1
        elif token in _CLOSING and level:
            level -= 1
        elif token in _CLOSING or token in LAYOUT:
            if room >= 0:
                tokens[room] = closing
                return
            tokens[index] = closing
            if token in LAYOUT:
                return
            closing = token
        elif not level:
            room = index


def _brought_below(
    tokens: list[int], position: int, open_before: list[int], brackets: _Brackets, max_depth: int
) -> list[int]:
    """Rename brackets around `position` until the depth there is ``max_depth - 1``; changes and returns `tokens`."""
    enclosing = open_before[:-1] if tokens[position] in _CLOSING else open_before
    _rename_partner(tokens, brackets.partner[position])
    tokens[position] = _NUMBER if tokens[position] == _NAME else _NAME
    for index in enclosing[max_depth - 1 :]:
        tokens[index] = _NAME
        _rename_partner(tokens, brackets.partner[index])
    return tokens


def _rename_partner(tokens: list[int], partner: int) -> None:
    if partner >= 0:
        tokens[partner] = _NAME
