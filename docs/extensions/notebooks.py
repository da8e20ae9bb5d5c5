"""Notebooks as pages: a hook of mkdocs that runs their cells in order and shows what they print, tables and figures.

Needs no Jupyter: a notebook is JSON, a cell is a piece of Python. The tests run the notebooks by `run`, too.
"""

import ast
import contextlib
import io
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "notebooks"


@dataclass(frozen=True)
class Cell:
    """A cell and what came of it: the text it printed, and the value of its last line where that is an expression."""

    kind: str
    source: str
    printed: str = ""
    value: Any = None


def run(path: Path) -> Iterator[Cell]:
    """The cells of a notebook in order, all of them in one namespace; an error in one is raised."""
    names: dict[str, Any] = {"__name__": "notebook"}
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            yield Cell(cell["cell_type"], source)
            continue
        tree, shown = ast.parse(source), io.StringIO()
        names["_"] = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            tree.body[-1] = ast.copy_location(
                ast.Assign([ast.Name("_", ast.Store())], tree.body[-1].value), tree.body[-1]
            )
            ast.fix_missing_locations(tree)
        with contextlib.redirect_stdout(shown), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a forecaster warns of is not the notebook's matter
            exec(compile(tree, f"{path.name}, cell {number}", "exec"), names)
        yield Cell("code", source, shown.getvalue(), names["_"])


def page_of(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and the pictures that it shows, by name."""
    from matplotlib.figure import Figure

    parts, pictures = [], {}
    for cell in run(path):
        if cell.kind == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        if cell.printed.strip():
            parts.append(f"```text\n{cell.printed.rstrip()}\n```")
        if isinstance(cell.value, Figure):
            name = f"{path.stem}-{len(pictures) + 1}.png"
            held = io.BytesIO()
            cell.value.savefig(held, format="png", dpi=110)
            pictures[name] = held.getvalue()
            parts.append(f"![what the cell draws]({name})")
        elif cell.value is not None:
            parts.append(f"```text\n{cell.value}\n```")
    parts.insert(1, f"[Take the notebook with you]({path.name}).")
    return "\n\n".join(parts) + "\n", pictures


def on_files(files: Any, config: Any) -> Any:
    """Adds a page for each notebook, and its pictures."""
    from mkdocs.structure.files import File

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # notebooks write files
        try:
            for path in sorted(FOLDER.glob("*.ipynb")):
                text, pictures = page_of(path)
                files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
                for name, data in pictures.items():
                    files.append(File.generated(config, f"notebooks/{name}", content=data))
        finally:
            os.chdir(before)
    return files
