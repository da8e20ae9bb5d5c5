"""No writer goes around `fern.files`: every call that writes a file writes the temporary one of `write_whole`."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "fern"

WRITERS = {
    # method or function -> the position of the file among its arguments; -1 is the object itself
    "write_text": -1, "write_bytes": -1, "touch": -1, "savefig": 0, "savez": 0, "savez_compressed": 0, "save_file": 1,
    "write_csv": 1, "write_table": 1, "to_csv": 0, "to_parquet": 0, "tofile": 0,
    "savetxt": 0, "to_json": 0, "to_feather": 0, "write_parquet": 0, "write_html": 0, "write_image": 0,
    "sink_parquet": 0, "ParquetWriter": 0, "ZipFile": 0, "SummaryWriter": 0, "mkdir": -1,
}  # fmt: skip
MOVERS = {
    "rename",
    "copy",
    "makedirs",
    "renames",
    "copyfile",
    "copy2",
    "copytree",
    "move",
    "symlink_to",
    "link_to",
    "hardlink_to",
}
WRITING_FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}

ALLOWED = {
    # The rule itself.
    "files.py",
    # Lock files, which hold no result and are shared on purpose.
    "benchmark/locks.py",
}
EXCEPT = {
    # Standard input in a temporary folder that is removed with what is in it.
    "cli/tables.py": {"self.path.open('wb')"},
    # A copy of a pipe, likewise.
    "data/csv_files.py": {"self.path.open('wb')"},
    # An empty file by which workers see whether they share the folder.
    "benchmark/engines/ray.py": {"(self._folder / 'claims' / self._token).touch"},
    # Nothing is written: what nobody can read any more goes nowhere.
    "cli/app.py": {"os.open(os.devnull"},
    # A saved forecaster in a temporary folder that is removed once it is loaded.
    "forecaster/save.py": {"(Path(folder) / Path(name).name).write_bytes"},
    # A table to a buffer in memory; a writer on the temporary file that `write_whole` gave.
    "forecaster/predict_file.py": {"writer.write_table(made", "writer.write_table(table"},
    # Predictions for fev in a temporary folder of its own.
    "benchmark/adapters/windowwise.py": {"file.parent.mkdir", "write_table(_as_series(contexts"},
    # Gives a text back.
    "html/figures.py": {"draw_plot(shown).to_json()"},
    # Takes an open file; those who open one are searched.
    "data/writing.py": {"pq.write_table(table, file", "pcsv.write_csv(table, file"},
}
TEMPORARY = "a path that `write_whole` gave, or a file opened on it"


def writers_around(tree: ast.AST) -> list[tuple[int, str]]:
    """The calls that write to a name which `write_whole` did not give: line and text."""
    found: list[tuple[int, str]] = []
    parameters_safe = _functions_given_temporaries(tree)

    def visit(node: ast.AST, safe: frozenset[str]) -> None:
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                visit(item.context_expr, safe)
                if isinstance(item.optional_vars, ast.Name) and _gives_temporary(item.context_expr, safe):
                    safe = safe | {item.optional_vars.id}
            for statement in node.body:
                visit(statement, safe)
            return
        if isinstance(node, ast.FunctionDef):
            safe = safe | {
                target.id
                for child in ast.walk(node)
                if isinstance(child, ast.Assign) and isinstance(child.value, ast.Call)
                for target in child.targets
                if isinstance(target, ast.Name) and _name(child.value) in ("BytesIO", "StringIO")
            }
            safe = safe | parameters_safe.get(node.name, frozenset())
        if isinstance(node, ast.Call) and _writes(node) and not _into(node, safe):
            found.append((node.lineno, ast.unparse(node)[:80]))
        for child in ast.iter_child_nodes(node):
            visit(child, safe)

    visit(tree, frozenset())
    return found


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _gives_temporary(expression: ast.expr, safe: frozenset[str]) -> bool:
    if not isinstance(expression, ast.Call):
        return False
    if _name(expression) == "write_whole":
        return True
    return _name(expression) == "open" and _root(expression.func) in safe


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def _writes(call: ast.Call) -> bool:
    name = _name(call)
    if name == "open":
        if _root(call.func) == "os":
            return any(flag in ast.unparse(call) for flag in WRITING_FLAGS)
        return any(
            _is_a_mode(given) for given in (*call.args[:2], *(k.value for k in call.keywords if k.arg == "mode"))
        )
    if name in ("ZipFile", "memmap"):
        return any(_is_a_mode(given) for given in (*call.args, *(k.value for k in call.keywords if k.arg == "mode")))
    if name == "save":
        return _root(call.func) in ("np", "numpy", "torch")
    if name == "replace":  # of strings and dataclasses, too: those of files have one argument
        return _root(call.func) == "os" or (
            isinstance(call.func, ast.Attribute) and len(call.args) == 1 and not call.keywords
        )
    return name in WRITERS or (name in MOVERS and _root(call.func) in ("os", "shutil", "path", "temporary", "Path"))


def _is_a_mode(given: ast.expr) -> bool:
    """Whether this is the mode of a file that is opened to be written."""
    mode = given.value if isinstance(given, ast.Constant) else None
    return isinstance(mode, str) and set(mode) <= set("rwaxbt+") and bool(set(mode) & set("wax+"))


def _into(call: ast.Call, safe: frozenset[str]) -> bool:
    place = WRITERS.get(_name(call), -1)
    if _name(call) == "save":
        place = 0 if _root(call.func) in ("np", "numpy") else 1
    target = call.func if place == -1 else call.args[place] if len(call.args) > place else None
    return target is not None and _root(target) in safe


def _functions_given_temporaries(tree: ast.AST) -> dict[str, frozenset[str]]:
    """Functions of the module that are called with a temporary path, and the parameters that take it."""
    signatures = {
        node.name: [argument.arg for argument in node.args.args]
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    given: dict[str, frozenset[str]] = {}
    calls: dict[str, list[ast.Call]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in signatures:
            calls.setdefault(node.func.id, []).append(node)
    for name, found in calls.items():
        for place, parameter in enumerate(signatures[name]):
            roots = {_root(call.args[place]) if len(call.args) > place else "" for call in found}
            if roots <= {"temporary", "held"}:  # every caller gives one
                given[name] = given.get(name, frozenset()) | {parameter}
    return given


def test_every_file_is_written_through_the_rule_of_outputs() -> None:
    around = []
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        allowed = tuple(EXCEPT.get(module, ()))
        if module not in ALLOWED:
            found = writers_around(ast.parse(path.read_text()))
            around += [f"{module}:{line}: {text}" for line, text in found if not text.startswith(allowed)]
    assert not around, f"needs {TEMPORARY}: {around}"


@pytest.mark.parametrize(
    "program",
    [
        "Path('x').write_text('y')",
        "open('x', 'w')",
        "path.open('wb')",
        "path.open(mode='ab')",
        "os.open(path, os.O_WRONLY | os.O_CREAT)",
        "np.savez('x.npz', a=1)",
        "np.save('x.npy', a)",
        "torch.save(a, 'x')",
        "os.replace(a, b)",
        "temporary.replace(path)",
        "shutil.copyfile(a, b)",
        "figure.savefig(path)",
        "io.open(path, 'w')",
        "gzip.open(path, 'wb')",
        "tarfile.open(path, mode='w')",
        "zipfile.ZipFile(path, 'w')",
        "np.memmap(path, np.float32, 'w+')",
        "np.savetxt(path, a)",
        "pq.ParquetWriter(path, schema)",
        "frame.write_parquet(path)",
        "shutil.copy(a, b)",
        "path.parent.mkdir(parents=True)",
        "os.makedirs(path)",
        "with write_whole(a) as temporary:\n    other.write_text('y')",
        "with write_whole(a) as temporary:\n    pass\ntemporary.write_text('y')",
    ],
)
def test_the_search_finds_a_writer_that_goes_around(program: str) -> None:
    assert writers_around(ast.parse(program))


@pytest.mark.parametrize(
    "program",
    [
        "with write_whole(a) as temporary:\n    temporary.write_text('y')",
        "with write_whole(a) as temporary, temporary.open('wb') as file:\n    np.savez(file, a=1)",
        "path.open('rb')",
        "gzip.open(path)",
        "zipfile.ZipFile(io.BytesIO(data))",
        "with write_whole(a) as temporary:\n    pq.ParquetWriter(temporary, schema)",
        "text.replace('a', 'b')",
        "os.open(path, os.O_RDONLY)",
    ],
)
def test_the_search_lets_the_rule_itself_pass(program: str) -> None:
    assert not writers_around(ast.parse(program))
