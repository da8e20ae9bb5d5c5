"""The arguments of a forecaster: kept as they are given, shown, changed and, before they are used, checked."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, get_args

from fern.checks import is_whole, require_memory, require_number, require_whole
from fern.data.missing import Missing
from fern.errors import FernError, show_value, unknown_name
from fern.forecaster.fitting.fit import FitSettings
from fern.forecaster.inputs import Reader, column_names
from fern.models import model_names
from fern.training.logging import Mode


class Arguments:
    """The constructor of `FernForecaster`, which says what each argument is, under scikit-learn's contract.

    Nothing is checked or computed before a fit, and every argument is an attribute of its own name.
    """

    def __init__(
        self,
        horizon: int,
        *,
        model: str = "fern",
        model_settings: dict[str, Any] | None = None,
        context_length: int | Literal["auto"] = "auto",
        season: int | Literal["auto"] = "auto",
        epochs: int | Literal["auto"] = "auto",
        time_limit: float | None = None,
        missing: Missing = "error",
        ignore_columns: bool = False,
        id_col: str = "unique_id",
        time_col: str | None = None,
        target_col: str | Sequence[str] | None = None,
        seed: int = 7,
        threads: int | None = None,
        progress: Mode = "auto",
    ) -> None:
        self.horizon = horizon
        self.model = model
        self.model_settings = model_settings
        self.context_length = context_length
        self.season = season
        self.epochs = epochs
        self.time_limit = time_limit
        self.missing = missing
        self.ignore_columns = ignore_columns
        self.id_col = id_col
        self.time_col = time_col
        self.target_col = target_col
        self.seed = seed
        self.threads = threads
        self.progress = progress

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor; an unknown one is an error with the nearest right name."""
        for name, value in params.items():
            if name not in self._names():
                raise unknown_name("parameter", name, self._names())
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in inspect.signature(type(self).__init__).parameters.items()}
        given = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items() if value != defaults[name])
        return f"{type(self).__name__}({given})"

    def _reader(self) -> Reader:
        """What reads a frame as the arguments say."""
        target = column_names("target_col", self.target_col)
        for name, value in (("id_col", self.id_col), ("time_col", self.time_col)):
            if not isinstance(value, str) and not (value is None and name == "time_col"):
                raise FernError(argument=name, got=value, expected="the name of a column")
        return Reader(
            id_col=self.id_col,
            time_col=self.time_col,
            target_col=target,
            missing=self.missing,
            ignore_columns=self.ignore_columns,
        )

    def _settings(self) -> FitSettings:
        """The arguments, checked."""
        require_whole("horizon", self.horizon, 1)
        require_memory(f"horizon: {show_value(self.horizon)} steps", 64.0 * min(self.horizon, 10**30))
        require_whole("seed", self.seed, 0)
        for name in ("context_length", "season", "epochs"):
            value = getattr(self, name)
            if not (isinstance(value, str) and value == "auto") and not is_whole(value, least=1):
                raise FernError(argument=name, got=value, expected="a whole number of at least 1, or 'auto'")
        for name, value, known in (
            ("model", self.model, model_names()),
            ("progress", self.progress, get_args(Mode)),
            ("missing", self.missing, get_args(Missing)),
        ):
            if not isinstance(value, str) or value not in known:
                raise unknown_name(name, value, known)
        if self.threads is not None and not is_whole(self.threads, least=1):
            raise FernError(argument="threads", got=self.threads, expected="a whole number of at least 1, or None")
        if not isinstance(self.ignore_columns, bool):
            raise FernError(argument="ignore_columns", got=self.ignore_columns, expected="True or False")
        if not isinstance(self.model_settings, Mapping | None):
            raise FernError(
                argument="model_settings", got=self.model_settings, expected="a mapping of names to values, or None"
            )
        if self.time_limit is not None:
            require_number("time_limit", self.time_limit, "seconds above 0, or None", lambda value: value > 0)
        return FitSettings(
            model=self.model,
            model_settings=self.model_settings,
            epochs=None if self.epochs == "auto" else self.epochs,
            time_limit=self.time_limit,
            seed=self.seed,
            threads=self.threads,
            progress=self.progress,
        )
