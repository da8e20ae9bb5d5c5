"""No printer goes around `fern.text`: nothing else prints, opens a console, or escapes by its own rules."""

import ast
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
    "sys.stdout.write": "use fern.text.say",
    "sys.stderr.write": "use fern.text.say",
    "html.escape": "use fern.text.safe_text",
    "escape": "use fern.text.safe_text",
    "xml.sax.saxutils.escape": "use fern.text.safe_text",
}
BARRED_IMPORTS = {("html", "escape"), ("rich.markup", "escape"), ("rich", "print"), ("rich.console", "Console")}
FOR_TYPES = "TYPE_CHECKING"


def printers_around(source: str) -> list[str]:
    """What goes around the rule: calls and imports, each with its line."""
    tree = ast.parse(source)
    only_types = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == FOR_TYPES
        for statement in node.body
        for child in ast.walk(statement)
    }
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and "safe_text" in ast.unparse(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in only_types:
            continue
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in BARRED_CALLS and name not in own:
                found.append(f"line {node.lineno}: {name}: {BARRED_CALLS[name]}")
            if name.endswith(".status") and node.args and not ast.unparse(node.args[0]).startswith("Text("):
                found.append(f"line {node.lineno}: a status is read as markup; use fern.cli.console.working")
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names if (node.module, alias.name) in BARRED_IMPORTS]
            found += [f"line {node.lineno}: from {node.module} import {name}" for name in names]
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_everything_that_is_printed_passes_the_rule_of_text(path: Path) -> None:
    if path.relative_to(SOURCE).as_posix() == THE_RULE:
        return
    assert printers_around(path.read_text()) == []


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
    ],
)
def test_the_search_finds_a_printer_that_goes_around(program: str) -> None:
    assert printers_around(program)


def test_the_search_lets_the_rule_itself_pass() -> None:
    assert not printers_around("from fern.text import say\nsay(name, stream)\nconsole().print(Text(name))")
