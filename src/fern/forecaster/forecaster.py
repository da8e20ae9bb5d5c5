"""FernForecaster: fit to a frame, forecast with calibrated intervals, answer in frames of the same kind."""

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fern.calibration import CalibratedForecast
from fern.checks import require_whole
from fern.data.auditing.audit import AuditReport
from fern.errors import FernError
from fern.forecaster.backtest import cross_validate
from fern.forecaster.bulk.streaming import Bulk
from fern.forecaster.fitting.fit import fit_model, scales_of
from fern.forecaster.fitting.plan import make_plan
from fern.forecaster.inputs import Form, Table
from fern.forecaster.output import Asked, named
from fern.forecaster.prediction import (
    Predicted,
    Request,
    array_forecast,
    batch_of,
    calibrated,
    predict_series,
    simulate_series,
)
from fern.forecaster.state import Recent, State, recent_rows
from fern.forecaster.totals import Period, total_of
from fern.forecaster.watching.diagnosis import Diagnosis, diagnosed, diagnosis_of
from fern.forecaster.watching.picture import picture
from fern.forecaster.watching.updating import updated
from fern.models.registry import model_entry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]


class FernWarning(UserWarning):
    """Something a user should know about a forecast that was made all the same."""


class FernForecaster(Bulk):
    """Forecasts of your own table, with calibrated intervals.

    Arguments:
        horizon: steps to forecast.
        model: any registered model (`fern.models.model_names`); ``fern`` unless given.
        model_settings: settings of the model, over those that are chosen for the data.
        context_length: rows seen, or ``"auto"``.
        season: rows of a season; from the frequency unless given. Used for the context and for short series.
        epochs: epochs of training, or ``"auto"``.
        time_limit: seconds that fitting may take.
        missing: ``"error"`` (default), ``"interpolate"``, ``"ffill"`` or ``"drop"``; for values and for missing rows.
        ignore_columns: leave out columns that are neither identifier, time nor target, in place of an error.
        id_col: the column that names the series.
        time_col: the time column; detected if not given.
        target_col: the column to forecast; detected if not given.
        seed: of everything random.
        threads: of PyTorch while fitting; as they are unless given.
        progress: ``auto``, ``bar``, ``lines`` or ``silent``.

    The frame is long (``unique_id``, ``ds``, ``y``; many series, of any lengths and scales) or wide (a time column and
    a column for each channel), of pandas, polars or pyarrow; answers are of the same kind.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"ds": pd.date_range("2020-01-01", periods=200, freq="D"),
        ...                       "load": 10 + np.sin(np.arange(200) * 2 * np.pi / 7)})
        >>> forecaster = FernForecaster(horizon=7, epochs=2, progress="silent").fit(frame)
        >>> forecaster.predict(level=[80]).columns.tolist()
        ['ds', 'load', 'load-lo-80', 'load-hi-80']
    """

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(self, df: Any, *, directory: str | Path | None = None) -> Self:
        """Learn from a frame. With ``directory`` a fit that was killed goes on where it was."""
        began = time.monotonic()
        self._settings()  # a wrong argument is told before anything is read
        return self._fit(self.read(df), directory, began)

    def read(self, df: Any) -> Table:
        """The series of a frame as this forecaster sees them, for `fit_table`; errors are those of `fit`."""
        return self._reader().read(df)

    def fit_table(self, table: Table, *, directory: str | Path | None = None) -> Self:
        """Learn from a table that was read before; see `fit`."""
        return self._fit(table, directory, time.monotonic())

    def _fit(self, table: Table, directory: str | Path | None, began: float) -> Self:
        """See `fit`; a time limit counts from ``began``."""
        settings = self._settings()
        plan = make_plan(
            table.series,
            horizon=self.horizon,
            context_length=None if self.context_length == "auto" else self.context_length,
            season=None if self.season == "auto" else self.season,
        )
        scales = scales_of(table.series, plan)
        model = calibration = findings = None
        notes: tuple[str, ...] = ()
        short = len(table.series) - plan.learnt
        if plan.learnt:
            place = None if directory is None else Path(directory)
            found = fit_model(table.series, scales, plan, settings, directory=place, began=began)
            model, calibration, notes = found.model.eval(), found.calibration, found.notes
            findings = found.findings
        if short:
            least = plan.context_length + 3 * plan.horizon
            note = (
                f"{short:,} of {len(table.series):,} series have too few rows to learn from (fewer than about "
                f"{least:,}); where a forecast is made from fewer than {plan.context_length:,} rows, the last season "
                "or the last value is repeated, and its intervals are not calibrated"
            )
            notes = (*notes, note)
            warnings.warn(note, FernWarning, stacklevel=3)
        self._state = State(
            context_length=plan.context_length,
            horizon=plan.horizon,
            season=plan.season,
            channel_names=table.channel_names,
            frequency=table.series[0].frequency,
            form=table.form,
            model_name=self.model,
            label=model_entry(self.model).model.__name__,
            model=model,
            calibration=calibration,
            scales={one.name: scale for one, scale in zip(table.series, scales, strict=True)},
            recent=recent_rows(table.series, keep=plan.context_length + plan.horizon),
            notes=notes,
            findings=findings,
        )
        return self

    @property
    def notes_(self) -> tuple[str, ...]:
        """What was decided for the data, and what is lacking, in plain words."""
        return self._fitted().notes

    @property
    def context_length_(self) -> int:
        """Rows that a forecast sees."""
        return self._fitted().context_length

    # --- forecasting ----------------------------------------------------------------------------------------

    def predict(
        self,
        df: Any = None,
        *,
        h: int | None = None,
        level: Sequence[float] | float | None = None,
        quantiles: Sequence[float] | float | None = None,
    ) -> Any:
        """The next ``h`` steps (the horizon unless given) of the fitted series, or of those in ``df``, without refit.

        ``level`` (percent) gives intervals ``Fern-lo-80``, ``Fern-hi-80``; ``quantiles`` gives ``Fern-ql0.1``. Fewer
        steps than the horizon are a slice of it; more are rolled on by paths.
        """
        state, asked = self._fitted(), Asked.of(level=level, quantiles=quantiles)
        steps = self._steps(h)
        recent, form = self._contexts(df)
        made = predict_series(state, recent, Request(steps, tuple(asked.shares), seed=self.seed))
        self._warn_of_levels(asked)
        return self._frame(recent, form, steps, self._columns(made, asked))

    def predict_array(
        self,
        past: NDArray[np.floating],  # (L, C) or (N, L, C)
    ) -> Floats:  # (H, C) or (N, H, C)
        """The point forecast of rows given as an array, in their own units; the quickest way."""
        state = self._fitted()
        given = np.asarray(past)
        if given.dtype.kind not in "iuf":
            raise FernError(f"holds {given.dtype}", argument="past", expected="numbers")
        values = given.astype(np.float64)
        wanted = (state.context_length, len(state.channel_names))
        if values.ndim not in (2, 3) or values.shape[-2:] != wanted:
            raise FernError(
                f"got shape {values.shape}",
                argument="past",
                expected=f"(rows, channels) {wanted}, or several such windows",
            )
        return array_forecast(state, values)

    def simulate(self, df: Any = None, *, n_paths: int = 100, seed: int | None = None, h: int | None = None) -> Any:
        """Joint paths: ``unique_id``, ``ds``, ``sample_id``, ``Fern``. Steps of one path go together as errors do."""
        state, steps = self._fitted(), self._steps(h)
        require_whole("n_paths", n_paths, 1)
        require_whole("seed", self.seed if seed is None else seed, 0)
        recent, form = self._contexts(df)
        paths = simulate_series(state, recent, steps=steps, paths=n_paths, seed=self.seed if seed is None else seed)
        stamps = [one.future(state.frequency, steps) for one in recent]
        names = self._output_names()
        columns: dict[str, Any] = {"sample_id": np.tile(np.repeat(np.arange(n_paths), steps), len(recent))}
        for c, name in enumerate(names):
            columns[name] = paths[..., c].swapaxes(0, 1).reshape(-1)
        repeated = [stamp for stamp in stamps for _ in range(n_paths)]
        ids = [one.name for one in recent for _ in range(n_paths)]
        return form.frame(ids, repeated, columns, integers=["sample_id"])

    def total(
        self,
        df: Any = None,
        *,
        level: Sequence[float] | float | None = None,
        by: Period | None = None,
        how: Literal["sum", "mean"] = "sum",
    ) -> Any:
        """Sums or means over the horizon with intervals from the joint distribution: ``by`` day, week, month, quarter
        or year.

        Intervals of sums are not sums of intervals: errors of neighbouring steps go together.
        """
        state, asked = self._fitted(), Asked.of(level=level, quantiles=None)
        recent, form = self._contexts(df)
        return total_of(state, recent, form, asked, names=self._output_names(), by=by, how=how)

    def forecast_distribution(self, df: Any = None) -> CalibratedForecast:
        """The calibrated distribution behind `predict`, in model units: regions, bands, paths (see
        `fern.calibration`).
        """
        state = self._fitted()
        recent, _ = self._contexts(df)
        batch = batch_of(state, recent)
        return calibrated(state.model, batch.calibration, batch.contexts)

    def cross_validation(
        self,
        df: Any,
        *,
        n_windows: int = 1,
        step_size: int | None = None,
        level: Sequence[float] | float | None = None,
        quantiles: Sequence[float] | float | None = None,
        refit: bool = False,
        use_fitted: bool = False,
    ) -> Any:
        """Forecasts of past rows beside what came: ``unique_id``, ``ds``, ``cutoff``, ``Fern``…, ``y``.

        A copy is fitted to the rows before the first of ``n_windows`` windows, which lie ``step_size`` rows apart (the
        horizon unless given) at the end of each series; with ``refit`` anew for each. ``use_fitted`` takes this
        forecaster as it is: then the rows must be ones that it has not learnt from.
        """
        asked = Asked.of(level=level, quantiles=quantiles)
        self._settings()
        require_whole("n_windows", n_windows, 1)
        step = self.horizon if step_size is None else step_size
        require_whole("step_size", step, 1)
        if refit and use_fitted:
            raise FernError("got both, give one of them", argument="refit, use_fitted")
        return cross_validate(self, df, n_windows=n_windows, step=step, asked=asked, refit=refit, use_fitted=use_fitted)

    # --- over time ------------------------------------------------------------------------------------------

    def update(self, df: Any) -> Self:
        """Take in rows that follow the fitted ones, without retraining: newer contexts, and radii that follow errors.

        Stamps must go on where each series ends; a gap or an overlap is an error that names series and stamp. Series
        that are not in ``df`` stay as they are; new ones are refused (`predict` takes them). As outcomes of former
        forecasts come in, the radii of that series widen or narrow (`fern.calibration.OnlineCalibration`).
        """
        self._state = updated(self._fitted(), self._reader().read(df, channels=self._channels(), grid="rows"))
        return self

    def diagnose(self, df: Any = None) -> Diagnosis:
        """Eigen-profile, warnings with their measured rates, and coverage with n_eff and error bars, as frames.

        Without ``df`` as found on held-out rows while fitting (radii from half of the calibration windows, judged on
        the other half); with ``df`` on its rows, which should be ones that the forecaster has not learnt from.
        Models without a distribution of their own have the coverage alone.
        """
        if df is None:
            return diagnosis_of(self._fitted(), self._fitted().findings)
        return diagnosed(self._fitted(), self._reader().read(df, channels=self._channels()))

    def plot(
        self,
        df: Any = None,
        *,
        level: Sequence[float] | float = (80, 95),
        h: int | None = None,
        band: bool = False,
        history: int | None = None,
        joint: tuple[int, int] | None = None,
    ) -> "Figure":
        """A matplotlib figure: the newest rows, the forecast and its intervals, one panel for each series (at most 12).

        Arguments:
            df: rows to forecast from, as for `predict`.
            level: the intervals, percent.
            h: steps; the horizon unless given.
            band: draw the band that holds a whole path at the highest level, too (up to the horizon).
            history: rows drawn before the forecast; three horizons, at least 30, unless given.
            joint: two steps (from 1) whose joint distribution is drawn beside the fan: paths, and ellipses that hold
            each level.
        """
        return picture(self, df, level=level, h=h, band=band, history=history, joint=joint)

    def report(
        self,
        df: Any = None,
        *,
        level: Sequence[float] | float = (80, 95),
        h: int | None = None,
        name: str = "your data",
        audit: AuditReport | None = None,
        command: str = "",
    ) -> str:
        """The forecast as one self-contained HTML page: fan, coverage with n_eff bars, diagnostics, data audit.

        Arguments:
            df: rows to forecast from, as for `predict`.
            level: the intervals, percent.
            h: steps; the horizon unless given.
            name: what the title calls the data.
            audit: the audit of the data (`fern.audit`), shown last.
            command: the command that makes the page again, shown to be copied.
        """
        from fern.forecaster.page import page_of

        return page_of(self, df, level=level, h=h, name=name, audit=audit, command=command)

    # --- inside ---------------------------------------------------------------------------------------------

    def _channels(self) -> tuple[str, ...]:
        return self._fitted().channel_names

    def _steps(self, h: int | None) -> int:
        if h is None:
            return self._fitted().horizon
        require_whole("h", h, 1)
        return h

    def _contexts(self, df: Any) -> tuple[tuple[Recent, ...], Form]:
        state = self._fitted()
        if df is None:
            return state.recent, state.form
        table: Table = self._reader().read(df, channels=state.channel_names, long=state.form.long)
        return state.reads(table), table.form

    def _output_names(self) -> list[str]:
        state = self._fitted()
        return [state.label] if state.form.long else list(state.channel_names)

    def _columns(self, made: Predicted, asked: Asked) -> dict[str, Floats]:
        columns: dict[str, Floats] = {}
        for c, name in enumerate(self._output_names()):
            others = [quantile[..., c].reshape(-1) for quantile in made.quantiles]
            columns |= named(asked, name, made.mean[..., c].reshape(-1), others)
        return columns

    def _frame(self, recent: Sequence[Recent], form: Form, steps: int, columns: dict[str, Floats]) -> Any:
        stamps = [one.future(self._fitted().frequency, steps) for one in recent]
        return form.frame([one.name for one in recent], stamps, columns)

    def _warn_of_levels(self, asked: Asked) -> None:
        calibration = self._fitted().calibration
        if calibration is None:
            return
        levels = {*asked.levels, *(abs(200 * share - 100) for share in asked.quantiles if share != 0.5)}
        lacking = sorted(level for level in levels if not calibration.radii.supports("margin", level))
        if lacking:
            listed = ", ".join(f"{level:g}" for level in lacking)
            warnings.warn(
                f"level {listed}: {calibration.radii.shortfall('margin', lacking[0])}; intervals there are Gaussian, "
                "not calibrated",
                FernWarning,
                stacklevel=3,
            )
