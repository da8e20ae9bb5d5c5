"""Fern as an sktime forecaster: sktime's own checks, and what they do not look at."""

import pickle
import pickletools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.errors import raises_error

from fern.errors import FernError

# Short series are forecast with a warning; what sktime and its dependencies will change one day is theirs to warn of.
pytestmark = pytest.mark.filterwarnings("ignore")

SMALL = {"epochs": 1, "model_settings": {"hidden": 8, "latent": 4, "layers": 2, "reflections": 2, "patch_size": 4}}


@pytest.fixture
def Fern(needs: Callable[..., Any]) -> Any:
    needs("sktime")
    return needs("sktime", "fern.integrations.sktime").FernForecaster


@pytest.fixture
def airline(Fern: Any) -> Any:
    from sktime.datasets import load_airline

    return load_airline()


def panel(levels: tuple[int, ...] = (3,), *, rows: int = 60, columns: int = 1, most: int | None = None) -> Any:
    from sktime.utils._testing.hierarchical import _make_hierarchical

    return _make_hierarchical(
        levels,
        min_timepoints=rows,
        max_timepoints=most or rows,
        n_columns=columns,
        same_cutoff=most is None,
        random_state=1,
    )


@pytest.mark.slow
def test_every_check_of_sktime_passes(Fern: Any) -> None:
    from sktime.utils.estimator_checks import check_estimator

    results = check_estimator(Fern, raise_exceptions=False, verbose=False)
    assert len(results) > 500
    assert {name: result for name, result in results.items() if result != "PASSED"} == {}


def test_forecasts_are_those_of_our_own_forecaster(Fern: Any, airline: Any) -> None:
    from fern import FernForecaster

    inside = Fern(model="dlinear", epochs=2, context_length=24).fit(airline, fh=[1, 2, 12])
    frame = airline.rename_axis("ds").rename("y").to_timestamp().reset_index()
    ours = FernForecaster(12, model="dlinear", epochs=2, context_length=24, progress="silent").fit(frame)
    expected = ours.predict(quantiles=[0.1, 0.9]).iloc[[0, 1, 11]]
    np.testing.assert_allclose(inside.predict().to_numpy(), expected["y"].to_numpy())
    quantiles = inside.predict_quantiles(alpha=[0.1, 0.9]).to_numpy()
    np.testing.assert_allclose(quantiles, expected[["y-ql0.1", "y-ql0.9"]].to_numpy())
    assert inside.forecaster_._require_fitted().season == 12  # from the months of the index


def test_the_joint_distribution_draws_whole_paths(Fern: Any, airline: Any) -> None:
    forecaster = Fern(**SMALL).fit(airline, fh=np.arange(1, 13))
    joint, marginal = forecaster.predict_proba(marginal=False), forecaster.predict_proba()
    whole = forecaster.forecaster_.simulate(n_paths=1000)
    drawn = joint.sample(3).to_numpy().reshape(3, 12)
    paths = whole["Fern"].to_numpy().reshape(1000, 12)
    assert all((np.abs(paths - path).max(axis=1) < 1e-9).any() for path in drawn)
    level = forecaster.predict_quantiles(alpha=[0.25]).to_numpy()[:, 0]
    np.testing.assert_allclose(marginal.ppf(0.25).to_numpy()[:, 0], level, rtol=0.05)
    np.testing.assert_allclose(forecaster.predict_var().to_numpy(), marginal.var().to_numpy())


def test_panels_hierarchies_and_columns_are_learnt_by_one_model(Fern: Any) -> None:
    y = panel((2, 2), rows=40, most=60, columns=2)
    forecaster = Fern(**SMALL).fit(y, fh=[1, 3])
    made = forecaster.predict()
    assert made.index.names == y.index.names and list(made.columns) == list(y.columns)
    for label, rows in y.groupby(level=[0, 1]):  # from each series' own end, wherever that is
        last = rows.index.get_level_values(-1)[-1]
        stamps = made.loc[label].index
        assert [(stamp - last).days for stamp in stamps] == [1, 3]
    assert forecaster.forecaster_._require_fitted().model is not None
    assert forecaster.predict_interval(coverage=0.8).shape == (8, 4)


def test_pretraining_is_kept_by_fit_and_other_series_are_forecast_by_it(Fern: Any) -> None:
    forecaster = Fern(**SMALL).pretrain(panel(rows=60), fh=[1, 2, 3])
    learnt = forecaster.pretrained_forecaster_._require_fitted().model.state_dict()
    other = panel((2,), rows=80) * 100
    forecaster.fit(other, fh=[1, 2, 3])
    used = forecaster.forecaster_._require_fitted().model.state_dict()
    assert all(np.array_equal(used[name], value) for name, value in learnt.items())
    assert (forecaster.predict().to_numpy() > 50).all()  # at the level of the other series
    forecaster.clone().pretrain(panel((4,), rows=60)).fit(other, fh=[1])  # a second panel is learnt with the first
    with raises_error("y"):
        forecaster.fit(panel(columns=2), fh=[1])
    with raises_error("fh"):
        Fern(**SMALL).pretrain(panel())


def test_update_moves_on_and_calibration_follows_only_where_parameters_may_change(Fern: Any, airline: Any) -> None:
    fitted = Fern(**SMALL).fit(airline[:-36], fh=[1, 2, 3])
    still, moving = fitted.forecaster_._require_fitted(), pickle.loads(pickle.dumps(fitted))  # noqa: S301
    moving.update(airline[-40:])  # four rows are known: they are not taken twice
    assert moving.cutoff[0] == airline.index[-1]
    assert moving.forecaster_._require_fitted().recent[0].rows == len(airline)
    assert moving.forecaster_._require_fitted().online and not still.online
    fitted.update(airline[-36:], update_params=False)
    assert not fitted.forecaster_._require_fitted().online
    np.testing.assert_allclose(fitted.predict().to_numpy(), moving.predict().to_numpy())
    with raises_error("y"):
        fitted.update(airline[-3:].set_axis(airline.index[-3:] + 5))


def test_a_pickle_forecasts_the_same_and_holds_no_live_model(Fern: Any, airline: Any) -> None:
    forecaster = Fern(**SMALL).fit(airline, fh=[1, 2])
    data = pickle.dumps(forecaster)
    again = pickle.loads(data)  # noqa: S301
    assert again.predict().equals(forecaster.predict())
    assert again.predict_interval().equals(forecaster.predict_interval())
    texts = {argument for _, argument, _ in pickletools.genops(data) if isinstance(argument, str)}
    assert not any(text.startswith(("torch", "fern.models", "fern.forecaster", "fern.calibration")) for text in texts)
    assert "forecaster.json" in texts


def test_a_wrong_setting_is_told_by_fern(Fern: Any, airline: Any) -> None:
    with pytest.raises(FernError, match="unknown model 'fren': did you mean 'fern'"):
        Fern(model="fren").fit(airline, fh=[1])


def driven(rows: int = 260, *, seed: int = 0, ends: str = "D") -> tuple[Any, Any]:
    """y_t = 0.5 y_{t-1} + 2 x_t + noise, and x."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal(rows), np.zeros(rows)
    for t in range(1, rows):
        y[t] = 0.5 * y[t - 1] + 2.0 * x[t] + 0.3 * rng.standard_normal()
    index = pd.RangeIndex(rows) if ends == "rows" else pd.date_range("2024-01-01", periods=rows, freq=ends)
    index = index.to_period() if ends == "M" else index
    return pd.Series(20 + y, index=index, name="y"), pd.DataFrame({"x": x, "noise": rng.random(rows)}, index=index)


@pytest.mark.parametrize("ends", ["D", "h", "rows"])
def test_columns_of_X_that_are_known_ahead_move_the_forecast(Fern: Any, ends: str) -> None:
    y, X = driven(ends=ends)
    forecaster = Fern(model="dlinear", epochs=1).fit(y[:-6], X=X[:-6], fh=np.arange(1, 7))
    made = forecaster.predict(X=X[-6:])
    plain = Fern(model="dlinear", epochs=1).fit(y[:-6], fh=np.arange(1, 7)).predict()
    assert np.abs(made - y[-6:]).mean() < 0.5 * np.abs(plain - y[-6:]).mean()
    up, down = (forecaster.predict_quantiles(X=X[-6:].assign(x=value), alpha=[0.1]) for value in (1.0, -1.0))
    assert (up.to_numpy() > down.to_numpy() + 2).all()
    drawn = [forecaster.predict_proba(X=X[-6:].assign(x=v), marginal=False).mean().to_numpy() for v in (1.0, -1.0)]
    assert (drawn[0] > drawn[1] + 2).all()
    assert forecaster.forecaster_.importance()["covariate"].to_pylist()[0] == "x"
    whole = forecaster.predict(X=X)  # rows of the past may be there, too
    np.testing.assert_allclose(whole.to_numpy(), made.to_numpy())


def test_forecasts_with_X_are_those_of_our_own_forecaster(Fern: Any) -> None:
    from fern import FernForecaster

    y, X = driven()
    inside = Fern(model="dlinear", epochs=1).fit(y[:-6], X=X[:-6], fh=[1, 6]).predict(X=X[-6:])
    frame = X.assign(y=y).rename_axis("ds").reset_index()
    ours = FernForecaster(6, model="dlinear", epochs=1, futr_exog_list=["x", "noise"], progress="silent")
    made = ours.fit(frame[:-6]).predict(futr_df=frame[-6:].drop(columns="y"))
    np.testing.assert_allclose(inside.to_numpy(), made["y"].to_numpy()[[0, 5]])


def test_panels_have_X_for_each_of_their_series_and_pickles_keep_it(Fern: Any) -> None:
    import pandas as pd

    pairs = [driven(seed=seed) for seed in (0, 1)]
    y, X = (pd.concat([pair[k] for pair in pairs], keys=["a", "b"], names=["shop", "day"]) for k in (0, 1))
    y = y.to_frame()
    past = y.groupby(level=0).head(254).index
    forecaster = Fern(model="dlinear", epochs=1).fit(y.loc[past], X=X.loc[past], fh=np.arange(1, 7))
    made = forecaster.predict(X=X.drop(past))
    assert np.abs(made - y.drop(past)).to_numpy().mean() < 1.0
    again = pickle.loads(pickle.dumps(forecaster))  # noqa: S301
    np.testing.assert_allclose(again.predict(X=X.drop(past)).to_numpy(), made.to_numpy())
    with raises_error("X"):
        forecaster.predict(X=X.drop(past).drop(index="b", level=0))


def test_X_that_does_not_cover_the_horizon_is_refused(Fern: Any) -> None:
    y, X = driven()
    forecaster = Fern(model="dlinear", epochs=1).fit(y[:-6], X=X[:-6], fh=[2, 6])
    for wrong in (None, X[-4:], X[-6:].drop(X.index[-5]), X[:-6], X[-6:][["noise", "x"]], X[-6:][["x"]]):
        with raises_error("X"):
            forecaster.predict(X=wrong)
    assert np.isfinite(forecaster.predict(X=X.iloc[[-5, -1]])).all(axis=None)  # steps between may be missing


def test_update_takes_X_along(Fern: Any) -> None:
    y, X = driven()
    forecaster = Fern(model="dlinear", epochs=1).fit(y[:-16], X=X[:-16], fh=np.arange(1, 7))
    with raises_error("X"):
        forecaster.update(y[-16:-6])
    forecaster.update(y[-16:-6], X=X[-16:-6])
    made = forecaster.predict(X=X[-6:])
    assert np.abs(made - y[-6:]).mean() < 1.0


def test_the_model_of_the_package_forecasts_without_training(Fern: Any, airline: Any) -> None:
    forecaster = Fern(pretrained=True).fit(airline[:-12], fh=np.arange(1, 13))
    assert forecaster.forecaster_._require_fitted().model_name == "fern-pretrained"
    error = np.abs(forecaster.predict() - airline[-12:]).mean()
    assert error < np.abs(airline[-12:].to_numpy() - airline[-24:-12].to_numpy()).mean()
    y, X = driven()
    both = Fern(pretrained=True).fit(y[:-6], X=X[:-6], fh=np.arange(1, 7))
    assert np.abs(both.predict(X=X[-6:]) - y[-6:]).mean() < 1.0
