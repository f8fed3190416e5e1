"""What an unquoted YAML scalar means: the core schema of YAML 1.2, less what it leaves open to accident.

Source: YAML 1.2.2, section 10.3.2. So `no` and `2024-01-01` are texts, `1e-4` is a number and `0o17` is fifteen.
"""

from __future__ import annotations

import math
import re
import unicodedata

from .nodes import Scalar

__all__ = ["plain_scalar", "unwanted_character"]

_WORDS: dict[str, Scalar] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_OCTAL = re.compile(r"0o[0-7]+", re.ASCII)
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LARGEST = 2**63 - 1
_TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def plain_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar.

    Raises
    ------
    ValueError
        For a number that is not finite, does not fit, or has a leading zero; the message is a plain sentence.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        digits = text.lstrip("+-")
        if len(digits) > 1 and digits.startswith("0"):
            raise ValueError(
                f"`{text[:40]}` has a leading zero — write a number without it, or put a text in quotes "
                "(octal numbers start with 0o)"
            )
        return _bounded(text, 10)
    if _OCTAL.fullmatch(text):
        return _bounded(text[2:], 8)
    if _HEXADECIMAL.fullmatch(text):
        return _bounded(text[2:], 16)
    if _FLOAT.fullmatch(text):
        return _finite(text)
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"`{text}` — a finite number would be right, or null where the key allows none")
    return text


def _bounded(digits: str, base: int) -> int:
    value = int(digits, base) if len(digits) <= 24 else _LARGEST + 1
    if abs(value) > _LARGEST:
        raise ValueError(f"the number {digits[:24]}… is too large — at most {_LARGEST} would be right")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:40]} is too large — at most about 1.8e308 would be right")
    mantissa = re.split("[eE]", text)[0]
    if value == 0.0 and any(digit in mantissa for digit in "123456789"):
        raise ValueError(f"the number {text[:40]} is too small — write 0, or at least about 5e-324")
    return value


def unwanted_character(text: str) -> str | None:
    """The first character that is no text, named; None if all are fine.

    Control characters, lone surrogates, line and paragraph separators, and those that turn the direction of writing.
    """
    for character in text:
        category = unicodedata.category(character)
        if (
            category in ("Cs", "Zl", "Zp")
            or (category == "Cc" and character not in "\n\t")
            or unicodedata.bidirectional(character) in _TURNS
        ):
            return f"U+{ord(character):04X}"
    return None
