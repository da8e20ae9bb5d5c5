"""The five first tasks of the documentation, each in an empty folder and under two minutes of reading and typing.

Here they run within this process; ``python -m benchmarks.first_tasks``, which CI runs, starts one for each command.
"""

import contextlib
import io
import sys
from pathlib import Path

import pytest
from benchmarks.first_tasks import MOST, do_task, read_tasks
from tests.benchmark.support import InlineEngine

TASKS = {task.title: task for task in read_tasks()}

LEFT_BEHIND = {
    "Forecast your own CSV": (["forecast.csv", "forecast.png"], "time: time; target: load"),
    "Use covariates": ([], "temperature"),
    "Score it on past rows": ([], "better than"),
    "Your own model in the benchmark": (["runs"], "my_models:drift"),
    "Your own system in a stress test": ([], "measured"),
}


def test_the_tasks_are_those_of_the_page():
    assert list(TASKS) == list(LEFT_BEHIND)


@pytest.mark.parametrize("title", TASKS)
def test_a_task_takes_less_than_two_minutes_to_read_and_type(title):
    assert TASKS[title].seconds < MOST


@pytest.mark.usefixtures("short_fits", "forked")
@pytest.mark.parametrize("title", TASKS)
def test_a_task_is_done_by_following_the_page(title, fern, monkeypatch, tmp_path):
    monkeypatch.setattr("fern.benchmark.engines.open_engine", lambda name, plan, out, **options: InlineEngine(out))
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("my_systems", None)  # another test's, whose systems are gone

    def run(arguments, folder):
        assert Path.cwd() == folder
        if arguments[0] == "-c":
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown):
                exec(compile(arguments[1], title, "exec"), {"__name__": "__main__"})
            return shown.getvalue()
        ran = fern(*arguments[2:])
        assert ran.code == 0, ran.err
        return ran.out + ran.err

    files, said = LEFT_BEHIND[title]
    done = do_task(TASKS[title], tmp_path, run)
    assert said in done.printed
    assert all((tmp_path / name).exists() for name in files)
