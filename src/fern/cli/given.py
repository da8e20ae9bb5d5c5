"""The files that a command's arguments stand for: no output may be one of them."""

from collections.abc import Iterable
from pathlib import Path


def files_of_scenarios(sources: Iterable[str]) -> list[Path]:
    """The files among scenarios that are given by id or by file."""
    from fern.systems.scenarios import is_scenario_file

    return [Path(source) for source in sources if is_scenario_file(source)]


def file_of_task(task: str) -> Path | None:
    """The file of a task that is given by name or by file; None where only rows know it."""
    path = Path(task)
    return path if path.suffix.lower() == ".toml" else None


def files_of_target(target: str) -> list[Path]:
    """The saved model, or the source file that ``module:callable`` may mean."""
    module, _, name = target.partition(":")
    place = Path(*module.split("."))
    return [Path(target), *([place.with_suffix(".py"), place / "__init__.py"] if module and name else [])]


def folder_of_target(target: str) -> Path | None:
    """The folder of a saved model."""
    return Path(target) if Path(target).is_dir() else None
