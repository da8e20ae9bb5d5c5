"""Which libraries' forecasters are taken as they are: how each is told, made into a model, and named."""

import ast
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from fern.benchmark.adapters.neuralforecast import NeuralForecastForecaster, neuralforecast_model
from fern.benchmark.adapters.windowwise import (
    ChronosForecaster,
    FevForecaster,
    SktimeForecaster,
    StatsForecastForecaster,
)
from fern.errors import FernError
from fern.models import Forecaster

Builder = Callable[..., Forecaster]
"""Makes a model of ``context_length``, ``horizon`` and ``channels``."""


@dataclass(frozen=True)
class Adapter:
    """A library whose forecasters can be named; the extra that brings it has its name.

    ``base``   the class that tells its forecasters from others; None where they are named by a folder.
    ``wrap``   makes a forecaster of the library a model.
    ``named``  an example of how one is named.
    """

    package: str
    base: str | None
    wrap: Builder
    named: str

    @property
    def version(self) -> str | None:
        """The version that is installed; None where it is not."""
        try:
            return metadata.version(_DISTRIBUTIONS.get(self.package, self.package))
        except metadata.PackageNotFoundError:
            return None

    def owns(self, kind: type) -> bool:
        """Whether a class is one of this library's forecasters, or inherits from one; nothing is imported to tell."""
        return any(
            parent.__name__ == self.base and parent.__module__.partition(".")[0] == self.package
            for parent in kind.__mro__
        )


_DISTRIBUTIONS = {"chronos": "chronos-forecasting"}

ADAPTERS = (
    Adapter("statsforecast", "_TS", StatsForecastForecaster, "statsforecast.models:AutoETS(season_length=24)"),
    Adapter("sktime", "BaseForecaster", SktimeForecaster, "sktime.forecasting.naive:NaiveForecaster(strategy='drift')"),
    Adapter("neuralforecast", "BaseModel", NeuralForecastForecaster, "neuralforecast.models:NHITS"),
    Adapter("fev", "ForecastingModel", FevForecaster, "my_models:MyFevModel"),
    Adapter("chronos", None, ChronosForecaster, "the folder of a Chronos model"),
)


def adapter_of(forecaster: object) -> Adapter | None:
    """The adapter for a forecaster of a known library, or for its class; None for all else.

    Example:
        >>> adapter_of(len) is None, adapter_of(int) is None
        (True, True)
    """
    kind = forecaster if isinstance(forecaster, type) else type(forecaster)
    return next((adapter for adapter in ADAPTERS if adapter.owns(kind)), None)


def builder_of(source: Any, adapter: Adapter, settings: Mapping[str, Any]) -> Builder:
    """What builds the model: of a class, an object with these settings; an object stays what it is."""

    def build(*, context_length: int, horizon: int, channels: int) -> Forecaster:
        if adapter.package == "neuralforecast":  # the sizes are part of its models, and its weights are trained
            if not isinstance(source, type):
                return NeuralForecastForecaster(source, channels=channels)
            return neuralforecast_model(
                source, context_length=context_length, horizon=horizon, channels=channels, settings=settings
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # announcements of what will change one day
            forecaster = source(**settings) if isinstance(source, type) else source
        return adapter.wrap(forecaster, context_length=context_length, horizon=horizon, channels=channels)

    return build


def extra_for(module: str) -> str | None:
    """The extra that brings the library of a module; None where it is no known library's.

    Example:
        >>> extra_for("statsforecast.models"), extra_for("my_models")
        ('statsforecast', None)
    """
    adapter = _by_package(module)
    return None if adapter is None else adapter.package


def library_version(text: str) -> str:
    """The version of the known library that a ``module:callable`` is in; nothing for all else."""
    adapter = _by_package(text.partition(":")[0])
    return "" if adapter is None else adapter.version or ""


def _by_package(module: str) -> Adapter | None:
    return next((adapter for adapter in ADAPTERS if adapter.package == module.partition(".")[0]), None)


def split_settings(text: str) -> tuple[str, dict[str, Any]]:
    """A name and the settings in brackets after it, which are plain values: nothing is executed.

    Example:
        >>> split_settings("AutoETS(season_length=24, model='ZNZ')")
        ('AutoETS', {'season_length': 24, 'model': 'ZNZ'})
        >>> split_settings("forecast")
        ('forecast', {})
        >>> split_settings("AutoETS(24)")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: settings (24): need names and plain values, as in (season_length=24)
    """
    match = re.fullmatch(r"([^()]*)(?:\((.*)\))?", text, re.S)
    if match is None:
        raise FernError(f"{text!r} has brackets that do not match", argument="settings")
    name, inside = match[1], match[2]
    if inside is None:
        return name, {}
    wrong = FernError(f"settings ({inside}): need names and plain values, as in (season_length=24)")
    try:
        call = ast.parse(f"f({inside})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(entry.arg is None for entry in call.keywords):
            raise wrong
        return name, {str(entry.arg): ast.literal_eval(entry.value) for entry in call.keywords}
    except (SyntaxError, ValueError):
        raise wrong from None


def as_text() -> str:
    """A table of the libraries: what is installed, how a forecaster is named, and how to get what is missing."""
    rows = [("library", "installed", "as TARGET or --with")]
    for adapter in ADAPTERS:
        missing = f"no: pip install 'fern-forecast[{adapter.package}]'"
        rows.append((adapter.package, adapter.version or missing, adapter.named))
    rows += [
        ("fern", "yes", "a model's name, the folder of a saved model or FernForecaster"),
        ("your own", "yes", "my_models:forecast or my_models:MyModel"),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    return "\n".join(f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}" for row in rows)
