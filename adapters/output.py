"""The residual stream inside what a submodule returns: a tensor, or one element of several."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .base import FieldError

__all__ = ["Part", "pick", "replace"]

Part = int | str
"""The index of an element, or the key or attribute that holds it."""


def pick(output: Any, part: Part | None, whose: str, setting: tuple[str, ...] = ("sites", "output")) -> Tensor:
    """The tensor at `part` of `output`; `output` itself where it is a tensor.

    `whose` it is, and the field of the spec that sets `part`, are named in the error (`FieldError`).
    """
    if isinstance(output, Tensor):
        return output
    found = output if part is None else _element(output, part)
    if isinstance(found, Tensor):
        return found
    holds = type(output).__name__ + _contents(output)
    wrong = "and nothing says which element to take" if part is None else f"with no tensor at {part!r}"
    places = _tensors(output)
    right = f" ({', '.join(map(str, places))})" if places else ""
    raise FieldError(
        f"the submodule of {whose} returned a {holds}, {wrong}. Set {'.'.join(setting)} to the index or the attribute "
        f"of the tensor (batch, length, width){right}.",
        setting,
    )


def replace(output: Any, part: Part | None, tensor: Tensor) -> Any:
    """`output` with `tensor` at `part` and everything else as it was; the original is left alone."""
    if isinstance(output, Tensor) or part is None:
        return tensor
    if isinstance(output, tuple | list):
        return _with_element(output, part, tensor)
    changed = copy.copy(output)
    if isinstance(output, Mapping):
        changed[part] = tensor
    else:
        object.__setattr__(changed, str(part), tensor)  # a dataclass may be frozen
    return changed


def _with_element(output: Any, part: Part, tensor: Tensor) -> Any:
    """A tuple, named tuple or list with one element replaced."""
    if isinstance(part, str):
        return output._replace(**{part: tensor})
    elements = list(output)
    elements[part] = tensor
    return type(output)(*elements) if hasattr(output, "_replace") else type(output)(elements)


def _element(output: Any, part: Part) -> Any:
    """The element, or None where there is no such element."""
    if isinstance(output, tuple | list) and isinstance(part, int):
        return output[part] if -len(output) <= part < len(output) else None
    if isinstance(output, Mapping):
        return output.get(part)
    return getattr(output, part, None) if isinstance(part, str) else None


def _tensors(output: Any) -> list[Part]:
    """The places in it that hold a tensor."""
    if isinstance(output, Mapping):
        return [str(key) for key, value in output.items() if isinstance(value, Tensor)]
    if isinstance(output, tuple | list):
        return [index for index, value in enumerate(output) if isinstance(value, Tensor)]
    return [name for name, value in getattr(output, "__dict__", {}).items() if isinstance(value, Tensor)]


def _contents(output: Any) -> str:
    """What is inside, for the error: types by index or key."""
    if isinstance(output, tuple | list):
        return f" ({', '.join(type(element).__name__ for element in output)})"
    if isinstance(output, Mapping):
        return f" ({', '.join(map(str, output))})"
    return ""
