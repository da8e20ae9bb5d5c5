"""The lower bounds of dependencies: each has one, and the job with the oldest versions asks for exactly those."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def oldest(*free: str) -> dict[str, str]:
    command = [sys.executable, str(ROOT / ".ci" / "oldest.py"), *free]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return dict(line.split("==") for line in lines)


def test_every_dependency_has_a_lower_bound_and_is_constrained_to_it() -> None:
    wanted = dict(re.fullmatch(r"([\w.-]+)>=([\d.]+)", line).groups() for line in PROJECT["dependencies"])
    assert wanted.items() <= oldest().items()


def test_a_dependency_can_be_left_to_the_installer() -> None:
    assert oldest().keys() - oldest("torch").keys() == {"torch"}
