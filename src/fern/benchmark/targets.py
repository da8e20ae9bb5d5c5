"""The forecaster under a stress test: what a TARGET names, and how it is asked."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from fern.data.split import Part
from fern.data.windows import Windows
from fern.errors import FernError, unknown_name
from fern.integrations.function import ForecastFunction, FunctionForecaster
from fern.models import Forecaster, ModelConfig, build_model, load_model, model_names

Floats = NDArray[np.float32]
Form = Literal["batch", "window"]
Takes = Literal["auto", "batch", "window"]
TAKES: tuple[Takes, ...] = ("auto", "batch", "window")

EPOCHS = 5
TRAINING_WINDOWS = 4096
VALIDATION_WINDOWS = 512
SEED = 7
"""The quick budget of a registered model: so many epochs over so many windows, spread evenly, of the training part."""

_SAVED = ("model.safetensors", "best.safetensors")  # what a folder with a saved model holds
_PROBE = 3  # windows by which a function's form is found out


@dataclass(frozen=True, eq=False)
class Material:
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
    """A forecaster under test: a model, a function, or the name of a registered model that is yet to be trained."""

    name: str
    source: Forecaster | ForecastFunction | str

    @property
    def config(self) -> ModelConfig | None:
        """The lengths and channels of a built model; None for what takes any."""
        return self.source.config if isinstance(self.source, Forecaster) else None

    def prepared(self, material: Material) -> Forecaster | ForecastFunction:
        """Ready to forecast: a registered model is trained, a built one is checked to fit."""
        if isinstance(self.source, str):
            with _errors_as_reasons():
                return _trained(self.source, material)
        if isinstance(self.source, Forecaster):
            _require_fit(self.source.config, material.config)
        return self.source


def as_target(forecaster: object) -> Target:
    """The target that a Python object is."""
    if isinstance(forecaster, type):
        raise FernError(f"forecaster: got the class {forecaster.__name__}, needs an object made of it")
    if not callable(forecaster):
        raise FernError(
            f"forecaster: got {type(forecaster).__name__}, needs a fern Forecaster, "
            "something to call with (context, horizon), or the text of a TARGET"
        )
    return Target(getattr(forecaster, "__qualname__", type(forecaster).__name__), forecaster)


def open_target(text: str) -> Target:
    """The target of a text: a registered model's name, a saved model's folder or file, or ``module:callable``.

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
        return Target(text, _saved(path))
    module, separator, name = text.partition(":")
    if separator:
        return Target(text, _imported(module, name))
    raise _unknown(text)


def forecast(forecaster: Forecaster | ForecastFunction, material: Material) -> Floats:  # (n, H, C)
    """The forecasts of all contexts, or a `FernError` that says what was wrong with them."""
    with torch.no_grad(), _errors_as_reasons():
        model = forecaster if isinstance(forecaster, Forecaster) else _adapted(forecaster, material)
        with _evaluating(model):
            mean = model(_as_seen_by(model, material.contexts)).mean
    wanted = (len(material.contexts), material.horizon, material.contexts.shape[2])
    if tuple(mean.shape) != wanted:
        raise FernError(f"gave shape {tuple(mean.shape)}, needs {wanted}")
    if not bool(torch.isfinite(mean).all()):
        window, step, channel = (~torch.isfinite(mean)).nonzero()[0].tolist()
        raise FernError(f"gave {float(mean[window, step, channel])} at window {window}, step {step}, channel {channel}")
    made: Floats = mean.detach().cpu().numpy().astype(np.float32)
    return made


def _saved(path: Path) -> Forecaster:
    if path.is_file():
        return load_model(path)
    found = [path / name for name in _SAVED if (path / name).is_file()]
    if not found:
        raise FernError(f"TARGET: the folder {path} holds no saved model ({' or '.join(_SAVED)})")
    return load_model(found[0])


def _imported(module: str, name: str) -> Any:
    where = f"TARGET {module}:{name}"
    if not module or not name:
        raise FernError(f"{where}: needs a module and a callable in it, as in my_package.models:forecast")
    try:
        found: Any = import_module(module)
    except SystemExit as error:
        raise FernError(f"{where}: {module} cannot be imported: it called sys.exit({error.code!r})") from None
    except Exception as error:  # noqa: BLE001  whatever a user's module does when it is imported
        raise FernError(f"{where}: {module} cannot be imported: {type(error).__name__}: {error}") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise FernError(f"{where}: {_missing(module, part, found)}")
        found = getattr(found, part)
    if isinstance(found, type) or not callable(found):
        kind = f"the class {found.__name__}" if isinstance(found, type) else type(found).__name__
        raise FernError(f"{where}: is {kind}, needs something to call with (context, horizon)")
    return found


def _missing(module: str, name: str, owner: object) -> str:
    near = get_close_matches(name, [entry for entry in dir(owner) if not entry.startswith("_")], n=3)
    hint = f": did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"{module} was imported, but has no {name!r}{hint}"


def _unknown(text: str) -> FernError:
    reason = unknown_name("model", text, model_names())
    return FernError(f"TARGET: {reason}; or give a saved model's folder, or module:callable")


def _trained(name: str, material: Material) -> Forecaster:
    """A registered model after the quick budget."""
    from fern.training import TrainConfig, train

    lengths = material.config
    model = build_model(
        name,
        context_length=lengths.context_length,
        horizon=lengths.horizon,
        channels=lengths.channels,
        generator=torch.Generator().manual_seed(SEED),
    )
    learnt = _thinned(material, material.train, TRAINING_WINDOWS)
    judged = _thinned(material, material.validation, VALIDATION_WINDOWS)
    train(model, learnt, judged, TrainConfig(epochs=EPOCHS, seed=SEED), progress="silent")
    return model


def _thinned(material: Material, part: Part, at_most: int) -> Windows:
    lengths = material.config
    stride = max(1, -(-len(part) // at_most))
    return Windows(
        material.rows, context_length=lengths.context_length, horizon=lengths.horizon, part=part, stride=stride
    )


def _require_fit(has: ModelConfig, needs: ModelConfig) -> None:
    for name in ("context_length", "horizon", "channels"):
        if getattr(has, name) != getattr(needs, name):
            raise FernError(f"the model's {name} is {getattr(has, name)}, the scenario needs {getattr(needs, name)}")


def _adapted(function: ForecastFunction, material: Material) -> Forecaster:
    """The function as a model, taking batches or single windows as it was said or as it turns out."""
    return _adapter(function, material, _form(function, material) if material.takes == "auto" else material.takes)


def _form(function: ForecastFunction, material: Material) -> Form:
    """The form in which a few windows give the right shape; one that does in both must give the same values."""
    # A probe of as many windows as the horizon has steps could have the right shape by accident.
    probe = material.contexts[: _PROBE + (material.horizon == _PROBE)]
    asked: dict[Form, Floats] = {"batch": probe, "window": probe[0]}
    fitting: dict[Form, Any] = {}
    troubles: dict[Form, str] = {}
    for form, context in asked.items():
        try:
            given = function(context.copy(), material.horizon)
            shape = tuple(np.shape(given))
        except Exception as error:  # noqa: BLE001  told when neither form will do
            troubles[form] = f"raised {type(error).__name__}: {error}"
            continue
        wanted = (*context.shape[:-2], material.horizon, context.shape[-1])
        if shape == wanted or (wanted[-1] == 1 and shape == wanted[:-1]):
            fitting[form] = given
        else:
            troubles[form] = f"gave shape {shape}, needs {wanted}"
    if len(fitting) == 2 and not _agree(fitting["batch"], fitting["window"]):
        raise FernError(
            "gives one answer for a batch (B, L, C) and another for its windows (L, C) one by one; "
            "say which it takes: batch or window"
        )
    if fitting:
        return "batch" if "batch" in fitting else "window"
    if len(set(troubles.values())) == 1:
        raise FernError(troubles["batch"])
    raise FernError(
        f"for a batch {probe.shape}: {troubles['batch']}; for a window {probe[0].shape}: {troubles['window']}"
    )


def _agree(batch: Any, window: Any) -> bool:
    """Whether a batch's first answer is that of its first window; other things than floats are not compared."""
    first, alone = (
        given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else np.asarray(given)
        for given in (batch[0], window)
    )
    if not all(np.issubdtype(values.dtype, np.floating) for values in (first, alone)):
        return True
    return bool(np.allclose(first.ravel(), alone.ravel(), rtol=1e-3, atol=1e-6, equal_nan=True))


def _adapter(function: ForecastFunction, material: Material, takes: Form) -> Forecaster:
    lengths = material.config
    return FunctionForecaster(
        function,
        context_length=lengths.context_length,
        horizon=lengths.horizon,
        channels=lengths.channels,
        takes=takes,
    )


def _as_seen_by(model: Forecaster, contexts: Floats) -> torch.Tensor:
    """Contexts in the type and on the device of the model's weights."""
    past = torch.from_numpy(contexts)
    own = next((p for p in model.parameters() if p.is_floating_point()), None)
    return past if own is None else past.to(own.device, own.dtype)


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


@contextmanager
def _evaluating(model: Forecaster) -> Iterator[None]:
    """The model in evaluation mode within the block."""
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)


def on_the_path(folder: str) -> None:
    """Have modules in a folder found first, as ``python -m`` does with the current one."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
