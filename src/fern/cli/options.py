"""Options that several commands share, each written once.

A command takes a group of options as one argument; `expand_options` shows typer each of its fields.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from fern.errors import FernError

if TYPE_CHECKING:
    from fern.data.columns import Reading

STANDARD = "-"
"""Standard input, or standard output."""

DEFAULT_MODEL = "fern"

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A CSV or Parquet file, or - for standard input. See docs/forecasting.md.")
]
File = Annotated[
    str, typer.Argument(metavar="FILE", help="A CSV or Parquet file, or the name of a published dataset such as ETTh2.")
]


def out_option(description: str) -> Any:
    """The option that names the file or folder to write."""
    return typer.Option("--out", "-o", "--output", help=description)


AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Plot = Annotated[Path | None, typer.Option(help="Save a plot to this file: .png, .svg or .pdf.")]
Steps = Annotated[int | None, typer.Option(help="Number of steps to use instead of the scenario's.")]
ModelContext = Annotated[
    int | None,
    typer.Option("--context-length", "--context", help="Context length (default: the saved model's, else 336)."),
]
ModelHorizon = Annotated[int | None, typer.Option(help="Forecast horizon (default: the saved model's, else 336).")]
Future = Annotated[Path | None, typer.Option(help="A file with the --known columns of each series and step ahead.")]
Horizon = Annotated[int | None, typer.Option(help="Number of steps to forecast.")]
Level = Annotated[
    list[str] | None,
    typer.Option(metavar="PERCENT…", help="Central intervals, in percent: --level 80 95, or --level 80,95."),
]


@dataclass(frozen=True)
class TableOptions:
    """How to read a table: the columns' roles and how the text is written."""

    id_col: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="Column with the series' names in a long table, or several that name them together, comma-separated "
            "(default: detected).",
        ),
    ] = None
    time_col: Annotated[str | None, typer.Option("--time", help="Time column (default: detected).")] = None
    separator: Annotated[str | None, typer.Option(help="CSV separator (default: detected).")] = None
    decimal: Annotated[str | None, typer.Option(help="CSV decimal mark, '.' or ',' (default: detected).")] = None
    encoding: Annotated[str | None, typer.Option(help="CSV encoding (default: detected).")] = None

    @property
    def identifiers(self) -> tuple[str, ...] | None:
        """The columns of --id."""
        return None if self.id_col is None else tuple(_split(self.id_col) or ())

    @property
    def text_format(self) -> dict[str, Any]:
        """How the text of a CSV file is written."""
        return {"encoding": self.encoding, "separator": self.separator, "decimal": self.decimal}

    def reading(self, *, ignore: list[str] | None = None) -> "Reading":
        """What the reader need not guess."""
        from fern.data.columns import Reading

        return Reading(time_col=self.time_col, id_col=self.identifiers, ignore=tuple(ignore or ()), **self.text_format)


@dataclass(frozen=True)
class SeriesOptions(TableOptions):
    """How to read a table that is to be forecast."""

    target_col: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            help="Column to forecast (default: y of a long table, every column of a wide one). Repeatable, or "
            "comma-separated.",
        ),
    ] = None
    missing: Annotated[str | None, typer.Option(help="Missing values and rows: error, interpolate, ffill or drop.")] = (
        None
    )
    known: Annotated[
        str | None,
        typer.Option(help="Covariates that are known for the steps ahead, comma-separated; --future has their values."),
    ] = None
    past: Annotated[str | None, typer.Option(help="Covariates that end with the target, comma-separated.")] = None
    static: Annotated[str | None, typer.Option(help="Covariates with one value a series, comma-separated.")] = None
    holidays: Annotated[str | None, typer.Option(help="Country code: its holidays are covariates, such as NO.")] = None
    ignore_columns: Annotated[
        bool, typer.Option("--ignore-columns", help="Leave out columns that are neither identifier, time nor target.")
    ] = False

    def settings(self) -> dict[str, Any]:
        """Arguments of the forecaster."""
        return _without_defaults(
            time_col=self.time_col,
            target_col=split_names(self.target_col),
            missing=self.missing,
            futr_exog_list=_split(self.known),
            hist_exog_list=_split(self.past),
            stat_exog_list=_split(self.static),
            holidays=self.holidays,
            ignore_columns=self.ignore_columns,
        )


@dataclass(frozen=True)
class FitOptions:
    """Which forecaster, and how it is trained."""

    model: Annotated[
        str, typer.Option(help="A model's name, or the folder of a saved forecaster, which is not trained again.")
    ] = DEFAULT_MODEL
    pretrained: Annotated[
        bool, typer.Option("--pretrained", help="Forecast without training, by the model that comes with the package.")
    ] = False
    context_length: Annotated[
        int | None,
        typer.Option("--context-length", "--context", help="Number of rows a forecast sees (default: from the data)."),
    ] = None
    season: Annotated[int | None, typer.Option(help="Number of rows in a season (default: from the time steps).")] = (
        None
    )
    epochs: Annotated[int | None, typer.Option(help="Training epochs (default: from the data).")] = None
    time_limit: Annotated[float | None, typer.Option(help="Time limit for training, in seconds.")] = None
    seed: Annotated[int | None, typer.Option(help="Random seed.")] = None
    threads: Annotated[int | None, typer.Option(help="Number of threads for training.")] = None

    def settings(self) -> dict[str, Any]:
        """Arguments of the forecaster, without its model."""
        return _without_defaults(
            **{field.name: getattr(self, field.name) for field in fields(self) if field.name != "model"}
        )

    @property
    def folder(self) -> Path | None:
        """The folder of a saved forecaster."""
        return Path(self.model) if Path(self.model).is_dir() else None


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


def _without_defaults(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value is not False}


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of its arguments that are groups of options."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        parameter.replace(annotation=hints[name], kind=keyword)
        for name, parameter in inspect.signature(command).parameters.items()
        if name not in groups
    ]
    for kind in groups.values():
        group_hints = get_type_hints(kind, include_extras=True)
        parameters += [
            parameter.replace(annotation=group_hints[name], kind=keyword)
            for name, parameter in inspect.signature(kind).parameters.items()
        ]

    @wraps(command)
    def run(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        command(**values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


class SeveralValues(TyperCommand):
    """A command whose ``--level 80 95`` takes all the numbers that follow."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each further number."""
        words: list[str] = []
        current: str | None = None
        for word in args:
            if word.startswith("--"):
                current = word if word in ("--level", "--quantiles") else None
            elif current is not None and words[-1] != current:
                if re.fullmatch(r"[\d.,]+", word):
                    words.append(current)
                else:
                    current = None
            words.append(word)
        return super().parse_args(ctx, words)


def split_numbers(option: str, values: list[str] | None, *, example: str = "80,95") -> list[float] | None:
    """The numbers of a repeated or comma-separated option."""
    words = split_names(values)
    if words is None:
        return None
    try:
        return [float(word) for word in words]
    except ValueError:
        raise FernError(argument=option, got=", ".join(words), expected=f"numbers, as {option} {example}") from None


def split_names(values: list[str] | None) -> list[str] | None:
    """The names of a repeated or comma-separated option."""
    return None if values is None else [name.strip() for value in values for name in value.split(",") if name.strip()]
