"""Figures in pages: static SVG from matplotlib, or interactive ones by Plotly where it is installed."""

import io
import re
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from fern.errors import FernError
from fern.html.markup import Html, data_element, data_opening, element
from fern.plot.attractor import Attractor, attractor_figure
from fern.plot.coverage import CoverageOverTime, coverage_over_time_figure
from fern.plot.forecasts import Fans, fan_figure
from fern.plot.interactive import (
    EXTRA,
    attractor_plot,
    coverage_over_time_plot,
    error_growth_plot,
    fan_plot,
    has_plotly,
)
from fern.plot.scores import ErrorGrowth, error_growth_figure
from fern.text import safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from plotly.graph_objects import Figure as Plot


_DRAWN = {
    "svg", "g", "defs", "path", "use", "clipPath", "rect", "text", "tspan", "image", "circle", "ellipse", "line",
    "polyline", "polygon", "linearGradient", "stop",
}  # fmt: skip
_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_LONG = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")
_PLACES = ("d", "x", "y", "points", "transform")


def drawing(fig: "Figure", *, name: str, alt: str, caption: str = "", live: Html | None = None) -> Html:
    """A figure of the page. ``name`` is its own among the page's figures, ``alt`` says what is to be seen.

    ``live`` is the same figure for the page's script, which puts it in the place of the still one; that is seen where
    no script runs, and in print.

    Example:
        >>> from fern.plot.canvas import figure
        >>> drawn = figure(3, 2)
        >>> _ = drawn.subplots().plot([0, 1], label="<script>")
        >>> made = drawing(drawn, name="errors", alt="a rising line")
        >>> made.startswith('<figure class="drawn"'), 'aria-label="a rising line"' in made, "<script>" in made
        (True, True, False)
    """
    root = ElementTree.fromstring(_svg(fig))
    _cut_down(root, name)
    width = float(fig.get_size_inches()[0])
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": safe_text(alt, "terminal"),  # its tags are escaped with those of the picture
        "style": f"max-width: {96 * width:.0f}px; --least: {max(480.0, 58 * width):.0f}px; stroke-linejoin: round",
    }
    picture = Html(ElementTree.tostring(root, encoding="unicode"))
    words = [element("figcaption", {}, caption)] if caption else []
    still = element("div", {"class": "scroll still"}, picture)
    return element("figure", {"class": "drawn", "id": name}, still, *([] if live is None else [live]), *words)


def _svg(fig: "Figure") -> bytes:
    from matplotlib import rc_context

    buffer = io.BytesIO()
    # Letters stay letters: a page can be searched, and is a third of the size.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "fern"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        fig.savefig(buffer, format="svg", dpi=130, transparent=True, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def _cut_down(root: ElementTree.Element, name: str) -> None:
    """Leave only what is drawn, without name spaces, and with identifiers that no other figure of the page has."""
    for parent in root.iter():
        for child in list(parent):
            if child.tag.removeprefix(_SVG) not in _DRAWN:
                parent.remove(child)
    for node in root.iter():
        node.tag = node.tag.removeprefix(_SVG)
        node.tail = None
        if node.tag not in ("text", "tspan"):
            node.text = None
        if _LINK in node.attrib:
            node.attrib["href"] = node.attrib.pop(_LINK)
        for key, value in list(node.attrib.items()):
            if key.startswith(("{", "on")):
                del node.attrib[key]
            elif key == "id":
                node.attrib[key] = f"{name}-{value}"
            elif key == "href" and value.startswith("#"):
                node.attrib[key] = f"#{name}-{value[1:]}"
            elif key == "href" and not value.startswith("data:image/png;base64,"):
                raise FernError(f"a figure leads to {value[:60]!r}", expected="a part of itself")
            elif "url(#" in value:
                node.attrib[key] = value.replace("url(#", f"url(#{name}-")
            elif key in _PLACES:
                node.attrib[key] = " ".join(_LONG.sub(_round_number, value).split())


def _round_number(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".") or "0"


Shown = Attractor | CoverageOverTime | ErrorGrowth | Fans

_DRAWERS: Mapping[type, tuple[Callable[..., "Figure"], Callable[..., "Plot"]]] = {
    Attractor: (attractor_figure, attractor_plot),
    CoverageOverTime: (coverage_over_time_figure, coverage_over_time_plot),
    ErrorGrowth: (error_growth_figure, error_growth_plot),
    Fans: (fan_figure, fan_plot),
}

LIVE = "live"
"""The class of what holds the data of a live figure."""


def draw_live(shown: Shown, *, name: str, alt: str, caption: str) -> Html:
    """A figure of the page that can be turned and zoomed; without Plotly the still one, and the caption says so.

    Example:
        >>> import numpy as np
        >>> made = draw_live(ErrorGrowth({"fern": np.arange(1.0, 9.0)}), name="growth", alt="", caption="Errors.")
        >>> made.count("<svg"), is_live(made) == has_plotly()
        (1, True)
    """
    draw_still, draw_plot = _DRAWERS[type(shown)]
    still = draw_still(shown)
    if not has_plotly():
        note = f"{caption} To zoom and read off values: {EXTRA}, then make the page again."
        return drawing(still, name=name, alt=alt, caption=note)
    live = data_element(LIVE, draw_plot(shown).to_json())
    return drawing(still, name=name, alt=alt, caption=caption, live=live)


def is_live(content: str) -> bool:
    """Whether a piece of a page holds a live figure, and so needs Plotly's script."""
    return data_opening(LIVE) in content
