"""Five first tasks by following the documentation only: ``python -m benchmarks.first_tasks``.

Each section of docs/first_tasks.md is done in an empty folder: blocks that begin with a file's name are saved, other
Python is run, command lines are run as they stand. What it takes a reader is counted: words to read, characters of
command lines to type, and blocks of code to copy (the site has a button for it).
"""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "first_tasks.md"

WORDS, CHARACTERS, COPY = 200 / 60, 200 / 60, 5.0
"""Words read and characters typed in a second, and seconds to copy a block."""

MOST = 120.0
"""Seconds of reading and typing that a task may take."""


@dataclass(frozen=True)
class Task:
    """A section: its title, its prose, and its blocks of code by language."""

    title: str
    prose: str
    blocks: tuple[tuple[str, str], ...]

    @property
    def seconds(self) -> float:
        """What reading it, typing its command lines and copying its other blocks takes."""
        typed = sum(len(code) for language, code in self.blocks if language == "bash")
        copied = sum(language != "bash" for language, _ in self.blocks)
        return len(self.prose.split()) / WORDS + typed / CHARACTERS + COPY * copied


@dataclass(frozen=True)
class Done:
    """How a task went: what the programs printed, and their seconds."""

    printed: str
    seconds: float


def read_tasks(page: Path = PAGE) -> list[Task]:
    """The tasks of the page."""
    tasks = []
    for section in page.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        pattern = re.compile(r"```(\w+)\n(.*?)```", re.S)
        tasks.append(Task(title, pattern.sub("", text), tuple(pattern.findall(text))))
    return tasks


Run = Callable[[list[str], Path], str]
"""Runs Python with these arguments in a folder and returns what it printed."""


def do_task(task: Task, folder: Path, run: Run | None = None) -> Done:
    """Do a task in an empty folder, in processes of their own unless told; a program that fails is an error."""
    run = run or run_process
    began, printed = time.monotonic(), ""
    for language, code in task.blocks:
        named = re.match(r"# (\S+\.(?:py|toml))\n", code)
        if named is not None:
            (folder / named[1]).write_text(code, encoding="utf-8")
        elif language == "python":
            printed += run(["-c", code], folder)
        else:
            for line in code.splitlines():
                words = line.split()
                assert words[0] == "fern", f"{line}: no command of ours"
                printed += run(["-m", *words], folder)
    return Done(printed, time.monotonic() - began)


def run_process(arguments: list[str], folder: Path) -> str:
    """Run Python with these arguments in a folder; what it printed."""
    ran = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(f"python {' '.join(arguments)} ended with {ran.returncode}:\n{ran.stderr}")
    return ran.stdout + ran.stderr


def main() -> int:
    """Do all tasks and print what each takes."""
    slow = 0
    for task in read_tasks():
        with tempfile.TemporaryDirectory() as folder:
            done = do_task(task, Path(folder))
        slow += task.seconds > MOST
        print(f"{task.title:40} {task.seconds:4.0f} s to read and type, {done.seconds:4.0f} s to run")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
