"""The one shell of every page: head, Content-Security-Policy, style, script, contents.

No request can leave a page: its policy allows inline styles, pictures within the page, and its own scripts by their
hashes. Everything is readable without them: one sorts and filters tables and copies commands; where a page has figures
to turn and zoom, Plotly's draws them and a third puts them in their places.
"""

import base64
import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from fern._version import __version__
from fern.errors import require_path
from fern.files import require_ending, write_whole
from fern.html.figures import is_live
from fern.html.markup import Html, element
from fern.plot.interactive import plotly_script


class Page(str):
    """A whole page: a text that a notebook shows as a page, and that can be written to a file.

    Example:
        >>> Page("<!doctype html><p>1 < 2</p>")._repr_html_()[:30]
        '<iframe srcdoc="&lt;!doctype h'
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The page in a frame of its own: its styles and scripts stay inside."""
        return f'<iframe srcdoc="{html.escape(self)}" style="width:100%;height:640px;border:0"></iframe>'

    def save(self, path: str | Path) -> None:
        """Write the page to an HTML file, whole or not at all."""
        path = require_path(path)
        require_ending(path, (".html", ".htm"), what="a page")
        with write_whole(path) as temporary:
            temporary.write_text(self, encoding="utf-8")


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading of its own. ``anchor`` is its address within the page."""

    anchor: str
    title: str
    body: Html


def page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """A whole page. ``lead`` says below the title what it is about; several sections get a list of contents.

    Example:
        >>> made = page("Two < three", [Section("all", "All", element("p", {}, "Nothing."))])
        >>> made.startswith("<!doctype html>"), "Two &lt; three" in made, "default-src &#x27;none&#x27;" in made
        (True, True, True)
    """
    links = [element("a", {"href": f"#{section.anchor}"}, section.title) for section in sections]
    contents = element("nav", {"aria-label": "Contents"}, *links) if len(links) > 1 else Html("")
    scripts = [_asset("page.js")]
    if any(is_live(section.body) for section in sections):
        scripts += [plotly_script(), _asset("live.js")]
    about = element("p", {"class": "soft"}, lead) if lead else ""
    parts = [element("section", {"id": part.anchor}, element("h2", {}, part.title), part.body) for part in sections]
    body = [
        element("header", {}, element("h1", {}, title), about, contents),
        element("main", {}, *parts),
        element("footer", {}, f"Made by fern {__version__}. This file is complete: it loads nothing."),
        *(Html(f"<script>{script}</script>") for script in scripts),
    ]
    head = [
        element("meta", {"charset": "utf-8"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": content_security_policy(scripts)}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "referrer", "content": "no-referrer"}),
        element("title", {}, title),
        Html(f"<style>{_asset('page.css')}</style>"),
    ]
    whole = element("html", {"lang": "en"}, "\n", element("head", {}, *head), "\n", element("body", {}, *body), "\n")
    return f"<!doctype html>\n{whole}\n"


def content_security_policy(scripts: Sequence[str]) -> str:
    """What a page may do: show itself, run these scripts, and nothing else.

    Example:
        >>> content_security_policy(["let a = 1;"]).split("; ")[:2]
        ["default-src 'none'", "script-src 'sha256-xY6QKfH9PRsQnLz56nj6MBwiK5oHg+im1Jkpdp1x/Ck='"]
    """
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    rest = "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {hashes}; {rest}"


def details(summary: str, *contents: str) -> Html:
    """Something that opens when it is asked for; printed pages show it open."""
    return element("details", {}, element("summary", {}, summary), *contents)


def command(text: str) -> Html:
    """A command to copy."""
    return element("code", {"class": "copy"}, text)


def download(text: str, name: str, data: bytes, kind: str) -> Html:
    """A link that saves data which the page holds."""
    address = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return element("a", {"href": address, "download": name, "class": "download"}, text)


@cache
def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return (files("fern.html") / "assets" / name).read_text(encoding="utf-8")
