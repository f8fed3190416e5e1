"""One visual language for all pages: colour is the architecture family, shape is the structure of the task.

Every model of a site has a colour of its own: the family's hue, in a shade for each further model of the family.
Colours are CSS variables with a value for light and one for dark pages; all reach a contrast of 4.5 on their page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["DARK", "LIGHT", "SHAPES", "Ink", "Page", "assign_inks", "contrast", "stylesheet"]

# OKLCH hue (degrees) and chroma. The five families of the reference zoo keep theirs whatever else is on the site.
_FIXED = {
    "transformer": (255.0, 0.150),
    "mamba": (42.0, 0.155),
    "mamba2": (318.0, 0.160),
    "lstm": (155.0, 0.120),
    "gru": (82.0, 0.115),
}
_FURTHER = ((205.0, 0.100), (5.0, 0.160), (120.0, 0.120), (285.0, 0.160), (62.0, 0.070), (180.0, 0.090), (340.0, 0.110))

# Lightness of the first, second, … model of a hue; then the row repeats with the hue turned a little.
_LIGHT_SHADES = (0.52, 0.38, 0.46, 0.31)
_DARK_SHADES = (0.76, 0.88, 0.68, 0.82)
_TURN = 11.0
_DASHES: tuple[tuple[int, ...], ...] = ((), (6, 2), (2, 2), (8, 2, 2, 2), (4, 4), (1, 3))

SHAPES = {"prefix_update": "circle", "stack": "square", "other": "triangle-up"}
"""Task structure to marker."""


@dataclass(frozen=True, slots=True)
class Page:
    """The colours of the page itself, for one scheme."""

    paper: str
    raised: str
    ink: str
    muted: str
    line: str
    grid: str
    link: str
    warn: str


LIGHT = Page("#ffffff", "#f6f7f9", "#1b1f24", "#59636e", "#d5dae0", "#e9ecef", "#1f5fae", "#8f4a00")
DARK = Page("#14171b", "#1c2026", "#e6e9ed", "#9aa5b1", "#353c45", "#282e36", "#85b7f2", "#f0b068")


@dataclass(frozen=True, slots=True)
class Ink:
    """How a model is drawn.

    Attributes
    ----------
    token : str
        The CSS variable, without its dashes.
    light, dark : str
        Its value on light and on dark pages, as ``#rrggbb``.
    dash : tuple of int
        Line dash; empty for a solid line.
    """

    token: str
    light: str
    dark: str
    dash: tuple[int, ...]

    @property
    def css(self) -> str:
        """The colour as CSS, readable where the variables are not defined."""
        return f"var(--{self.token}, {self.light})"


def assign_inks(models: Iterable[tuple[str, str]]) -> dict[str, Ink]:
    """Give every model its ink.

    Parameters
    ----------
    models : iterable of (name, family)
        All models of the site, in any order; a name may come twice.

    Returns
    -------
    dict of str to Ink
        By model name; no two models share a colour.
    """
    families: dict[str, set[str]] = {}
    for name, family in models:
        families.setdefault(family, set()).add(name)
    others = sorted(set(families) - set(_FIXED))
    inks: dict[str, Ink] = {}
    used: set[str] = set()
    for family in [*(name for name in _FIXED if name in families), *others]:
        turn = 0
        if family in _FIXED:
            hue, chroma = _FIXED[family]
        else:
            hue, chroma = _FURTHER[others.index(family) % len(_FURTHER)]
            turn = others.index(family) // len(_FURTHER)
        # The model named like its family takes the family's own colour; the rest follow by name.
        members = sorted(families[family] - inks.keys(), key=lambda name: (name != family, name))
        step = turn
        for position, name in enumerate(members):
            step, ink = _unused(used, len(inks), hue, chroma, step, turn + position)
            used |= {ink.light, ink.dark}
            inks[name] = ink
            step += 1
    return inks


def stylesheet(inks: Iterable[Ink]) -> str:
    """CSS that defines the variables of the page and of all inks, for both schemes and for print."""
    known = sorted(inks, key=lambda ink: int(ink.token[1:]))
    names = ("paper", "raised", "ink", "muted", "line", "grid", "link", "warn")
    light = [f"--{name}: {getattr(LIGHT, name)};" for name in names] + [f"--{ink.token}: {ink.light};" for ink in known]
    dark = [f"--{name}: {getattr(DARK, name)};" for name in names] + [f"--{ink.token}: {ink.dark};" for ink in known]
    owns = [f".{ink.token} {{ --own: var(--{ink.token}); }}" for ink in known]
    return "\n".join(
        [
            ":root { color-scheme: light dark; " + " ".join(light) + " }",
            "@media screen and (prefers-color-scheme: dark) { :root { " + " ".join(dark) + " } }",
            *owns,
            "",
        ]
    )


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio of two ``#rrggbb`` colours, 1 to 21."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _unused(used: set[str], number: int, hue: float, chroma: float, step: int, dash: int) -> tuple[int, Ink]:
    """The next shade that no model has yet; a site with a thousand models of one hue must repeat one."""
    ink = _ink(number, hue, chroma, step, dash)
    for later in range(step, step + 1000):
        ink = _ink(number, hue, chroma, later, dash)
        if ink.light not in used and ink.dark not in used:
            return later, ink
    return step, ink


def _ink(number: int, hue: float, chroma: float, step: int, dash: int) -> Ink:
    shade, turns = step % len(_LIGHT_SHADES), step // len(_LIGHT_SHADES)
    turned = hue + _TURN * turns * (-1) ** turns
    return Ink(
        f"m{number}",
        _hex(_LIGHT_SHADES[shade], chroma, turned),
        _hex(_DARK_SHADES[shade], chroma * 0.85, turned),
        _DASHES[dash % len(_DASHES)],
    )


def _hex(lightness: float, chroma: float, hue: float) -> str:
    """OKLCH to ``#rrggbb``, with as much of the chroma as sRGB can show (Ottosson 2020)."""
    while True:
        channels = _linear_rgb(lightness, chroma, hue)
        if all(-1e-4 <= value <= 1 + 1e-4 for value in channels):
            return "#" + "".join(f"{round(255 * _gamma(min(1.0, max(0.0, value)))):02x}" for value in channels)
        chroma *= 0.97


def _linear_rgb(lightness: float, chroma: float, hue: float) -> tuple[float, float, float]:
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )


def _gamma(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055


def _luminance(colour: str) -> float:
    def linear(channel: int) -> float:
        value = channel / 255
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
