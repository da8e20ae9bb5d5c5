"""What every figure shares: matplotlib when it is there, the colours, and saving."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError
from fern.files import require_ending, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BEFORE, AFTER, SHOCK, TRUTH = "#3b6ea5", "#c8622c", "#444444", "#222222"
FORMATS = (".png", ".svg", ".pdf")
# Okabe and Ito's colours, which every kind of colour blindness tells apart; dashes tell them apart in print.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


def outline(values: NDArray[np.float64], most: int) -> NDArray[np.int64]:  # (T,) -> (n,), n at most about most
    """Rows that draw a line as all of them would: of each stretch the lowest and the highest, and those beside a gap.

    Example:
        >>> outline(np.array([0.0, 9.0, 1.0, 1.0, 2.0, -5.0, 1.0, 1.0]), 4).tolist()
        [0, 1, 4, 5, 7]
    """
    rows = len(values)
    if rows <= most:
        return np.arange(rows)
    size = -(-2 * rows // most)
    padded = np.concatenate((values, np.full(-rows % size, np.nan))).reshape(-1, size)
    known = np.isfinite(padded)
    lowest = np.where(known, padded, np.inf).argmin(axis=1)
    highest = np.where(known, padded, -np.inf).argmax(axis=1)
    first = np.arange(len(padded)) * size
    gone = np.flatnonzero(~np.isfinite(values))[::size]  # enough of a gap for the line to break
    chosen = np.concatenate((first + lowest, first + highest, gone, [0, rows - 1]))
    return np.unique(chosen[chosen < rows])


def figure(width: float, height: float, *, arranged: bool = True) -> "Figure":
    """An empty figure, without any window or global state; ``arranged`` by the sizes of its labels takes time."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise FernError("plots need matplotlib: pip install 'fern-forecast[plots]'") from None
    return Figure(figsize=(width, height), layout="constrained" if arranged else None)


def bare(axis: "Axes", *, size: str = "small") -> None:
    """Small ticks, and no frame above the axes and on their right."""
    axis.tick_params(labelsize=size)
    axis.spines[["top", "right"]].set_visible(False)


def format_dates(axis: "Axes", when: NDArray[Any]) -> None:
    """Few and short labels along the axis, where it shows dates."""
    if not np.issubdtype(when.dtype, np.datetime64):
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def figure_format(path: Path) -> str:
    """The format that a file name asks for, one of ``FORMATS``.

    Example:
        >>> figure_format(Path("shock.png"))
        '.png'
    """
    return require_ending(path, FORMATS, what="a plot")


def save_figure(drawn: "Figure", path: Path | str) -> None:
    """Write the figure; the ending chooses the format."""
    path = Path(path)
    ending = figure_format(path)
    with write_whole(path) as temporary, temporary.open("wb") as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a sign that the font lacks is drawn as an empty box
        drawn.savefig(file, dpi=130, format=ending.removeprefix("."))
