"""Lexical classes of Python code: what the `code_depth` family calls a token, and how text becomes classes.

The classes hold no code text: each bracket, each kind of layout token, names, literals, and keywords and operators by
group. Blank lines and line breaks inside brackets have no class.
"""

from __future__ import annotations

import io
import token
import tokenize
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["CLASSES", "CLASS_NUMBER", "CLOSE_OF", "LAYOUT", "lexical_classes"]

_BRACKETS = ("(", ")", "[", "]", "{", "}")
_LAYOUT_NAMES = ("NEWLINE", "INDENT", "DEDENT")
_WORDS = ("NAME", "NUMBER", "STRING", "COMMENT")
_KEYWORDS = {
    "def": ("def", "class"),
    "lambda": ("lambda",),
    "return": ("return", "yield"),
    "if": ("if", "elif"),
    "else": ("else",),
    "for": ("for", "while"),
    "pass": ("pass", "break", "continue"),
    "try": ("try", "except", "finally"),
    "raise": ("raise", "assert"),
    "with": ("with",),
    "as": ("as",),
    "import": ("import", "from"),
    "in": ("in", "is"),
    "and": ("and", "or"),
    "not": ("not",),
    "None": ("None", "True", "False", "..."),
    "del": ("del", "global", "nonlocal"),
    "await": ("await", "async"),
}
_OPERATORS = {
    ".": (".",),
    ",": (",",),
    ":": (":",),
    ";": (";",),
    "=": ("=", ":="),
    "+=": ("+=", "-=", "*=", "/=", "//=", "%=", "@=", "&=", "|=", "^=", ">>=", "<<=", "**="),
    "->": ("->",),
    "+": ("+", "-"),
    "*": ("*", "/", "//", "%", "@", "**"),
    "&": ("&", "|", "^", "~", "<<", ">>"),
    "==": ("==", "!=", "<", ">", "<=", ">="),
}

CLASSES: tuple[str, ...] = (*_BRACKETS, *_LAYOUT_NAMES, *_WORDS, *_KEYWORDS, *_OPERATORS)
"""One symbol a class; the brackets come first, opening ones even, each closing one right after its opening one."""

CLASS_NUMBER: dict[str, int] = {symbol: number for number, symbol in enumerate(CLASSES)}
"""Class numbers by symbol."""

CLOSE_OF: dict[int, int] = {0: 1, 2: 3, 4: 5}
"""Class of the closing bracket, by the class of the opening one."""

LAYOUT: tuple[int, ...] = tuple(CLASS_NUMBER[name] for name in _LAYOUT_NAMES)
"""The classes that stand outside brackets only: NEWLINE, INDENT, DEDENT."""

_CLASS_OF_TEXT = {bracket: CLASS_NUMBER[bracket] for bracket in _BRACKETS} | {
    text: CLASS_NUMBER[symbol] for symbol, texts in (_KEYWORDS | _OPERATORS).items() for text in texts
}
_CLASS_OF_TYPE = {
    token.NEWLINE: CLASS_NUMBER["NEWLINE"],
    token.INDENT: CLASS_NUMBER["INDENT"],
    token.DEDENT: CLASS_NUMBER["DEDENT"],
    token.NUMBER: CLASS_NUMBER["NUMBER"],
    token.STRING: CLASS_NUMBER["STRING"],
    token.COMMENT: CLASS_NUMBER["COMMENT"],
}
_WITHOUT_CLASS = frozenset({token.NL, token.ENDMARKER, token.ENCODING})
# Python 3.12 splits formatted strings into parts, 3.14 template strings too; here each is one STRING, as in 3.11.
_STRING_STARTS = frozenset(getattr(token, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(token, name))
_STRING_ENDS = frozenset(getattr(token, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(token, name))
# Newer tokenisers refuse a number that runs into a word, unless the word is one of these.
_MAY_FOLLOW_A_NUMBER = frozenset({"and", "else", "for", "if", "in", "is", "not", "or"})


def lexical_classes(source: str) -> NDArray[np.uint8] | None:
    """Class numbers of the tokens of one function's text, or None where the text does not tokenise.

    Parameters
    ----------
    source : str
        Python text, its first line at column 0; later lines may keep the indentation of the file.

    Returns
    -------
    uint8 array (tokens,) or None
        None for text that the tokeniser refuses, that holds an unknown symbol, or whose brackets do not match.
    """
    try:
        classes = [_class_of(item) for item in _without_string_parts(source)]
    except (tokenize.TokenError, SyntaxError, KeyError):
        return None
    if not _brackets_match(classes):
        return None
    return np.array(classes, dtype=np.uint8)


def _without_string_parts(source: str) -> Iterator[tokenize.TokenInfo]:
    """The tokens that have a class, a formatted string as one STRING; KeyError on what newer ones refuse."""
    inside = 0
    previous: tokenize.TokenInfo | None = None
    for item in tokenize.generate_tokens(io.StringIO(source.rstrip() + "\n").readline):
        if item.type in _STRING_STARTS:
            inside += 1
            if inside == 1:
                yield item._replace(type=token.STRING)
        elif item.type in _STRING_ENDS:
            inside -= 1
        elif not inside and item.type not in _WITHOUT_CLASS:
            if previous is not None and _runs_together(previous, item):
                raise KeyError(item.string)
            yield item
        previous = item


def _runs_together(left: tokenize.TokenInfo, right: tokenize.TokenInfo) -> bool:
    """Whether two tokens stand side by side that newer tokenisers refuse there: a number and a word, or ``<>``."""
    if left.end != right.start:
        return False
    if left.type == token.NUMBER:
        return right.type == token.NUMBER or (right.type == token.NAME and right.string not in _MAY_FOLLOW_A_NUMBER)
    return (left.string, right.string) == ("<", ">")


def _class_of(item: tokenize.TokenInfo) -> int:
    """The class of one token; KeyError where it has none."""
    if item.type == token.NAME:
        return _CLASS_OF_TEXT.get(item.string, CLASS_NUMBER["NAME"])
    if item.type == token.OP:
        return _CLASS_OF_TEXT[item.string]
    return _CLASS_OF_TYPE[item.type]


def _brackets_match(classes: list[int]) -> bool:
    expected: list[int] = []
    for number in classes:
        if number in CLOSE_OF:
            expected.append(CLOSE_OF[number])
        elif number < len(_BRACKETS) and (not expected or expected.pop() != number):
            return False
    return not expected
