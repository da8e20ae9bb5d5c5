"""The contract of every forecaster, and the words it is written in.

Glossary (one concept, one name, everywhere in `fern.models`):

==================  ======  ==========================================================================
word                symbol  meaning
==================  ======  ==========================================================================
``batch``           B       windows handled together; they never influence each other
``context_length``  L       time steps a model sees
``horizon``         H       time steps a model forecasts
``channels``        C       variables of the series
``past``                    what is seen, ``(B, L, C)``
``future``                  what is forecast, ``(B, H, C)``
``patch_size``      p       consecutive time steps that are handled as one vector
``patches``         g       ceil(H / p)
``reflections``     R       Householder reflections in each patch's rotation
``samples``         S       joint paths drawn from the forecast distribution, ``(S, B, H, C)``
``rows``            N       B·C, the series of a batch when each channel is treated on its own
==================  ======  ==========================================================================

Arrays at every public boundary are ``(batch, time, channels)``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, ClassVar, Literal

import torch
from torch import Generator, Tensor, nn

from fern.errors import FernError, is_number, require_whole
from fern.models.layers import draw_from
from fern.settings import STRICT
from fern.transport import Ellipsoid
from fern.transport._checks import has_values

ChannelsSeen = Literal["own", "all"]
"""A setting of some models: whether a channel is forecast from its own context alone, or from that of all channels."""

Sees = Literal["own", "near", "all"]
"""What the forecast of a channel is made from: the context of that channel alone; that of all channels on a ring, by
one map of a channel's neighbours; or that of all channels."""

LARGE = 1e9
"""Values in a context from which a forecast that is not finite is taken for their fault, and not the weights'."""


MOST: Mapping[str, float] = {
    "layers": 1000,
    "decoder_layers": 1000,
    "blocks": 1000,
    "down_samplings": 64,
    "degree": 100,
    "noise": 1e6,
    "head_spread": 1e6,
}
"""The largest values of settings that some models have. Beyond, a model takes hours to build or computes no number."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The settings every model has. A model's own config inherits from it and adds its settings.

    Example:
        >>> ModelConfig(context_length=336, horizon=0, channels=3)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: horizon: got 0, needs a whole number of at least 1
    """

    __pydantic_config__ = STRICT

    context_length: int
    horizon: int
    channels: int
    _sees: ClassVar[Sees] = "own"

    def __post_init__(self) -> None:
        for name in ("context_length", "horizon", "channels"):
            require_whole(name, getattr(self, name), 1)
        for name, most in MOST.items():
            value = getattr(self, name, None)
            if is_number(value) and value > most:
                raise FernError(argument=name, got=value, expected=f"at most {most:,g}")

    @property
    def sees(self) -> Sees:
        """What the forecast of a channel is made from; part of every claim that compares models."""
        return self._sees


@dataclass(frozen=True)
class Forecast:
    """What a model says about the future of each window.

    ``mean``       ``(B, H, C)``, the point forecast. In training mode it is what a point loss must see: a model that
                   trains with noise (Fern) puts one transported draw there, as dropout would.
    ``ellipsoid``  the distribution, with batch shape ``(B, C)`` and event shape ``(H,)``; None for models without one.
    ``samples``    ``(S, B, H, C)``, the requested sample paths; None without a request.
    """

    mean: Tensor
    ellipsoid: Ellipsoid | None = None
    samples: Tensor | None = None

    @property
    def stddev(self) -> Tensor:  # (B, H, C)
        """The standard deviation of each time step: the ellipsoid's, or that of the samples."""
        if self.ellipsoid is not None:
            return self.ellipsoid.stddev.transpose(-1, -2)
        return self._require_samples("stddev").std(dim=0)

    def quantile(self, quantiles: Sequence[float]) -> Tensor:  # (Q, B, H, C)
        """The marginal quantiles of each time step: the ellipsoid's, or those of the samples.

        Example:
            >>> drawn = torch.arange(5.0).reshape(5, 1, 1, 1)
            >>> Forecast(mean=drawn.mean(0), samples=drawn).quantile([0.25, 0.5]).flatten()
            tensor([1., 2.])
        """
        if not all(0.0 < quantile < 1.0 for quantile in quantiles):
            raise FernError(argument="quantiles", got=list(quantiles), expected="numbers between 0 and 1")
        levels = torch.tensor(quantiles, dtype=self.mean.dtype, device=self.mean.device)
        if self.ellipsoid is not None:
            return self.ellipsoid.icdf(levels[:, None, None, None]).transpose(-1, -2)
        return torch.quantile(self._require_samples("quantile"), levels, dim=0)

    def _require_samples(self, purpose: str) -> Tensor:
        if self.samples is None:
            raise FernError("this forecast has neither an ellipsoid nor samples, only a mean", argument=purpose)
        return self.samples


Criterion = Callable[[Forecast, Tensor], Tensor]
"""A loss: the forecast of a batch and its future ``(B, H, C)`` to a scalar.

One with an attribute ``distribution_alone`` that is true reads the distribution of the forecast and never its
``mean``, so that a model that draws its mean in training need not draw it.
"""


class Forecaster(nn.Module, ABC):
    """A model that forecasts windows: ``model(past) -> Forecast``.

    A model with a distribution of its own implements `forecast`; one that only predicts a point inherits from
    `PointForecaster`. Three further hooks have defaults that suit most models:

    - `prepare`: statistics of the training windows that are not learnt by gradient (Koopa's spectrum, a mean);
    - `loss`: what one training step minimises (PFNN brings its own);
    - ``initialise_parameters(generator)`` on any part with parameters of its own, see `fern.models.registry`.

    Randomness comes from the ``generator`` that is passed, or from torch's default generator when none is. That
    holds for dropout too, provided it is `fern.models.layers.Dropout`.
    """

    has_distribution: ClassVar[bool] = False
    """Whether the model can draw samples."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    @property
    def trainable(self) -> bool:
        """Whether there is anything to learn by gradient."""
        return any(parameter.requires_grad for parameter in self.parameters())

    @property
    def chooses(self) -> bool:
        """Whether validation windows decide anything about it: the weights that are kept, or open settings."""
        return self.trainable

    def forward(
        self,
        past: Tensor,  # (B, L, C)
        *,
        samples: int = 0,
        generator: Generator | None = None,
    ) -> Forecast:
        """Forecast each window; ``samples`` asks for that many joint paths beside the mean."""
        self._check_past(past)
        require_whole("samples", samples, 0)
        if samples and not self.has_distribution:
            problem = f"got {samples}, but {type(self).__name__} has no distribution to draw from; needs 0"
            raise FernError(problem, argument="samples")
        with draw_from(self, generator):
            try:
                forecast = self.forecast(past, samples=samples, generator=generator)
            except FernError:  # a distribution that is none
                if not self.training:
                    self._refuse_if_large(past)
                raise
        if not self.training and not _all_finite(forecast.mean):
            self._refuse_if_large(past)
        return forecast

    @abstractmethod
    def forecast(
        self,
        past: Tensor,  # (B, L, C), checked
        *,
        samples: int,
        generator: Generator | None,
    ) -> Forecast:
        """The model itself. Called by `forward`, which has checked the arguments."""

    def prepare(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Look once at the training windows, as ``(past, future)`` batches, before the first training step.

        What is learnt here belongs in buffers, so that it is saved with the weights. The default needs nothing.
        """

    def make_room(self, shapes: Mapping[str, torch.Size]) -> None:
        """Take the sizes of saved tensors, by name, where the model's own depend on its data; by default none do.

        Called before weights are filled in. Sizes that cannot be the model's are left alone and refused there.
        """

    def loss(
        self,
        past: Tensor,  # (B, L, C)
        future: Tensor,  # (B, H, C)
        criterion: Criterion,
        *,
        generator: Generator | None = None,
    ) -> Tensor:
        """What a training step minimises for one batch: by default the criterion on the forecast.

        Example:
            >>> from fern.models import build_model
            >>> model = build_model("last-value", context_length=4, horizon=2, channels=1)
            >>> past, future = torch.ones(3, 4, 1), torch.zeros(3, 2, 1)
            >>> model.loss(past, future, lambda forecast, future: (forecast.mean - future).square().mean())
            tensor(1.)
        """
        self.check_future(past, future)
        return criterion(self(past, generator=generator), future)

    def check_future(self, past: Tensor, future: Tensor) -> None:
        """Refuse a future that does not belong to ``past`` under this model's horizon."""
        shape = (past.shape[0], self.config.horizon, self.config.channels)
        if tuple(future.shape) != shape:
            raise FernError(f"got shape {tuple(future.shape)}", argument="future", expected=shape)

    def _check_past(self, past: Tensor) -> None:
        length, channels = self.config.context_length, self.config.channels
        needs = f"needs a floating-point tensor (batch, {length}, {channels})"
        if not isinstance(past, Tensor):
            raise FernError(f"got {type(past).__name__}, {needs}", argument="past")
        if past.ndim != 3:
            raise FernError(f"got {past.ndim} dimensions, shape {tuple(past.shape)}; {needs}", argument="past")
        if past.shape[1] != length:
            raise FernError(f"got {past.shape[1]} time steps, context_length is {length}; {needs}", argument="past")
        if past.shape[2] != channels:
            raise FernError(f"got {past.shape[2]} channels, the model has {channels}; {needs}", argument="past")
        if past.shape[0] == 0:
            raise FernError(f"got an empty batch; {needs}", argument="past")
        if not past.is_floating_point():
            raise FernError(f"got {past.dtype}; {needs}", argument="past")
        weight = next((p for p in self.parameters() if p.is_floating_point()), None)
        if weight is not None and weight.dtype != past.dtype:
            raise FernError(
                f"got {past.dtype}, the model's weights are {weight.dtype}; needs the same", argument="past"
            )
        if weight is not None and weight.device != past.device:
            raise FernError(
                f"got device {past.device}, the model is on {weight.device}; needs the same", argument="past"
            )
        require_finite("past", past)

    def _refuse_if_large(self, past: Tensor) -> None:
        """Of a forecast that is not finite: the fault of contexts whose squares and products leave their type."""
        largest = float(past.detach().abs().max())
        if largest > LARGE:
            kind = str(past.dtype).removeprefix("torch.")
            raise FernError(
                f"its values reach {largest:.3g}, which {type(self).__name__} cannot compute with in {kind}: the "
                "forecast is not finite; scale them first",
                argument="past",
            )


class PointForecaster(Forecaster):
    """A forecaster without a distribution: it implements `predict`."""

    @abstractmethod
    def predict(self, past: Tensor) -> Tensor:  # (B, L, C) -> (B, H, C)
        """The point forecast."""

    def forecast(self, past: Tensor, *, samples: int, generator: Generator | None) -> Forecast:
        """`predict` as a `Forecast`; there is nothing to draw."""
        return Forecast(mean=self.predict(past))


def _all_finite(values: Tensor) -> bool:
    """Whether there is no NaN or inf. One sum tells in the usual case."""
    plain = values.detach()
    return not has_values(plain) or isfinite(plain.sum().item()) or bool(torch.isfinite(plain).all())


def require_finite(name: str, values: Tensor) -> None:  # (B, T, C)
    """Refuse NaN and inf. One sum tells in the usual case; only a sum that is not finite is looked into."""
    if not has_values(values) or isfinite(values.detach().sum().item()):
        return
    bad = ~torch.isfinite(values.detach())
    if bool(bad.any()):  # false where finite numbers merely overflowed the sum
        window, step, channel = (int(i) for i in bad.nonzero()[0])
        value = float(values[window, step, channel])
        place = f"window {window}, time step {step}, channel {channel} ({int(bad.sum())} such values)"
        raise FernError(f"got {value} at {place}; needs finite numbers", argument=name)


JUDGED = 128
"""Validation windows on which settings are chosen; `fern.training.train` spreads them evenly over all there are."""


class FittedForecaster(PointForecaster):
    """A forecaster that learns from rows, in one go, and chooses its open settings on validation windows.

    A model of this kind implements `fit_rows` and `predict` and names in ``open_settings`` those settings of its config
    that are None until validation has chosen them. `fern.training.train` calls `fit` where other models are trained, so
    benchmark, stress tests and `FernForecaster` treat it as they treat any model.

    What is fitted belongs in buffers. A choice belongs in the config: after `fit` it has no open setting left, so that
    a file of the model tells what was chosen, and a model built with those settings fits without choosing.
    """

    open_settings: tuple[str, ...] = ()

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self._asked = config

    @property
    def chooses(self) -> bool:
        """True: open settings are chosen on all of the validation windows, without a gradient."""
        return True

    def fit(
        self,
        stretches: Sequence[Tensor],  # each (T_i, C): unbroken rows, oldest first
        past: Tensor,  # (n, L, C), of validation windows
        future: Tensor,  # (n, H, C)
    ) -> None:
        """Learn from the rows; what the settings leave open is chosen by the MSE on the validation windows.

        Rows of the windows' futures must not be among the stretches: a model that has seen them by heart would choose
        to repeat them.

        Example:
            >>> from fern.models import build_model
            >>> rows = torch.sin(torch.arange(400.0) / 5)[:, None]
            >>> model = build_model("analog", context_length=40, horizon=20, channels=1)
            >>> model.fit([rows[:300]], rows[None, 300:340], rows[None, 340:360])
            >>> bool((model(rows[None, 330:370]).mean - rows[None, 370:390]).abs().max() < 0.2)
            True
        """
        self._check_past(past)
        self.check_future(past, future)
        require_finite("future", future)
        for place, rows in enumerate(stretches):
            if rows.ndim != 2 or rows.shape[1] != self.config.channels or not bool(torch.isfinite(rows).all()):
                expected = f"(time, {self.config.channels}) of finite numbers"
                problem = f"entry {place} has shape {tuple(rows.shape)}"
                raise FernError(problem, argument="stretches", expected=expected)
        longest, needed = max((len(rows) for rows in stretches), default=0), self.config.horizon + 1
        if longest < needed:
            expected = f"at least {needed} (the horizon and one)"
            raise FernError(f"the longest has {longest} rows", argument="stretches", expected=expected)
        self.config = self._asked
        with torch.no_grad():
            chosen = self.fit_rows(stretches, past, future)
        self.config = replace(self._asked, **chosen)

    @abstractmethod
    def fit_rows(self, stretches: Sequence[Tensor], past: Tensor, future: Tensor) -> dict[str, Any]:
        """Fill the buffers and give the chosen ``open_settings``; called by `fit`, which has checked the arguments."""

    @property
    def chosen(self) -> dict[str, Any]:
        """The open settings as they are now: None where nothing was chosen yet."""
        return {name: getattr(self.config, name) for name in self.open_settings}

    def require_fitted(self, buffer: Tensor) -> None:
        """Refuse to forecast while a buffer that `fit_rows` fills is empty or not a number."""
        if buffer.numel() == 0 or (has_values(buffer) and bool(buffer.isnan().any())):
            problem = f"{type(self).__name__} is not fitted yet; train it, or call fit(rows, past, future)"
            raise FernError(problem, argument="model")


PATCH_SIZE = 24
"""Steps whose errors are handled together where the model has no patches of its own."""


def distribution_of(
    model: Forecaster,
    past: Tensor,  # (N, L, C)
) -> Ellipsoid:  # batch (N, C), event (H,)
    """The forecast distribution of a model in evaluation mode.

    A model without a distribution gives N(forecast, I): its residuals on held-out windows then decide scale and shape.

    Example:
        >>> from fern.models import build_model
        >>> model = build_model("last-value", context_length=8, horizon=4, channels=2)
        >>> distribution_of(model, torch.ones(3, 8, 2)).mean.shape
        torch.Size([3, 2, 4])
    """
    with torch.no_grad():
        forecast: Forecast = model(past)
        return around(forecast.mean) if forecast.ellipsoid is None else forecast.ellipsoid


def around(
    mean: Tensor,  # (N, H, C)
) -> Ellipsoid:
    """The distribution N(mean, I), in patches."""
    windows, horizon, channels = mean.shape
    size = min(PATCH_SIZE, horizon)
    patches = -(-horizon // size)
    middle = mean.new_zeros(windows, channels, patches * size)
    middle[..., :horizon] = mean.transpose(1, 2)
    shape = (windows, channels, patches, size)
    return Ellipsoid(
        mean.new_ones(shape),
        mean.new_zeros(shape),
        mean.new_zeros(windows, channels, patches, 0, size),
        offset=middle.view(shape),
        base_variance=1.0,
        horizon=horizon,
        validate_args=False,
    )
