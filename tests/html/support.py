"""A page as a reader of it sees it."""

from html.parser import HTMLParser


class Seen(HTMLParser):
    """The elements of a page that balance, its text, and its tables as lists of cells."""

    def __init__(self, page):
        super().__init__()
        self.stack, self.tags, self.text, self.tables = [], [], "", []
        self.feed(page)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "br", "input"):
            self.stack.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.stack):
            self.text += data
        if {"td", "th"} & set(self.stack):
            self.tables[-1][-1][-1] += data
