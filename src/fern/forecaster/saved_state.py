"""A fitted state as plain values and arrays, and back. Nothing that is read is trusted."""

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter

from fern.calibration import Calibration, OnlineCalibration
from fern.calibration.coverage import BINS, CoverageByOrigin, CoverageRow
from fern.calibration.online import STATE
from fern.data.frequency import WORKDAYS, Frequency, Unit
from fern.data.native import FrameKind, Native
from fern.data.series_table import SeriesTable
from fern.diagnostics import EigenProfile, Rules
from fern.diagnostics.alarms import Rates
from fern.errors import FernError, unknown_name
from fern.forecaster.covariates import CovariateModel
from fern.forecaster.partner import Combination, Partner
from fern.forecaster.state import Findings, Profiled, Recent, Scale, State
from fern.models import Forecaster
from fern.models.registry import name_of
from fern.models.storage import model_of as stored_model_of

Plain = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

SIZES = ("context_length", "horizon", "season")
FIGURES = ("forecast", "truth", "error", "spectral_radius", "trace", "log_det")
COURSE_NUMBERS, COURSE_ARRAYS = ("level", "n_eff", "n_eff_calibration"), ("origins", "inside", "pit")


def split_state(state: State) -> tuple[Plain, Arrays]:
    """All of a state but the model: what JSON holds, and named arrays."""
    plain: Plain = {name: getattr(state, name) for name in SIZES}
    plain |= {
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
    if state.calibration is not None:
        plain["calibration"], own = state.calibration.to_parts()
        arrays |= {f"calibration.{name}": values for name, values in own.items()}
    plain["combination"], own = state.combination.to_parts()
    arrays |= {f"combination.{name}": values for name, values in own.items()}
    if state.covariates is not None:
        plain["covariates"], own = state.covariates.to_parts()
        arrays |= {f"covariates.{name}": values for name, values in own.items()}
        rows = [np.empty((len(one.values), 0)) if one.covariates is None else one.covariates for one in state.recent]
        arrays["recent.covariates"] = np.concatenate(rows)
        arrays["statics"] = np.stack([np.empty(0) if one.static is None else one.static for one in state.recent])
    arrays["floors"] = np.stack([state.combination.floor(one.name, one.values) for one in state.recent])
    plain["online"] = {}
    followed: dict[str, list[NDArray[Any]]] = {}
    for number, (name, online) in enumerate(state.online.items()):
        plain["online"][name], own = online.to_parts()
        plain["online"][name]["number"] = number
        for entry, values in own.items():
            followed.setdefault(entry, []).append(values)
    # One array of each kind, not of each series: the header of the file holds a line for every array.
    arrays |= {f"online.{entry}": np.stack(values) for entry, values in followed.items()}
    if state.findings is not None:
        plain["findings"], own = _findings_parts(state.findings)
        arrays |= own
    return plain, arrays


def join_state(plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], model: Forecaster | None) -> State:
    """The state that `split_state` took apart, with its model."""
    for name in SIZES:
        if not isinstance(plain[name], int) or isinstance(plain[name], bool) or plain[name] < 1:
            raise FernError(f"got {str(plain[name])[:40]}", argument=name, expected="a whole number of at least 1")
    channels = tuple(str(name) for name in plain["channel_names"])
    if model is not None:
        own, has = ({"channels": len(channels)} | {name: plain[name] for name in SIZES[:2]}), model.config
        for name, value in own.items():
            if getattr(has, name) != value:
                raise FernError(f"its {name} is {getattr(has, name)}, the forecaster's {value}", argument="model")
    calibration = None
    if "calibration" in plain:
        calibration = Calibration.from_parts(plain["calibration"], _under(arrays, "calibration."))
        if (calibration.channels, calibration.horizon) != (len(channels), plain["horizon"]):
            raise FernError("is for other channels or another horizon", argument="calibration")
    online = {}
    if calibration is not None:
        for name, entry in plain["online"].items():
            online[name] = OnlineCalibration.from_parts(calibration, entry, _online_arrays(arrays, entry["number"]))
    names = _texts(arrays, "names")
    stamp_type = parse_type(plain.get("stamp_type"))
    recent = _recent(names, arrays, len(channels), stamp_type)
    return State(
        **{name: plain[name] for name in SIZES},
        table=_table(plain["form"], channels, _frequency(plain["frequency"])),
        model_name=str(plain["model_name"]),
        label=str(plain["label"]),
        model=model,
        calibration=calibration,
        scales=_scales(names, arrays, len(channels)),
        notes=tuple(str(note) for note in plain["notes"]),
        online=online,
        findings=_findings(plain["findings"], arrays, len(channels)) if "findings" in plain else None,
        combination=_combination(plain, arrays, names, len(channels)),
        **_covariates(plain, arrays, names, recent),
    )


def _covariates(
    plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], names: list[str], recent: tuple[Recent, ...]
) -> dict[str, Any]:
    """The fields of a state that covariates fill."""
    if "covariates" not in plain:
        return {"recent": recent}
    model = CovariateModel.from_parts(plain["covariates"], _under(arrays, "covariates."), horizon=plain["horizon"])
    encoding = model.encoding
    counts = [len(one.values) for one in recent]
    rows = _sized(arrays, "recent.covariates", (sum(counts), len(encoding.dynamic_outputs)))
    parts = np.split(rows, np.cumsum(counts)[:-1])
    width = sum(len(column.outputs) for column in encoding.static)
    statics = _sized(arrays, "statics", (len(names), width))
    joined = tuple(
        replace(one, covariates=part, static=static if width else None)
        for one, part, static in zip(recent, parts, statics, strict=True)
    )
    return {"covariates": model, "recent": joined}


def _combination(
    plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], names: list[str], channels: int
) -> Combination:
    """The combination; a folder from before there was one holds the model's forecasts alone."""
    if "combination" not in plain:
        return Combination(partner=Partner(season=plain["season"]))
    rows = _sized(arrays, "floors", (len(names), channels))
    floors = {name: rows[number] for number, name in enumerate(names)}
    return Combination.from_parts(plain["combination"], _under(arrays, "combination."), floors)


# --- series ---------------------------------------------------------------------------------------------------


def _series_parts(state: State) -> Arrays:
    names = [one.name for one in state.recent]
    arrays: Arrays = _text_arrays("names", names)
    arrays["shift"] = np.stack([state.scales[name].shift for name in names])
    arrays["spread"] = np.stack([state.scales[name].spread for name in names])
    arrays["recent"] = np.concatenate([one.values for one in state.recent])
    arrays["recent.counts"] = np.array([len(one.values) for one in state.recent], dtype=np.int64)
    arrays["rows"] = np.array([one.rows for one in state.recent], dtype=np.int64)
    arrays["fitted"] = np.array([one.fitted for one in state.recent], dtype=np.int64)
    if state.recent[0].last is not None:
        lasts = pa.array([one.last for one in state.recent], state.recent[0].last.type)
        arrays["last"] = np.asarray(pc.cast(lasts, pa.int64()).to_numpy(zero_copy_only=False))
    return arrays


def _scales(names: list[str], arrays: Mapping[str, NDArray[Any]], channels: int) -> dict[str, Scale]:
    shift, spread = (_sized(arrays, name, (len(names), channels)) for name in ("shift", "spread"))
    return {name: Scale(shift[i], spread[i]) for i, name in enumerate(names)}


def _recent(
    names: list[str], arrays: Mapping[str, NDArray[Any]], channels: int, stamp_type: pa.DataType | None
) -> tuple[Recent, ...]:
    counts, rows, fitted = (
        _sized(arrays, name, (len(names),)).astype(np.int64) for name in ("recent.counts", "rows", "fitted")
    )
    values = _cut(_sized(arrays, "recent", (int(counts.sum()), channels)), counts)
    lasts: list[Any] = [None] * len(names)
    if stamp_type is not None:
        lasts = list(pc.cast(pa.array(_sized(arrays, "last", (len(names),))), stamp_type))
    return tuple(Recent(name, values[i], lasts[i], int(rows[i]), int(fitted[i])) for i, name in enumerate(names))


def _text_arrays(name: str, texts: list[str]) -> Arrays:
    """Texts as bytes: a million names must not swell the manifest."""
    coded = [text.encode() for text in texts]
    return {
        f"{name}.bytes": np.frombuffer(b"".join(coded), dtype=np.uint8),
        f"{name}.counts": np.array([len(one) for one in coded], dtype=np.int64),
    }


def _texts(arrays: Mapping[str, NDArray[Any]], name: str) -> list[str]:
    whole, counts = arrays[f"{name}.bytes"], arrays[f"{name}.counts"].astype(np.int64)
    texts = [piece.astype(np.uint8).tobytes().decode() for piece in _cut(whole, counts)]
    if not texts or len(set(texts)) < len(texts):
        raise FernError("their names are missing or doubled", argument="series")
    return texts


def _cut(values: NDArray[Any], counts: NDArray[np.int64]) -> list[NDArray[Any]]:
    if (counts < 0).any() or counts.sum() != len(values):
        raise FernError("their lengths do not add up", argument="series")
    return np.split(values, np.cumsum(counts)[:-1])


def _sized(arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    if arrays[name].shape != shape:
        raise FernError(f"has shape {arrays[name].shape}", argument=name, expected=shape)
    return arrays[name]


def _online_arrays(arrays: Mapping[str, NDArray[Any]], number: object) -> Arrays:
    """The arrays of one series; folders of former versions hold them one by one."""
    if not isinstance(number, int) or number < 0:
        raise FernError(argument="number", got=str(number)[:40], expected="a whole number", where="online calibration")
    names = tuple(STATE)
    if f"online.{names[0]}" not in arrays:
        return {name: arrays[f"online.{number}.{name}"] for name in names if f"online.{number}.{name}" in arrays}
    stacked = {name: arrays[f"online.{name}"] for name in names if f"online.{name}" in arrays}
    if any(values.ndim < 1 or number >= len(values) for values in stacked.values()):
        raise FernError(f"series {number} has no arrays", where="online calibration")
    return {name: values[number] for name, values in stacked.items()}


def _under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}


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


def _table(plain: Mapping[str, Any], channel_names: tuple[str, ...], frequency: Frequency) -> SeriesTable:
    kind = plain["kind"]
    if kind not in get_args(FrameKind):
        raise unknown_name("kind of frame", str(kind)[:40], get_args(FrameKind))
    for label in (plain["index_name"], *plain["labels"].values()):
        _label(label)
    return SeriesTable(
        series=(),
        channel_names=channel_names,
        frequency=frequency,
        time_col=plain["time"],
        id_col=plain["identifier"],
        time_type=parse_type(plain["time_type"]),
        id_type=parse_type(plain["identifier_type"]),
        value_type=parse_type(plain["value_type"]) or pa.float64(),
        native=Native(
            kind,
            plain["index"],
            plain["index_name"],
            dict(plain["labels"]),
            {str(name): parse_type(type_) for name, type_ in plain.get("named_by", {}).items()},
            {str(name): _span(text) for name, text in plain.get("periods", {}).items()},
        ),
    )


def _span(text: Any) -> str:
    """The span of pandas' periods, such as ``Q-DEC``."""
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{0,4}[A-Za-z]{1,4}(-[A-Z]{3})?", text):
        raise FernError(argument="periods", got=str(text)[:40], expected="a span such as M or Q-DEC")
    return text


def _label(label: Any) -> Any:
    """A label of pandas that JSON keeps: text, a number or nothing."""
    if isinstance(label, np.integer | np.floating):
        return label.item()
    if label is None or isinstance(label, str | int | float):
        return label
    raise FernError(f"column {str(label)[:60]!r}: a label of type {type(label).__name__} cannot be saved; make it text")


def _frequency(plain: Mapping[str, Any]) -> Frequency:
    unit, count = plain["unit"], plain["count"]
    if unit not in get_args(Unit):
        raise unknown_name("unit of frequency", str(unit)[:40], get_args(Unit))
    if not isinstance(count, int) or count < 1:
        raise FernError(
            f"got a count of {str(count)[:40]}", argument="frequency", expected="a whole number of at least 1"
        )
    weekmask = plain.get("weekmask", WORKDAYS)
    if not isinstance(weekmask, str) or not re.fullmatch(r"[01]{7}", weekmask) or "1" not in weekmask:
        raise FernError(
            argument="weekmask", got=str(weekmask)[:40], expected="seven digits, 0 or 1, and a day at least"
        )
    return Frequency(cast("Unit", unit), count, weekmask)


# --- findings -------------------------------------------------------------------------------------------------


def _findings_parts(findings: Findings) -> tuple[Plain, Arrays]:
    plain: Plain = {"coverage": [asdict(row) for row in findings.coverage], "profiled": []}
    arrays: Arrays = {}
    for number, one in enumerate(findings.profiled):
        entry: Plain = {
            "name": one.name,
            "first_row": one.profile.first_row,
            "rules": None if one.rules is None else asdict(one.rules),
            "measured": {name: asdict(rates) for name, rates in one.measured.items()},
            "stamp_type": None,
        }
        arrays[f"profile.{number}"] = np.stack([getattr(one.profile, name) for name in FIGURES])
        if one.stamps is not None:
            entry["stamp_type"] = type_text(one.stamps.type, column="time")
            arrays[f"profile.{number}.stamps"] = np.asarray(
                pc.cast(one.stamps, pa.int64()).to_numpy(zero_copy_only=False)
            )
        plain["profiled"].append(entry)
    if findings.course is not None:
        plain["course"] = {name: getattr(findings.course, name) for name in COURSE_NUMBERS}
        arrays |= {f"course.{name}": getattr(findings.course, name) for name in COURSE_ARRAYS}
    return plain, arrays


def _findings(plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], channels: int) -> Findings:
    profiled = []
    for number, entry in enumerate(plain["profiled"]):
        figures = arrays[f"profile.{number}"]
        if figures.ndim != 3 or figures.shape[::2] != (len(FIGURES), channels):
            raise FernError(
                f"has shape {figures.shape}",
                argument="profile",
                expected=f"{len(FIGURES)} figures of {channels} channels",
            )
        stamp_type = parse_type(entry["stamp_type"])
        stamps = None
        if stamp_type is not None:
            stamps = pc.cast(pa.array(_sized(arrays, f"profile.{number}.stamps", figures.shape[1:2])), stamp_type)
        profile = EigenProfile(int(entry["first_row"]), **dict(zip(FIGURES, figures, strict=True)))
        rules = None if entry["rules"] is None else TypeAdapter(Rules).validate_python(entry["rules"])
        measured = {name: TypeAdapter(Rates).validate_python(rates) for name, rates in entry["measured"].items()}
        profiled.append(Profiled(str(entry["name"]), stamps, profile, rules, measured))
    coverage = tuple(TypeAdapter(CoverageRow).validate_python(row) for row in plain["coverage"])
    return Findings(tuple(profiled), coverage, _course(plain["course"], arrays) if "course" in plain else None)


def _course(plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> CoverageByOrigin:
    origins = arrays["course.origins"].astype(np.int64)
    inside, pit = _sized(arrays, "course.inside", origins.shape), _sized(arrays, "course.pit", (BINS,))
    numbers = {name: float(plain[name]) for name in COURSE_NUMBERS}
    return CoverageByOrigin(origins=origins, inside=inside, pit=pit, **numbers)


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
