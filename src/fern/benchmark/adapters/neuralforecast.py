"""neuralforecast models as forecasters. Needs the extra ``neuralforecast``."""

import inspect
import logging
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from fern.errors import FernError, unknown_name
from fern.extras import describe_kind, import_optional
from fern.models.base import Forecast, ModelConfig, PointForecaster

EXTRA = "neuralforecast"

NEEDED = ("h", "input_size", "loss", "scaler", "MULTIVARIATE", "RECURRENT", "futr_exog_list")
"""What tells a neuralforecast model from another module, and what is used of it."""


class NeuralForecastForecaster(PointForecaster):
    """A neuralforecast model under the contract of every model: our windows, our training loop, its architecture.

    ``model``  a model with a point loss and without exogenous variables: fresh, or fitted by neuralforecast. Its
               ``input_size`` is the context length and its ``h`` the horizon.

    A univariate model forecasts each channel on its own with shared weights; a multivariate one takes the channels
    together (``n_series`` must be their number). The model's own scaler (``scaler_type``) is applied as neuralforecast
    does. Its trainer, its loss and its optimiser are not used. Its dropout draws from the generator that is passed.
    Train it with ``TrainConfig(start="given")``: it brings its starting weights.

    Models that forecast recursively (DeepAR; RNNs with ``recurrent=True``) are refused: here a forward pass gives the
    whole horizon. Some architectures look at a batch as a whole (Informer, StemGNN, TimesNet), so that their forecast
    of a window depends on its neighbours; that is theirs. To save a model, use neuralforecast's own ``save``.

    Example:
        >>> from neuralforecast.models import NHITS  # doctest: +SKIP
        >>> model = NeuralForecastForecaster(NHITS(h=24, input_size=96), channels=3)  # doctest: +SKIP
    """

    model: Any  # the library has no types

    def __init__(self, model: Any, *, channels: int) -> None:
        import_optional("neuralforecast", extra=EXTRA)
        known = isinstance(model, nn.Module) and all(hasattr(model, name) for name in NEEDED)
        if not known:
            expected = "a neuralforecast model such as NHITS(h=24, input_size=96)"
            raise FernError(f"got {describe_kind(model)}", argument="model", expected=expected)
        name = type(model).__name__
        exogenous = [*model.futr_exog_list, *model.hist_exog_list, *model.stat_exog_list]
        refusals = (
            (model.RECURRENT, ", which forecasts recursively", "one that gives the horizon at once"),
            (exogenous, f" with the exogenous variables {exogenous}", "one without"),
            (
                getattr(model.loss, "outputsize_multiplier", 1) != 1,
                f" with the loss {model.loss}",
                "a point loss such as MAE() or MSE()",
            ),
        )
        for wrong, trait, expected in refusals:
            if wrong:
                raise FernError(f"got {name}{trait}", argument="model", expected=expected)
        if model.MULTIVARIATE and model.n_series != channels:
            problem = f"got {channels}, but {name} was made with n_series={model.n_series}; needs the same"
            raise FernError(problem, argument="channels")
        super().__init__(ModelConfig(context_length=model.input_size, horizon=model.h, channels=channels))
        self.model = model

    def forecast(self, past: Tensor, *, samples: int, generator: Generator | None) -> Forecast:
        """`predict`. The model's own randomness comes from the generator in training, and is fixed in evaluation."""
        seed = 0
        if self.training:
            if generator is None:
                return super().forecast(past, samples=samples, generator=generator)
            seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
        with torch.random.fork_rng(devices=[past.device] if past.is_cuda else []):
            torch.manual_seed(seed)
            return super().forecast(past, samples=samples, generator=generator)

    def predict(self, past: Tensor) -> Tensor:
        """The model's forward pass between its scaler and the scaler's inverse."""
        batch, length, channels = past.shape
        together = channels if self.model.MULTIVARIATE else 1
        series = past if self.model.MULTIVARIATE else past.transpose(1, 2).reshape(batch * channels, length, 1)
        scaler, seen = self.model.scaler, torch.ones_like(series)
        # The scaler's tensors are (window, time, variable, series), with one variable here.
        scaled = scaler.transform(x=series[:, :, None], mask=seen[:, :, None])[:, :, 0]
        inputs = {"insample_y": scaled, "insample_mask": seen, "futr_exog": None, "hist_exog": None, "stat_exog": None}
        output: Tensor = self.model(inputs)
        shape = (series.shape[0], self.config.horizon, together)
        if output.numel() != series.shape[0] * self.config.horizon * together:
            raise FernError(f"returned shape {tuple(output.shape)}", argument=type(self.model).__name__, expected=shape)
        forecast: Tensor = scaler.inverse_transform(
            z=output.reshape(shape), x_shift=scaler.x_shift[:, :, 0], x_scale=scaler.x_scale[:, :, 0]
        )
        if self.model.MULTIVARIATE:
            return forecast
        return forecast.reshape(batch, channels, -1).transpose(1, 2)


def neuralforecast_model(
    kind: Any,
    *,
    context_length: int,
    horizon: int,
    channels: int,
    settings: Mapping[str, Any],
) -> NeuralForecastForecaster:
    """A new model of a neuralforecast class, for instance ``NHITS`` or ``iTransformer``.

    ``settings`` are those of the class; a misspelt one is an error, where neuralforecast would hand it to its trainer.
    The seed of the starting values is drawn from torch's generator; Python's and NumPy's state is left as it was.
    """
    name = kind.__name__
    known = [parameter for parameter in inspect.signature(kind).parameters if not parameter.endswith("kwargs")]
    for setting in settings:
        if setting not in known:
            raise FernError(f"{unknown_name('setting', setting, known)}", argument=name)
    sizes = {"h": horizon, "input_size": context_length}
    if kind.MULTIVARIATE:
        sizes["n_series"] = channels
    for setting in sorted(sizes.keys() & settings.keys()):
        raise FernError(f"the setting {setting!r} follows from context_length, horizon and channels", argument=name)
    ModelConfig(context_length=context_length, horizon=horizon, channels=channels)  # refuses impossible sizes
    seed = int(torch.randint(2**32, ()))
    with _random_state_kept():
        try:
            model = kind(**sizes, random_seed=seed, **{"max_steps": 1, "logger": False, **settings})
        except Exception as error:
            raise FernError(f"cannot be built with {dict(settings)}: {error}", argument=name) from error
    return NeuralForecastForecaster(model, channels=channels)


@contextmanager
def _random_state_kept() -> Iterator[None]:
    """The constructor seeds Python, NumPy and torch for the whole process, and says so: both are undone."""
    seeding = logging.getLogger("lightning_fabric.utilities.seed")
    level = seeding.level
    seeding.setLevel(logging.WARNING)
    plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002 - kept, not drawn from
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        seeding.setLevel(level)
        random.setstate(plain)
        np.random.set_state(arrays)  # noqa: NPY002
