"""What a state file may hold, as types: all of it is checked here, once, before anything is made of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from fern.calibration.coverage import CoverageRow
from fern.calibration.radii import Kind
from fern.calibration.settings import OnlineSettings
from fern.data.frequency import WORKDAYS, Unit
from fern.data.reading import FrameKind
from fern.diagnostics import Rules
from fern.diagnostics.alarms import Rates
from fern.errors import FernError
from fern.forecaster.kernel_part import drop_former
from fern.forecaster.partner import Transform
from fern.forecaster.state import MOST_STEPS
from fern.models.kernel_regression import KernelRegressionConfig
from fern.models.lag_regression import LagRegressionConfig
from fern.models.pretrained.network import NEWEST
from fern.settings import STRICT, from_mapping

MOST_ROWS = 2**48
"""Rows of a series: beyond any table, and far from where 64 bits end."""

Size = Annotated[int, Field(ge=1, le=MOST_STEPS)]
Rows = Annotated[int, Field(ge=0, le=MOST_ROWS)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Worth = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Label = str | int | float | None
Span = Annotated[str, Field(pattern="^[0-9]{0,4}[A-Za-z]{1,4}(-[A-Z]{3})?$")]
"""Of pandas' periods, such as ``Q-DEC``."""


class _Strict:
    __pydantic_config__ = STRICT


@dataclass(frozen=True, kw_only=True)
class _Frequency(_Strict):
    unit: Unit
    count: Annotated[int, Field(ge=1, le=2**62)]
    weekmask: Annotated[str, Field(pattern="^[01]*1[01]*$", min_length=7, max_length=7)] = WORKDAYS


@dataclass(frozen=True, kw_only=True)
class Form(_Strict):
    """The fitted table without its rows."""

    kind: FrameKind
    long: bool
    time: str | None
    identifier: str | None
    time_type: str | None
    identifier_type: str | None
    value_type: Literal["float", "double"]
    index: str | None
    index_name: Label
    labels: dict[str, Label]
    named_by: dict[str, str | None] = field(default_factory=dict)
    periods: dict[str, Span] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Radii(_Strict):
    n: Rows
    tails: Literal[1, 2]


@dataclass(frozen=True, kw_only=True)
class _Calibration(_Strict):
    format: int
    settings: dict[str, Any]  # read by `CalibrationSettings` itself
    patch_size: Size
    windows: Rows
    pooled_n_eff: dict[Kind, Worth]
    notes: tuple[str, ...]
    full: bool
    shape_n_eff: Worth
    shape_believed: Worth
    high: _Radii
    patch: _Radii
    band: _Radii
    region: _Radii
    low: _Radii | None = None


@dataclass(frozen=True, kw_only=True)
class _Blend(_Strict):
    weight: Share
    trust: Share
    share: Share = 0.0


@dataclass(frozen=True, kw_only=True)
class _Combination(_Strict):
    season: Size
    transform: Transform
    weights: str = NEWEST
    recent: bool = False
    positive: bool | Literal["auto"]
    learnt: _Blend
    zeros: _Blend
    alone: _Blend


@dataclass(frozen=True, kw_only=True)
class _Column(_Strict):
    name: str
    levels: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class _Encoding(_Strict):
    known: tuple[_Column, ...]
    past: tuple[_Column, ...]
    static: tuple[_Column, ...]
    calendar: bool
    country: str | None
    year: bool


@dataclass(frozen=True, kw_only=True)
class _Kernel(_Strict):
    config: Annotated[KernelRegressionConfig, BeforeValidator(drop_former)]
    share: Share
    calm: Share
    fewest: Rows


@dataclass(frozen=True, kw_only=True)
class _Brief(_Strict):
    scale: Literal["none", "log"]
    weight: Share


@dataclass(frozen=True, kw_only=True)
class _Covariates(_Strict):
    encoding: _Encoding
    blend: _Blend
    regressions: tuple[LagRegressionConfig, ...]
    importance: tuple[tuple[str, Number, Number], ...]
    kernels: tuple[_Kernel | None, ...] = ()
    brief: _Brief | None = None


@dataclass(frozen=True, kw_only=True)
class _Online(_Strict):
    format: int
    settings: OnlineSettings


@dataclass(frozen=True, kw_only=True)
class _OnlineSeries(_Online):
    """One of many, as earlier versions saved them: each with its settings."""

    arrivals: Rows
    number: Rows


@dataclass(frozen=True, kw_only=True)
class _Profiled(_Strict):
    name: str
    first_row: Rows
    rules: Rules | None
    measured: dict[str, Rates]
    stamp_type: str | None


@dataclass(frozen=True, kw_only=True)
class _Course(_Strict):
    level: Annotated[float, Field(gt=0, lt=100)]
    n_eff: Worth
    n_eff_calibration: Worth


@dataclass(frozen=True, kw_only=True)
class SavedFindings(_Strict):
    """What a fit measured, but for its arrays."""

    coverage: tuple[CoverageRow, ...]
    profiled: tuple[_Profiled, ...]
    course: _Course | None = None


@dataclass(frozen=True, kw_only=True)
class SavedState(_Strict):
    """The plain values of a state file; arrays are checked where they are read, against these sizes."""

    context_length: Size
    horizon: Size
    season: Size
    channel_names: Annotated[tuple[str, ...], Field(min_length=1)]
    frequency: _Frequency
    form: Form
    model_name: str
    label: str
    notes: tuple[str, ...]
    online: dict[str, _OnlineSeries] | _Online
    stamp_type: str | None = None
    calibration: _Calibration | None = None
    combination: _Combination | None = None
    covariates: _Covariates | None = None
    findings: SavedFindings | None = None


def read_plain(plain: Mapping[str, Any]) -> SavedState:
    """The plain values of a state, each of its type and within its bounds; else an error that names the first."""
    saved = from_mapping(SavedState, plain, where="state")
    form = saved.form
    columns = [*saved.channel_names, *(name for name in (form.time, form.identifier) if name is not None)]
    if len(set(columns)) < len(columns):
        raise FernError("a name stands for two columns", argument="form", where="state")
    if form.long != (form.identifier is not None):
        raise FernError("a long table has an identifier, a wide one has none", argument="form", where="state")
    if (form.time is None) != (saved.stamp_type is None):
        raise FernError("a time column has stamps, and they have a type", argument="form", where="state")
    if saved.findings is not None and any(entry.stamp_type != saved.stamp_type for entry in saved.findings.profiled):
        raise FernError("its stamps are of another type than those of the rows", argument="profiled", where="state")
    return saved
