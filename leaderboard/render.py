"""From a Vega-Lite chart to an inline SVG that follows the page: colours are CSS variables, text is the page's.

The same chart gives the same bytes: what the renderer numbers by itself is left out, coordinates are rounded, and only
known elements and attributes are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import vl_convert
from markupsafe import Markup

from .text import clean

__all__ = ["Renderer"]

_SVG = "{http://www.w3.org/2000/svg}"
_KEPT_TAGS = {"svg", "g", "path", "line", "rect", "text", "tspan"}
_KEPT_ATTRIBUTES = {
    "d",
    "dx",
    "dy",
    "fill",
    "fill-opacity",
    "font-size",
    "font-style",
    "font-weight",
    "height",
    "opacity",
    "stroke",
    "stroke-dasharray",
    "stroke-opacity",
    "stroke-width",
    "text-anchor",
    "transform",
    "viewBox",
    "width",
    "x",
    "x1",
    "x2",
    "y",
    "y1",
    "y2",
}
_DEFAULTS = {"opacity": "1", "fill-opacity": "1", "stroke-opacity": "1", "dx": "0", "dy": "0"}
_GEOMETRY = {"d", "transform", "x", "x1", "x2", "y", "y1", "y2", "width", "height"}
_NUMBER = re.compile(r"-?\d+\.\d{2,}(?:e-?\d+)?|-?\d+(?:\.\d+)?e-?\d+")


class Renderer:
    """Renders charts, each different one once.

    Parameters
    ----------
    variables : mapping of str to str
        Colours as the charts use them, to the CSS that stands for them on a page.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = dict(variables)
        self._made: dict[str, Markup] = {}

    def __call__(self, spec: Mapping[str, Any], alternative: str) -> Markup:
        """The chart as an `svg` element.

        Parameters
        ----------
        spec : mapping
            Vega-Lite.
        alternative : str
            What it shows, in words.
        """
        key = json.dumps(spec, sort_keys=True)
        if key not in self._made:
            self._made[key] = self._drawn(key)
        return Markup('<svg role="img" aria-label="{}" {}</svg>').format(clean(alternative), self._made[key])

    def _drawn(self, spec: str) -> Markup:
        """The inside of the element, from its view box on."""
        root = ElementTree.fromstring(vl_convert.vegalite_to_svg(spec))
        if len(root) and root[0].tag == f"{_SVG}rect":
            root.remove(root[0])  # the background is the page's
        box = root.get("viewBox", "0 0 0 0")
        width, height = box.split()[2:]
        inside = "".join(self._element(child) for child in root)
        return Markup(f'viewBox="{box}" width="{width}" height="{height}">{inside}')

    def _element(self, element: ElementTree.Element) -> str:
        tag = element.tag.removeprefix(_SVG)
        if tag not in _KEPT_TAGS or element.get("display") == "none" or element.get("class") == "background":
            return ""
        inside = Markup.escape(element.text or "") if tag in ("text", "tspan") else ""
        inside += "".join(self._element(child) for child in element)
        attributes = self._attributes(element)
        if tag == "g" and not inside:
            return ""
        if tag == "g" and not attributes:
            return inside
        return f"<{tag}{attributes}/>" if not inside else f"<{tag}{attributes}>{inside}</{tag}>"

    def _attributes(self, element: ElementTree.Element) -> str:
        written: list[str] = []
        for name, value in element.attrib.items():
            if name not in _KEPT_ATTRIBUTES or value in ("", _DEFAULTS.get(name)):
                continue
            if name == "transform" and value in ("translate(0,0)", "translate(0.0,0.0)"):
                continue
            shown = self._variables.get(value, value) if name in ("fill", "stroke") else value
            shown = _NUMBER.sub(_rounded, shown) if name in _GEOMETRY else shown
            written.append(f' {name}="{Markup.escape(shown)}"')
        return "".join(written)


def _rounded(match: re.Match[str]) -> str:
    shown = f"{float(match.group(0)):.1f}".removesuffix(".0")
    return "0" if shown == "-0" else shown
