"""What asks for more than the machine has is refused with what it would need, before any of it is taken."""

import json
import resource
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.hostile.support import SCENARIO, Case, cases, check, hourly, write_files

from fern.benchmark.engines.base import share_threads
from fern.data import audit
from fern.data.auditing.scan_values import SLOTS, CommonValues
from fern.errors import FernError, memory_size, require_memory
from fern.models import build_model, load_model, save_model
from fern.models.registry import outline_model
from fern.models.storage import FORMAT, write_tensors
from fern.systems import Scenario, simulate
from fern.training import TrainConfig
from fern.training.runtime import launch, require_devices, threads

TASK = 'schema = 1\nmodels = ["dlinear"]\ndatasets = ["OU_BASE"]\nhorizons = [12]\nseeds = [7]\ncontext_length = 24\n'
MEMORY = "would need about .*B of memory, this machine has|asks? for sizes beyond any machine"
DIGITS = "1" * 5000


def task(text: str) -> dict[str, str]:
    return {"t.toml": text}


@cases(
    Case("10^15 steps", ("simulate", "OU_BASE", "--steps", 10**15, "-o", "x.csv"), 2, MEMORY),
    Case("10^18 steps in a file", ("simulate", "s.toml", "-o", "x.csv"), 2, MEMORY,
         {"s.toml": SCENARIO.replace("60", str(10**18))}),
    Case("10^30 steps", ("simulate", "OU_BASE", "--steps", 10**30, "-o", "x.csv"), 2, f"{MEMORY}|not a valid int"),
    Case("steps of 5,000 digits", ("simulate", "OU_BASE", "--steps", DIGITS, "-o", "x.csv"), 2, "Invalid value|digits"),
    Case("steps of 5,000 digits in a file", ("simulate", "s.toml", "-o", "x.csv"), 2, "not a valid TOML file",
         {"s.toml": SCENARIO.replace("60", DIGITS)}),
    Case("a number of 5,000 digits after the point", ("simulate", "s.toml", "-o", "x.csv"), 0, "60 rows",
         {"s.toml": SCENARIO.replace("0.5", f"0.{DIGITS}")}, made=("x.csv",)),
    Case("a seed of 5,000 digits", ("simulate", "s.toml", "-o", "x.csv"), 2, "not a valid TOML file",
         {"s.toml": SCENARIO + f"seed = {DIGITS}\n"}),
    *(Case(f"{name} of {len(value)} digits", ("bench", "run", "t.toml", "--out", "r", f"--{name}", value), 2,
           f"--{name}", task(TASK))
      for name in ("seeds", "horizons") for value in ("9" * 20, DIGITS)),
    Case("a context of 10^12", ("bench", "run", "t.toml", "--out", "r"), 2, "window|rows|memory|sizes",
         task(TASK.replace("= 24", f"= {10**12}"))),
    Case("a horizon of 10^12", ("bench", "run", "t.toml", "--out", "r"), 2, "window|rows|memory|sizes",
         task(TASK.replace("[12]", f"[{10**12}]"))),
    Case("a hidden size of 10^20", ("bench", "run", "t.toml", "--out", "r"), 2, MEMORY,
         task(TASK.replace('["dlinear"]', f'[{{ model = "fern", settings = {{ hidden = {10**18} }} }}]'))),
    Case("100,000 threads of a sweep", ("bench", "run", "t.toml", "--out", "r", "--threads", 100_000), 2,
         "threads: got 100000", task(TASK.replace("dlinear", "last-value"))),
    Case("10^9 jobs", ("bench", "run", "t.toml", "--out", "r", "--jobs", 10**9), 2,
         "jobs: 1000000000 processes would need", task(TASK.replace("dlinear", "last-value"))),
    Case("0 jobs", ("bench", "run", "t.toml", "--out", "r", "--jobs", 0), 2, "jobs: got 0, needs at least 1",
         task(TASK.replace("dlinear", "last-value"))),
    Case("99 devices in a task", ("bench", "run", "t.toml", "--out", "r"), 2, "computes in one process",
         task(TASK + "[train]\ndevices = 99\n")),
    Case("10^12 steps of a forecast", ("forecast", "x.csv", "--horizon", 10**12, "-o", "f.csv"), 2,
         "horizon|memory", {"x.csv": hourly()}),
    Case("100,000 threads of a forecast", ("forecast", "x.csv", "--horizon", 2, "--threads", 100_000, "-o", "f.csv"), 2,
         "threads: got 100000", {"x.csv": hourly(600)}),
    Case("a response of 10^15 steps", ("bench", "response", "last-value", "OU_PARAM", "--steps", 10**15), 2, MEMORY),
    Case("a stress test of 10^12 steps ahead", ("bench", "response", "last-value", "OU_PARAM", "--horizon", 10**12), 2,
         "horizon|rows|window|reach"),
)  # fmt: skip
def test_a_command_that_asks_for_too_much_says_what_it_would_need(case: Case, capsys) -> None:
    check(case, capsys)


SIZES: dict[str, Any] = {"context_length": 96, "horizon": 24, "channels": 2}
TOO_MUCH: dict[str, tuple[Callable[[], Any], str]] = {
    "hidden=10**20": (lambda: build_model("fern", **SIZES, hidden=10**20), "sizes beyond any machine|valid integer"),
    "hidden=10**12": (lambda: build_model("fern", **SIZES, hidden=10**12), MEMORY),
    "horizon=10**12": (lambda: build_model("dlinear", **{**SIZES, "horizon": 10**12}), MEMORY),
    "context_length=10**14": (lambda: build_model("dlinear", **{**SIZES, "context_length": 10**14}), MEMORY),
    "an outline of it": (lambda: outline_model("dlinear", **{**SIZES, "horizon": 10**12}), MEMORY),
    "steps=10**5000": (lambda: simulate(Scenario(system="garch", steps=10**5000, dt=1.0)), "5001 digits steps"),
    "steps=-10**5000": (lambda: Scenario(system="garch", steps=-(10**5000), dt=1.0), "5001 digits, needs"),
    "10**9 threads": (lambda: threads(10**9).__enter__(), "threads: got 1000000000"),
    "99 devices": (lambda: launch(TrainConfig(devices=9999)), "devices: got 9999, which are processes on the CPU"),
    "99 devices, told twice": (
        lambda: require_devices(TrainConfig(devices=10**6, strategy="ddp")),
        "devices: 1000000 processes would need",
    ),
    "10**12 jobs": (lambda: share_threads(cores=2, jobs=10**12, threads=None), "jobs: 1000000000000 processes"),
    "1 TB": (lambda: require_memory("it", 1e30), "it would need about .* of memory"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_python_refuses_what_does_not_fit(name: str) -> None:
    call, says = TOO_MUCH[name]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FernError, match=says):
        call()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes


def test_two_devices_may_be_asked_for_where_there_are_two_cores(monkeypatch) -> None:
    monkeypatch.setattr("fern.training.runtime.usable_cores", lambda: 2)
    with nullcontext():
        require_devices(TrainConfig(devices=2))
    with pytest.raises(FernError, match="give a strategy too"):
        require_devices(TrainConfig(devices=3))
    require_devices(TrainConfig(devices=3, strategy="ddp"))
    assert memory_size() is None or memory_size() > 1e8


def test_a_table_of_thousands_of_columns_takes_little_memory() -> None:
    names = ",".join(f"c{i}" for i in range(2_000))
    rows = [",".join([f"2020-01-0{day}", *(str(i + day) for i in range(2_000))]) for day in (1, 2, 3)]
    Path("wide.csv").write_text("\n".join([f"date,{names}", *rows]) + "\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = audit("wide.csv")
    assert len(report.series[0].columns) == 2_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 700_000  # kB; 2 GB at a megabyte a column


def test_the_table_of_common_values_grows_with_what_it_holds() -> None:
    common = CommonValues()
    values = np.random.default_rng(0).permutation(np.repeat(np.arange(1.0, 5001.0), 3))
    for part in np.array_split(values, 7):
        common.add(part, np.ones(len(part), np.int64))
    assert common.distinct() == 5000
    assert {entry.count for entry in common.top(5000)} == {3}
    assert common.slack == 0
    common.add(np.arange(1e6, 1e6 + SLOTS), np.full(SLOTS, 2))
    common.add(np.full(3, 7.0), np.full(3, 100))
    assert common.slack > 0
    assert common.top(1)[0].value == 7.0
    assert len(common._keys) == SLOTS


@pytest.mark.parametrize("width", [131_073, 300_000])
def test_a_header_and_a_cell_may_be_longer_than_pythons_limit(width: int, capsys) -> None:
    write_files({"x.csv": f"date,{'n' * width}\n" + "\n".join(f"2020-01-0{i},{i}" for i in range(1, 8)) + "\n"})
    assert len(audit("x.csv").series[0].columns) == 1


def forged(config: dict[str, Any], weights: dict[str, torch.Tensor], model: str = "dlinear") -> Path:
    path = Path("forged.safetensors")
    write_tensors(path, weights, {"model": model, "config": config, "version": "0"}, format_=FORMAT)
    return path


WEIGHTS = build_model("dlinear", **SIZES).state_dict()
CONFIG: dict[str, Any] = {}


@pytest.fixture(scope="module", autouse=True)
def _config() -> None:
    from dataclasses import asdict

    CONFIG.update(asdict(build_model("dlinear", **SIZES).config))


FORGED: dict[str, tuple[dict[str, Any], str]] = {
    "400 TB": ({"horizon": 10**12}, "far larger than the"),
    "beyond any machine": ({"horizon": 10**18, "context_length": 10**18}, f"{MEMORY}|far larger than the"),
    "a little too large": ({"horizon": 25}, "has shape"),
    "text for a size": ({"horizon": "24"}, "horizon"),
    "truth for a size": ({"channels": True}, "channels"),
    "null for a size": ({"channels": None}, "channels"),
    "an unknown setting": ({"surprise": 1}, "unknown setting"),
    "a size of 0": ({"horizon": 0}, "horizon: got 0"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_model_file_cannot_ask_for_more_than_its_weights(name: str) -> None:
    changes, says = FORGED[name]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FernError, match=says):
        load_model(forged({**CONFIG, **changes}, WEIGHTS))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


@pytest.mark.parametrize("size", ["context_length", "horizon", "channels"])
def test_a_model_file_without_weights_cannot_ask_for_windows_beyond_the_machine(size: str) -> None:
    with pytest.raises(FernError, match=f"{MEMORY}|far larger than the"):
        load_model(forged({**SIZES, size: 10**18}, {}, model="last-value"))


def test_a_true_model_still_loads() -> None:
    model = build_model("dlinear", **SIZES)
    save_model(model, Path("m.safetensors"))
    assert json.dumps(load_model(Path("m.safetensors")).config.horizon) == "24"
