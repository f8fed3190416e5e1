"""Finite groups as lists of permutations: named ones, generated ones, and their multiplication tables.

A permutation is the tuple of the images of 0, 1, 2 …; permutations act on the left, so (a ∘ b)(i) = a[b[i]].
"""

from __future__ import annotations

import math
import re
from itertools import permutations as all_permutations

import numpy as np
from numpy.typing import NDArray

from .errors import TaskError

__all__ = [
    "MAX_CYCLIC",
    "MAX_ORDER",
    "Permutation",
    "compose",
    "generated",
    "multiplication_table",
    "named_group",
    "sign",
]

Permutation = tuple[int, ...]

MAX_ORDER = 5040
"""The largest order of a group that is accepted; its table takes 49 MiB."""

MAX_CYCLIC = 1000
"""The largest n of ``z<n>``, which turns n points."""

_NAME = re.compile(r"([zsa])([1-9][0-9]{0,5})")
_MEANING = "z<n> is the cyclic group of order n, s<n> all and a<n> the even permutations of n points"


def named_group(name: str) -> list[Permutation]:
    """Elements of a group given by name, the identity first.

    ``z<n>``: the rotations of n points, element i turns by i. ``s<n>`` and ``a<n>``: all and the even permutations of
    n points, in lexicographic order.

    Raises
    ------
    TaskError
        For an unknown name, a group of one element, or one of more than `MAX_ORDER`.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise TaskError(f"no group is called {name!r}: {_MEANING}", field="group")
    kind, points = match[1], int(match[2])
    # Factorials beyond 8 are over the limit; their exact value does not matter.
    order = {"z": points, "s": math.factorial(min(points, 9)), "a": math.factorial(min(points, 9)) // 2}[kind]
    limit = MAX_CYCLIC if kind == "z" else MAX_ORDER
    if not 2 <= order <= limit:
        raise TaskError(f"group {name!r} must have 2 to {limit} elements: {_MEANING}", field="group")
    if kind == "z":
        return [tuple((i + turn) % points for i in range(points)) for turn in range(points)]
    elements = list(all_permutations(range(points)))
    return elements if kind == "s" else [element for element in elements if sign(element) == 0]


def generated(generators: list[Permutation]) -> list[Permutation]:
    """All products of the generators, in lexicographic order, so the identity is first.

    Raises
    ------
    TaskError
        For a group of one element or of more than `MAX_ORDER`.
    """
    found = {tuple(range(len(generators[0])))}
    newest = found
    while newest:
        newest = {compose(generator, element) for generator in generators for element in newest} - found
        found |= newest
        if len(found) > MAX_ORDER:
            raise TaskError(f"these generators give more than {MAX_ORDER} elements", field="generators")
    if len(found) < 2:
        raise TaskError("these generators give the identity only; a group of 2 or more is needed", field="generators")
    return sorted(found)


def multiplication_table(elements: list[Permutation]) -> NDArray[np.uint16]:
    """Table (order, order) whose entry [x, s] is the number of x ∘ s.

    Raises
    ------
    TaskError
        If the identity is not first, an element stands twice, or a product is missing.
    """
    if list(elements[0]) != list(range(len(elements[0]))):
        raise TaskError(f"element 0 is {list(elements[0])}; it must be the identity", field="elements")
    if not 2 <= len(elements) <= MAX_ORDER:
        raise TaskError(f"a group of {len(elements)} elements; it must have 2 to {MAX_ORDER}", field="elements")
    numbers: dict[Permutation, int] = {}
    for number, element in enumerate(elements):
        if element in numbers:
            raise TaskError(f"elements {numbers[element]} and {number} are both {list(element)}", field="elements")
        numbers[element] = number
    return _filled(elements, numbers)


def compose(left: Permutation, right: Permutation) -> Permutation:
    """left ∘ right: first `right`, then `left`."""
    return tuple(left[image] for image in right)


def sign(element: Permutation) -> int:
    """0 for an even permutation, 1 for an odd one."""
    seen = [False] * len(element)
    cycles = 0
    for start in range(len(element)):
        point = start
        cycles += not seen[point]
        while not seen[point]:
            seen[point] = True
            point = element[point]
    return (len(element) - cycles) % 2


def _filled(elements: list[Permutation], numbers: dict[Permutation, int]) -> NDArray[np.uint16]:
    """The table, from the rows of a few generators: (g ∘ y) ∘ s = g ∘ (y ∘ s) gives each further row by one look-up."""
    order = len(elements)
    table = np.empty((order, order), dtype=np.uint16)
    table[0] = np.arange(order)
    known = [True] + [False] * (order - 1)
    generators: list[int] = []
    for number in range(order):
        if known[number]:
            continue
        table[number] = _row(number, elements, numbers)
        known[number] = True
        generators.append(number)
        waiting = [y for y in range(order) if known[y]]
        while waiting:
            y = waiting.pop()
            for generator in generators:
                product = int(table[generator, y])
                if not known[product]:
                    table[product] = table[generator][table[y]]
                    known[product] = True
                    waiting.append(product)
    return table


def _row(x: int, elements: list[Permutation], numbers: dict[Permutation, int]) -> list[int]:
    row: list[int] = []
    for s, element in enumerate(elements):
        product = compose(elements[x], element)
        if product not in numbers:
            raise TaskError(
                f"element {x} ∘ element {s} is {list(product)}, which is not an element: not a group", field="elements"
            )
        row.append(numbers[product])
    return row
