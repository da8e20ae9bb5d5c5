"""The public tasks follow their published protocols: the published seasonal naive comes out."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from benchmarks.public.models import MODELS, Question, arrange, seasonal_naive
from benchmarks.public.published import SEASONAL_NAIVE, published_figures
from benchmarks.public.run import fingerprint_table, read_results
from benchmarks.public.scores import Outcome, collect, score, seasonal_scale
from benchmarks.public.tasks import DECILES, TASKS, Task, count_windows, make_windows, named_task

from fern.errors import FernError


def asked_of(task):
    return Question(task.horizon, task.quantiles, task.season, task.frequency, task.known)


def scored_naive(task, *, benchmark=None):
    """The scores of seasonal naive, with the intervals that the benchmark's own one has."""
    windows = make_windows(task, task.read())
    predict = seasonal_naive(windows[0].history, asked_of(task))
    forecasts = []
    for window in windows:
        history = window.history
        if benchmark == "fev":
            history = history.groupby("unique_id", sort=False).tail(1000)
        quantiles = predict(history, window.future)
        if benchmark == "chronos":
            quantiles = np.repeat(quantiles[..., [task.quantiles.index(0.5)]], quantiles.shape[-1], axis=-1)
        forecasts.append(quantiles)
    return score(task, collect(task, windows, forecasts))


@cache
def read_once(name):
    return named_task(name).read()


def on_this_machine(name):
    task = named_task(name)
    if task.missing_files:
        pytest.skip(f"{', '.join(task.missing_files)} is not in FERN_DATA_DIR")
    return replace(task, read=partial(read_once, name))


PAIRS = [(name, benchmark) for name, task in TASKS.items() for benchmark in task.published]


@pytest.mark.parametrize(("name", "benchmark"), PAIRS)
def test_the_published_seasonal_naive_is_reproduced(name, benchmark):
    task = on_this_machine(name)
    published = published_figures(benchmark, task)[SEASONAL_NAIVE[benchmark]].metrics
    ours = scored_naive(task, benchmark=benchmark)
    assert {"MASE"} <= published.keys() <= ours.keys()
    for measure, value in published.items():
        assert ours[measure] == pytest.approx(value, abs=1e-3), measure


@pytest.mark.parametrize("name", ["m4_hourly", "m4_weekly"])
def test_the_published_intervals_of_the_m4_naive_are_reproduced(name):
    task = on_this_machine(name)
    windows = make_windows(task, task.read())
    predict = seasonal_naive(windows[0].history, replace(asked_of(task), season=1))
    ours = score(task, collect(task, windows, [predict(windows[0].history, windows[0].future)]))
    published = published_figures("m4", task)["Naive"].metrics
    assert ours["MSIS"] == pytest.approx(published["MSIS"], abs=1e-3)
    assert ours["sMAPE"] == pytest.approx(published["sMAPE"], abs=1e-3)


@pytest.mark.parametrize("name", TASKS)
def test_windows_lie_at_the_end_one_after_the_other_and_no_history_holds_what_is_forecast(name):
    task = on_this_machine(name)
    table = task.read()
    windows = make_windows(task, table)
    assert 1 <= len(windows) <= 20
    first = windows[0].history
    assert list(first.columns) == ["unique_id", "ds", "y", *task.known]
    assert not first["y"].isna().any()
    last = table.groupby("unique_id", sort=False)["ds"].max()
    pairs = list(zip(windows, [*windows[1:], None], strict=True))
    for window, following in {0: pairs[0], len(pairs) - 1: pairs[-1]}.values():
        ends = window.history.groupby("unique_id", sort=False)["ds"].max()
        starts = window.future.groupby("unique_id", sort=False)["ds"].min()
        assert (ends < starts).all()
        assert "y" not in window.future
        assert window.truth.groupby("unique_id").size().eq(task.horizon).all()
        reached = window.future.groupby("unique_id", sort=False)["ds"].max()
        following_ends = last if following is None else following.history.groupby("unique_id", sort=False)["ds"].max()
        assert reached.equals(following_ends)


@pytest.mark.parametrize("name", TASKS)
def test_stamps_of_each_series_are_those_of_the_frequency(name):
    task = on_this_machine(name)
    for _, rows in list(task.read().groupby("unique_id", sort=False))[:20]:
        stamps = pd.date_range(rows["ds"].iloc[0], periods=len(rows), freq=task.frequency)
        assert (rows["ds"].to_numpy() == stamps.to_numpy()).all()


def test_every_task_has_published_figures_and_a_seasonal_naive_among_them():
    for name, task in TASKS.items():
        for benchmark in task.published:
            figures = published_figures(benchmark, task)
            assert len(figures) > 10, name
            assert SEASONAL_NAIVE[benchmark] in figures


def test_models_that_have_learnt_from_a_task_are_marked():
    assert published_figures("gift", TASKS["m4_weekly"])["chronos_bolt_small"].trained
    assert published_figures("chronos", TASKS["m3_monthly"])["moirai_large"].trained
    assert not published_figures("gift", TASKS["ett1_D"])["chronos_bolt_small"].trained


def test_gift_windows_are_a_tenth_of_the_shortest_series_at_least_one_and_at_most_twenty():
    def windows(rows, horizon):
        table = pd.DataFrame({"unique_id": ["a"] * rows + ["b"] * 2 * rows, "ds": range(3 * rows), "y": 0.0})
        return count_windows(replace(TASKS["jena_10T_short"], horizon=horizon), table)

    assert [windows(100, 10), windows(101, 10), windows(50, 48), windows(5000, 10)] == [1, 2, 1, 20]


def test_a_task_without_its_data_says_which_file_it_needs(monkeypatch, tmp_path):
    monkeypatch.setenv("FERN_DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    lacking = Task("none", lambda: pd.DataFrame(), ("nowhere.csv",), 1, 1, "h", 1, {})
    assert lacking.missing_files == ["nowhere.csv"]
    with pytest.raises(FernError, match="did you mean 'hospital'"):
        named_task("hopsital")


# --- measures, by hand -----------------------------------------------------------------------------------------


def toy_task(*benchmarks):
    return Task("toy", lambda: pd.DataFrame(), (), 2, 1, "h", 1, dict.fromkeys(benchmarks, "hourly"))


def flat(task, value, truth, scale):
    """A forecast that gives the value at every quantile."""
    truth = np.array(truth, dtype=float)
    return Outcome(np.full((*truth.shape, len(task.quantiles)), float(value)), truth, np.array(scale, dtype=float))


def test_a_point_forecast_has_the_wql_of_its_absolute_errors():
    scores = score(toy_task("chronos"), flat(toy_task("chronos"), 1.0, [[[2.0, 4.0]]], [[2.0]]))
    assert scores["MASE"] == pytest.approx((0.5 + 1.5) / 2)
    assert scores["WQL"] == pytest.approx(4 / 6)
    assert scores["SQL"] == pytest.approx(scores["MASE"])
    assert scores["coverage_80"] == 0.0


def test_series_whose_scale_is_zero_are_left_out_of_mase():
    task = toy_task("chronos")
    scores = score(task, flat(task, 1.0, [[[2.0, 4.0], [9.0, 9.0]]], [[2.0, 0.0]]))
    assert scores["MASE"] == pytest.approx(1.0)


def test_fev_bench_takes_the_mean_over_windows_of_wql():
    task = toy_task("fev")
    truth = [[[2.0, 4.0]], [[20.0, 20.0]]]
    pooled = score(toy_task("gift"), flat(toy_task("gift"), 1.0, truth, [[1.0], [1.0]]))["WQL"]
    assert pooled == pytest.approx((4 + 38) / 46)
    assert score(task, flat(task, 1.0, truth, [[1.0], [1.0]]))["WQL"] == pytest.approx((4 / 6 + 38 / 40) / 2)


def test_msis_counts_the_width_and_forty_times_what_is_outside():
    task = toy_task("m4")
    outcome = flat(task, 10.0, [[[10.0, 14.0]]], [[2.0]])
    outcome.quantiles[..., task.quantiles.index(0.025)] = 9.0
    outcome.quantiles[..., task.quantiles.index(0.975)] = 12.0
    scores = score(task, outcome)
    assert scores["MSIS"] == pytest.approx(((3 + 0) / 2 + (3 + 80) / 2) / 2)
    assert scores["sMAPE"] == pytest.approx((0 + 200 * 4 / 24) / 2)
    assert scores["OWA"] == pytest.approx((scores["sMAPE"] / 18.383 + scores["MASE"] / 2.395) / 2)


def test_the_scale_is_each_series_own():
    history = pd.DataFrame({"unique_id": ["b"] * 3 + ["a"] * 3 + ["c"], "y": [1.0, 3.0, 2.0, 0.0, 0.0, 0.0, 5.0]})
    assert seasonal_scale(history, 1)[:2].tolist() == [1.5, 0.0]
    assert np.isnan(seasonal_scale(history, 1)[2])


# --- models ----------------------------------------------------------------------------------------------------


def small_table(series=2, rows=60):
    rng = np.random.default_rng(3)
    stamps = pd.date_range("2020-01-01", periods=rows, freq="D")
    parts = [
        pd.DataFrame({"unique_id": name, "ds": stamps, "y": np.sin(np.arange(rows)) + rng.normal(size=rows)})
        for name in ["z", "a", "m"][:series]
    ]
    return pd.concat(parts, ignore_index=True)


QUICK = {"seasonal-naive", "classical"}


def test_answers_are_put_in_the_order_of_the_history_and_quantiles_that_cross_are_sorted():
    history = small_table(series=3)
    answer = pd.DataFrame({"unique_id": ["a", "m", "z"], "Fern": 0.0, "Fern-ql0.9": [1.0, 2.0, 3.0], "Fern-ql0.1": 2.5})
    question = Question(horizon=1, quantiles=(0.9, 0.1), season=1, frequency="D")
    assert arrange(answer, history, question)[:, 0].tolist() == [[3.0, 2.5], [2.5, 1.0], [2.5, 2.0]]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in MODELS]
)
def test_a_model_gives_ordered_quantiles_of_every_series(name):
    table = small_table()
    question = Question(horizon=4, quantiles=DECILES, season=7, frequency="D", seed=1)
    try:
        predict = MODELS[name](table[table["ds"] < table["ds"].max()], question)
        quantiles = predict(table, table[["unique_id", "ds"]].iloc[:0])
    except FernError as error:
        pytest.skip(str(error))
    assert quantiles.shape == (2, 4, 9)
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=-1) >= 0).all()


# --- the committed rows ----------------------------------------------------------------------------------------


def test_every_committed_row_says_what_it_was_made_of():
    rows = read_results()
    assert rows
    for row in rows:
        task, name = named_task(row["task"]), f"{row['task']}, {row['model']}, seed {row['seed']}"
        assert row["horizon"] == task.horizon, name
        assert row["model"] in MODELS, name
        assert row["versions"]["commit"], name
        assert row["fit_seconds"] >= 0, name
        assert 0 <= row["metrics"]["coverage_80"] <= 1, name
        if not task.missing_files and row["model"] == "seasonal-naive":
            assert row["data_fingerprint"] == fingerprint_table(read_once(task.name)), name
