"""No printer goes around `fern.text`: nothing else prints, opens a console, or escapes by its own rules."""

import ast
from collections.abc import Collection
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "fern"
THE_RULE = "text.py"
BARRED_CALLS = {
    "print": "use fern.text.say",
    "typer.echo": "use fern.cli.console.echo",
    "typer.secho": "use fern.cli.console.echo",
    "click.echo": "use fern.cli.console.echo",
    "rich.print": "use fern.cli.console.console",
    "Console": "use fern.text.terminal",
    "rich.console.Console": "use fern.text.terminal",
    "Text.from_markup": "use Text",
    "builtins.print": "use fern.text.say",
    "os.write": "use fern.text.say",
    "rich.get_console": "use fern.text.terminal",
    "html.escape": "use fern.text.safe_text",
    "escape": "use fern.text.safe_text",
    "xml.sax.saxutils.escape": "use fern.text.safe_text",
}
STREAMS = {"sys", "stream", "stdout", "stderr", "terminal", "console"}
LOGGED = {"debug", "info", "warning", "error", "critical", "exception", "log"}
EXCEPT = {
    # A table for another program, which is no terminal: asked right before.
    "cli/console.py": {"stream.buffer.write"},
    # What is put together from parts that have passed the rule, or are our own.
    "html/markup.py": {"Html"},
    "html/figures.py": {"Html"},
    "html/page.py": {"Html", "html.escape"},
}
BARRED_IMPORTS = {("html", "escape"), ("rich.markup", "escape"), ("rich", "print"), ("rich.console", "Console")}
FOR_TYPES = "TYPE_CHECKING"


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ast.unparse(node)


def _into_a_stream(call: ast.Call) -> bool:
    """Whether a stream, or a log, gets a text directly."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in ("write", "writelines"):
        return _root(call.func) in STREAMS
    return call.func.attr in LOGGED and ("log" in _root(call.func).lower())


def _as_markup(call: ast.Call) -> bool:
    """Whether a text that is not our own is declared to be HTML."""
    return _root(call.func) == "Html" and bool(call.args) and not isinstance(call.args[0], ast.Constant)


def printers_around(source: str, allowed: Collection[str] = ()) -> list[str]:
    """What goes around the rule: calls and imports, each with its line."""
    nodes = list(ast.walk(ast.parse(source)))
    only_types = {
        id(child)
        for node in nodes
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == FOR_TYPES
        for statement in node.body
        for child in ast.walk(statement)
    }
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and "safe_text" in source and "safe_text" in ast.unparse(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = []
    for node in nodes:
        if id(node) in only_types:
            continue
        if isinstance(node, ast.Call):
            name = _dotted(node.func)
            if name in allowed:
                continue
            if _into_a_stream(node):
                found.append(f"line {node.lineno}: {name}: use fern.text.say")
            if _as_markup(node):
                found.append(f"line {node.lineno}: {name}: use fern.html.markup.element")
            if name in BARRED_CALLS and name not in own:
                found.append(f"line {node.lineno}: {name}: {BARRED_CALLS[name]}")
            if name.endswith(".status") and node.args and not ast.unparse(node.args[0]).startswith("Text("):
                found.append(f"line {node.lineno}: a status is read as markup; use fern.cli.console.working")
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names if (node.module, alias.name) in BARRED_IMPORTS]
            found += [f"line {node.lineno}: from {node.module} import {name}" for name in names]
    return found


def test_everything_that_is_printed_passes_the_rule_of_text() -> None:
    around = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name != THE_RULE:
            around += [f"{name}, {found}" for found in printers_around(path.read_text(), EXCEPT.get(name, ()))]
    assert not around


@pytest.mark.parametrize(
    "program",
    [
        "print(name)",
        "import typer\ntyper.echo(name)",
        "from rich.console import Console\nConsole().print(name)",
        "console().status(f'Reading {file}')",
        "from html import escape\nescape(name)",
        "import sys\nsys.stdout.write(name)",
        "Text.from_markup(name)",
        "sys.stdout.buffer.write(data)",
        "stream = sys.stderr\nstream.write(name)",
        "sys.stderr.writelines(lines)",
        "os.write(1, data)",
        "import logging\nlogging.warning(name)",
        "logger.info(f'read {name}')",
        "from rich import print\nprint(name)",
        "Html(f'<b>{name}</b>')",
        "builtins.print(name)",
    ],
)
def test_the_search_finds_a_printer_that_goes_around(program: str) -> None:
    assert printers_around(program)


def test_the_search_lets_the_rule_itself_pass() -> None:
    assert not printers_around("from fern.text import say\nsay(name, stream)\nconsole().print(Text(name))")
