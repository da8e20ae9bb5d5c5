"""A row is what its file says, and a changed file is noticed."""

import json
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fern.benchmark.results import RunResult, _checksum, result_from_json, result_to_json
from fern.benchmark.runs import RunSettings, canonical
from fern.errors import FernError

ROW = RunResult(
    task="tiny",
    model="dlinear",
    preset="paper",
    dataset="OU_BASE",
    data_fingerprint="ab",
    context_length=24,
    horizon=12,
    split="shock",
    scaling="none",
    seed=7,
    code_version="1",
    train_settings={"epochs": 3, "loss": {"huber": 1.0}, "clip_norm": None},
    status="done",
    metrics={"mse": 0.1 + 0.2, "skill": -1e-17},
    seconds={"total": 1.5},
    finished="2026-01-01T00:00:00+00:00",
)

finite = st.floats(-1e150, 1e150)


@given(metrics=st.dictionaries(st.text(max_size=5), finite, max_size=4), seed=st.integers(0), error=st.text())
def test_a_row_comes_back_from_json_to_the_bit(metrics, seed, error):
    row = replace(ROW, metrics={**metrics, "mse": 1.0}, seed=seed, error=error)
    assert result_from_json(result_to_json(row), where="here") == row


def test_the_key_depends_on_every_setting_of_the_run_and_on_nothing_else():
    changed = {
        str: lambda value: value + "x",
        int: lambda value: value + 1,
        dict: lambda value: {**value, "x": 1},
    }
    for entry in fields(RunSettings):
        value = getattr(ROW, entry.name)
        assert replace(ROW, **{entry.name: changed[type(value)](value)}).key != ROW.key, entry.name
    assert replace(ROW, metrics={"mse": 9.0}, seconds={}, finished="", error="x").key == ROW.key


def test_the_key_is_the_same_in_every_version_until_the_schema_changes():
    # Rows are committed: their names must not move by accident.
    assert ROW.key == "96b2d675a89db42f"


def test_the_key_does_not_depend_on_the_order_of_settings():
    turned = dict(reversed(ROW.train_settings.items()))
    assert replace(ROW, train_settings=turned).key == ROW.key
    assert canonical({"b": 1, "a": (1,)}) == canonical({"a": [1], "b": 1})


def test_rows_of_equal_results_agree_whatever_the_time_and_the_machine():
    other = replace(ROW, seconds={"total": 9.0}, machine={"cores": 4}, finished="later", versions={"commit": "x"})
    assert other != ROW
    mine, theirs = (json.loads(result_to_json(row)) for row in (replace(other, versions={}), ROW))
    assert mine["checksum"] == theirs["checksum"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:-20], "is not JSON"),
        (lambda text: b"", "is not JSON"),
        (lambda text: b"[1]", "needs a JSON object"),
        (lambda text: b"\xff\xfe", "is not JSON"),
        (lambda text: text.replace(b"0.30000000000000004", b"0.20000000000000004"), "checksum does not match"),
        (lambda text: text.replace(b'"seed": 7', b'"seed": 8'), "checksum does not match"),
        (lambda text: text.replace(b'"schema": 1', b'"schema": 9'), "schema is 9"),
        (lambda text: text.replace(b'"horizon"', b'"horizont"'), "checksum does not match"),
        (lambda text: text.replace(b'"checksum"', b'"cheksum"'), "has no checksum"),
        (lambda text: edited(text, seed=8), "give the key"),
        (lambda text: edited(text, status="fine"), "status"),
        (lambda text: edited(text, metrics={}), "needs at least its mse"),
        (lambda text: edited(text, metrics={"mse": "low"}), "metrics"),
        (lambda text: edited(text, horizont=3), "unknown setting 'horizont': did you mean 'horizon'"),
    ],
)
def test_a_damaged_row_is_refused_with_what_is_wrong(damage, message):
    with pytest.raises(FernError, match=message) as caught:
        result_from_json(damage(result_to_json(ROW)), where="rows/ab.json")
    assert "rows/ab.json" in str(caught.value)


def edited(text, **changes):
    """The row changed by somebody who also made the checksum fit."""
    whole = {name: value for name, value in json.loads(text).items() if name != "checksum"} | changes
    return json.dumps({**whole, "checksum": _checksum(whole)}).encode()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_metric_that_is_not_finite_never_becomes_a_row(bad):
    with pytest.raises(FernError, match=r"mse is (nan|inf)"):
        RunResult(**{**asdict(ROW), "metrics": {"mse": bad}})


def test_a_run_that_failed_needs_its_reason():
    with pytest.raises(FernError, match="needs a reason"):
        replace(ROW, status="failed", metrics={})
