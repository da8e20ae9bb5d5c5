"""Running the ``fern`` command inside the test process."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from fern.cli.app import main


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def fern(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """``fern("simulate", "OU_BASE", "-o", "out.csv")`` runs that command line."""

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["fern", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run
