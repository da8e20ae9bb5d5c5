"""What every interactive figure shares: Plotly where it is there, plain looks, and the figure as JSON."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fern.errors import FernError
from fern.text import safe_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

EXTRA = "pip install 'fern-forecast[report]'"
# matplotlib's dashes in Plotly's words.
DASHES = ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot", "dot")


def has_plotly() -> bool:
    """Whether the extra ``report`` is installed.

    Example:
        >>> has_plotly() in (True, False)
        True
    """
    return find_spec("plotly") is not None


def plotly() -> Any:
    """``plotly.graph_objects``."""
    try:
        import plotly.graph_objects as objects
    except ImportError:
        raise FernError(f"interactive figures need plotly: {EXTRA}") from None
    return objects


def bundle() -> str:
    """Plotly's script, which a page holds once."""
    plotly()
    from plotly.offline import get_plotlyjs

    script: str = get_plotlyjs()
    if "</script" in script.lower() or "<!--" in script:
        raise FernError("plotly: its script cannot stand in a page, needs another release")
    return script


def plain(figure: "Figure", *, height: int, least: int = 540, **layout: Any) -> "Figure":
    """The figure without Plotly's own looks: the page gives it the colours of its scheme.

    ``least`` is the width in pixels below which it is no longer readable.
    """
    figure.update_layout(
        template="none",
        height=height,
        meta=least,
        margin={"l": 60, "r": 20, "t": 40, "b": 50},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        **layout,
    )
    return figure


def named(text: str) -> str:
    """Foreign text in a figure."""
    return safe_text(text, "plotly")
