"""Foreign text made safe for each medium, and the printers that all output goes through.

Names of columns, series, files and models come from outside. On a terminal an escape code in one can move the cursor
or change the title of the window, in Markdown a ``|`` starts a new cell, in a spreadsheet a leading ``=`` a formula.
`safe_text` is the only place that knows; `say` and `terminal` print nothing that has not passed it.
"""

import html
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    from rich.console import Console

Medium = Literal["terminal", "line", "markdown", "csv", "html", "latex", "xml", "json", "figure", "plotly"]
"""``line`` is one line on a terminal. ``csv`` is for tables that people open in a spreadsheet."""

# Control codes but tab and line feed, other line ends, marks that turn the direction of writing, halves of surrogates.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_IN_MARKDOWN = re.compile(r"[\\|`*\[\]]")
_NUMBER = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?")
_FORMULA = ("=", "+", "-", "@")
_LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "±": r"$\pm$",
        "×": r"$\times$",
        "Σ": r"$\Sigma$",
        "²": r"\textsuperscript{2}",
        "…": r"\dots{}",
        "–": "--",
    }
)


def safe_text(text: str, medium: Medium) -> str:
    r"""The text so that the medium shows it and does nothing else; what cannot be seen is shown by its code.

    Example:
        >>> safe_text("load\x1b[31m|", "line"), safe_text("load\x1b[31m|", "markdown")
        ('load\\x1b[31m|', 'load\\\\x1b\\[31m\\|')
        >>> safe_text("=1+1", "csv"), safe_text("-0.5", "csv"), safe_text("<b>", "html")
        ("'=1+1", '-0.5', '&lt;b&gt;')
    """
    return _MEDIA[medium](text)


def _terminal(text: str) -> str:
    return _UNSEEN.sub(_code, text)


def _code(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode()


def _line(text: str) -> str:
    return _terminal(" ".join(text.split()))


def _markdown(text: str) -> str:
    return _IN_MARKDOWN.sub(r"\\\g<0>", _line(text)).replace("<", "&lt;")


def _csv(text: str) -> str:
    shown = _line(text)
    return f"'{shown}" if shown.startswith(_FORMULA) and not _NUMBER.fullmatch(shown) else shown


def _html(text: str) -> str:
    return html.escape(_terminal(text))


def _latex(text: str) -> str:
    return _line(text).translate(_LATEX)


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)


def _json(text: str) -> str:
    """Of a whole JSON document: beyond ASCII such signs stand only within texts, where JSON has codes for them."""
    return _UNSEEN.sub(lambda match: "".join(f"\\u{unit:04x}" for unit in _units(match[0])), text)


def _units(sign: str) -> Iterable[int]:
    pairs = sign.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(pairs[i : i + 2], "big") for i in range(0, len(pairs), 2))


def _figure(text: str) -> str:
    return _line(text).replace("$", r"\$")  # two of them would enclose a formula


def _plotly(text: str) -> str:
    """Plotly reads tags, links among them, and entities in every text."""
    return _line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_MEDIA: Mapping[Medium, Callable[[str], str]] = {
    "terminal": _terminal,
    "line": _line,
    "markdown": _markdown,
    "csv": _csv,
    "html": _html,
    "latex": _latex,
    "xml": _xml,
    "json": _json,
    "figure": _figure,
    "plotly": _plotly,
}


def say(text: str, stream: TextIO | None, *, end: str = "\n", medium: Medium = "terminal") -> None:
    """Print to a stream; nothing where it is closed."""
    if stream is not None:
        stream.write(safe_text(text, medium) + end)
        stream.flush()


def terminal(**options: Any) -> "Console":
    """A console of rich that takes no markup from text and shows what cannot be seen by its code."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Safe(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(safe_text(segment.text, "terminal"), segment.style)

    return Safe(markup=False, emoji=False, **options)
