"""One forecaster in many threads, and after a fork: the forecasts are those of one thread."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import numpy as np
import pandas as pd
import pytest

from fern.forecaster import FernForecaster


@pytest.fixture(scope="module", params=["fern", "dlinear"])
def forecaster(request: pytest.FixtureRequest) -> FernForecaster:
    days = pd.date_range("2024-01-01", periods=150)
    rng = np.random.default_rng(0)
    frames = [
        pd.DataFrame({"unique_id": name, "ds": days, "y": np.sin(np.arange(150) / 3) + rng.normal(size=150) / 9})
        for name in "abcd"
    ]
    return FernForecaster(horizon=7, model=request.param, epochs=2, classical=False, threads=1, progress="silent").fit(
        pd.concat(frames)
    )


def test_eight_threads_predict_what_one_does(forecaster: FernForecaster) -> None:
    alone = forecaster.predict(level=[80, 95])
    with ThreadPoolExecutor(8) as pool:
        together = [pool.submit(forecaster.predict, level=[80, 95]) for _ in range(24)]
    for each in together:
        pd.testing.assert_frame_equal(each.result(), alone, check_exact=True)


def test_a_forecast_during_an_update_is_that_of_before_or_that_of_after(forecaster: FernForecaster) -> None:
    changing = FernForecaster(**forecaster.get_params())
    changing._state = forecaster._require_fitted()
    rows = forecaster.predict().iloc[:, :2].assign(y=5.0)
    before = changing.predict(level=[80])
    with ThreadPoolExecutor(8) as pool:
        made = [pool.submit(changing.predict, level=[80]) for _ in range(8)]
        pool.submit(changing.update, rows).result()
        made += [pool.submit(changing.predict, level=[80]) for _ in range(2)]
    after = changing.predict(level=[80])
    assert not after.equals(before)
    assert all(one.result().equals(before) or one.result().equals(after) for one in made)


def _predict_in_child(forecaster: FernForecaster, pipe: Connection) -> None:
    pipe.send(forecaster.predict(level=[80]).iloc[:, 2:].to_numpy().tolist())


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_predicts_what_its_parent_does(forecaster: FernForecaster) -> None:
    alone = forecaster.predict(level=[80]).iloc[:, 2:].to_numpy().tolist()
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_predict_in_child, args=(forecaster, theirs))
    child.start()
    try:
        assert ours.poll(120), "the child does not answer"
        assert ours.recv() == alone
    finally:
        child.kill()
        child.join()
