"""What a page says of a value: numbers, words and links, safe to show whoever wrote them."""

from __future__ import annotations

import math
import re

from markupsafe import Markup, escape

__all__ = ["clean", "linked", "listed", "number", "plural", "signed"]

MINUS = "−"
MISSING = "–"
REPLACED = "\N{REPLACEMENT CHARACTER}"
_SIGNED_UNITS = {"sites", "pp"}
_PLACES = {"share": 3, "skill": 3, "pp": 1, "sites": 0, "nats": 3}
# Characters that reorder or hide text, and those that are none: a name that holds one must not look like another name.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
_LINK = re.compile(r"https?://[A-Za-z0-9.-]+(?::\d+)?(?:/[^\s<>\"'\\^`{|}]*)?")
_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5}(?:v\d+)?)", re.IGNORECASE)


def clean(text: str, limit: int = 20_000) -> str:
    """`text` with control, bidirectional and zero-width characters made visible, cut at `limit` characters."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    return _HIDDEN.sub(REPLACED, cut)


def number(value: float, unit: str, places: int | None = None) -> str:
    """A number with the decimals that its unit asks for, and a true minus.

    Differences in sites and percentage points carry their sign.
    """
    if places is None:
        places = _PLACES.get(unit, _significant(value))
        if unit == "sites" and value != round(value):
            places = 1
    shown = f"{abs(value):.{places}f}"
    if abs(value) >= 1e7 or (value != 0 and unit not in _PLACES and abs(value) < 1e-4):
        shown = f"{abs(value):.2e}"
    is_zero = not any(digit in shown for digit in "123456789")
    if value < 0 and not is_zero:
        return MINUS + shown
    return "+" + shown if unit in _SIGNED_UNITS and not is_zero else shown


def signed(value: float, places: int = 3) -> str:
    """A difference, with its sign."""
    shown = number(value, "", places)
    return shown if shown.startswith(MINUS) or value == 0 else f"+{shown}"


def plural(count: int, noun: str) -> str:
    """`3 tasks`, `1 task`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(words: list[str]) -> str:
    """`a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def linked(text: str) -> Markup:
    """`text`, escaped, with its http(s) addresses and arXiv numbers as links; nothing else can become one."""
    shown = clean(text)
    pieces: list[Markup] = []
    end = 0
    for match in re.finditer(f"{_LINK.pattern}|{_ARXIV.pattern}", shown, re.IGNORECASE):
        pieces.append(escape(shown[end : match.start()]))
        found = match.group(0)
        target = f"https://arxiv.org/abs/{match.group(1)}" if match.group(1) else found
        link = Markup('<a href="{}" rel="noopener noreferrer nofollow">{}</a>')
        pieces.append(link.format(target, found))
        end = match.end()
    pieces.append(escape(shown[end:]))
    return Markup("").join(pieces)


def _significant(value: float) -> int:
    """Decimals for three significant digits, at most four; whole numbers have none."""
    if value == round(value) and abs(value) < 1e7:
        return 0
    return min(4, max(0, 2 - math.floor(math.log10(abs(value)))))
