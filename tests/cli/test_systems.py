"""``fern scenarios`` and ``fern simulate``, as a user runs them."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from tests.benchmark.support import InlineEngine

from fern.systems import SCENARIOS, registry, simulate


def test_scenarios_lists_every_id_with_its_shock(fern):
    ran = fern("scenarios")
    assert ran.code == 0
    assert all(name in ran.out for name in SCENARIOS)
    assert "param at 12599" in ran.out


def test_scenarios_json_carries_every_setting(fern):
    listed = json.loads(fern("scenarios", "--json").out)
    assert [entry["id"] for entry in listed] == list(SCENARIOS)
    switched = next(entry for entry in listed if entry["id"] == "LORENZ96_SWITCH")
    assert switched["shocks"][0]["params"] == {"forcing": 9.0}
    assert switched["shock_rows"] == [19250]


def test_simulate_writes_the_same_values_to_every_format(fern):
    expected = simulate("OU_PARAM").values
    for name in ("out.csv", "out.parquet", "out.npz"):
        assert fern("simulate", "OU_PARAM", "-o", name).code == 0
    csv = np.loadtxt("out.csv", delimiter=",", skiprows=1)
    # The shortest decimal that reads back to the same float32 is what CSV holds.
    np.testing.assert_array_equal(csv[:, 1].astype(np.float32), expected[:, 0])
    np.testing.assert_allclose(csv[:3, 0], [0.5, 1.0, 1.5])
    table = pyarrow.parquet.read_table("out.parquet")
    np.testing.assert_array_equal(table["x"].to_numpy(), expected[:, 0])
    assert json.loads(table.schema.metadata[b"fern"])["shock_rows"] == [8750]
    archive = np.load("out.npz")
    np.testing.assert_array_equal(archive["values"], expected)
    assert json.loads(str(archive["fern"]))["fingerprint"] == simulate("OU_PARAM").fingerprint


@pytest.mark.parametrize("scenario_id", ["LORENZ_PARAM", "KS_BASE", "GARCH_PARAM"])
def test_simulate_draws_a_picture(fern, scenario_id):
    assert fern("simulate", scenario_id, "--plot", "out.png").code == 0
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")


def test_simulate_plays_a_scenario_file(fern):
    Path("my.toml").write_text(
        'system = "rossler"\nsteps = 400\ndt = 0.01\n[[shocks]]\nkind = "state_eps"\nat = 100\neps = 0.5\n'
    )
    ran = fern("simulate", "my.toml", "-o", "out.npz")
    assert ran.code == 0
    assert "my: 400 rows x 3 channels, state_eps shock at row 100" in ran.out


def test_seed_and_steps_can_be_changed(fern):
    fern("simulate", "OU_BASE", "-o", "a.npz", "--seed", "3", "--steps", "50")
    fern("simulate", "OU_BASE", "-o", "b.npz", "--seed", "4", "--steps", "50")
    a, b = np.load("a.npz")["values"], np.load("b.npz")["values"]
    assert a.shape == (50, 1)
    assert (a != b).any()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["LORENZ_PRAM", "-o", "out.csv"], "did you mean 'LORENZ_PARAM'"),
        (["missing.toml", "-o", "out.csv"], "missing.toml: no such file"),
        (["LORENZ_BASE"], "nothing to do"),
        (["LORENZ_BASE", "-o", "out.xlsx"], "a trajectory needs one of .csv, .parquet, .npz"),
        (["LORENZ_BASE", "-o", "out.csv", "--plot", "out.bmp"], "a plot needs one of .png, .svg, .pdf"),
        (["LORENZ_BASE", "-o", "no/folder/out.csv"], "the folder no/folder does not exist"),
        (["LORENZ_BASE", "-o", "out.csv", "--plot", "no/out.png"], "the folder no does not exist"),
        (["LORENZ_BASE", "-o", "out.csv", "--steps", "1"], "steps: got 1"),
        (["bad.toml", "-o", "out.csv"], "not a valid TOML file"),
        (["misspelt.toml", "-o", "out.csv"], "unknown setting 'stesp': did you mean 'steps'"),
        (["unstable.toml", "-o", "out.csv"], "rossler blows up at step"),
    ],
)
def test_a_mistake_is_one_line_exit_code_2_and_no_file(fern, arguments, words):
    Path("bad.toml").write_text("system = lorenz63\n")
    Path("misspelt.toml").write_text('system = "rossler"\nstesp = 400\ndt = 0.01\n')
    Path("unstable.toml").write_text('system = "rossler"\nsteps = 4000\ndt = 0.01\nparams = { a = 5.0 }\n')
    before = set(Path().iterdir())
    ran = fern("simulate", *arguments)
    assert ran.code == 2
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert set(Path().iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(fern):
    Path("locked").mkdir(mode=0o500)
    ran = fern("simulate", "OU_BASE", "-o", "locked/out.csv")
    assert ran.code == 2
    assert "no permission" in ran.err


def test_version_is_shown(fern):
    assert fern("--version").out.startswith("fern 0.")


OWN_SYSTEM = """
from fern.systems import Flow, register_system


def oscillate(state, params, out):
    out[0] = state[1]
    out[1] = -params[0] * state[0]


register_system(Flow(
    name="my_oscillator", equations=oscillate, params={"k": 1.0}, channel_names=("x", "v"),
    initial_state=(1.0, 0.0), citation="mine",
))
"""
OWN_SCENARIO = 'system = "my_oscillator"\nsteps = 700\ndt = 0.1\nid = "MINE"\n'
OWN_TASK = """
schema = 1
models = ["last-value", "oracle"]
datasets = ["mine.toml"]
context_length = 24
horizons = [12]
seeds = [7]
"""


def test_a_system_of_ones_own_is_imported_by_every_command_that_simulates(fern, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr("fern.benchmark.engines.open_engine", lambda name, plan, out, **options: InlineEngine(out))
    files = {"my_systems.py": OWN_SYSTEM, "mine.toml": OWN_SCENARIO, "task.toml": OWN_TASK}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    sizes = ("--context-length", "24", "--horizon", "12")
    for arguments in (
        ("simulate", "mine.toml", "-o", "mine.csv"),
        ("bench", "run", "task.toml"),
        ("stress", "last-value", "--scenario", "mine.toml", *sizes),
    ):
        registry._registered.clear()
        unknown = fern(*arguments)
        assert unknown.code == 2
        assert "unknown system" in unknown.err
        sys.modules.pop("my_systems", None)
        done = fern(*arguments, "--import", "my_systems")
        assert done.code == 0, done.err
    assert fern("simulate", "mine.toml", "-o", "other.csv", "--import", "no_such_module").code == 2
    assert not (tmp_path / "other.csv").exists()
