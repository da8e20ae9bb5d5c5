"""The forecaster under a stress test: what a TARGET names, and how it is asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch

from fern.benchmark.adapters.callables import ForecastFunction
from fern.benchmark.adapters.libraries import Builder, adapter_of, builder_of
from fern.benchmark.adapters.outside import (
    FORECASTER_MANIFEST,
    Floats,
    as_model,
    build_from,
    detect_form,
    import_object,
    is_builder,
    is_saved_forecaster,
    load_saved_forecaster,
    make_folder_builder,
    require_sizes,
)
from fern.benchmark.adapters.windowwise import is_chronos
from fern.data.splits import Part
from fern.data.windows import Windows
from fern.errors import FernError, unknown_name
from fern.extras import add_search_folder
from fern.models import Forecaster, ModelConfig, build_model, load_model, model_names

Takes = Literal["auto", "batch", "window"]
TAKES: tuple[Takes, ...] = ("auto", "batch", "window")

EPOCHS = 5
TRAINING_WINDOWS = 4096
VALIDATION_WINDOWS = 512
SEED = 7
"""The small training budget of a model given by name; windows are spread evenly over the training set."""

_SAVED = ("model.safetensors", "best.safetensors")  # what a folder with a saved model holds


@dataclass(frozen=True, eq=False)
class ScenarioData:
    """All that a forecaster gets of a scenario: rows to train on, and the contexts to forecast from."""

    rows: Floats  # (T, C), the training and the validation part
    train: Part
    validation: Part
    contexts: Floats  # (n, L, C)
    horizon: int
    takes: Takes = "auto"

    @property
    def config(self) -> ModelConfig:
        """The lengths and channels."""
        _, length, channels = self.contexts.shape
        return ModelConfig(context_length=length, horizon=self.horizon, channels=channels)


@dataclass(frozen=True, eq=False)
class Target:
    """A forecaster under test: a model, a function, or what is yet to be trained: a registered model's name, or
    something that builds a model (see `fern.benchmark.adapters.outside`)."""

    name: str
    source: Forecaster | ForecastFunction | Builder | str

    @property
    def config(self) -> ModelConfig | None:
        """The lengths and channels of a built model; None for what takes any."""
        return self.source.config if isinstance(self.source, Forecaster) else None

    def prepare(self, data: ScenarioData) -> Forecaster | ForecastFunction:
        """Ready to forecast: what is yet to be trained is trained, a built model is checked to fit."""
        if isinstance(self.source, Forecaster):
            require_sizes(self.source.config, data.config)
            return self.source
        if isinstance(self.source, str) or is_builder(self.source):
            with _errors_as_reasons():
                return _train(self.source, data)
        return cast("ForecastFunction", self.source)


def as_target(forecaster: object) -> Target:
    """The target that a Python object is."""
    adapter = adapter_of(forecaster)
    if adapter is not None and not isinstance(forecaster, type):
        return Target(type(forecaster).__name__, builder_of(forecaster, adapter, {}))
    if isinstance(forecaster, type) and not is_builder(forecaster):
        raise FernError(f"got the class {forecaster.__name__}", argument="forecaster", expected="an instance of it")
    if not callable(forecaster):
        raise FernError(
            argument="forecaster",
            got=type(forecaster),
            expected="a fern Forecaster, a callable taking (context, horizon), or the text of a TARGET",
        )
    return Target(getattr(forecaster, "__qualname__", type(forecaster).__name__), forecaster)


def open_target(text: str, *, folder: str | None = None) -> Target:
    """The target of a text: a registered model's name, a saved model's or forecaster's folder, or ``module:callable``.

    A module that is installed nowhere is looked for in ``folder``.

    Example:
        >>> open_target("last-value").source
        'last-value'
        >>> open_target("dlinaer")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: TARGET: unknown model 'dlinaer': did you mean 'dlinear'? ...
    """
    if text in model_names():
        return Target(text, text)
    path = Path(text)
    if path.exists():
        return Target(text, _load_saved(path))
    if is_code(text):
        if folder is not None:
            add_search_folder(folder)
        return Target(text, import_object(text))
    reason = unknown_name("model", text, model_names())
    raise FernError(f"{reason}; or give a saved model's folder, or module:callable", argument="TARGET")


def is_code(text: str) -> bool:
    """Whether a text means ``module:callable``: it is neither a registered model's name nor a file.

    Example:
        >>> is_code("dlinear"), is_code("my_models:forecast")
        (False, True)
    """
    return ":" in text and text not in model_names() and not Path(text).exists()


def forecast(forecaster: Forecaster | ForecastFunction, data: ScenarioData) -> Floats:  # (n, H, C)
    """The forecasts of all contexts, or a `FernError` that says what was wrong with them."""
    with torch.no_grad(), _errors_as_reasons():
        if not isinstance(forecaster, Forecaster):
            takes = data.takes
            form = detect_form(forecaster, data.contexts, data.horizon) if takes == "auto" else takes
            forecaster = as_model(forecaster, data.config, takes=form)
        weights = next((p for p in forecaster.parameters() if p.is_floating_point()), None)
        contexts = torch.from_numpy(data.contexts)
        before = forecaster.training
        forecaster.eval()
        try:
            mean = forecaster(contexts if weights is None else contexts.to(weights.device, weights.dtype)).mean
        finally:
            forecaster.train(before)
    shape = (len(data.contexts), data.horizon, data.contexts.shape[2])
    if tuple(mean.shape) != shape:
        raise FernError(f"returned shape {tuple(mean.shape)}", expected=shape)
    if not bool(torch.isfinite(mean).all()):
        window, step, channel = (~torch.isfinite(mean)).nonzero()[0].tolist()
        raise FernError(
            f"returned {float(mean[window, step, channel])} at window {window}, step {step}, channel {channel}"
        )
    values: Floats = mean.detach().cpu().numpy().astype(np.float32)
    return values


def _load_saved(path: Path) -> Forecaster | Builder:
    if path.is_file():
        return load_model(path)
    if is_saved_forecaster(path):
        return load_saved_forecaster(path)
    if is_chronos(path):
        return make_folder_builder(path, where=f"TARGET {path}")
    files = [path / name for name in _SAVED if (path / name).is_file()]
    if not files:
        raise FernError(
            f"the folder {path} has no saved model ({' or '.join((*_SAVED, FORECASTER_MANIFEST))})", argument="TARGET"
        )
    return load_model(files[0])


def _train(source: str | Builder, data: ScenarioData) -> Forecaster:
    """A registered model, or one that is built, after the quick budget."""
    from fern.training import TrainConfig, train

    lengths: dict[str, Any] = {"context_length": data.config.context_length, "horizon": data.config.horizon}
    training, validation = (
        Windows(data.rows, **lengths, part=part, stride=max(1, -(-len(part) // most)))
        for part, most in ((data.train, TRAINING_WINDOWS), (data.validation, VALIDATION_WINDOWS))
    )
    if isinstance(source, str):
        model = build_model(source, **asdict(data.config))
        config = TrainConfig(epochs=EPOCHS, seed=SEED)
    else:
        model = build_from(source, data.config, seed=SEED)
        if not model.chooses:  # what forecasts window by window need not forecast the validation windows as well
            return model
        config = TrainConfig(epochs=EPOCHS, seed=SEED, start="given")
    train(model, training, validation, config, progress="silent")
    return model


@contextmanager
def _errors_as_reasons() -> Iterator[None]:
    """Whatever a forecaster raises within the block is a `FernError` that tells it."""
    try:
        yield
    except FernError:
        raise
    except SystemExit as error:
        raise FernError(f"called sys.exit({error.code!r})") from None
    except Exception as error:
        raise FernError(f"raised {type(error).__name__}: {error}") from error
