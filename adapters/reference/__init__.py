"""The reference zoo: one readable file an architecture, built by the name of its type.

Every architecture is an ``nn.Module`` with ``embed`` (tokens to h_BLD, positions included), ``blocks`` (each h_BLD to
h_BLD, residual included), ``head`` (final norm and linear map), ``components`` (name to ablation modes) and
``ablatable(component)`` (the parts whose ``ablation`` attribute selects a mode).
"""

from __future__ import annotations

import importlib
import types
import typing
from collections.abc import Mapping
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from ..base import AdapterError
from ..naming import instead_of

if TYPE_CHECKING:
    from torch import nn

__all__ = ["ARCHITECTURES", "build"]

ARCHITECTURES: Mapping[str, tuple[str, str]] = {
    "transformer": (".transformer", "Transformer"),
    "mamba": (".mamba", "Mamba"),
    "mamba2": (".mamba2", "Mamba2"),
    "lstm": (".recurrent", "LSTM"),
    "gru": (".recurrent", "GRU"),
}
"""Each type and where its class is: the module and its name. Imported only when built."""


def build(type: str, options: Mapping[str, Any], vocab_size: int, classes: int) -> nn.Module:
    """A freshly initialised reference model, its weights drawn from torch's global generator.

    Parameters
    ----------
    type : str
        A key of `ARCHITECTURES`.
    options : mapping
        The keyword arguments of the architecture's class: blocks, width and so on.
    vocab_size, classes : int
        Number of tokens and of values of the target state.

    Raises
    ------
    AdapterError
        For an unknown type, an unknown or missing option, or a value of the wrong type.
    """
    if type not in ARCHITECTURES:
        raise AdapterError(f"There is no architecture {type!r}{instead_of(type, ARCHITECTURES)}")
    where, name = ARCHITECTURES[type]
    architecture = getattr(importlib.import_module(where, __name__), name)
    _check_options(type, architecture, options)
    return architecture(vocab_size, classes, **options)


def _check_options(type: str, architecture: Any, options: Mapping[str, Any]) -> None:
    """Raise unless `options` are keyword arguments of `architecture`, each of its declared type."""
    declared = {n: p for n, p in signature(architecture).parameters.items() if p.kind is Parameter.KEYWORD_ONLY}
    hints = typing.get_type_hints(architecture.__init__)
    for name, value in options.items():
        if name not in declared:
            raise AdapterError(f"The architecture {type} has no option {name!r}{instead_of(name, declared)}")
        if not _fits(value, hints[name]):
            raise AdapterError(
                f"The option {name} of the architecture {type} is {value!r}; it takes {_describe(hints[name])}."
            )
    missing = [n for n, p in declared.items() if p.default is Parameter.empty and n not in options]
    if missing:
        raise AdapterError(f"The architecture {type} needs the option{'s' * (len(missing) > 1)} {', '.join(missing)}.")


def _fits(value: Any, hint: Any) -> bool:
    """Whether `value` is what `hint` declares; sizes (int) are at least 1, and true is not 1."""
    if _is_union(hint):
        return any(_fits(value, part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is typing.Literal:
        return value in typing.get_args(hint)
    if hint in (int, float):
        number = isinstance(value, int | float if hint is float else int) and not isinstance(value, bool)
        return number and (hint is float or value >= 1)
    return isinstance(value, hint)


def _describe(hint: Any) -> str:
    """What an option of this type takes, in words."""
    if _is_union(hint):
        return " or ".join(_describe(part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(map(str, typing.get_args(hint)))
    words = {int: "a whole number from 1", float: "a number", bool: "true or false", str: "a name"}
    return words.get(hint, "null" if hint is types.NoneType else str(hint))


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)
