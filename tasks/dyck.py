"""Family `dyck`: bounded bracket languages Dyck-(k, m) after Hewitt et al. 2020, with the stack's depth and top.

Shapes: N sequences, L positions, K bracket types, M the maximum depth. Token 2i opens type i, token 2i + 1 closes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Batch, IntArray, Task
from .contract import check_position, check_size
from .described import StateVariable, numbered
from .errors import TaskError
from .labels import InvalidSequence
from .parameters import Parameters, check_target

__all__ = ["Dyck", "build"]

_SYMBOLS = ("()", "[]", "{}", "<>")


@dataclass(frozen=True, slots=True)
class _Wish:
    """What each token should be if the stack allows it, and how deep the stack was in the original."""

    opens_LN: NDArray[np.bool_]
    types_LN: NDArray[np.uint8]
    depth_LN: IntArray

    def last_opening(self, position: int, rows: IntArray, depth: int | IntArray) -> IntArray:
        """For each of `rows` the last position before `position` whose opening bracket made the stack `depth` deep."""
        if not len(rows):
            return rows
        hits = self.opens_LN[:position, rows] & (self.depth_LN[:position, rows] == depth)
        return position - 1 - np.argmax(hits[::-1], axis=0)


class Dyck:
    """Prefixes of bounded Dyck words; they need not end at depth 0.

    At depth 0 a bracket opens, at `max_depth` it closes, otherwise either with probability ½; the type of an opening
    bracket is uniform, a closing one matches the top. States: `depth` (0 … max_depth) and `top` (0 for an empty stack,
    1 + type of the innermost open bracket otherwise).

    Parameters
    ----------
    bracket_types : int
        K, how many kinds of bracket there are.
    max_depth : int
        M, how many brackets may be open at once.
    target : str
        `depth` or `top`.
    """

    family = "dyck"
    version = 1

    def __init__(self, bracket_types: int = 2, max_depth: int = 10, target: str = "depth") -> None:
        self.bracket_types = bracket_types
        self.max_depth = max_depth
        pairs = [*_SYMBOLS, *(f"({i} ){i}" for i in range(len(_SYMBOLS), bracket_types))][:bracket_types]
        self.vocabulary = tuple(symbol for pair in pairs for symbol in (pair.split() if " " in pair else pair))
        self.classes: Mapping[str, int] = {"depth": max_depth + 1, "top": bracket_types + 1}
        self.variables = {
            "depth": StateVariable("How many brackets are open.", numbered(max_depth + 1)),
            "top": StateVariable("The innermost open bracket.", ("empty", *self.vocabulary[::2])),
        }
        self.target = check_target(self.family, target, self.classes)

    def sample(self, n: int, length: int, rng: np.random.Generator) -> Batch:
        """`n` prefixes of `length` brackets."""
        check_size(n, length)
        opens_LN = rng.integers(0, 2, (length, n), dtype=np.uint8).astype(np.bool_)
        types_LN = rng.integers(0, self.bracket_types, (length, n), dtype=np.uint8)
        return self._walk(opens_LN, types_LN)

    def label(self, tokens: IntArray) -> Batch:
        """Prefixes (n, length) with their depth and top; InvalidSequence for one that the stack forbids."""
        batch = self._walk(
            np.ascontiguousarray(tokens.T % 2 == 0), np.ascontiguousarray((tokens.T // 2).astype(np.uint8))
        )
        wrong = np.argwhere(batch.tokens != tokens)
        if len(wrong):
            row, position = (int(number) for number in wrong[0])
            raise InvalidSequence(
                row,
                position,
                f"{self.vocabulary[tokens[row, position]]!r} cannot stand there; a bracket that closes matches the "
                f"innermost open one, and 0 … {self.max_depth} are open",
            )
        return batch

    def corrupt(self, batch: Batch, position: int, rng: np.random.Generator) -> Batch:
        """Valid prefixes whose target state differs at `position`.

        What validity demands: after the last changed token, each token stays as it is unless the stack forbids it. A
        closing bracket takes the type of the bracket it now closes; one that finds the stack empty opens (its type
        drawn), one that finds it full closes. Before `position` nothing changes unless noted.

        Target `depth`: the bracket at `position` is turned round, a new opening one drawn in type. Where the stack
        before it is empty or full the bracket cannot turn round; there the bracket just before it is turned round
        instead, and with two or more types the one at `position` changes its type (a closing one by way of the
        bracket that it closes), with a single type it stays.

        Target `top`: an opening bracket changes its type; a closing one opens, with a type that gives another top;
        where the stack is full, the bracket that comes to the top changes its type instead.

        Raises
        ------
        TaskError
            Where all sequences have the same target at `position`: `depth` at position 0, at even positions with
            max_depth 2 and at all with max_depth 1; `top` with one type, and at odd positions with max_depth 1.
        """
        check_position(batch, position)
        self._check_corruptible(position)
        opens_LN = np.ascontiguousarray(batch.tokens.T % 2 == 0)
        depth_LN = np.where(opens_LN, 1, -1).cumsum(axis=0)
        # A closing bracket has no type of its own; it gets one for the case that it must open.
        drawn_LN = rng.integers(0, self.bracket_types, opens_LN.shape, dtype=np.uint8)
        types_LN = np.where(opens_LN, (batch.tokens.T // 2).astype(np.uint8), drawn_LN)
        wish = _Wish(opens_LN, types_LN, depth_LN)
        if self.target == "top":
            self._change_top(wish, position, rng)
        else:
            forced = self._turn_round(wish, position)
            if self.bracket_types > 1:
                self._change_forced_types(wish, batch.tokens[:, position] // 2, forced, position, rng)
        return self._walk(opens_LN, types_LN)

    def _check_corruptible(self, position: int) -> None:
        if self.target == "top" and self.bracket_types == 1:
            raise TaskError("with one bracket type the top says only whether the stack is empty: corrupt the depth")
        if self.target == "depth":
            fixed = position == 0 or self.max_depth == 1 or (self.max_depth == 2 and position % 2 == 0)
        else:
            fixed = self.max_depth == 1 and position % 2 == 1
        if fixed:
            raise TaskError(
                f"with max_depth {self.max_depth} every sequence has the same {self.target} at position {position}, "
                "so none can be corrupted there; take another position"
            )

    def _turn_round(self, wish: _Wish, position: int) -> tuple[IntArray, IntArray]:
        """Turn one bracket of each row round, in place; returns the rows whose stack is empty, and full, before it."""
        before = wish.depth_LN[position - 1]
        empty, full = np.flatnonzero(before == 0), np.flatnonzero(before == self.max_depth)
        free = np.flatnonzero((before > 0) & (before < self.max_depth))
        wish.opens_LN[position, free] ^= True
        wish.opens_LN[position - 1, empty] = True
        wish.opens_LN[position - 1, full] = False
        return empty, full

    def _change_forced_types(
        self,
        wish: _Wish,
        types: IntArray,
        forced: tuple[IntArray, IntArray],
        position: int,
        rng: np.random.Generator,
    ) -> None:
        """Give the brackets at `position` that could not turn round another type than `types` (N,), in place."""
        empty, full = forced
        wish.types_LN[position, empty] = self._other_types(types[empty], rng)
        # With two fewer open, what closes at `position` is the bracket that made the stack max_depth - 2 deep.
        opened = wish.last_opening(position - 1, full, self.max_depth - 2)
        same = wish.types_LN[opened, full] == types[full]
        wish.types_LN[opened[same], full[same]] = self._other_types(types[full[same]], rng)

    def _change_top(self, wish: _Wish, position: int, rng: np.random.Generator) -> None:
        """Change what gives each row another top at `position`, in place."""
        opening, depth = wish.opens_LN[position].copy(), wish.depth_LN[position]
        retyped = np.flatnonzero(opening)
        wish.types_LN[position, retyped] = self._other_types(wish.types_LN[position, retyped], rng)
        turned = np.flatnonzero(~opening & (depth < self.max_depth - 1))
        wish.opens_LN[position, turned] = True
        # The top after a closing bracket is the one that made the stack as deep as it is now; none at depth 0.
        covered = turned[depth[turned] > 0]
        opened = wish.last_opening(position, covered, depth[covered])
        wish.types_LN[position, covered] = self._other_types(wish.types_LN[opened, covered], rng)
        full = np.flatnonzero(~opening & (depth == self.max_depth - 1))
        opened = wish.last_opening(position, full, depth[full])
        wish.types_LN[opened, full] = self._other_types(wish.types_LN[opened, full], rng)

    def _other_types(self, types: NDArray[Any], rng: np.random.Generator) -> NDArray[np.uint8]:
        """For each type another one, drawn evenly."""
        step = rng.integers(1, self.bracket_types, len(types), dtype=np.int64)
        return ((types + step) % self.bracket_types).astype(np.uint8)

    def _walk(self, opens_LN: NDArray[np.bool_], types_LN: NDArray[np.uint8]) -> Batch:
        """The prefixes that follow a wish at each position wherever the stack allows it, with their states.

        Parameters
        ----------
        opens_LN : bool array (L, N)
            Whether the token should open; not followed at an empty or a full stack.
        types_LN : uint8 array (L, N)
            The type it gets if it opens; a closing bracket takes the top's.
        """
        length, n = opens_LN.shape
        tokens_LN = np.empty((length, n), dtype=np.uint8)
        depth_LN = np.empty((length, n), dtype=np.int16)
        top_LN = np.empty((length, n), dtype=np.uint8)
        # One stack a row, flat; entry 0 is the empty stack, the entries above hold 1 + type.
        stack = np.zeros(n * (self.max_depth + 1), dtype=np.uint8)
        base: IntArray = np.arange(n, dtype=np.int64) * (self.max_depth + 1)
        depth = np.zeros(n, dtype=np.int16)
        top = np.zeros(n, dtype=np.uint8)
        step_LN = np.where(opens_LN, np.int16(1), np.int16(-1))
        limit, one, two = np.int16(self.max_depth), np.uint8(1), np.uint8(2)
        for t in range(length):
            # Reflection at 0 and at max_depth: a step over the edge becomes a step back.
            after = limit - np.abs(limit - np.abs(depth + step_LN[t]))
            opening = after > depth
            place = base + after
            closed = top
            top = np.where(opening, types_LN[t] + one, stack[place])
            stack[place] = top
            tokens_LN[t] = np.where(opening, top * two - two, closed * two - one)
            depth_LN[t] = depth = after
            top_LN[t] = top
        states = {"depth": _rows(depth_LN), "top": _rows(top_LN)}
        return Batch(_rows(tokens_LN), states)


def build(params: Mapping[str, Any], target: str) -> Task:
    """The task for a spec's parameters: `bracket_types` (default 2) and `max_depth` (default 10)."""
    given = Parameters("dyck", params, ("bracket_types", "max_depth"))
    return Dyck(
        given.integer("bracket_types", low=1, high=100, default=2),
        given.integer("max_depth", low=1, high=1000, default=10),
        target,
    )


def _rows(values_LN: NDArray[Any]) -> IntArray:
    """(L, N) in any type to (N, L) int64."""
    return np.ascontiguousarray(values_LN.T, dtype=np.int64)
