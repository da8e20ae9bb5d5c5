"""Fern as an sktime forecaster. Needs the extra ``sktime``."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern import forecaster as own
from fern.data.covariates import Covariates, EncodedColumn, Encoding
from fern.data.frequency import ROWS
from fern.data.series_table import SeriesTable, interpolate
from fern.errors import FernError
from fern.extras import import_optional
from fern.forecaster.predict import OutputColumns, Prediction, Request, predict_series, simulate_series
from fern.forecaster.save import pack_forecaster, unpack_forecaster
from fern.forecaster.state import Recent, State, keep_recent, measure_scale
from fern.forecaster.update import update_state
from fern.integrations.tables import Columns, find_frequency, make_table

import_optional("sktime.forecasting.base", extra="sktime")  # without it, an error that names the extra

import pandas as pd  # noqa: E402
from sktime.datatypes import get_cutoff  # noqa: E402
from sktime.forecasting.base import BaseForecaster, ForecastingHorizon  # noqa: E402

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]
"""Steps ahead, counted from a series' own end."""

FORECASTERS = ("forecaster_", "pretrained_forecaster_")

GRID = 200
"""Quantiles that stand for a step's distribution, in `predict_proba` and `predict_var`."""

PATHS = 1000
"""Joint paths in ``predict_proba(marginal=False)``."""


class FernForecaster(BaseForecaster):  # type: ignore[misc]  # the library has no types
    """Fern in sktime: calibrated intervals, quantiles, variances and joint paths; one model for a whole panel.

    Series, panels and hierarchies of any number of columns and of unequal lengths are learnt together. ``update`` takes
    in newer rows without training: contexts move on and, with ``update_params=True``, intervals widen or narrow as the
    errors of former forecasts become known. ``pretrain`` learns from a panel; ``fit`` then forecasts other series with
    what was learnt there (panels that are given one after another are learnt from together). Series too short to learn
    from are forecast by classical models. Pickles hold safetensors and JSON, not live objects.

    Columns of ``X`` are covariates that are known ahead: the ``X`` of ``predict`` has a row for each step of ``fh``,
    and best for those between, too, which are interpolated otherwise. They enter where held-out windows say that they
    help (``forecaster_.notes_``, ``forecaster_.importance()``), and with them the calendar of the index. ``pretrain``
    and fits that follow it do not use them.

    Parameters
    ----------
    model : str, default="fern"
        Any registered model (`fern.models.model_names`).
    model_settings : dict or None
        Settings of the model; they replace those chosen for the data.
    context_length : int or "auto"
        Number of rows a forecast sees.
    season : int or "auto"
        Number of rows in a season; from the frequency of the index if not given.
    epochs : int or "auto"
        Number of training epochs.
    time_limit : float or None
        Time limit of a fit, in seconds.
    pretrained : bool, default=False
        Forecast by the model that comes with the package, without training; held-out windows calibrate it.
    random_state : int, default=7
        Random seed.
    threads : int or None
        Number of PyTorch threads while fitting; unchanged if not given.

    Attributes
    ----------
    forecaster_ : fern.FernForecaster
        The forecaster inside: ``forecaster_.notes_`` says what was decided for the data.

    Examples
    --------
    >>> from sktime.datasets import load_airline
    >>> from fern.integrations.sktime import FernForecaster
    >>> forecaster = FernForecaster(epochs=2).fit(load_airline(), fh=[1, 2, 3])
    >>> forecaster.predict_interval(coverage=0.8).shape
    (3, 2)
    """

    _tags = {  # noqa: RUF012  sktime's way
        "authors": ["Fern developers"],
        "maintainers": ["Fern developers"],
        "python_dependencies": ["torch", "skpro"],
        "capability:multivariate": True,
        "capability:exogenous": True,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:missing_values": False,
        "capability:unequal_length": True,
        "capability:update": True,
        "capability:pretrain": True,
        "pretrain:fitted_params": ["pretrained_forecaster_", "pretrained_panel_"],
        "capability:random_state": True,
        "property:randomness": "derandomized",
        "requires-fh-in-fit": True,
        "y_inner_mtype": ["pd.DataFrame", "pd-multiindex", "pd_multiindex_hier"],
        "X_inner_mtype": ["pd.DataFrame", "pd-multiindex", "pd_multiindex_hier"],
    }
    _config = {"remember_data": False}  # noqa: RUF012  the newest rows are kept inside

    def __init__(
        self,
        model: str = "fern",
        model_settings: Mapping[str, Any] | None = None,
        context_length: int | Literal["auto"] = "auto",
        season: int | Literal["auto"] = "auto",
        epochs: int | Literal["auto"] = "auto",
        time_limit: float | None = None,
        pretrained: bool = False,
        random_state: int = 7,
        threads: int | None = None,
    ) -> None:
        self.model = model
        self.model_settings = model_settings
        self.context_length = context_length
        self.season = season
        self.epochs = epochs
        self.time_limit = time_limit
        self.pretrained = pretrained
        self.random_state = random_state
        self.threads = threads
        super().__init__()
        self._y = self._X = None  # sktime's own memory, where remember_data is switched on

    # --- learning -------------------------------------------------------------------------------------------

    def _fit(self, y: Any, X: Any, fh: Any) -> Self:
        instances = _instances(y)
        self._levels = list(y.index.names)
        self._lasts = {label: _last(rows.index) for label, rows in instances.items()}
        known = getattr(self, "pretrained_forecaster_", None)
        if known is not None and known._require_fitted().model is not None:
            self.forecaster_ = _adopt(known, _table(instances))
        else:
            table = _table(instances, None if X is None else _instances(X))
            self.forecaster_ = self._learn(table, horizon=_most(self._steps(fh)))
        return self

    def _pretrain(self, y: Any, X: Any = None, fh: Any = None) -> Self:
        known: own.FernForecaster | None = getattr(self, "pretrained_forecaster_", None)
        if fh is None and known is None:
            problem = "is missing; pretrain needs the steps to learn, as in pretrain(panel, fh=range(1, 25))"
            raise FernError(problem, argument="fh")
        instances = _instances(y)
        lasts = {label: _last(rows.index) for label, rows in instances.items()}
        horizon = known.horizon if known is not None and fh is None else _most(_steps(fh, lasts))
        added = _table(instances)
        panel = (*getattr(self, "pretrained_panel_", ()), *(member.values for member in added.series))
        if len({values.shape[1] for values in panel}) > 1:
            raise FernError(f"has {panel[-1].shape[1]} columns, former panels have {panel[0].shape[1]}", argument="y")
        self.pretrained_panel_ = panel
        whole = make_table(((str(i), values) for i, values in enumerate(panel)), frequency=added.series[0].frequency)
        self.pretrained_forecaster_ = self._learn(whole, horizon=horizon)
        return self

    def _learn(self, table: SeriesTable, *, horizon: int) -> own.FernForecaster:
        forecaster = own.FernForecaster(
            horizon,
            model=self.model,
            pretrained=self.pretrained,
            futr_exog_list=None if table.encoding is None else list(table.encoding.names.known),
            model_settings=None if self.model_settings is None else dict(self.model_settings),
            context_length=self.context_length,
            season=self.season,
            epochs=self.epochs,
            time_limit=self.time_limit,
            seed=self.random_state,
            threads=self.threads,
            progress="silent",
        )
        return forecaster.fit(table)

    def _update(self, y: Any, X: Any = None, update_params: bool = True) -> Self:
        state = self.forecaster_._require_fitted()
        later = {}
        for label, rows in _instances(y).items():
            if label not in self._lasts:
                raise FernError(f"the series {label!r} was not fitted; update takes fitted series alone", argument="y")
            new = rows[rows.index > self._lasts[label][0]]  # sktime's expanding windows bring known rows again
            if len(new):
                _require_following(label, self._lasts[label], new.index)
                later[label] = new
        if later:
            columns = None if X is None or state.covariates is None else _instances(X)
            if columns is None and _uses_columns(state):
                raise FernError("is missing; its columns have a part in the forecast", argument="X")
            updated = update_state(state, _table(later, columns, like=state))
            kept = updated if update_params else replace(updated, online=state.online)
            self.forecaster_ = _with_state(self.forecaster_, kept)
            self._lasts |= {label: _last(rows.index, like=self._lasts[label]) for label, rows in later.items()}
        return self

    # --- forecasting ----------------------------------------------------------------------------------------

    def _predict(self, fh: Any, X: Any) -> Any:
        forecast, places = self._predict_steps(fh, X)
        return pd.DataFrame(_rows(forecast.mean, places), index=self._index(fh), columns=self._get_varnames())

    def _predict_quantiles(self, fh: Any, X: Any, alpha: list[float]) -> Any:
        self.forecaster_._warn_of_levels(OutputColumns.of(level=None, quantiles=tuple(alpha)))
        forecast, places = self._predict_steps(fh, X, alpha)
        values = np.stack([_rows(quantile, places) for quantile in forecast.quantiles], axis=-1)  # (rows, C, alpha)
        columns = self._get_columns(method="predict_quantiles", alpha=alpha)
        return pd.DataFrame(values.reshape(len(values), -1), index=self._index(fh), columns=columns)

    def _predict_var(self, fh: Any, X: Any = None, cov: bool = False) -> Any:
        return self._predict_proba(fh, X).var()

    def _predict_proba(self, fh: Any, X: Any, marginal: bool = True) -> Any:
        """An empirical distribution: of a grid of calibrated quantiles, or of joint paths that are drawn whole."""
        import_optional("skpro", extra="sktime")
        from skpro.distributions import Empirical

        if marginal:
            forecast, places = self._predict_steps(fh, X, [(i + 0.5) / GRID for i in range(GRID)])
            samples = forecast.quantiles
        else:
            state, places = self.forecaster_._require_fitted(), self._steps(fh)
            rows = self._look_ahead(state, X, places)
            samples = simulate_series(state, rows, steps=_most(places), n_paths=PATHS, seed=self.random_state)
        index = self._index(fh)
        pieces = [pd.DataFrame(_rows(sample, places), index=index, columns=self._get_varnames()) for sample in samples]
        return Empirical(pd.concat(pieces, keys=range(len(pieces))), time_indep=marginal)

    def _predict_steps(self, fh: Any, X: Any, shares: Sequence[float] = ()) -> tuple[Prediction, list[Steps]]:
        state, places = self.forecaster_._require_fitted(), self._steps(fh)
        request = Request(_most(places), tuple(shares), self.random_state)
        return predict_series(state, self._look_ahead(state, X, places), request), places

    def _look_ahead(self, state: State, X: Any, places: Sequence[Steps]) -> Sequence[Recent]:
        """The newest rows of each series, with the columns of X for the steps ahead where they have a part."""
        if not _uses_columns(state):
            return state.recent
        if X is None:
            raise FernError("is missing; its columns have a part in the forecast", argument="X")
        assert state.covariates is not None
        names, columns = state.covariates.encoding.names.known, _instances(X)
        every = ForecastingHorizon(range(1, state.horizon + 1), is_relative=True)
        rows = []
        for series, (label, last), steps in zip(state.recent, self._lasts.items(), places, strict=True):
            needed = np.isin(np.arange(1, state.horizon + 1), steps)
            ahead = _align(columns, label, every.to_absolute_index(last), names, needed=needed)
            assert series.covariates is not None
            rows.append(replace(series, ahead=interpolate(np.concatenate((series.covariates[-1:], ahead)))[1:]))
        return rows

    def _steps(self, fh: Any) -> list[Steps]:
        return _steps(fh, self._lasts)

    def _index(self, fh: Any) -> Any:
        """The index of an answer: the levels of y's, and the stamps that follow each series."""
        known = {last[0]: fh.to_absolute_index(last) for last in self._lasts.values()}
        if None in self._lasts:
            return known[self._lasts[None][0]]
        rows = [
            (*(label if isinstance(label, tuple) else (label,)), stamp)
            for label, last in self._lasts.items()
            for stamp in known[last[0]]
        ]
        return pd.MultiIndex.from_tuples(rows, names=self._levels)

    # --- pickling -------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Forecasters as the files of their folders, so that a pickle holds no live model."""
        packed = {name: pack_forecaster(self.__dict__[name]) for name in FORECASTERS if name in self.__dict__}
        return {**self.__dict__, **packed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in FORECASTERS:
            if name in state:
                self.__dict__[name] = unpack_forecaster(own.FernForecaster, state[name])

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Settings for sktime's own tests: quick ones."""
        small = {"hidden": 8, "latent": 4, "layers": 2, "reflections": 2, "patch_size": 4}
        return [{"epochs": 1, "model_settings": small}, {"model": "dlinear", "epochs": 1, "random_state": 3}]


def _instances(y: Any) -> dict[Any, Any]:
    """The series of sktime's frame by their labels, each with its time index alone; the only one is called None."""
    if y.index.nlevels == 1:
        return {None: y}
    levels = 0 if y.index.nlevels == 2 else list(range(y.index.nlevels - 1))
    return {label: rows.droplevel(levels) for label, rows in y.groupby(level=levels, sort=False)}


def _table(
    instances: Mapping[Any, Any], columns: Mapping[Any, Any] | None = None, *, like: State | None = None
) -> SeriesTable:
    """The series, with the rows of X where ``columns`` has them; the calendar is one of them where indices are dates.

    ``like`` is the state of the table that these rows continue.
    """
    longest = _stamps(max(instances.values(), key=len).index)
    frequency = find_frequency(longest) if like is None else like.frequency
    known = None
    if columns is not None:
        names = _column_names(next(iter(columns.values())).columns)
        times = {label: _stamps(rows.index) for label, rows in instances.items()}
        if like is None:  # too few stamps to tell do
            grids = (len(index) < 3 or find_frequency(index) == frequency for index in times.values())
            dated = frequency != ROWS and all(grids)
            encoding = Encoding(Covariates(known=names), tuple(map(EncodedColumn, names)), calendar=dated)
        else:
            assert like.covariates is not None
            dated, encoding = like.table.time_col is not None, like.covariates.encoding
        dynamic = {_name(label): _align(columns, label, rows.index, names) for label, rows in instances.items()}
        arrow = {_name(label): index.to_numpy().astype("datetime64[ns]") for label, index in times.items() if dated}
        known = Columns(encoding, dynamic, stamps={name: pa.array(stamps) for name, stamps in arrow.items()})
    series = ((_name(label), rows.to_numpy(dtype=np.float64)) for label, rows in instances.items())
    return make_table(series, frequency=frequency, columns=known)


def _name(label: Any) -> str:
    return "" if label is None else repr(label)


def _column_names(columns: Any) -> tuple[str, ...]:
    names = tuple(str(column) for column in columns)
    if len(set(names)) < len(names):
        raise FernError("has several columns of one name", argument="X")
    return names


def _stamps(index: Any) -> Any:
    return index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index


def _align(
    columns: Mapping[Any, Any],
    label: Any,
    index: Any,
    names: Sequence[str],
    *,
    needed: NDArray[np.bool_] | None = None,  # (rows,)
) -> Floats:  # (rows, K)
    """The rows of X for these stamps; those that are needed, by default all, must be there. Others may be NaN."""
    where = "" if label is None else f"series {label!r}: "
    if label not in columns:
        raise FernError(f"{where}has no rows", argument="X")
    rows = columns[label]
    if _column_names(rows.columns) != tuple(names):
        raise FernError(f"has the columns {', '.join(map(str, rows.columns))}", argument="X", expected=", ".join(names))
    needed = np.ones(len(index), dtype=np.bool_) if needed is None else needed
    lacking = index[needed & ~index.isin(rows.index)]
    if len(lacking):
        first = ", ".join(str(stamp) for stamp in lacking[:3])
        raise FernError(f"{where}has no rows for {len(lacking):,} of {needed.sum():,} steps: {first}", argument="X")
    values: Floats = rows.reindex(index).to_numpy(dtype=np.float64)
    if not np.isfinite(values[needed]).all():
        row, column = np.argwhere(~np.isfinite(values) & needed[:, None])[0]
        problem = f"{where}{names[column]!r} is {values[row, column]} at {index[row]}"
        raise FernError(problem, argument="X", expected="numbers")
    return values


def _uses_columns(state: State) -> bool:
    """Whether columns of X have a part in the forecast."""
    model = state.covariates
    return model is not None and model.active and bool(model.encoding.known)


def _last(index: Any, *, like: Any = None) -> Any:
    """The last stamp as sktime's cutoffs are: an index of one, with the frequency."""
    last = get_cutoff(index.to_frame(), return_index=True)
    if getattr(last, "freq", None) is None and getattr(like, "freq", None) is not None:
        last.freq = like.freq
    return last


def _steps(fh: Any, lasts: Mapping[Any, Any]) -> list[Steps]:
    known = {last[0]: np.asarray(fh.to_relative(last).to_numpy(), dtype=np.int64) for last in lasts.values()}
    return [known[last[0]] for last in lasts.values()]


def _most(places: Sequence[Steps]) -> int:
    return max(int(steps.max()) for steps in places)


def _rows(values: Floats, places: Sequence[Steps]) -> Floats:  # (N, steps, C) -> (all steps that are asked for, C)
    return np.concatenate([member[steps - 1] for member, steps in zip(values, places, strict=True)])


def _require_following(label: Any, last: Any, index: Any) -> None:
    """Refuse rows that leave a gap after the last one, where the index has a step to tell by."""
    horizon = ForecastingHorizon([1], is_relative=True)
    if isinstance(last, pd.DatetimeIndex) and last.freq is None:
        return
    following = horizon.to_absolute_index(last)[0]
    if index[0] != following:
        where = "" if label is None else f"series {label!r}: "
        problem = f"{where}begins at {index[0]}, after {last[0]} comes {following}; give the rows between too"
        raise FernError(problem, argument="y")


def _adopt(known: own.FernForecaster, table: SeriesTable) -> own.FernForecaster:
    """What was learnt from a panel, looking at other series."""
    state = known._require_fitted()
    if len(table.channel_names) != len(state.channel_names):
        problem = f"has {len(table.channel_names)} columns, the panel had {len(state.channel_names)}"
        raise FernError(problem, argument="y")
    adopted = replace(
        state,
        scales={member.name: measure_scale(member.values) for member in table.series},
        recent=keep_recent(table.series, keep=state.keep),
        online={},
    )
    return _with_state(known, adopted)


def _with_state(forecaster: own.FernForecaster, state: State) -> own.FernForecaster:
    adopted = copy(forecaster)
    adopted._state = state
    return adopted
