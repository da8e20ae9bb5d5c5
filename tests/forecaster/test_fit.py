"""A fit that was killed goes on in the same call, to the same bits."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fern.errors import FernError
from fern.forecaster import FernForecaster
from fern.training.trainer import Loop

QUICK: dict[str, Any] = {"epochs": 2, "progress": "silent", "threads": 1, "classical": False}


class Killed(BaseException):
    """Not an error that anyone handles."""


class Steps:
    """Counts steps of training, and kills at one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken, self.last = 0, None
        plain = Loop._step

        def counted(loop: Loop, order: Any) -> float:
            if self.taken == self.last:
                raise Killed
            self.taken += 1
            return plain(loop, order)

        monkeypatch.setattr(Loop, "_step", counted)

    def until(self, last: int | None) -> None:
        self.taken, self.last = 0, last


def test_a_killed_fit_goes_on(panel: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    whole = FernForecaster(horizon=7, **QUICK).fit(panel)
    total = steps.taken
    # Two pilots, a training, one on the rows before calibration, one on all rows.
    assert any("trained once more" in note for note in whole.notes_)
    for share in (0.05, 0.5, 0.9):
        folder = tmp_path / f"{share}"
        steps.until(int(share * total))
        with pytest.raises(Killed):
            FernForecaster(horizon=7, **QUICK).fit(panel, directory=folder)
        steps.until(None)
        again = FernForecaster(horizon=7, **QUICK).fit(panel, directory=folder)
        # No more than an epoch is taken again, and what was finished is not.
        assert steps.taken <= total - int(share * total) + total // 3
        pd.testing.assert_frame_equal(again.predict(level=[80]), whole.predict(level=[80]), check_exact=True)
    steps.until(None)
    FernForecaster(horizon=7, **QUICK).fit(panel, directory=tmp_path / "0.9")
    assert steps.taken == 0  # a finished fit is given back
    with pytest.raises(FernError, match="different data"):
        FernForecaster(horizon=7, **QUICK).fit(panel.assign(y=panel["y"] ** 2), directory=tmp_path / "0.9")


def test_a_fit_with_a_time_limit_goes_on_too(
    panel: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    limited: dict[str, Any] = {**QUICK, "time_limit": 300.0}
    steps.until(12)
    with pytest.raises(Killed):
        FernForecaster(horizon=7, **limited).fit(panel, directory=tmp_path)
    steps.until(None)
    FernForecaster(horizon=7, **limited).fit(panel, directory=tmp_path)
    assert steps.taken > 0


@pytest.mark.slow
def test_a_time_limit_is_kept_by_what_comes_after_training_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # The clock counts processor seconds, so that a busy machine does not matter.
    monkeypatch.setattr(time, "monotonic", time.process_time)
    monkeypatch.setattr(time, "perf_counter", time.process_time)
    rng = np.random.default_rng(7)
    hours = np.arange(4000)[:, None] + 5 * np.arange(6)
    wide = pd.DataFrame(np.sin(2 * np.pi * hours / 24) + 0.3 * rng.normal(size=hours.shape), columns=list("abcdef"))
    FernForecaster(24, epochs=1, progress="silent", threads=1).fit(wide[:600])  # compiles
    limited = FernForecaster(24, time_limit=3.0, progress="silent", threads=1)
    began = time.process_time()
    limited.fit(wide)
    assert time.process_time() - began < 3.3
    assert limited._require_fitted().calibration.windows >= 20  # type: ignore[union-attr]


def test_ctrl_c_while_recipes_are_tried_ends_the_fit_with_what_there_is(
    panel: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def interrupted(self: Any) -> None:
        calls.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr("fern.training.trainer.Loop._run_steps", interrupted)
    forecaster = FernForecaster(horizon=7, progress="silent", threads=1).fit(panel)
    assert len(calls) == 1  # no further training begins
    assert "interrupted: the best weights so far are kept" in forecaster.notes_
    assert np.isfinite(forecaster.predict()["Fern"]).all()
