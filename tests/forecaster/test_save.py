"""Save and load: the same bits in a new process, the old folder whole after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.errors import raises_error

from fern.errors import FernError
from fern.forecaster import FernForecaster, FernWarning

QUICK: dict[str, Any] = {"epochs": 1, "progress": "silent", "threads": 1, "model": "dlinear"}


def test_a_loaded_forecaster_forecasts_the_same_bits_in_a_new_process(
    fitted: FernForecaster, saved: Path, tmp_path: Path
) -> None:
    out = tmp_path / "there.parquet"
    program = (
        "from fern.forecaster import FernForecaster\n"
        f"FernForecaster.load({str(saved)!r}).predict(level=[80]).to_parquet({str(out)!r})"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
    pd.testing.assert_frame_equal(pd.read_parquet(out), fitted.predict(level=[80]), check_exact=True)


def test_all_that_a_fit_leaves_comes_back(fitted: FernForecaster, copy: FernForecaster) -> None:
    assert copy.get_params() == fitted.get_params()
    assert copy.notes_ == fitted.notes_
    pd.testing.assert_frame_equal(copy.simulate(n_paths=5), fitted.simulate(n_paths=5), check_exact=True)
    pd.testing.assert_frame_equal(copy.total(level=[80]), fitted.total(level=[80]), check_exact=True)
    pd.testing.assert_frame_equal(copy.diagnose().profile, fitted.diagnose().profile, check_exact=True)


FRAMES = {
    "a time zone and an index": pd.DataFrame(
        {"a": np.arange(90.0) % 7, "b": 1.0 * np.arange(90)},
        index=pd.date_range("2020-03-01", periods=90, freq="h", tz="Europe/Berlin", name="when"),
    ),
    "labels that are numbers": pd.DataFrame({"ds": pd.date_range("2020", periods=90), 0: np.arange(90.0) % 7}),
    "categories": pd.DataFrame(
        {
            "unique_id": pd.Categorical(["b"] * 90 + ["a"] * 90),
            "ds": np.tile(np.arange(90), 2),
            "y": np.arange(180.0).astype(np.float32) % 7,
        }
    ),
    "polars dates": pl.DataFrame({"ds": list(pd.date_range("2020", periods=90).date), "y": np.arange(90.0) % 7}),
    "no time column": pd.DataFrame({"x": np.arange(90.0) % 7}),
    "too few rows to learn from": pd.DataFrame({"ds": pd.date_range("2020", periods=8), "y": np.arange(8.0)}),
}


@pytest.mark.filterwarnings("ignore::fern.forecaster.FernWarning")
@pytest.mark.parametrize("kind", FRAMES)
def test_answers_of_a_loaded_forecaster_are_of_the_kind_that_was_fitted(kind: str, tmp_path: Path) -> None:
    forecaster = FernForecaster(horizon=4, **QUICK).fit(FRAMES[kind])
    forecaster.save(tmp_path / "model")
    before, after = (one.predict() for one in (forecaster, FernForecaster.load(tmp_path / "model")))
    assert before.equals(after)
    kept = before.schema == after.schema if kind.startswith("polars") else (before.dtypes == after.dtypes).all()
    assert kept


def test_a_killed_save_leaves_the_old_folder_or_the_new_one(
    fitted: FernForecaster, panel: pd.DataFrame, tmp_path: Path
) -> None:
    other = FernForecaster(horizon=7, **QUICK).fit(panel)
    folder = tmp_path / "model"
    fitted.save(folder)
    columns = set()
    for turn in range(12):
        child = os.fork()
        if child == 0:
            while True:  # until it is killed
                other.save(folder)
                fitted.save(folder)
        time.sleep(0.01 + 0.013 * turn)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        columns.add(FernForecaster.load(folder).predict().columns[-1])
    assert columns <= {"Fern", "DLinear"}
    fitted.save(folder)
    assert sorted(file.name.split("-")[0] for file in folder.iterdir()) == ["forecaster.json", "model", "state"]


def test_a_first_save_that_was_killed_can_be_repeated(
    fitted: FernForecaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"

    with monkeypatch.context() as patched:
        patched.setattr("fern.forecaster.saved_folder.MANIFEST", "no/such/place")
        with pytest.raises(FernError):
            fitted.save(folder)
    assert list(folder.glob("state-*"))
    fitted.save(folder)
    FernForecaster.load(folder)


def test_a_folder_that_is_not_ours_is_not_touched(fitted: FernForecaster, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FernError, match=r"holds 'thesis.tex' and no forecaster"):
        fitted.save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(FernError, match="is a file"):
        fitted.save(tmp_path / "thesis.tex")
    with pytest.raises(FernError, match="does not exist"):
        fitted.save(tmp_path / "no" / "such")
    (tmp_path / "forecaster.json").write_text("{}")
    with pytest.raises(FernError, match="not overwritten"):
        fitted.save(tmp_path)


def test_deleting_stale_files_follows_no_link(fitted: FernForecaster, tmp_path: Path) -> None:
    folder, outside = tmp_path / "model", tmp_path / "precious.safetensors"
    outside.write_text("keep me")
    fitted.save(folder)
    (folder / "state-0123456789abcdef.safetensors").symlink_to(outside)
    (folder / "model-0123456789abcdef.safetensors").write_text("stale")
    fitted.save(folder)
    assert outside.read_text() == "keep me"
    assert not (folder / "model-0123456789abcdef.safetensors").exists()


def test_an_unfitted_forecaster_and_what_json_cannot_hold_are_refused(copy: FernForecaster, tmp_path: Path) -> None:
    with pytest.raises(FernError, match="not fitted yet"):
        FernForecaster(horizon=3).save(tmp_path / "model")
    with raises_error("model_settings"):
        copy.set_params(model_settings={"x": object()}).save(tmp_path / "model")
    copy.set_params(model_settings=None, horizon=-1)
    with raises_error("horizon"):
        copy.save(tmp_path / "model")


def test_the_random_state_of_torch_is_the_users(saved: Path) -> None:
    import torch

    torch.manual_seed(3)
    before = torch.get_rng_state()
    FernForecaster.load(saved)
    assert torch.equal(before, torch.get_rng_state())


def test_an_update_is_saved_too(copy: FernForecaster, panel: pd.DataFrame, tmp_path: Path) -> None:
    rows = panel.loc[panel["unique_id"] == "mid"]
    later = rows.iloc[:20].assign(ds=pd.date_range(rows["ds"].iloc[-1], periods=21)[1:])
    copy.update(later).save(tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("error", FernWarning)
        expected, found = (one.predict(level=[80]) for one in (copy, FernForecaster.load(tmp_path / "model")))
    pd.testing.assert_frame_equal(expected, found, check_exact=True)
    assert FernForecaster.load(tmp_path / "model")._require_fitted().online.keys() == {"mid"}


FORMER = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize("name", ["fern", "dlinear"])
def test_forecasters_of_the_former_version_load_and_predict_the_same(name: str) -> None:
    expected = pd.DataFrame(json.loads((FORMER / f"{name}.json").read_text()))
    predicted = FernForecaster.load(FORMER / name).predict(level=[80])
    # Weights and states are float32: other kernels round in the seventh digit, the file holds ten.
    stamps = predicted["ds"].astype("datetime64[ms]").astype("int64")
    pd.testing.assert_frame_equal(predicted.assign(ds=stamps), expected, rtol=1e-5)
