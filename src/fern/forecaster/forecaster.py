"""FernForecaster: fit to a frame, forecast with calibrated intervals, answer in frames of the same kind."""

import inspect
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fern.data.columns import TARGET, Reading, find_roles, join_columns
from fern.data.covariates import Covariates, Encoding, learn_columns, read_statics
from fern.data.reading import FrameKind, Native, open_source, read_columns, table_source, unwrap
from fern.data.series_table import Missing, SeriesTable, column_names, read_series
from fern.errors import (
    FernError,
    require_choice,
    require_flag,
    require_memory,
    require_number,
    require_path,
    require_whole,
    show_value,
    suggest_arguments,
    unknown_name,
)
from fern.forecaster.diagnose import describe_shortage
from fern.forecaster.fit import PRETRAINED, FitSettings, fit_state
from fern.forecaster.predict import (
    OutputColumns,
    Request,
    calibrate_forecast,
    make_batch,
    predict_array,
    predict_frame,
    predict_series,
    simulate_frame,
    simulate_series,
)
from fern.forecaster.state import MOST_STEPS, Recent, State, keep_recent
from fern.models import model_names
from fern.training import TrainConfig
from fern.training.logging import Mode

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fern.calibration import CalibratedForecast
    from fern.data.auditing.audit import AuditReport
    from fern.forecaster.diagnose import Diagnosis
    from fern.forecaster.predict_file import Engine
    from fern.forecaster.totals import How, Period
    from fern.html.page import Page

Floats = NDArray[np.float64]
Numbers = Sequence[float] | float | None

_TRAINING = ("learning_rate", "batch_size", "accelerator", "devices", "precision")
"""Arguments that are settings of the training."""

_NO_SETTINGS = {
    "context_length": "the forecaster's own context_length",
    "horizon": "the forecaster's own horizon",
    "channels": "nothing: the table says it",
    "name": "the forecaster's own model",
    "generator": "the forecaster's own seed",
}
"""What `fern.models.build_model` takes beside a model's settings, and what says it here."""

ID_COL = "unique_id"
"""The identifier column unless given; a frame without it is wide."""


class FernWarning(UserWarning):
    """Something a user should know about a forecast that was made all the same."""


@dataclass(eq=False, repr=False)
class FernForecaster:
    """Forecasts of your own table, with calibrated intervals.

    Arguments:
        horizon: number of steps to forecast.
        model: any registered model (`fern.models.model_names`).
        model_settings: settings of the model; they replace those chosen for the data.
        pretrained: forecast by the model that comes with the package, without training (`fern.pretrained`); held-out
            windows calibrate its intervals. Series that are too short for that are left to classical models.
        context_length: number of rows a forecast sees, or ``"auto"``.
        season: number of rows in a season, or ``"auto"``: from the frequency.
        epochs: number of training epochs, or ``"auto"``.
        learning_rate: of the training, and ``batch_size`` in windows; chosen for the data if not given.
        accelerator: where to train, as in Lightning Fabric, such as ``"cpu"`` or ``"cuda"``; so too the ``precision``,
            such as ``"bf16-mixed"``. A fit uses one of the ``devices``: for more, every process would run your program
            from its start; `fern.training.train` can do that.
        time_limit: time limit of a fit, in seconds; within about a second, classical models alone forecast.
        classical: average with classical models (exponential smoothing, Theta, seasonal naive with drift) where
            held-out windows say so. Series too short for the model are theirs in any case.
        futr_exog_list: columns whose future values are known: a price plan, a weather forecast. `predict` takes them in
            ``futr_df``.
        hist_exog_list: columns that are known up to the last row of the target.
        stat_exog_list: columns with one value for each series.
        calendar: hour, weekday and time of the year beside the covariates (``"auto"``), always, or never.
        holidays: an ISO country code, such as ``"NO"``: its holidays, the days before and after (the extra
            ``holidays``).
        positive: no forecast below 0: of series that were never negative (``"auto"``), of all, or of none.
        missing: ``"error"``, ``"interpolate"``, ``"ffill"`` or ``"drop"``; for missing values and missing rows.
        ignore_columns: leave out columns that are neither identifier, time nor target; without it they are an error.
        id_col: the column with the series' identifiers, or a list of columns that name a series together.
        time_col: the time column; detected if not given.
        target_col: the column to forecast; detected if not given.
        seed: random seed.
        threads: number of PyTorch threads while fitting; unchanged if not given.
        progress: ``auto``, ``bar``, ``lines`` or ``silent``.

    The frame is long (``unique_id``, ``ds``, ``y``; many series, of any lengths and scales) or wide (a time column and
    a column for each channel), of pandas, polars or pyarrow; answers are of the same kind. As in scikit-learn, nothing
    is checked before `fit`, and every argument is an attribute.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"ds": pd.date_range("2020-01-01", periods=200, freq="D"),
        ...                       "load": 10 + np.sin(np.arange(200) * 2 * np.pi / 7)})
        >>> forecaster = FernForecaster(horizon=7, epochs=2, progress="silent").fit(frame)
        >>> forecaster.predict(level=[80]).columns.tolist()
        ['ds', 'load', 'load-lo-80', 'load-hi-80']
    """

    horizon: int
    _: KW_ONLY
    model: str = "fern"
    model_settings: dict[str, Any] | None = None
    pretrained: bool = False
    context_length: int | Literal["auto"] = "auto"
    season: int | Literal["auto"] = "auto"
    epochs: int | Literal["auto"] = "auto"
    learning_rate: float | None = None
    batch_size: int | None = None
    accelerator: str | None = None
    devices: int | None = None
    precision: str | None = None
    time_limit: float | None = None
    classical: bool = True
    futr_exog_list: Sequence[str] | None = None
    hist_exog_list: Sequence[str] | None = None
    stat_exog_list: Sequence[str] | None = None
    calendar: bool | Literal["auto"] = "auto"
    holidays: str | None = None
    positive: bool | Literal["auto"] = "auto"
    missing: Missing = "error"
    ignore_columns: bool = False
    id_col: str | Sequence[str] = ID_COL
    time_col: str | None = None
    target_col: str | Sequence[str] | None = None
    seed: int = 7
    threads: int | None = None
    progress: Mode = "auto"
    _state: State | None = field(init=False, default=None)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor; an unknown one is an error with the nearest right name."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise unknown_name("parameter", name, known)
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = {name: value for name, value in self.get_params().items() if value != defaults[name].default}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(
        self,
        df: Any,
        *,
        id_col: str | Sequence[str] | None = None,
        time_col: str | None = None,
        target_col: str | Sequence[str] | None = None,
        static_df: Any = None,
        directory: str | Path | None = None,
    ) -> Self:
        """Learn from a frame, a CSV or Parquet file, or a `SeriesTable`.

        Column names given here replace the constructor's. Frames that follow are read by the columns of this one.
        Covariates are columns of ``df``; static ones may be in ``static_df``, a row for each series. With ``directory``
        an interrupted fit resumes.
        """
        began = time.monotonic()
        settings = self._settings()  # a wrong argument is an error before anything is read
        directory = None if directory is None else require_path(directory, argument="directory")
        columns = {"id_col": id_col, "time_col": time_col, "target_col": target_col}
        table = self._read(df, columns, static_df=static_df)
        state = fit_state(
            table,
            settings,
            horizon=self.horizon,
            context_length=None if self.context_length == "auto" else self.context_length,
            season=None if self.season == "auto" else self.season,
            directory=directory,
            began=began,
        )
        roles = f"{table.describe_roles()} (time_col, id_col, target_col change this)"
        self._state = replace(state, notes=(roles, *table.notes, *state.notes))
        return self

    def read(
        self,
        df: Any,
        *,
        id_col: str | Sequence[str] | None = None,
        time_col: str | None = None,
        target_col: str | Sequence[str] | None = None,
        encoding: str | None = None,
        separator: str | None = None,
        decimal: str | None = None,
        name: str | None = None,
        kind: FrameKind | None = None,
    ) -> SeriesTable:
        """The series of a frame, or of a CSV or Parquet file, as this forecaster reads them.

        Every method that takes a frame takes a path or a `SeriesTable`, too. In a file, the only column of text may
        name the series without being called ``unique_id``.

        Arguments:
            df: a frame, or the path of a file.
            id_col: the columns, as for `fit`; so too ``time_col`` and ``target_col``.
            encoding: how a CSV file is written, detected if not given; so too ``separator`` and ``decimal``.
            name: what messages call the file; its path if not given.
            kind: the library of the frames that forecasts of a file are; pandas, where it is installed, if not given.
        """
        columns = {"id_col": id_col, "time_col": time_col, "target_col": target_col}
        dialect = {"encoding": encoding, "separator": separator, "decimal": decimal}
        for argument, value in {**dialect, "name": name}.items():
            if not isinstance(value, str | None):
                raise FernError(argument=argument, got=value, expected="text, or None")
        if kind is not None:
            require_choice("kind", kind, get_args(FrameKind))
        return self._read(df, columns, like=self._state, dialect=dialect, name=name, kind=kind)

    @property
    def notes_(self) -> tuple[str, ...]:
        """What was decided for the data, and what is lacking."""
        return self._require_fitted().notes

    @property
    def context_length_(self) -> int:
        """Number of rows a forecast sees."""
        return self._require_fitted().context_length

    # --- forecasting ----------------------------------------------------------------------------------------

    def predict(
        self,
        df: Any = None,
        *,
        futr_df: Any = None,
        h: int | None = None,
        level: Numbers = None,
        quantiles: Numbers = None,
    ) -> Any:
        """Forecast the fitted series, or those in ``df`` without refitting.

        Arguments:
            df: rows to forecast from.
            futr_df: the known columns for each step to forecast; `make_future_dataframe` gives its rows.
            h: number of steps; the horizon if not given. Longer horizons are sampled recursively.
            level: central intervals in percent: columns ``Fern-lo-80``, ``Fern-hi-80``.
            quantiles: probabilities, in place of levels: columns ``Fern-ql0.1``.
        """
        state, output = self._require_fitted(), OutputColumns.of(level=level, quantiles=quantiles)
        steps = self._steps(h)
        recent, table = self._contexts(df, futr_df, state=state)
        request = Request(steps, tuple(output.probabilities), seed=self.seed, progress=self.progress)
        prediction = predict_series(state, recent, request)
        self._warn_of_levels(output)
        if prediction.held_back:
            names = ", ".join(repr(name) for name in prediction.held_back[:5])
            warnings.warn(
                f"{len(prediction.held_back):,} forecasts lay far outside what the history and its trend explain, and "
                f"are the classical models' ({names})",
                FernWarning,
                stacklevel=2,
            )
        return predict_frame(state, recent, table, prediction, output)

    def predict_array(
        self,
        past: NDArray[np.floating],  # (L, C) or (N, L, C)
    ) -> Floats:  # (H, C) or (N, H, C)
        """The point forecast of rows in an array, in their own units; the quickest way."""
        return predict_array(self._require_fitted(), past)

    def simulate(
        self,
        df: Any = None,
        *,
        futr_df: Any = None,
        n_paths: int = 100,
        seed: int | None = None,
        h: int | None = None,
    ) -> Any:
        """Sample paths from the joint distribution: columns ``unique_id``, ``ds``, ``sample_id``, ``Fern``."""
        state, steps = self._require_fitted(), self._steps(h)
        seed = self.seed if seed is None else seed
        require_whole("n_paths", n_paths, 1)
        require_whole("seed", seed, 0)
        recent, table = self._contexts(df, futr_df, state=state)
        paths = simulate_series(state, recent, steps=steps, n_paths=n_paths, seed=seed, progress=self.progress)
        return simulate_frame(state, recent, table, paths)

    def total(
        self,
        df: Any = None,
        *,
        futr_df: Any = None,
        level: Numbers = None,
        by: "Period | None" = None,
        how: "How" = "sum",
    ) -> Any:
        """Sums or means over the horizon, with intervals from the joint distribution.

        Arguments:
            df: rows to forecast from, as for `predict`.
            level: central intervals in percent. Intervals of sums are not sums of intervals: errors of neighbouring
                steps are correlated.
            by: ``day``, ``week``, ``month``, ``quarter`` or ``year``; the whole horizon if not given.
            how: ``sum`` or ``mean``.
        """
        from fern.forecaster.totals import total_frame

        state, output = self._require_fitted(), OutputColumns.of(level=level, quantiles=None)
        recent, table = self._contexts(df, futr_df, state=state)
        return total_frame(state, recent, table, output, by=by, how=how)

    def forecast_distribution(self, df: Any = None) -> "CalibratedForecast":
        """The calibrated distribution behind `predict` (`fern.calibration`), in model units: regions, bands, paths."""
        state = self._require_fitted()
        batch = make_batch(state, self._contexts(df)[0])
        return calibrate_forecast(state.model, batch.calibration, batch.contexts)

    def predict_file(
        self,
        source: str | Path,
        out: str | Path,
        *,
        futr_df: str | Path | None = None,
        h: int | None = None,
        level: Numbers = None,
        quantiles: Numbers = None,
        engine: "Engine" = "local",
        address: str | None = None,
    ) -> int:
        """Forecast every series of a long Parquet table into a Parquet file; returns the number of rows written.

        Memory is bounded whatever the number of series: some hundred are read, forecast and written at a time. The
        rows of a series must lie together.

        Arguments:
            source: a file, or a folder of files.
            out: the file to write.
            futr_df: a Parquet file with the known columns for each series and step to forecast.
            h: number of steps, as for `predict`; so too ``level`` and ``quantiles``.
            engine: ``local``, or ``ray`` to map the chunks over a Ray cluster, whose nodes must see ``source`` and
                ``futr_df`` under the same paths.
            address: the cluster's address; this machine's cores if not given.
        """
        from fern.forecaster.predict_file import predict_file

        return predict_file(
            self,
            require_path(source, argument="source"),
            require_path(out, argument="out"),
            futr_df=None if futr_df is None else require_path(futr_df, argument="futr_df"),
            h=h,
            level=level,
            quantiles=quantiles,
            engine=engine,
            address=address,
        )

    def cross_validation(
        self,
        df: Any,
        *,
        n_windows: int = 1,
        step_size: int | None = None,
        level: Numbers = None,
        quantiles: Numbers = None,
        refit: bool = False,
        use_fitted: bool = False,
        id_col: str | Sequence[str] | None = None,
        time_col: str | None = None,
        target_col: str | Sequence[str] | None = None,
    ) -> Any:
        """Forecasts of past rows beside what came: ``unique_id``, ``ds``, ``cutoff``, ``Fern``…, ``y``.

        Arguments:
            df: the rows; a copy of the forecaster is fitted to those before the first window.
            n_windows: number of windows, at the end of each series.
            step_size: rows between windows; the horizon if not given.
            level: central intervals in percent, or ``quantiles`` in their place.
            refit: fit before each window, not only before the first.
            use_fitted: use this forecaster as it is; its training rows must not be among ``df``.
            id_col: the columns, as for `fit`; so too ``time_col`` and ``target_col``.
        """
        from fern.forecaster.backtest import cross_validate

        output = OutputColumns.of(level=level, quantiles=quantiles)
        self._settings()
        step = self.horizon if step_size is None else step_size
        require_whole("n_windows", n_windows, 1)
        require_whole("step_size", step, 1)
        require_flag("refit", refit)
        require_flag("use_fitted", use_fitted)
        if refit and use_fitted:
            raise FernError("got both, give one of them", argument="refit, use_fitted")
        columns = {"id_col": id_col, "time_col": time_col, "target_col": target_col}
        table = self._read(df, columns, like=self._require_fitted() if use_fitted else None)
        if use_fitted:
            self._require_fitted().require_like(table, target_given=bool(target_col or self.target_col))
        return cross_validate(
            self, table, n_windows=n_windows, step=step, output=output, refit=refit, use_fitted=use_fitted
        )

    # --- over time ------------------------------------------------------------------------------------------

    def update(self, df: Any) -> Self:
        """Take in rows that follow the fitted ones, without retraining: newer contexts, and radii that follow errors.

        Stamps must go on where each series ends; a gap or an overlap is an error that names series and stamp. Series
        that are not in ``df`` stay as they are; new ones are refused (`predict` takes them). As outcomes of former
        forecasts come in, the radii of that series widen or narrow (`fern.calibration.OnlineCalibration`).

        Other threads may forecast meanwhile: each forecast is that of before or that of after. Of two updates at once
        one may be lost.
        """
        from fern.forecaster.update import update_state

        self._state = update_state(self._require_fitted(), self._read_like_fitted(df, grid="rows"))
        return self

    def diagnose(self, df: Any = None) -> "Diagnosis":
        """Eigen-profile, warnings with their measured rates, and coverage with n_eff and error bars, as frames.

        Without ``df``, as measured on held-out rows while fitting (radii from half of the calibration windows, judged
        on the other half); with ``df``, on its rows, which the forecaster should not have learnt from. Models without
        a distribution of their own have the coverage alone.
        """
        from fern.forecaster.diagnose import diagnose, make_frames

        state = self._require_fitted()
        return make_frames(state, state.findings) if df is None else diagnose(state, self._read_like_fitted(df))

    def plot(
        self,
        df: Any = None,
        *,
        futr_df: Any = None,
        level: Sequence[float] | float = (80, 95),
        h: int | None = None,
        band: bool = False,
        history: int | None = None,
        joint: tuple[int, int] | None = None,
    ) -> "Figure":
        """A matplotlib figure: the newest rows, the forecast and its intervals, one panel for each series (at most 12).

        Arguments:
            df: rows to forecast from, and ``futr_df`` the known columns ahead, as for `predict`.
            level: central intervals in percent.
            h: number of steps; the horizon if not given.
            band: draw the band that holds a whole path at the highest level, too (up to the horizon).
            history: rows drawn before the forecast; three horizons, at least 30, if not given.
            joint: two steps (from 1) whose joint distribution is drawn beside the fan: sample paths, and an ellipse for
                each level.
        """
        from fern.forecaster.plot import make_fans
        from fern.plot.forecasts import fan_figure

        require_flag("band", band)
        return fan_figure(
            make_fans(self, df, futr_df=futr_df, level=level, h=h, band=band, history=history, joint=joint)
        )

    def report(
        self,
        df: Any = None,
        *,
        futr_df: Any = None,
        path: str | Path | None = None,
        level: Sequence[float] | float = (80, 95),
        h: int | None = None,
        name: str = "your data",
        audit: "AuditReport | None" = None,
        command: str = "",
    ) -> "Page":
        """The forecast as one self-contained HTML page: fan, coverage with n_eff bars, diagnostics, data audit.

        A notebook shows the page; it is also a text, and ``path`` writes it to a file.

        Arguments:
            df: rows to forecast from, as for `predict`.
            path: an HTML file to write.
            level: central intervals in percent.
            h: number of steps; the horizon if not given.
            name: the name of the data in the title.
            audit: the audit of the data (`fern.audit`), shown last.
            command: the command that makes the page again, shown to be copied.
        """
        from fern.forecaster.report import report_forecast

        path = None if path is None else require_path(path)
        page = report_forecast(self, df, futr_df=futr_df, level=level, h=h, name=name, audit=audit, command=command)
        if path is not None:
            page.save(path)
        return page

    # --- saving ---------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the forecaster to a folder: ``forecaster.json`` and safetensors files, with checksums, no pickle.

        A forecaster that is there already is replaced at once when all is written: killed at any moment, the folder
        holds the old one or the new one whole. A folder with other contents is refused. The newest rows of every
        series (context and horizon) are part of it.

        Example:
            >>> import tempfile
            >>> import pandas as pd
            >>> frame = pd.DataFrame({"ds": pd.date_range("2020", periods=90), "y": [0.0, 1.0, 4.0] * 30})
            >>> forecaster = FernForecaster(horizon=3, model="dlinear", epochs=1, progress="silent").fit(frame)
            >>> folder = Path(tempfile.mkdtemp()) / "model"
            >>> forecaster.save(folder)
            >>> FernForecaster.load(folder).predict().equals(forecaster.predict())
            True
        """
        from fern.forecaster.save import save_forecaster

        self._require_fitted()
        self._settings()  # refuses arguments that were changed into nonsense since the fit
        save_forecaster(self, require_path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a forecaster that `save` wrote; its forecasts are equal to the last bit.

        Nothing in the folder is executed and nothing outside it is read. What is foreign, was changed since it was
        saved, or was saved by a newer fern is an error that says which.
        """
        from fern.forecaster.save import load_forecaster

        return load_forecaster(cls, require_path(path))

    def push_to_hub(
        self, repo_id: str, *, private: bool = True, token: str | None = None, message: str = "Fern forecaster"
    ) -> str:
        """Save to a repository of the Hugging Face Hub (the extra ``hub``), made if need be; returns its address.

        The newest rows of every series and residuals are part of what is pushed, hence ``private`` by default (a
        repository that exists stays as it is).
        """
        from fern.forecaster.save import push_to_hub

        return push_to_hub(self, repo_id, private=private, token=token, message=message)

    @classmethod
    def from_pretrained(cls, source: str | Path, *, revision: str | None = None, token: str | None = None) -> Self:
        """Load from a folder or, where there is none of this name, from a repository of the Hugging Face Hub.

        Only the files that the manifest names are fetched; see `load` for what is refused.
        """
        from fern.forecaster.save import load_from_hub

        if require_path(source, argument="source").is_dir():
            return cls.load(source)
        return load_from_hub(cls, str(source), revision=revision, token=token)

    def export(self, path: str | Path) -> None:
        """Write the point forecast as a program of `torch.export` (``.pt2``) that runs without fern.

        The program takes contexts in the units of the data, float32 (N, L, C) with any N, and gives the mean
        (N, H, C): as `predict_array`, with the scale of the series inside where one was fitted; where several were,
        each context is scaled by itself. Intervals are not part of it.
        """
        from fern.forecaster.save import export_mean

        export_mean(self._require_fitted(), require_path(path))

    # --- inside ---------------------------------------------------------------------------------------------

    def _require_fitted(self) -> State:
        if self._state is None:
            raise FernError("this forecaster is not fitted yet; call fit(df) first")
        return self._state

    def _steps(self, h: int | None) -> int:
        steps = self._require_fitted().horizon if h is None else h
        require_whole("h", steps, 1)
        return steps

    def _contexts(
        self, df: Any, futr_df: Any = None, *, state: State | None = None
    ) -> tuple[tuple[Recent, ...], SeriesTable]:
        """The rows to forecast from, with the known columns ahead, and the table whose form the answer takes."""
        state = self._require_fitted() if state is None else state
        table = state.table if df is None else self._read_like_fitted(df)
        recent = state.recent if df is None else keep_recent(table.series, keep=state.keep)
        if futr_df is None:
            return recent, table
        from fern.forecaster.future import read_future

        ahead = read_future(state, recent, futr_df)
        return tuple(replace(series, ahead=ahead[series.name]) for series in recent), table

    def make_future_dataframe(self, df: Any = None) -> Any:
        """The frame to fill in for ``predict(futr_df=…)``: identifier and stamp of each step, known columns empty."""
        from fern.forecaster.future import make_future

        recent, table = self._contexts(df)
        return make_future(self._require_fitted(), recent, table)

    def missing_future(self, futr_df: Any, df: Any = None) -> Any:
        """The rows of `make_future_dataframe` that ``futr_df`` lacks, or has without a value."""
        from fern.forecaster.future import find_missing

        recent, table = self._contexts(df)
        return find_missing(self._require_fitted(), recent, table, futr_df)

    def importance(self) -> Any:
        """Permutation importance of each covariate: by what share the error of held-out windows grows without it.

        Columns ``covariate``, ``importance``, ``stddev`` (over permutations), the most important first; no rows where
        the covariates have no part in the forecast.
        """
        schema = pa.schema([("covariate", pa.string()), ("importance", pa.float64()), ("stddev", pa.float64())])
        ordered = sorted(self._importances(), key=lambda entry: -entry[1])
        rows = [dict(zip(schema.names, entry, strict=True)) for entry in ordered]
        return self._require_fitted().table.native.wrap(pa.Table.from_pylist(rows, schema))

    def plot_importance(self) -> "Figure":
        """`importance` as a matplotlib figure, a bar for each covariate."""
        from fern.plot.scores import importance_figure

        entries = self._importances()
        if not entries:
            raise FernError("covariates have no part in the forecast, so there is nothing to draw; notes_ says why")
        return importance_figure(entries)

    def _importances(self) -> tuple[tuple[str, float, float], ...]:
        covariates = self._require_fitted().covariates
        return () if covariates is None else covariates.importance

    def compare(
        self,
        futr_a: Any,
        futr_b: Any,
        df: Any = None,
        *,
        level: float = 80.0,
        n_paths: int = 500,
        seed: int | None = None,
    ) -> Any:
        """The difference of two forecasts, ``futr_a`` less ``futr_b``, with its interval.

        Interval: the uncertainty of the estimated effect, by leaving out stretches of time in turn, and of the paths
        under common random numbers. The effect is the regression's alone; where other forecasts have a part in the
        average, the difference is smaller, and within the interval.
        """
        from fern.forecaster.future import compare_futures

        require_number(
            "level", level, "a number between 1 and 100, as 80 for an 80 % interval", lambda value: 0 < value < 100
        )
        OutputColumns.of(level=level, quantiles=None)
        require_whole("n_paths", n_paths, 2)
        seed = self.seed if seed is None else seed
        require_whole("seed", seed, 0)
        (first, table), (second, _) = (self._contexts(df, future) for future in (futr_a, futr_b))
        return compare_futures(self._require_fitted(), first, second, table, level=level, n_paths=n_paths, seed=seed)

    def _read_like_fitted(self, df: Any, *, grid: Literal["time", "rows"] = "time") -> SeriesTable:
        """The series of a frame that must have the columns of the fitted one."""
        table = self._read(df, {}, like=self._require_fitted(), grid=grid)
        self._require_fitted().require_like(table, target_given=bool(self.target_col), step=grid == "time")
        return table

    def _read(
        self,
        df: Any,
        columns: Mapping[str, Any],
        *,
        like: State | None = None,
        grid: Literal["time", "rows"] = "time",
        dialect: Mapping[str, Any] | None = None,
        name: str | None = None,
        kind: FrameKind | None = None,
        static_df: Any = None,
    ) -> SeriesTable:
        """The series of a frame; columns that are not given are the constructor's, or those of a fitted table.

        With ``grid="rows"`` stamps are not checked: a frame may then hold a single row of a series.
        """
        if isinstance(df, SeriesTable):
            if static_df is not None:
                raise FernError("got a frame, but the series are read already", argument="static_df")
            if df.encoding is None and self._wants_covariates():
                problem = "was read without the covariates"
                raise FernError(problem, argument="frame", expected="read() of this forecaster")
            return df
        columns = {key: value for key, value in columns.items() if value is not None}
        naming = column_names("id_col", columns.get("id_col", self.id_col)) or ()
        time_col = columns.get("time_col", self.time_col)
        if time_col is not None and not isinstance(time_col, str):
            raise FernError(argument="time_col", got=time_col, expected="the name of a column")
        file = df if isinstance(df, str | Path) else None
        reading = Reading(
            time_col=time_col,
            id_col=None if naming == (ID_COL,) and "id_col" not in columns else naming,
            target_col=column_names("target_col", columns.get("target_col", self.target_col)),
            forecast=True,
            ignore_columns=self.ignore_columns,
            guess_id=file is not None,
            like=None if like is None else like.table.roles,
            **(dialect or {}),
        )
        names, encoding, statics = self._covariates(), None, dict[str, Floats]()
        if static_df is not None and not names.static:
            raise FernError("got a frame, but stat_exog_list names no columns", argument="static_df")
        if self._wants_covariates():
            fitted = None if like is None or like.covariates is None else like.covariates.encoding
            if file is None:
                frame, native = unwrap(df)
            else:
                frame, native = read_columns(file, replace(reading, covariates=names.names)), _native_of_file(kind)
            frame, native, id_col = _name_series(frame, native, reading, names)
            frame, encoding, statics = self._encode(frame, reading, id_col, fitted=fitted, static_df=static_df)
            id_cols = reading.id_col if id_col is None else (id_col,)
            reading = replace(reading, covariates=encoding.dynamic_outputs, id_col=id_cols)
            source = table_source(frame, name="frame", reading=reading)
        elif file is not None:
            source, native = open_source(file, reading, name=name), _native_of_file(kind)
        else:
            frame, native = unwrap(df)
            source = table_source(frame, name="frame", reading=reading)
        step = None if like is None else like.table.frequency
        table = read_series(source, grid=grid, missing=self.missing, native=native, lone=True, like=step)
        if encoding is not None:
            known = {} if like is None else {recent.name: recent.static for recent in like.recent}
            members = [
                replace(series, static=statics.get(series.name, known.get(series.name))) for series in table.series
            ]
            lacking = [series.name for series in members if encoding.static and series.static is None]
            if lacking:
                raise FernError(f"has no values for series {lacking[0]!r}", argument="static_df")
            table = replace(table, series=tuple(members), encoding=encoding)
        if self.calendar is True or self.holidays is not None:
            stamps = table.series[0].stamps
            if stamps is None or not pa.types.is_timestamp(stamps.type):
                argument, value = ("calendar", True) if self.calendar is True else ("holidays", self.holidays)
                raise FernError(argument=argument, got=value, expected="a time column of dates", where=source.name)
        if self.missing == "error":
            table = table.accept_closed_days()
            table.require_no_gaps(where=source.name)
        for note in table.notes:
            warnings.warn(note, FernWarning, stacklevel=3)
        return table

    def _covariates(self) -> Covariates:
        return Covariates.of(known=self.futr_exog_list, past=self.hist_exog_list, static=self.stat_exog_list)

    def _wants_covariates(self) -> bool:
        return bool(self._covariates()) or self.calendar is True or self.holidays is not None

    def _encode(
        self, frame: pa.Table, reading: Reading, id_col: str | None, *, fitted: Encoding | None, static_df: Any
    ) -> tuple[pa.Table, Encoding, dict[str, Floats]]:
        """The frame with covariates as numbers, how they became that, and the static numbers of its series."""
        names = self._covariates()
        roles = {"identifier": id_col, "time": reading.time_col, "target": (reading.target_col or (TARGET,))[0]}
        names.require_in(frame.column_names, roles=roles, where="frame")
        statics, where, source = None, "frame", frame
        if static_df is not None:
            where = "static_df"
            try:
                statics = source = join_columns(unwrap(static_df)[0], id_col, name=where)
            except FernError as error:
                raise error.within(where) from None
            if id_col not in source.column_names:
                raise unknown_name("column", id_col, source.column_names, argument="id_col", where=where)
        lacking = [name for name in names.static if name not in source.column_names]
        if lacking and statics is None and fitted is None:
            raise unknown_name("column", lacking[0], frame.column_names, argument="stat_exog_list", where="frame")
        encoding = fitted or learn_columns(
            frame, names, statics=statics, calendar=self.calendar is not False, country=self.holidays, where="frame"
        )
        numbers = {} if lacking else read_statics(source, encoding, id_col=id_col, where=where)
        return encoding.encode(frame, where="frame"), encoding, numbers

    def _settings(self) -> FitSettings:
        """The arguments, checked."""
        require_whole("horizon", self.horizon, 1)
        require_memory(f"horizon: {show_value(self.horizon)} steps", 64.0 * min(self.horizon, 10**30))
        require_whole("seed", self.seed, 0)
        for name, unset in (("context_length", "auto"), ("season", "auto"), ("epochs", "auto"), ("threads", None)):
            value = getattr(self, name)
            if not isinstance(value, str | None) or value != unset:
                require_whole(name, value, 1)
                if value > MOST_STEPS:
                    raise FernError(argument=name, got=value, expected=f"at most {MOST_STEPS:,}")
        for name, known in (("model", model_names()), ("progress", get_args(Mode)), ("missing", get_args(Missing))):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in known:
                raise unknown_name(name, value, known, argument=name)
        for name in ("ignore_columns", "classical", "pretrained"):
            require_flag(name, getattr(self, name))
        for name in ("calendar", "positive"):
            value = getattr(self, name)
            if not isinstance(value, bool) and not (isinstance(value, str) and value == "auto"):
                raise FernError(argument=name, got=value, expected="True, False or 'auto'")
        self._covariates()
        if self.holidays is not None and not isinstance(self.holidays, str):
            raise FernError(argument="holidays", got=self.holidays, expected="a country code such as 'NO', or None")
        if self.pretrained and self.model not in ("fern", PRETRAINED):
            raise FernError("only Fern comes with weights", argument="pretrained", expected=f"model {PRETRAINED!r}")
        settings = {} if self.model_settings is None else self.model_settings
        if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
            raise FernError(argument="model_settings", got=self.model_settings, expected="a mapping of names to values")
        for name, instead in _NO_SETTINGS.items():
            if name in settings:
                raise FernError(f"got {name!r}", argument="model_settings", expected=instead)
        if self.time_limit is not None:
            require_number("time_limit", self.time_limit, "seconds above 0", lambda value: value > 0)
        training = {name: getattr(self, name) for name in _TRAINING if getattr(self, name) is not None}
        TrainConfig(**training)  # refuses what is wrong
        if (self.devices or 1) > 1:
            expected = (
                "1: a process for each further device would run your program from its start (fern.training.train can)"
            )
            raise FernError(argument="devices", got=self.devices, expected=expected)
        return FitSettings(
            model=PRETRAINED if self.pretrained else self.model,
            model_settings=self.model_settings,
            epochs=None if self.epochs == "auto" else self.epochs,
            time_limit=self.time_limit,
            seed=self.seed,
            threads=self.threads,
            progress=self.progress,
            positive=self.positive,
            classical=self.classical,
            training=training,
        )

    def _warn_of_levels(self, output: OutputColumns) -> None:
        state = self._require_fitted()
        calibration = state.calibration
        if calibration is None or state.combination.learnt.weight < 1:  # others than the model have a say in the shape
            return
        levels = {*output.levels, *(abs(200 * quantile - 100) for quantile in output.quantiles if quantile != 0.5)}
        shortage = describe_shortage(calibration, sorted(levels))
        if shortage:
            warnings.warn(f"{shortage} Details: diagnose().notes", FernWarning, stacklevel=3)


FernForecaster.__init__ = suggest_arguments(  # type: ignore[method-assign]
    {"h": "horizon", "input_size": "context_length", "season_length": "season", "random_state": "seed"}
)(FernForecaster.__init__)


def _name_series(
    frame: pa.Table, native: Native, reading: Reading, names: Covariates
) -> tuple[pa.Table, Native, str | None]:
    """The frame with one column that names the series, and that column; None for a wide frame."""
    naming = reading.id_col or ((ID_COL,) if ID_COL in frame.column_names else ())
    if len(naming) == 1:
        return frame, native, naming[0] if naming[0] in frame.column_names else None
    covariates = tuple(name for name in names.names if name in frame.column_names)
    roles = find_roles(frame, replace(reading, ignore_columns=True, covariates=covariates), name="frame")
    types = {name: frame.schema.field(name).type for name in roles.named_by}
    return join_columns(frame, roles.series, name="frame"), replace(native, named_by=types), roles.series


def _native_of_file(kind: FrameKind | None) -> Native:
    """The frames that answer a file: pandas' where it is installed."""
    return Native(kind or ("pandas" if find_spec("pandas") is not None else "pyarrow"))
