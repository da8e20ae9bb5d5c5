"""Tables of pages: readable as they stand, sorted and filtered by the page's script where it runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from fern.report.pages.markup import Html, element


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
    tops = [
        element(
            "th",
            {"scope": "col", "class": "n" if head.numeric else None, "data-group": head.group, "title": head.title},
            head.text,
        )
        for head in heads
    ]
    lines = [
        element("tr", {}, *(_cell(head, entry, first=place == 0) for place, (head, entry) in enumerate(pairs)))
        for pairs in (list(zip(heads, row, strict=True)) for row in rows)
    ]
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
