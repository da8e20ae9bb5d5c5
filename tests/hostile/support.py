"""A hostile case: files, a command line, how it must end, what it must say, and what it may leave behind."""

import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from fern.cli.app import main


@dataclass(frozen=True)
class Case:
    """``files`` are laid out first (text, bytes, or a function of the path); ``made`` is all that may be new after."""

    name: str
    command: tuple[object, ...]
    code: int
    says: str
    files: Mapping[str, str | bytes | Callable[[Path], Any]] = field(default_factory=dict)
    made: tuple[str, ...] = ()
    silent_on: tuple[str, ...] = ()
    """What the output must not contain, such as an escape code."""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


def run(*arguments: object, capsys: pytest.CaptureFixture[str]) -> Ran:
    """The command inside this process."""
    before = sys.argv
    sys.argv = ["fern", *map(str, arguments)]
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.argv = before
    captured = capsys.readouterr()
    return Ran(code, captured.out, captured.err)


def write_files(files: Mapping[str, str | bytes | Callable[[Path], Any]]) -> None:
    for name, content in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


def snapshot(folder: Path = Path()) -> dict[str, object]:
    """Every name below the folder with what it is: contents, kind, or where a link points."""
    found: dict[str, object] = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place) / name
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                found[str(path)] = ("link", str(path.readlink()))
            elif stat.S_ISREG(mode):
                found[str(path)] = path.read_bytes()
            else:
                found[str(path)] = ("kind", stat.S_IFMT(mode))
    return found


def check(case: Case, capsys: pytest.CaptureFixture[str]) -> Ran:
    """Run the case, and hold it against all that it promises."""
    write_files(case.files)
    before = snapshot()
    ran = run(*case.command, capsys=capsys)
    said = ran.out + ran.err
    assert ran.code == case.code, said
    assert re.search(case.says, said), said
    assert "Traceback" not in said, said
    assert "internal error" not in said, said
    assert not [text for text in case.silent_on if text in said], repr(said)
    after = snapshot()
    changed = sorted(name for name in before if after.get(name) != before[name])
    assert not changed, f"changed: {changed}"
    new = set(after) - set(before)
    assert new <= set(case.made) | {str(Path(name).parent) for name in case.made}, sorted(new)
    assert set(case.made) <= set(after), f"missing: {sorted(set(case.made) - set(after))}"
    return ran


def cases(*given: Case) -> Any:
    """A test for each case, under its name."""
    names = [case.name for case in given]
    assert len(set(names)) == len(names), "two cases of one name"
    return pytest.mark.parametrize("case", given, ids=names)


def examples(count: int, **options: Any) -> settings:
    """So many examples for Hypothesis; the environment variable FERN_EXAMPLES is a factor, for a longer search."""
    return settings(max_examples=count * int(os.environ.get("FERN_EXAMPLES", "1")), **options)


def leave_a_note(path: str) -> None:
    """For a process of its own, which loads no torch for it: the ``random`` it finds, and how it was born."""
    import random  # the trap, were it found

    Path(path).write_text(f"{random.__file__}\n{os.environ.get('PYTHONSAFEPATH')}")


def hourly(rows: int = 60, columns: str = "load", start: int = 1) -> str:
    """A CSV table without faults: hourly time stamps and numbers that are all different."""
    names = columns.split(",")
    lines = [f"date,{columns}"]
    for i in range(rows):
        values = ",".join(f"{start + i + 0.37 * k + (i % 7) * 0.5:.3f}" for k in range(len(names)))
        lines.append(f"2020-01-{1 + i // 24:02d} {i % 24:02d}:00:00,{values}")
    return "\n".join(lines) + "\n"


SCENARIO = 'system = "ornstein_uhlenbeck"\nsteps = 60\ndt = 0.5\n'
