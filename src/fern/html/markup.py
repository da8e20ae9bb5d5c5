"""HTML that is safe by its type: a plain string becomes text, and only what `element` made is markup.

Tables and formatted numbers are built from it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fern.errors import FernError
from fern.text import safe_text


def number(value: float) -> str:
    """Four digits that count; large whole numbers in full.

    Example:
        >>> number(21.6642), number(0.00012345), number(1025000.0), number(336.0)
        ('21.66', '0.0001234', '1,025,000', '336')
    """
    if abs(value) >= 10_000:
        return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.4g}"
    return f"{value:.4g}"


_NAME = re.compile(r"[a-z][a-z0-9-]*")
_WITHOUT_END = {"br", "hr", "input", "meta"}
_LEADS_SOMEWHERE = {"href", "src", "action", "formaction", "xlink:href"}
_STAYS_HERE = ("#", "data:text/csv;", "data:application/gzip;")


class Html(str):
    """A piece of a page. Made by `element` and its kin, never of a text from outside.

    Example:
        >>> text_of("<b>"), text_of(element("b", {}, "<i>"))
        ('&lt;b&gt;', '<b>&lt;i&gt;</b>')
    """

    __slots__ = ()


def text_of(content: str) -> Html:
    """The content as markup: a plain string escaped, a piece of a page as it is."""
    return content if isinstance(content, Html) else Html(safe_text(content, "html"))


def join_html(contents: Iterable[str], between: str = "") -> Html:
    """Contents one after the other."""
    return Html(text_of(between).join(map(text_of, contents)))


def element(tag: str, attributes: Mapping[str, str | None], *contents: str) -> Html:
    """An element. An attribute that is None is left out; an address may lead nowhere but into the page itself.

    Example:
        >>> element("td", {"class": "n", "title": None}, "1 < 2")
        '<td class="n">1 &lt; 2</td>'
        >>> element("a", {"href": "javascript:alert(1)"}, "x")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: href: got 'javascript:alert(1)', a page leads only to its own parts (#…) and data
    """
    if not _NAME.fullmatch(tag):
        raise FernError(argument="tag", got=tag, expected="the name of an element")
    pairs = []
    for name, value in attributes.items():
        if value is None:
            continue
        if not _NAME.fullmatch(name) or name.startswith("on"):
            raise FernError(argument="attribute", got=name, expected="the name of one that runs nothing")
        if name in _LEADS_SOMEWHERE and not value.startswith(_STAYS_HERE):
            raise FernError(f"got {value[:60]!r}, a page leads only to its own parts (#…) and data", argument=name)
        pairs.append(f' {name}="{safe_text(value, "html")}"')
    start = f"<{tag}{''.join(pairs)}>"
    return Html(start if tag in _WITHOUT_END else f"{start}{join_html(contents)}</{tag}>")


def bullet_list(items: Iterable[str], *, kind: str | None = None) -> Html:
    """A list with a point for each item; nothing where there is none.

    Example:
        >>> bullet_list(["a", "b"])
        '<ul><li>a</li><li>b</li></ul>'
    """
    points = [element("li", {}, item) for item in items]
    return element("ul", {"class": kind}, *points) if points else Html("")


def data_element(kind: str, data: str) -> Html:
    """JSON for the page's own script: nothing in it runs, and nothing in it can end the element.

    Within such an element nothing but its end is markup, and an angle bracket that JSON spells out cannot begin one.

    Example:
        >>> data_element("live", '["</script>"]')
        '<script type="application/json" class="live">["\\\\u003c/script>"]</script>'
    """
    escaped = safe_text(data, "json").replace("<", "\\u003c")
    return Html(f"{data_opening(kind)}{escaped}</script>")


def data_opening(kind: str) -> str:
    """How `data_element` begins. No text of others can make a page hold it: its signs are escaped."""
    return f'<script type="application/json" class="{safe_text(kind, "html")}">'


@dataclass(frozen=True)
class Head:
    """What stands over a column. Columns of one ``group`` are shown together when a reader chooses it."""

    text: str
    numeric: bool = False
    group: str | None = None
    title: str | None = None


@dataclass(frozen=True)
class Entry:
    """A cell: what it shows, what it is sorted by where that is not the text, and its looks."""

    shown: str = ""
    sort: float | str | None = None
    kind: str | None = None
    title: str | None = None


def figure_entry(value: float | None, shown: str | None = None, *, blank: str = "") -> Entry:
    """A cell with a number, sorted by it; one that is not there is blank and comes last.

    Example:
        >>> figure_entry(2.5).shown, figure_entry(2.5, "×2.50").shown, figure_entry(None, blank="–").shown
        ('2.5', '×2.50', '–')
    """
    return Entry(blank, "") if value is None else Entry(number(value) if shown is None else shown, float(value))


def listing(
    heads: Sequence[Head],
    rows: Sequence[Sequence[Entry | str]],
    *,
    caption: str,
    filterable: bool = False,
    tall: bool = False,
) -> Html:
    """A table. The first column names its row. ``tall`` lets it scroll within itself.

    Example:
        >>> made = listing([Head("model"), Head("MSE", numeric=True)], [["fern", Entry("0.5", 0.5)]], caption="Errors")
        >>> '<td class="n" data-sort="0.5">0.5</td>' in made
        True
    """
    tops = []
    for head in heads:
        looks = {"class": "n" if head.numeric else None, "data-group": head.group, "title": head.title}
        tops.append(element("th", {"scope": "col", **looks}, head.text))
    lines = []
    for row in rows:
        cells = [_cell(head, entry, first=head is heads[0]) for head, entry in zip(heads, row, strict=True)]
        lines.append(element("tr", {}, *cells))
    table = element(
        "table",
        {"class": "sortable filterable" if filterable else "sortable"},
        element("caption", {}, caption),
        element("thead", {}, element("tr", {}, *tops)),
        element("tbody", {}, *lines),
    )
    kind = "scroll tall" if tall else "scroll"
    return element("div", {"class": kind, "role": "region", "tabindex": "0", "aria-label": caption}, table)


def _cell(head: Head, entry: Entry | str, *, first: bool) -> Html:
    cell = entry if isinstance(entry, Entry) else Entry(entry)
    kinds = " ".join(kind for kind in ("n" if head.numeric else None, cell.kind) if kind)
    # An empty order is one, too: a number that is not there comes last.
    sort = repr(cell.sort) if isinstance(cell.sort, float) else cell.sort
    attributes = {"class": kinds or None, "data-sort": sort, "title": cell.title}
    return element("th" if first else "td", {"scope": "row" if first else None, **attributes}, cell.shown)
