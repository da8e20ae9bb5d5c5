"""A fitted state as plain values and arrays, and back. Nothing that is read is trusted."""

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from fern.calibration import Calibration, OnlineCalibration
from fern.calibration.calibration import read_array
from fern.calibration.coverage import BINS, CoverageByOrigin
from fern.calibration.online import STATE
from fern.data.frequency import Frequency, local_times, next_stamps, require_reach
from fern.data.reading import Native
from fern.data.series_table import SeriesTable, restore_stamps
from fern.data.timestamps import in_type
from fern.diagnostics import EigenProfile
from fern.errors import FernError, require_memory
from fern.forecaster.combination import under
from fern.forecaster.covariates import CovariateModel, prepare
from fern.forecaster.partner import Combination, Partner
from fern.forecaster.predict import calibrate_forecast, covariate_rows, make_batch
from fern.forecaster.saved_schema import MOST_ROWS, Form, SavedFindings, read_plain
from fern.forecaster.state import LARGEST, Findings, Profiled, Recent, Scale, State
from fern.models import Forecaster
from fern.models.classical import KNOTS
from fern.models.registry import name_of
from fern.models.storage import model_of as stored_model_of

Plain = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

LARGEST_SPREAD = 1e308 / LARGEST

TRIED = 8
"""Series that are forecast once when a folder is loaded."""

FIGURES = ("forecast", "truth", "error", "spectral_radius", "trace", "log_det")
COURSE_ARRAYS = ("origins", "inside", "pit")


def split_state(state: State) -> tuple[Plain, Arrays]:
    """All of a state but the model: what JSON holds, and named arrays."""
    _require_usable(state)  # whatever is saved can be loaded
    plain: Plain = {
        "context_length": state.context_length,
        "horizon": state.horizon,
        "season": state.season,
        "channel_names": list(state.channel_names),
        "frequency": asdict(state.frequency),
        "form": _table_parts(state.table),
        "model_name": state.model_name,
        "label": state.label,
        "notes": list(state.notes),
    }
    arrays = _series_parts(state)
    if state.recent[0].last is not None:
        plain["stamp_type"] = type_text(state.recent[0].last.type, column=state.table.time_col or "time")
    for part in ("calibration", "combination", "covariates"):
        if getattr(state, part) is not None:
            plain[part], part_arrays = getattr(state, part).to_parts()
            arrays |= {f"{part}.{name}": values for name, values in part_arrays.items()}
    if state.covariates is not None:
        rows = [
            np.empty((len(series.values), 0)) if series.covariates is None else series.covariates
            for series in state.recent
        ]
        arrays["recent.covariates"] = np.concatenate(rows)
        arrays["statics"] = np.stack(
            [np.empty(0) if series.static is None else series.static for series in state.recent]
        )
    arrays["floors"] = np.stack([state.combination.floor(series.name, series.values) for series in state.recent])
    plain["online"], part_arrays = _online_parts(state)
    arrays |= part_arrays
    if state.findings is not None:
        plain["findings"], part_arrays = _findings_parts(state.findings)
        arrays |= part_arrays
    return plain, arrays


def join_state(plain: object, arrays: Mapping[str, NDArray[Any]], model: Forecaster | None) -> State:
    """The state that `split_state` took apart, with its model."""
    if not isinstance(plain, Mapping):
        raise FernError(argument="state", got=plain, expected="a mapping")
    saved = read_plain(plain)
    channels = saved.channel_names
    if model is not None:
        sizes = {"channels": len(channels), "context_length": saved.context_length, "horizon": saved.horizon}
        for name, value in sizes.items():
            size = getattr(model.config, name)
            if size != value:
                raise FernError(f"its {name} is {size}, the forecaster's {value}", argument="model")
    calibration = None
    if plain.get("calibration") is not None:
        calibration = Calibration.from_parts(plain["calibration"], under(arrays, "calibration."))
        if (calibration.channels, calibration.horizon) != (len(channels), saved.horizon):
            raise FernError("is for other channels or another horizon", argument="calibration")
    if (model is None) != (calibration is None):
        raise FernError("a model has a calibration, and no model has none", argument="calibration", where="state")
    names = _texts(arrays, "names")
    state = State(
        context_length=saved.context_length,
        horizon=saved.horizon,
        season=saved.season,
        table=_table(saved.form, channels, Frequency(**vars(saved.frequency))),
        model_name=saved.model_name,
        label=saved.label,
        model=model,
        calibration=calibration,
        scales=_scales(names, arrays, len(channels)),
        recent=_recent(names, arrays, len(channels), parse_type(saved.stamp_type)),
        notes=saved.notes,
        online={} if calibration is None else _online(plain["online"], arrays, calibration, names),
        findings=None if saved.findings is None else _findings(saved.findings, arrays, len(channels), names),
        combination=_combination(plain, arrays, names, len(channels)),
    )
    return _require_usable(_with_covariates(state, plain, arrays))


def _require_usable(state: State) -> State:
    """Refuse rows beyond their scale, and stamps or names that no forecast could have."""
    require_memory("state: its horizon", 8.0 * state.horizon * len(state.channel_names) * len(KNOTS))
    counts = [len(series.values) for series in state.recent]
    rows = np.concatenate([series.values for series in state.recent])
    shift, spread = (
        np.repeat([getattr(scale, name) for scale in state.scales.values()], counts, axis=0)
        for name in ("shift", "spread")
    )
    with np.errstate(over="ignore"):
        if not (np.abs((rows - shift) / spread) < LARGEST).all():
            raise FernError("lie beyond their scale", argument="rows", where="state")
    table, unit = state.table, state.frequency.unit
    if table.id_col is not None:
        table.identifiers([series.name for series in state.recent], [1] * len(state.recent))
    ends = [series.last for series in state.recent if series.last is not None]
    type_ = ends[0].type if ends else None
    # Without a time column rows count, whatever their step is: tables of other libraries keep their stamps outside.
    zone = type_.tz if type_ is not None and pa.types.is_timestamp(type_) else None
    stamps = (pa.timestamp("ns"), pa.timestamp("ns", zone))
    known: tuple[pa.DataType | None, ...] = (pa.int64(),) if unit == "integer" else stamps
    if type_ not in ((None,) if unit == "row" else known if table.time_col is not None else (*known, None)):
        raise FernError(f"stamps of type {type_} do not go by {unit}", argument="frequency", where="state")
    order = np.argsort(_numbers(pa.array(ends, type_))).tolist() if ends else []
    for last in (ends[place] for place in (*order[:1], *order[-1:])):
        require_reach(last, state.frequency, state.horizon)
        following = next_stamps(last, state.frequency, 1)
        if pa.types.is_timestamp(following.type):
            local_times(following)  # a zone that is not known
        shown = restore_stamps(following, table.time_type)
        if not in_type(shown, following.type, safe=False).equals(following):
            raise FernError(f"stamps do not fit the type {table.time_type}", argument="form", where="state")
    return _require_forecast(state)


def _require_forecast(state: State) -> State:
    """Refuse weights whose forecast is not finite; a few series show it."""
    members = [series for series in state.recent if state.learns(series.values)][:TRIED]
    if members:
        batch = make_batch(state, members)
        with np.errstate(all="ignore"):
            forecast = calibrate_forecast(state.model, batch.calibration, batch.contexts)
            if not all((np.abs(values) < LARGEST).all() for values in (forecast.mean, forecast.quantile([0.1, 0.9]))):
                raise FernError("make a forecast that is not finite", argument="weights", where="model")
    return state


def _with_covariates(state: State, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> State:
    """The state with its covariates, and those of its rows."""
    if plain.get("covariates") is None:
        return state
    covariate_arrays = under(arrays, "covariates.")
    _blend_arrays({name: values for name, values in covariate_arrays.items() if name.startswith("blend.")})
    for name, values in covariate_arrays.items():
        if values.dtype.kind == "f":
            _read(covariate_arrays, name, values.shape, least=-LARGEST, most=LARGEST)
    model = CovariateModel.from_parts(plain["covariates"], covariate_arrays, horizon=state.horizon)
    channels = len(state.channel_names)
    if {len(model.regressions) or channels, channels if model.brief is None else len(model.brief.spread)} != {channels}:
        raise FernError("are for other channels", argument="regressions", where="covariates")
    counts = [len(series.values) for series in state.recent]
    rows = _read(arrays, "recent.covariates", (sum(counts), len(model.encoding.dynamic_outputs)))
    width = sum(len(column.outputs) for column in model.encoding.static)
    statics = _read(arrays, "statics", (len(counts), width))
    recent = tuple(
        replace(series, covariates=part, static=static if width else None)
        for series, part, static in zip(state.recent, np.split(rows, np.cumsum(counts)[:-1]), statics, strict=True)
    )
    joined = replace(state, covariates=model, recent=recent)
    longest = max(recent, key=lambda series: len(series.values))
    ahead = np.zeros((state.horizon, len(model.encoding.known_outputs)))
    # One forecast shows whether the weights are those of the features; values ahead do not matter for that.
    probe = covariate_rows(joined, replace(longest, ahead=ahead))
    with np.errstate(over="ignore", invalid="ignore"):
        forecasts = [model.forecast([probe], np.ones(channels), state.frequency)]
        if model.brief is not None:
            ready = [prepare(probe, model.encoding, channel, state.frequency) for channel in range(channels)]
            forecasts += [model.brief.forecast(entry, channel) for channel, entry in enumerate(ready)]
    if any(np.isinf(forecast.table).any() for forecast in forecasts):
        raise FernError("make a forecast that is not finite", argument="weights", where="covariates")
    return joined


def _combination(
    plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], names: list[str], channels: int
) -> Combination:
    """The combination; a folder from before there was one holds the model's forecasts alone."""
    if plain.get("combination") is None:
        return Combination(partner=Partner(season=plain["season"]))
    lowest = np.finfo(np.float64).min  # a floor is 0 or −∞
    rows = _read({"floors": np.maximum(_array(arrays, "floors"), lowest)}, "floors", (len(names), channels), most=0.0)
    floors = {name: np.where(row == lowest, -np.inf, row) for name, row in zip(names, rows, strict=True)}
    return Combination.from_parts(plain["combination"], _blend_arrays(under(arrays, "combination.")), floors)


def _blend_arrays(arrays: Arrays) -> Arrays:
    """The arrays with those of blends checked: quantiles and biases of errors, for one block of steps or more."""
    for name in arrays:
        if name.startswith("network.") or name.split(".")[-1] not in ("shape", "bias"):
            continue
        shape = (max(len(_array(arrays, name)), 1), *((len(KNOTS),) if name.endswith("shape") else ()))
        _read(arrays, name, shape, least=-LARGEST, most=LARGEST)
    return arrays


# --- series ---------------------------------------------------------------------------------------------------


def _series_parts(state: State) -> Arrays:
    names = [series.name for series in state.recent]
    arrays: Arrays = _text_arrays("names", names)
    arrays["shift"] = np.stack([state.scales[name].shift for name in names])
    arrays["spread"] = np.stack([state.scales[name].spread for name in names])
    arrays["recent"] = np.concatenate([series.values for series in state.recent])
    arrays["recent.counts"] = np.array([len(series.values) for series in state.recent], dtype=np.int64)
    arrays["rows"] = np.array([series.rows for series in state.recent], dtype=np.int64)
    arrays["fitted"] = np.array([series.fitted for series in state.recent], dtype=np.int64)
    if state.recent[0].last is not None:
        arrays["last"] = _numbers(pa.array([series.last for series in state.recent], state.recent[0].last.type))
    return arrays


def _numbers(stamps: pa.Array) -> NDArray[np.int64]:
    return np.asarray(pc.cast(stamps, pa.int64()).to_numpy(zero_copy_only=False))


def _scales(names: list[str], arrays: Mapping[str, NDArray[Any]], channels: int) -> dict[str, Scale]:
    shift = _read(arrays, "shift", (len(names), channels))
    spread = _read(arrays, "spread", (len(names), channels), least=np.finfo(np.float64).tiny, most=LARGEST_SPREAD)
    return {name: Scale(shift[i], spread[i]) for i, name in enumerate(names)}


def _recent(
    names: list[str], arrays: Mapping[str, NDArray[Any]], channels: int, stamp_type: pa.DataType | None
) -> tuple[Recent, ...]:
    shape = _array(arrays, "recent").shape
    counts = _read(arrays, "recent.counts", (len(names),), least=1, whole=True, most=len(_array(arrays, "recent")))
    rows, fitted = (
        _read(arrays, name, counts.shape, least=0, most=MOST_ROWS, whole=True) for name in ("rows", "fitted")
    )
    if (rows < counts).any() or (rows < fitted).any():
        raise FernError("are fewer than are kept or were fitted", argument="rows", where="state")
    values = _cut(_read(arrays, "recent", (*shape[:1], channels)), counts)
    lasts: list[Any] = [None] * len(names)
    if stamp_type is not None:
        lasts = list(pc.cast(pa.array(_read(arrays, "last", (len(names),), whole=True)), stamp_type))
    return tuple(Recent(name, values[i], lasts[i], int(rows[i]), int(fitted[i])) for i, name in enumerate(names))


def _text_arrays(name: str, texts: list[str]) -> Arrays:
    """Texts as bytes: a million names must not swell the manifest."""
    coded = [text.encode() for text in texts]
    return {
        f"{name}.bytes": np.frombuffer(b"".join(coded), dtype=np.uint8),
        f"{name}.counts": np.array([len(text) for text in coded], dtype=np.int64),
    }


def _texts(arrays: Mapping[str, NDArray[Any]], name: str) -> list[str]:
    whole, counts = _array(arrays, f"{name}.bytes"), _array(arrays, f"{name}.counts")
    if whole.dtype != np.uint8 or whole.ndim != 1:
        raise FernError(f"got {whole.dtype} of shape {whole.shape}", argument=f"{name}.bytes", expected="bytes")
    counts = _read(arrays, f"{name}.counts", (counts.size,), least=0, most=len(whole), whole=True)
    texts = [piece.tobytes().decode() for piece in _cut(whole, counts)]
    if not len(counts) or len(set(texts)) < len(texts):
        raise FernError("their names are missing or doubled", argument="series")
    return texts


def _cut(values: NDArray[Any], counts: NDArray[np.int64]) -> list[NDArray[Any]]:
    if counts.sum() != len(values):
        raise FernError("their lengths do not add up", argument="series")
    return np.split(values, np.cumsum(counts)[:-1])


def _array(arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    if name not in arrays or arrays[name].ndim == 0:
        raise FernError("is missing", argument=name, where="state")
    return arrays[name]


_read = partial(read_array, where="state")


def _online_parts(state: State) -> tuple[Plain, Arrays]:
    """One array of each kind for all series that were updated: a file's header has a line for every array."""
    if not state.online:
        return {}, {}
    parts = [online.to_parts() for online in state.online.values()]
    places = {series.name: place for place, series in enumerate(state.recent)}
    arrays: Arrays = {f"online.{name}": np.stack([part[name] for _, part in parts]) for name in STATE}
    arrays["online.arrivals"] = np.array([plain["arrivals"] for plain, _ in parts], dtype=np.int64)
    arrays["online.series"] = np.array([places[name] for name in state.online], dtype=np.int64)
    return {name: parts[0][0][name] for name in ("format", "settings")}, arrays


def _online(
    plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], calibration: Calibration, names: list[str]
) -> dict[str, OnlineCalibration]:
    online_arrays = under(arrays, "online.")
    if "settings" in plain and "format" in plain:
        count = _array(online_arrays, "series").size
        places = _read(online_arrays, "series", (count,), least=0, most=len(names) - 1, whole=True).tolist()
        _read(online_arrays, "arrivals", (count,), least=0, whole=True)
        if len(set(places)) < count:
            raise FernError("a series stands twice", argument="series", where="online calibration")
        states = OnlineCalibration.many_from_parts(calibration, plain, online_arrays)
        return {names[place]: online for place, online in zip(places, states, strict=True)}
    # Earlier versions kept the settings of each series, and its arrays under its number, or stacked.
    online = {}
    for name, entry in plain.items():
        number = entry["number"]
        if name not in names or (
            "weights" in online_arrays and number >= min(len(online_arrays.get(part, ())) for part in STATE)
        ):
            raise FernError(argument="series", got=name, expected="one that was fitted", where="online calibration")
        stacked = (
            {part: online_arrays[part][number] for part in STATE}
            if "weights" in online_arrays
            else under(online_arrays, f"{number}.")
        )
        online[name] = OnlineCalibration.from_parts(calibration, entry, stacked)
    if any(entry.settings != next(iter(online.values())).settings for entry in online.values()):
        raise FernError("differ between series", argument="settings", where="online calibration")
    return online


# --- the frame ------------------------------------------------------------------------------------------------


def _table_parts(table: SeriesTable) -> Plain:
    return {
        "kind": table.native.kind,
        "long": table.long,
        "time": table.time_col,
        "identifier": table.id_col,
        "time_type": type_text(table.time_type, column=table.time_col or "time"),
        "identifier_type": type_text(table.id_type, column=table.id_col or "identifier"),
        "value_type": type_text(table.value_type, column="values"),
        "index": table.native.index,
        "index_name": _label(table.native.index_name),
        "labels": {name: _label(label) for name, label in table.native.labels.items()},
        "named_by": {name: type_text(type_, column=name) for name, type_ in table.native.named_by.items()},
        "periods": dict(table.native.periods),
    }


def _table(form: Form, channel_names: tuple[str, ...], frequency: Frequency) -> SeriesTable:
    named_by = {name: parse_type(type_) for name, type_ in form.named_by.items()}
    return SeriesTable(
        series=(),
        channel_names=channel_names,
        frequency=frequency,
        time_col=form.time,
        id_col=form.identifier,
        time_type=parse_type(form.time_type),
        id_type=parse_type(form.identifier_type),
        value_type=parse_type(form.value_type),
        native=Native(form.kind, form.index, form.index_name, form.labels, named_by, form.periods),
    )


def _label(label: Any) -> Any:
    """A label of pandas that JSON keeps: text, a number or nothing."""
    plain = label.item() if isinstance(label, np.generic) else label
    number = isinstance(plain, int | float) and not isinstance(plain, bool) and abs(plain) < inf
    if plain is None or isinstance(plain, str) or number:
        return plain
    raise FernError(f"column {str(label)[:60]!r}: a label of type {type(label).__name__} cannot be saved; make it text")


# --- findings -------------------------------------------------------------------------------------------------


def _findings_parts(findings: Findings) -> tuple[Plain, Arrays]:
    plain: Plain = {"coverage": [asdict(row) for row in findings.coverage], "profiled": []}
    arrays: Arrays = {}
    for number, profiled in enumerate(findings.profiled):
        entry: Plain = {
            "name": profiled.name,
            "first_row": profiled.profile.first_row,
            "rules": None if profiled.rules is None else asdict(profiled.rules),
            "measured": {name: asdict(rates) for name, rates in profiled.measured.items()},
            "stamp_type": None,
        }
        arrays[f"profile.{number}"] = np.stack([getattr(profiled.profile, name) for name in FIGURES])
        if profiled.stamps is not None:
            entry["stamp_type"] = type_text(profiled.stamps.type, column="time")
            arrays[f"profile.{number}.stamps"] = _numbers(profiled.stamps)
        plain["profiled"].append(entry)
    if findings.course is not None:
        plain["course"] = {name: value for name, value in vars(findings.course).items() if name not in COURSE_ARRAYS}
        arrays |= {f"course.{name}": getattr(findings.course, name) for name in COURSE_ARRAYS}
    return plain, arrays


def _findings(saved: SavedFindings, arrays: Mapping[str, NDArray[Any]], channels: int, names: list[str]) -> Findings:
    profiled = []
    for number, entry in enumerate(saved.profiled):
        if entry.name not in names:
            raise FernError(argument="profiled", got=entry.name, expected="a series that was fitted", where="state")
        rows = _array(arrays, f"profile.{number}").shape[1:2]
        figures = _read(arrays, f"profile.{number}", (len(FIGURES), *rows, channels))
        stamp_type, stamps = parse_type(entry.stamp_type), None
        if stamp_type is not None:
            stamps = pc.cast(pa.array(_read(arrays, f"profile.{number}.stamps", rows, whole=True)), stamp_type)
        profile = EigenProfile(entry.first_row, **dict(zip(FIGURES, figures, strict=True)))
        rules = entry.rules
        if rules is not None:
            sizes = {len(rules.spike_errors), *(len(rule.thresholds) for rule in rules.rules)}
            if sizes != {channels}:
                raise FernError("are for other channels", argument="rules", where="state")
        profiled.append(Profiled(entry.name, stamps, profile, rules, entry.measured))
    course = None
    if saved.course is not None:
        windows = _array(arrays, "course.origins").size
        origins = _read(arrays, "course.origins", (windows,), whole=True)
        inside = _read(arrays, "course.inside", (windows,), least=0.0, most=1.0)
        pit = _read(arrays, "course.pit", (BINS,), least=0.0, most=1.0)
        course = CoverageByOrigin(origins=origins, inside=inside, pit=pit, **vars(saved.course))
    return Findings(tuple(profiled), saved.coverage, course)


# --- the model ----------------------------------------------------------------------------------------------


def describe_weights(model: Forecaster) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A model's name and settings, and its weights."""
    return (
        {"name": name_of(model), "config": asdict(model.config)},
        {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()},
    )


def restore_model(described: Mapping[str, Any], weights: Mapping[str, NDArray[Any]], *, where: str) -> Forecaster:
    """The model in evaluation mode; see `fern.models.storage.model_of`."""
    tensors = {name: torch.from_numpy(values) for name, values in weights.items()}
    return stored_model_of(described.get("name"), described.get("config"), tensors, where=where)


# --- types of columns, from a closed set --------------------------------------------------------------------

_PLAIN = {
    str(type_): type_
    for type_ in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.null()),
        *(pa.string(), pa.large_string(), pa.string_view(), pa.date32(), pa.date64()),
        *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    )
}
# A zone is a name such as Europe/Berlin or an offset such as +02:00: no dots, so no path out of the zones' folder.
_STAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([A-Za-z0-9_+\-][A-Za-z0-9_+\-/:]{0,63}))?\]")
_DICTIONARY = re.compile(r"dictionary<values=([a-z0-9_]+), indices=(u?int(?:8|16|32|64)), ordered=([01])>")


def type_text(type_: pa.DataType | None, *, column: str) -> str | None:
    """The type as text that `parse_type` reads back; a type outside the set is an error that names the column.

    Example:
        >>> type_text(pa.timestamp("ns", "Europe/Berlin"), column="ds")
        'timestamp[ns, tz=Europe/Berlin]'
        >>> type_text(pa.list_(pa.int8()), column="ds")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: column 'ds': its type list<item: int8> cannot be saved
    """
    if type_ is None:
        return None
    text = str(type_)
    try:
        same = parse_type(text) == type_
    except FernError:
        same = False
    if not same:
        raise FernError(f"column {column!r}: its type {text} cannot be saved")
    return text


def parse_type(text: object) -> pa.DataType | None:
    """The type of a text that `type_text` gave.

    Example:
        >>> parse_type("timestamp[ms, tz=../../etc/passwd]")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: column type 'timestamp[ms, tz=../../etc/passwd]' is not known
    """
    if text is None:
        return None
    if isinstance(text, str):
        if text in _PLAIN:
            return _PLAIN[text]
        stamp = _STAMP.fullmatch(text)
        if stamp is not None:
            return pa.timestamp(stamp[1], stamp[2])
        coded = _DICTIONARY.fullmatch(text)
        if coded is not None and coded[1] in _PLAIN:
            return pa.dictionary(_PLAIN[coded[2]], _PLAIN[coded[1]], ordered=coded[3] == "1")
    raise FernError(f"column type {str(text)[:80]!r} is not known")
