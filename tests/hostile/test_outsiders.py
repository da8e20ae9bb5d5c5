"""Models from outside that exit, crash, hang or leave processes behind harm nobody but themselves."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.benchmark.support import InlineEngine, tiny_plan
from tests.hostile.support import SCENARIO, run, write_files

from fern.benchmark.execute import RunCache, RunContext, execute_run
from fern.benchmark.plan import Inspection, IsolatedInspector, _serve_inspections, make_plan
from fern.benchmark.store import Store
from fern.benchmark.stress.targets import is_code
from fern.benchmark.sweep import run_sweep
from fern.benchmark.tasks import read_task
from fern.errors import FernError
from fern.models import ModelConfig

SIZES = ModelConfig(context_length=6, horizon=4, channels=1)
TASK = 'schema = 1\nmodels = ["last-value"]\ndatasets = ["s.toml"]\nhorizons = [4]\nseeds = [7]\ncontext_length = 6\n'
LAST = "return context[..., -1:, :].repeat(horizon, axis=-2)"
PLANNED = "while the run was planned"


def forecaster(body: str) -> str:
    return f"import os, signal, subprocess, sys, time\n\n\ndef forecast(context, horizon):\n    {body}\n    {LAST}\n"


@pytest.fixture
def on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scratch folder on the path, and its modules forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.mark.usefixtures("on_the_path", "forked")
def test_models_that_die_while_they_are_planned_are_failed_rows_and_the_sweep_goes_on(capsys, monkeypatch) -> None:
    write_files({
        "t.toml": TASK,
        "s.toml": SCENARIO.replace("60", "200"),
        "exits.py": forecaster("os._exit(7)"),
        "crashes.py": forecaster("os.kill(os.getpid(), signal.SIGSEGV)"),
    })  # fmt: skip
    monkeypatch.setattr("fern.benchmark.engines.open_engine", lambda name, plan, out, **options: InlineEngine(out))
    command = ("bench", "run", "t.toml", "--out", "runs", "--with", "exits:forecast", "--with", "crashes:forecast")
    ran = run(*command, capsys=capsys)
    assert ran.code == 1, ran.err
    assert "3 results in runs (2 failed)" in ran.out
    told = {row.model: (row.status, row.error) for row in Store("runs").contents().results}
    assert told == {
        "last-value": ("done", None),
        "exits:forecast": ("failed", f"its process exited with code 7 {PLANNED}"),
        "crashes:forecast": ("failed", f"its process was killed by SIGSEGV {PLANNED}"),
    }


class FakePipe:
    """Both ends of a pipe in one process."""

    def __init__(self, *asked: Any) -> None:
        self._asked, self.sent = list(asked), []

    def recv(self) -> Any:
        if not self._asked:
            raise EOFError
        return self._asked.pop(0)

    def send(self, message: Any) -> None:
        self.sent.append(message)


@pytest.mark.usefixtures("on_the_path")
@pytest.mark.parametrize(
    ("body", "trouble"),
    [
        ("sys.exit(0)", f"raised SystemExit(0) {PLANNED}"),
        ("raise KeyboardInterrupt", f"raised KeyboardInterrupt() {PLANNED}"),
        ("pass", None),
    ],
)
def test_a_model_that_leaves_is_in_trouble(body, trouble, monkeypatch) -> None:
    name = f"leaver_{abs(hash(body))}"
    write_files({f"{name}.py": forecaster(body)})
    monkeypatch.setattr("fern.benchmark.plan.serve_alone", lambda: None)
    pipe = FakePipe((f"{name}:forecast", SIZES))
    _serve_inspections(pipe)
    assert [sight.trouble for sight in pipe.sent] == [trouble]


@pytest.mark.usefixtures("on_the_path")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no_such_module_at_all:f", "cannot be imported"),
        ("leaver_named:nothing", "has no 'nothing'"),
        ("leaver_named:raises", "raised ZeroDivisionError"),
        ("leaver_named:shapeless", "returned shape"),
    ],
)
def test_a_mistake_in_the_name_or_the_model_is_still_a_mistake(text, says, monkeypatch) -> None:
    broken = "def raises(context, horizon):\n    1 / 0\n\n\ndef shapeless(context, horizon):\n    return 3\n"
    write_files({"leaver_named.py": broken})
    monkeypatch.setattr("fern.benchmark.plan.serve_alone", lambda: None)
    pipe = FakePipe((text, SIZES))
    _serve_inspections(pipe)
    assert isinstance(pipe.sent[-1], FernError)
    assert says in str(pipe.sent[-1])


class Dead:
    """A servant that never answers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.ended = False

    def send(self, message: Any) -> None:
        pass

    def take(self, seconds: float) -> Any:
        raise TimeoutError

    def end(self) -> None:
        self.ended = True


def test_a_model_that_hangs_while_it_is_planned_is_in_trouble(monkeypatch) -> None:
    monkeypatch.setattr("fern.benchmark.plan.Servant", Dead)
    with IsolatedInspector(limit=3) as look:
        assert look("mine:forecast", SIZES).trouble == f"was not ready within 3 s of being asked {PLANNED}"


def test_a_run_in_trouble_is_not_begun(monkeypatch) -> None:
    write_files({"t.toml": TASK, "s.toml": SCENARIO.replace("60", "200")})
    plan = make_plan(
        read_task("t.toml").beside(["ghost:f"]), inspect=lambda text, sizes: Inspection("ab", trouble="is a ghost")
    )
    store = Store("runs").for_writing()
    summary = run_sweep(plan, store, InlineEngine(store.folder))
    assert [(row.status, row.error) for row in summary.results] == [("done", None), ("failed", "is a ghost")]
    assert list((store.folder / "claims").iterdir()) == []


@pytest.mark.usefixtures("on_the_path")
@pytest.mark.parametrize(
    ("after", "error"),
    [("import sys; sys.exit(3)", "cannot be imported: it called sys.exit"), ("1 / 0", "ZeroDivisionError")],
)
def test_a_model_that_changed_since_it_was_planned_is_a_failed_row(after, error, monkeypatch) -> None:
    name = f"turncoat_{abs(hash(after))}"
    write_files({f"{name}.py": after})
    work = tiny_plan(models=["last-value"]).runs[0]
    from dataclasses import replace

    changed = replace(work, settings=replace(work.settings, model=f"{name}:f"))
    row = execute_run(changed, RunContext(), RunCache()).result
    assert row.status == "failed"
    assert error in row.error


def test_a_model_that_exits_while_it_is_run_is_a_failed_row(monkeypatch) -> None:
    work = tiny_plan(models=["last-value"]).runs[0]

    def leave(*arguments: Any, **options: Any) -> Any:
        raise SystemExit(5)

    monkeypatch.setattr("fern.benchmark.execute.score_model", leave)
    row = execute_run(work, RunContext(), RunCache()).result
    assert (row.status, row.error) == ("failed", "the model called sys.exit(5)")


SHOCKED = SCENARIO.replace("60", "400") + '[[shocks]]\nkind = "param"\nat = 0.9\nparams = { mu = 3.0 }\n'


@pytest.mark.usefixtures("forked")
def test_a_response_of_a_target_that_hangs_ends(capsys) -> None:
    write_files({"s.toml": SHOCKED, "hangs_here.py": forecaster("time.sleep(1000)")})
    began = time.monotonic()
    command = ("bench", "response", "hangs_here:forecast", "s.toml", "--context-length", 8, "--horizon", 4)
    ran = run(*command, "--time-limit", 1, capsys=capsys)
    assert ran.code == 2, ran.out
    assert "returned no forecast within the time limit of 1 s" in ran.err
    assert time.monotonic() - began < 400


@pytest.mark.parametrize("limit", ["0", "-1", "nan"])
def test_a_time_limit_is_a_number_above_0(limit, capsys) -> None:
    write_files({"s.toml": SHOCKED})
    ran = run("bench", "response", "last-value", "s.toml", f"--time-limit={limit}", capsys=capsys)
    assert (ran.code, "needs a number of seconds above 0" in ran.err) == (2, True)


def alive(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="what a process started is found through /proc")
def test_a_process_that_a_stressed_forecaster_leaves_behind_ends_with_the_test(capsys) -> None:
    leaves = (
        "left = subprocess.Popen(['sleep', '500'], start_new_session=True)\n"
        "    open('left', 'a').write(f'{left.pid}\\n')"
    )
    write_files({"s.toml": SCENARIO.replace("60", "400"), "leaves_one.py": forecaster(leaves)})
    command = ("stress", "leaves_one:forecast", "--scenario", "s.toml", "--context-length", 8, "--horizon", 4)
    ran = run(*command, capsys=capsys)
    left = [int(line) for line in Path("left").read_text().split()]
    try:
        assert left, ran.err
        until = time.monotonic() + 10
        while any(map(alive, left)) and time.monotonic() < until:
            time.sleep(0.05)
        assert not [process for process in left if alive(process)]
    finally:
        for process in left:
            if alive(process):
                os.kill(process, signal.SIGKILL)


def test_only_module_and_callable_name_code() -> None:
    write_files({"a:b": ""})
    assert [is_code(text) for text in ("dlinear", "m.safetensors", "a:b", "mine:forecast")] == [False] * 3 + [True]
