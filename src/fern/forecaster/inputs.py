"""Frames in: which columns are forecast, which are refused, and the shape that answers take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from fern.data.columns import TIME_NAMES, check_values, find_time, is_numeric, is_row_number
from fern.data.csv_files import is_number
from fern.data.frames import BY_ROWS, Panel, Series, read_frame, restored, restored_names
from fern.data.missing import Missing
from fern.data.native import FrameKind, Native, unwrap
from fern.data.timestamps import is_text
from fern.errors import FernError, unknown_name

TARGET = "y"
"""The target's usual name in a long frame."""


@dataclass(frozen=True)
class Reader:
    """How a frame is read; see `FernForecaster` for the words."""

    id_col: str = "unique_id"
    time_col: str | None = None
    target_col: str | tuple[str, ...] | None = None
    missing: Missing = "error"
    ignore_columns: bool = False

    def read(
        self,
        frame: Any,
        *,
        channels: Sequence[str] | None = None,
        long: bool | None = None,
        grid: Literal["time", "rows"] = "time",
    ) -> "Table":
        """The series of a frame; ``channels`` are those it must have, in this order, ``long`` whether it must be long.

        With ``grid="rows"`` stamps are read and not looked at: a frame may then hold a single row of a series.

        Example:
            >>> table = Reader().read(pa.table({"unique_id": ["a", "a"], "ds": [1, 2], "y": [0.5, 1.5]}))
            >>> table.form.long, table.series[0].values[:, 0].tolist()
            (True, [0.5, 1.5])
        """
        whole, native = unwrap(frame)
        names = whole.column_names
        if not names:
            raise FernError("has no columns", argument="frame")
        identifier = self.id_col if self.id_col in names else None
        if identifier is None and self.id_col != Reader.id_col:
            raise FernError(f"{unknown_name('column', self.id_col, names)}", argument="id_col")
        if self.time_col is not None and self.time_col not in names:
            raise FernError(f"{unknown_name('column', self.time_col, names)}", argument="time_col")
        if long is not None and long != (identifier is not None):
            wanted = "long (with an identifier column)" if long else "wide (a column for each channel)"
            raise FernError(f"the forecaster was fitted to a {wanted} frame", argument="frame", expected="the same")
        targets = self._targets(names, identifier=identifier, channels=channels)
        extra = self._extra(whole, identifier=identifier, targets=targets)
        try:
            panel = read_frame(
                whole.drop_columns(extra),
                native=native,
                time=self.time_col,
                series=identifier,
                missing=self.missing,
                grid=grid,
            )
        except FernError as error:  # what others may do about a time column, a forecaster cannot
            raise FernError(str(error).replace(BY_ROWS, "leave the time column out and count rows")) from None
        found = panel.series[0].channel_names
        if channels is not None and found != tuple(channels) and identifier is None:
            raise FernError(
                f"has the columns {', '.join(found)}, the forecaster was fitted to {', '.join(channels)}",
                argument="frame",
            )
        if self.missing == "error":
            _refuse_gaps(panel)
        if identifier is not None and len(found) > 1:
            raise FernError(
                f"the columns {', '.join(found)} could all be the target; name it by target_col", argument="frame"
            )
        if channels is not None and identifier is not None and self.target_col is None and found != tuple(channels):
            raise FernError(
                (
                    f"its target is {found[0]!r}, the forecaster was fitted to {channels[0]!r}; target_col "
                    "says that it is meant"
                ),
                argument="frame",
            )
        return Table(panel.series, _form(panel, whole))

    def _targets(
        self, names: Sequence[str], *, identifier: str | None, channels: Sequence[str] | None
    ) -> tuple[str, ...] | None:
        """The columns to forecast; None where every column of values is one."""
        long = identifier is not None
        given = (self.target_col,) if isinstance(self.target_col, str) else self.target_col
        if given is None and long and TARGET in names:
            given = (TARGET,)
        if given is None and not long and channels is not None:
            given = tuple(channels)
        for name in given or ():
            if name not in names:
                raise FernError(f"{unknown_name('column', name, names)}", argument="target_col")
            if name in (identifier, self.time_col):
                raise FernError(
                    f"{name!r} is the {'identifier' if name == identifier else 'time'} column", argument="target_col"
                )
        if given is not None and long and len(given) > 1:
            raise FernError(
                f"got {list(given)}; a long frame has one target, a wide one may have many", argument="target_col"
            )
        return given

    def _extra(self, whole: pa.Table, *, identifier: str | None, targets: tuple[str, ...] | None) -> list[str]:
        """Columns that are neither identifier, time nor target: refused, or left out where that was asked for."""
        left = [name for name in whole.column_names if name not in (identifier, *(targets or ()))]
        time, _ = find_time(whole, left, name="frame", asked=self.time_col)
        if time is None and targets is None:
            _refuse_fractions_of_time(whole)
        others = [name for name in whole.column_names if name not in (identifier, time, *(targets or ()))]
        extra = others if targets is not None else [name for name in others if not _holds_values(whole, name)]
        extra = [name for name in extra if not is_row_number(whole, name)]
        for name in extra:
            if not self.ignore_columns and _is_mostly_numbers(whole, name):
                check_values(whole, name, name="frame")
        if extra and not self.ignore_columns:
            listed = ", ".join(repr(name) for name in extra[:5]) + (f" and {len(extra) - 5} more" if extra[5:] else "")
            raise FernError(
                (
                    f"{listed} {'is' if len(extra) == 1 else 'are'} neither identifier, time nor target; "
                    "covariates are not supported yet: ignore_columns=True leaves such columns out"
                ),
                argument="frame",
            )
        return extra


@dataclass(frozen=True)
class Form:
    """What is needed to answer in the shape of a frame: its library, its columns and their types."""

    kind: FrameKind
    long: bool
    time: str | None
    identifier: str | None
    time_type: pa.DataType | None
    identifier_type: pa.DataType | None
    value_type: pa.DataType
    native: Native

    def frame(
        self,
        names: Sequence[str],  # the series, one name for each
        stamps: Sequence[pa.Array | None],  # for each series (n_i,)
        columns: Mapping[str, Any],  # (Σ n_i,) values in the order of the series
        *,
        integers: Sequence[str] = (),
    ) -> Any:
        """A frame of the kind that came in: identifier (long frames), time, then the columns."""
        lengths = [0 if when is None else len(when) for when in stamps]
        table: dict[str, Any] = {}
        if self.identifier is not None:
            table[self.identifier] = self.identifiers(names, lengths)
        if self.time is not None:
            table[self.time] = self.times(stamps)
        for name, values in columns.items():
            if isinstance(values, pa.Array | pa.ChunkedArray):
                table[name] = values
            else:
                table[name] = pa.array(values, pa.int64() if name in integers else self.value_type)
        return self.native.wrap(pa.table(table))

    def identifiers(self, names: Sequence[str], lengths: Sequence[int]) -> Any:
        """The identifier column: each name so many times, in the type it came in."""
        codes = pa.array(np.repeat(np.arange(len(names), dtype=np.int32), lengths))
        return restored_names(pa.array(names, pa.string()).take(codes), self.identifier_type)

    def times(self, stamps: Sequence[pa.Array | None]) -> Any:
        """The time column, in the type it came in."""
        return restored(pa.concat_arrays([when for when in stamps if when is not None]), self.time_type)


@dataclass(frozen=True)
class Table:
    """The series of a frame, and its form."""

    series: tuple[Series, ...]
    form: Form

    @property
    def channel_names(self) -> tuple[str, ...]:
        """The names of the value columns."""
        return self.series[0].channel_names


def column_names(argument: str, given: object) -> str | tuple[str, ...] | None:
    """A column's name, or several of them, or None, as the user gave them.

    Example:
        >>> column_names("target_col", ["a", "b"]), column_names("target_col", "y")
        (('a', 'b'), 'y')
    """
    if given is None or isinstance(given, str):
        return given
    if not isinstance(given, list | tuple) or not given or not all(isinstance(name, str) for name in given):
        raise FernError(argument=argument, got=given, expected="a column's name, or a list of them")
    if len(set(given)) < len(given):
        raise FernError(f"{list(given)} contains duplicates", argument=argument)
    return tuple(given)


def _form(panel: Panel, whole: pa.Table) -> Form:
    types = {whole.schema.field(name).type for name in panel.series[0].channel_names}
    single = all(type_ in (pa.float32(), pa.float16()) for type_ in types)
    return Form(
        kind=panel.native.kind,
        long=panel.long,
        time=panel.time,
        identifier=panel.identifier,
        time_type=panel.time_type,
        identifier_type=panel.identifier_type,
        value_type=pa.float32() if single else pa.float64(),
        native=panel.native,
    )


def _refuse_gaps(panel: Panel) -> None:
    gapped = [one for one in panel.series if one.breaks]
    if not gapped:
        return
    one = gapped[0]
    row, places = one.breaks[0], sum(len(other.breaks) for other in gapped)
    where = f"series {one.name!r}: " if one.name else ""
    before, after = (one.stamps[i].as_py() for i in (row - 1, row)) if one.stamps is not None else (row - 1, row)
    raise FernError(
        (
            f"{where}rows are missing in {places:,} place{'s' * (places > 1)}, first between {before} "
            f"and {after} (the step is {one.frequency}); missing='interpolate' or 'ffill' fills them, "
            "'drop' starts anew there"
        ),
        argument="frame",
    )


def _holds_values(whole: pa.Table, name: str) -> bool:
    type_ = whole.schema.field(name).type
    return is_numeric(type_) or pa.types.is_null(type_)


def _is_mostly_numbers(whole: pa.Table, name: str) -> bool:
    """Whether a column of text would hold numbers, but for a few rows."""
    if not is_text(whole.schema.field(name).type):
        return False
    texts = [text for text in whole[name].slice(0, 1000).to_pylist() if text is not None]
    return sum(map(is_number, texts)) > len(texts) / 2


def _refuse_fractions_of_time(whole: pa.Table) -> None:
    """Refuse a column that is time by its name and its order, but would be forecast like any other."""
    for name in whole.column_names:
        if name.strip().casefold() in TIME_NAMES and pa.types.is_floating(whole.schema.field(name).type):
            values = whole[name].to_numpy()
            if len(values) > 1 and (np.diff(values) > 0).all():
                raise FernError(
                    (
                        f"column {name!r} looks like time but holds fractions; give dates or integers, or name "
                        "the columns to forecast by target_col and leave it out by ignore_columns=True"
                    ),
                    argument="frame",
                )
