"""Family `groups`: elements of a finite group, and the product of the prefix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .base import Batch, IntArray, Task
from .contract import check_position, check_size
from .described import StateVariable
from .errors import TaskError
from .parameters import Parameters, check_target, describe
from .permutations import Permutation, generated, multiplication_table, named_group, sign

__all__ = ["Groups", "build"]

_PARAMETERS = ("group", "generators", "elements", "sign", "identity_probability")


class Groups:
    """Independent elements of a group; state_t = x_t ∘ state_{t-1}, permutations acting on the left.

    Parameters
    ----------
    elements : list of permutations
        All elements, the identity first; token i and state i are element i.
    target : str
        `product`, or `sign` where `with_sign`.
    with_sign : bool
        Whether there is the state `sign`: 0 for an even product, 1 for an odd one.
    identity_probability : float, optional
        How often a token is the identity, the others sharing the rest evenly; None: all tokens alike.

    Raises
    ------
    TaskError
        If the elements are not a group, or `with_sign` and none of them is odd.
    """

    family = "groups"
    version = 1

    def __init__(
        self,
        elements: list[Permutation],
        target: str = "product",
        *,
        with_sign: bool = False,
        identity_probability: float | None = None,
    ) -> None:
        self.order = len(elements)
        table = multiplication_table(elements)
        # Flat and indexed by x * order + s, in the narrowest type: the walk below is bound by memory.
        self._products = table.ravel().astype(np.min_scalar_type(self.order - 1))
        self._signs = np.array([sign(element) for element in elements], dtype=np.int64)
        if with_sign and not self._signs.any():
            raise TaskError("every element is even, so there is no state 'sign'; leave it out", field="sign")
        self.with_sign = with_sign
        self.identity_probability = identity_probability
        self.vocabulary = tuple(f"g{number}" for number in range(self.order))
        self.classes: Mapping[str, int] = {"product": self.order} | ({"sign": 2} if with_sign else {})
        self.target = check_target(self.family, target, self.classes)
        self.variables = {
            "product": StateVariable(
                "The product of all elements so far, state_t = x_t ∘ state_{t-1}; token gi and state gi are the same "
                f"element. {_numbering(elements)}",
                self.vocabulary,
            ),
            "sign": StateVariable("The sign of that product as a permutation.", ("even", "odd")),
        }

    def sample(self, n: int, length: int, rng: np.random.Generator) -> Batch:
        """`n` sequences of `length` elements."""
        check_size(n, length)
        if self.identity_probability is None:
            drawn = rng.integers(0, self.order, (n, length), dtype=self._products.dtype.type)
        else:
            drawn = rng.integers(1, self.order, (n, length), dtype=self._products.dtype.type)
            drawn[rng.random((n, length)) < self.identity_probability] = 0
        return self.label(drawn.astype(np.int64))

    def corrupt(self, batch: Batch, position: int, rng: np.random.Generator) -> Batch:
        """Another element at `position`, drawn evenly from those that change the target there; nothing else changes."""
        check_position(batch, position)
        tokens = batch.tokens.copy()
        old = tokens[:, position]
        if self.target == "sign":
            by_sign = np.stack([np.flatnonzero(self._signs == 0), np.flatnonzero(self._signs == 1)])
            tokens[:, position] = by_sign[1 - self._signs[old], rng.integers(0, self.order // 2, len(old))]
        else:
            tokens[:, position] = (old + rng.integers(1, self.order, len(old))) % self.order
        return self.label(tokens)

    def label(self, tokens: IntArray) -> Batch:
        """Elements (n, length) with their products, walked position by position for all rows at once."""
        n, length = tokens.shape
        rows_LN = np.ascontiguousarray(tokens.T) * self.order
        product_LN = np.empty((length, n), dtype=self._products.dtype)
        state = np.zeros(n, dtype=self._products.dtype)
        for t in range(length):
            np.take(self._products, rows_LN[t] + state, out=product_LN[t], mode="clip")
            state = product_LN[t]
        product = np.ascontiguousarray(product_LN.T, dtype=np.int64)
        states = {"product": product}
        if self.with_sign:
            states["sign"] = self._signs[product]
        return Batch(tokens, states)


def build(params: Mapping[str, Any], target: str) -> Task:
    """The task for a spec's parameters.

    Exactly one of `group` (``z<n>``, ``s<n>``, ``a<n>``), `generators` (permutations; elements numbered in
    lexicographic order) and `elements` (all permutations, numbered as they stand, identity first). Further: `sign`
    (default false) and `identity_probability` (default null).
    """
    given = Parameters("groups", params, _PARAMETERS)
    sources = [name for name in ("group", "generators", "elements") if given.has(name)]
    if len(sources) != 1:
        found = " and ".join(sources) if sources else "none of them"
        raise TaskError(
            f"family 'groups' needs exactly one of group, generators and elements, not {found}",
            field=sources[1] if sources else "group",
        )
    with_sign = given.flag("sign", default=False)
    if with_sign and sources == ["group"] and given.text("group").startswith("z"):
        raise TaskError(
            f"a cyclic group has no state 'sign'; sign was {describe(True)}, leave it out or use s<n>", field="sign"
        )
    rare = given.probability("identity_probability") if given.has("identity_probability") else None
    return Groups(_elements(given, sources[0]), target, with_sign=with_sign, identity_probability=rare)


def _elements(given: Parameters, source: str) -> list[Permutation]:
    if source == "group":
        return named_group(given.text("group"))
    if source == "generators":
        return generated(given.permutations("generators"))
    return given.permutations("elements")


def _numbering(elements: list[Permutation]) -> str:
    """Which permutation each of the first elements is."""
    shown = ", ".join(f"g{number} = {list(element)}" for number, element in enumerate(elements[:24]))
    rest = f" and so on to g{len(elements) - 1}, in the order of the parameters" if len(elements) > 24 else ""
    return f"As images of 0, 1, 2 …: {shown}{rest}."
