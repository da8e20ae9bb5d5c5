"""Fern as a model class of neuralforecast, and its joint distribution as a loss there. Needs the extra
``neuralforecast``.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from fern.extras import import_optional
from fern.metrics.probabilistic import gaussian_crps
from fern.models import FernConfig, build_model
from fern.models.fern_parts.normalisation import Normalisation
from fern.transport import Ellipsoid

import_optional("neuralforecast", extra="neuralforecast")  # without it, an error that names the extra

from neuralforecast import register_loss  # noqa: E402
from neuralforecast.common._base_model import BaseModel  # noqa: E402
from neuralforecast.core import MODEL_FILENAME_DICT  # noqa: E402
from neuralforecast.losses.pytorch import DistributionLoss  # noqa: E402

BASE_VARIANCE = FernConfig.noise
LEAST = 1e-30
"""Eigenvalues come from a distribution that has its floor already."""

WARMUP, LEAST_WARMUP = 0.1, 2.5
"""Share of the steps in which the learning rate rises, and their least number (torch divides by one less)."""


@dataclass(frozen=True)
class Point:
    """What a point loss of neuralforecast reads of a distribution."""

    mean: Tensor  # (B, h, 1)


class EllipsoidLoss(DistributionLoss):  # type: ignore[misc]  # the library has no types
    r"""Fern's joint distribution as a loss of neuralforecast: all steps of a patch together, trained by the whitened
    CRPS.

    neuralforecast's own distributions are independent over the steps. Here the steps of a patch are jointly Gaussian,
    N(μ, aA²) with A = UᵀΛU, and the loss is the mean CRPS of the coordinates U(y − μ) along the distribution's own axes
    (`fern.training.optimisation`). The 2 + R numbers of each step are its eigenvalue, its mean and its entries of the R
    reflection vectors. A patch with a step that is masked (missing, or beyond a series' end) does not count.

    Arguments:
        level: intervals that `predict` gives, in percent.
        quantiles: in place of levels.
        reflections: R.
        patch_size: p; a patch larger than the horizon becomes the horizon.
        num_samples: of joint paths, where neuralforecast asks for samples.

    Only `Fern` can be trained by it.
    """

    def __init__(
        self,
        level: tuple[int, ...] | list[int] = (80, 90),
        quantiles: list[float] | None = None,
        reflections: int = 8,
        patch_size: int = 24,
        num_samples: int = 1000,
    ) -> None:
        super().__init__("Normal", level=list(level), quantiles=quantiles, num_samples=num_samples)
        self.reflections, self.patch_size = reflections, patch_size
        self.distribution = "Ellipsoid"
        self.outputsize_multiplier = 2 + reflections
        self.scale_decouple = _in_units_of_y

    def _domain_map(self, input: Tensor) -> Tensor:  # noqa: A002  the library's name
        return input

    def ellipsoid(self, distr_args: Tensor) -> Ellipsoid:  # (B, h, 2 + R) -> batch (B,), event (h,)
        """The distribution that a network's numbers stand for."""
        horizon = distr_args.shape[1]
        size = min(self.patch_size, horizon)
        padded = pad(distr_args, (0, 0, 0, -horizon % size))
        numbers = padded.view(len(padded), -1, size, padded.shape[2])  # (B, g, p, 2 + R)
        return Ellipsoid(
            numbers[..., 0],
            None,
            numbers[..., 2:].transpose(-1, -2),
            offset=numbers[..., 1],
            base_variance=BASE_VARIANCE,
            horizon=horizon,
            eigenvalue_floor=LEAST,
            validate_args=False,
        )

    def get_distribution(self, distr_args: Tensor, **distribution_kwargs: Any) -> Point:
        """The mean, for point losses in validation."""
        return Point(self.ellipsoid(distr_args).mean.unsqueeze(-1))

    def sample(self, distr_args: Tensor, num_samples: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Joint paths (B, h, 1, S), and mean and quantiles in closed form."""
        distribution = self.ellipsoid(distr_args)
        paths = distribution.sample((num_samples or self.num_samples,)).permute(1, 2, 0)
        quantiles = distribution.icdf(self.quantiles.to(distr_args)[:, None, None]).permute(1, 2, 0)
        return paths.unsqueeze(2), distribution.mean[..., None, None], quantiles.unsqueeze(2)

    def __call__(self, y: Tensor, distr_args: Tensor, mask: Tensor | None = None) -> Tensor:
        """The mean whitened CRPS over the patches that are known whole."""
        distribution = self.ellipsoid(distr_args)
        weights = torch.ones_like(y) if mask is None else mask  # (B, h, 1)
        score = gaussian_crps(distribution.axis_coordinates(torch.nan_to_num(y[..., 0])), distribution.axis_stddev)
        horizon, size = weights.shape[1], distribution.patch_size
        patches = pad(weights[..., 0], (0, -horizon % size), value=torch.inf).view(len(weights), -1, size)
        whole = patches.amin(-1).repeat_interleave(size, dim=1)[:, :horizon]
        return (score * whole).sum() / whole.sum().clamp_min(torch.finfo(score.dtype).tiny)


def _in_units_of_y(output: Tensor, loc: Tensor | None = None, scale: Tensor | None = None, eps: float = 0.0) -> Tensor:
    """The distribution of scale·y + loc."""
    if loc is None or scale is None:
        return output
    eigenvalues, means, vectors = output.tensor_split((1, 2), dim=2)
    return torch.cat((eigenvalues * scale, means * scale + loc, vectors), dim=2)


class ColumnEffects(nn.Module):
    """What columns beside the target do to it, in units of the spread of a window's own past.

    The effect of known columns is a small convolution over time, the same for the past and the steps ahead: it is taken
    off the past that Fern sees, and added to the forecast. Past columns (their newest values and their means) and
    static ones add to the forecast alone. All begin without effect.

    Arguments:
        horizon: steps ahead.
        outputs: numbers of a step that a loss asks for.
        mean: whether these are values of the target; else the effect on each of them is learnt.
        futr: number of known columns; so too ``hist`` and ``stat``.
        hidden: width of the hidden layers.
        reach: steps before and after a step whose known columns have a part in its effect.
    """

    def __init__(
        self,
        *,
        horizon: int,
        outputs: int,
        mean: bool,
        futr: int,
        hist: int,
        stat: int,
        hidden: int = 32,
        reach: int = 3,
    ) -> None:
        super().__init__()
        self.horizon = horizon
        self.sizes = {"futr_exog": futr, "hist_exog": hist, "stat_exog": stat}
        for name, size in self.sizes.items():
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_spread", torch.ones(size))
        self.known = self.linear = self.own = None
        if futr:
            width = 2 * reach + 1
            self.linear = nn.Conv1d(futr, 1, width, padding=reach, bias=False)
            self.known = nn.Sequential(
                nn.Conv1d(futr, hidden, width, padding=reach), nn.ReLU(), nn.Conv1d(hidden, 1, 1, bias=False)
            )
            nn.init.zeros_(self.linear.weight)
            nn.init.zeros_(self.known[-1].weight)  # type: ignore[arg-type]
        if hist or stat:
            self.own = nn.Sequential(nn.Linear(2 * hist + stat, hidden), nn.ReLU(), nn.Linear(hidden, horizon))
            nn.init.zeros_(self.own[-1].weight)  # type: ignore[arg-type]
            nn.init.zeros_(self.own[-1].bias)  # type: ignore[arg-type]
        self.taken_off = mean
        self.gain = nn.Parameter(torch.full((outputs,), 1.0 if mean else 0.1), requires_grad=not mean)

    def prepare(self, batch: dict[str, Any]) -> None:
        """Take level and spread of each column from a batch of windows."""
        for name, size in self.sizes.items():
            if size:
                rows = batch[name].detach().reshape(-1, size)
                spread = rows.std(dim=0, correction=0)
                self.get_buffer(f"{name}_mean").copy_(rows.mean(dim=0))
                self.get_buffer(f"{name}_spread").copy_(torch.where(spread > 0, spread, torch.ones_like(spread)))

    def forward(self, past: Tensor, batch: dict[str, Any]) -> tuple[Tensor, Tensor]:  # (B, L, 1), (B, h, outputs)
        """The past (B, L, 1) without the effect of known columns, and what is added to the forecast."""
        unit = past.detach().std(dim=1, correction=0, keepdim=True)  # (B, 1, 1)
        unit = torch.where(unit > 0, unit, torch.ones_like(unit))
        ahead = past.new_zeros(len(past), self.horizon)
        if self.known is not None and self.linear is not None:
            columns = self._standardise("futr_exog", batch).transpose(1, 2)
            effect = (self.linear(columns) + self.known(columns))[:, 0]  # (B, L + h)
            ahead = ahead + effect[:, -self.horizon :]
            if self.taken_off:
                past = past - unit * effect[:, : past.shape[1], None]
        if self.own is not None:
            parts = []
            if self.sizes["hist_exog"]:
                columns = self._standardise("hist_exog", batch)
                parts += [columns[:, -1], columns.mean(dim=1)]
            if self.sizes["stat_exog"]:
                parts.append(self._standardise("stat_exog", batch))
            ahead = ahead + self.own(torch.cat(parts, dim=1))
        return past, unit * ahead[..., None] * self.gain

    def _standardise(self, name: str, batch: dict[str, Any]) -> Tensor:
        columns: Tensor = batch[name]
        mean, spread = self.get_buffer(f"{name}_mean"), self.get_buffer(f"{name}_spread")
        return (columns - mean) / spread


class Fern(BaseModel):  # type: ignore[misc]  # the library has no types
    """Fern for ``NeuralForecast(models=[Fern(h=…, input_size=…)])``: fit, predict, cross-validation, save and load.

    Arguments:
        h: the horizon.
        input_size: rows seen.
        hidden: width of the features, as `fern.models.FernConfig` has it; so too the next three.
        latent: size of z.
        layers: coupling layers.
        activation: of the features.
        normalise: what is taken off each context and given back: ``last``, ``instance`` or ``none``. With
            neuralforecast's distribution losses nothing is taken off here; its scaler does it.
        skip: ``linear`` adds a linear map of the context, ``none`` does not.
        loss: any loss of neuralforecast. `EllipsoidLoss` (the default) trains the joint distribution; others train
            Fern's mean, or as many outputs a step as they ask for.
        scaler_type: neuralforecast's scaler; ``identity`` for `EllipsoidLoss`, whose score has the unit of the
            distribution, and ``standard`` for all other losses unless given.
        training_data_availability_threshold: 1.0 learns from whole windows alone, as `fern.FernForecaster` does.
        learning_rate: the highest of one cycle, unless a scheduler is given.

    The other arguments are neuralforecast's own; columns of ``futr_exog_list``, ``hist_exog_list`` and
    ``stat_exog_list`` enter by `ColumnEffects`. Intervals are the distribution's as trained, not calibrated: for that,
    `fern.FernForecaster`, or ``prediction_intervals`` of neuralforecast with a point loss.

    Example:
        >>> from neuralforecast import NeuralForecast
        >>> from neuralforecast.utils import AirPassengersPanel
        >>> quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
        >>> forecasts = NeuralForecast([Fern(h=12, input_size=24, max_steps=1, **quiet)], freq="ME")
        >>> forecasts.fit(AirPassengersPanel)
        >>> forecasts.predict().columns.tolist()[:3]
        ['unique_id', 'ds', 'Fern']
    """

    EXOGENOUS_FUTR = True
    EXOGENOUS_HIST = True
    EXOGENOUS_STAT = True
    MULTIVARIATE = False
    RECURRENT = False

    def __init__(
        self,
        h: int,
        input_size: int,
        stat_exog_list: list[str] | None = None,
        hist_exog_list: list[str] | None = None,
        futr_exog_list: list[str] | None = None,
        exclude_insample_y: bool = False,
        hidden: int = 128,
        latent: int = 96,
        layers: int = 5,
        activation: str = "relu",
        normalise: Normalisation = "last",
        skip: Literal["none", "linear"] = "linear",
        loss: Any = None,
        valid_loss: Any = None,
        max_steps: int = 1000,
        learning_rate: float = 2e-3,
        num_lr_decays: int = -1,
        early_stop_patience_steps: int = -1,
        val_monitor: str = "ptl/val_loss",
        val_check_steps: int = 100,
        batch_size: int = 32,
        valid_batch_size: int | None = None,
        windows_batch_size: int = 256,
        inference_windows_batch_size: int = 1024,
        start_padding_enabled: bool = False,
        training_data_availability_threshold: float | list[float] = 1.0,
        step_size: int = 1,
        scaler_type: str | None = None,
        random_seed: int = 1,
        drop_last_loader: bool = False,
        alias: str | None = None,
        optimizer: Any = None,
        optimizer_kwargs: dict[str, Any] | None = None,
        lr_scheduler: Any = None,
        lr_scheduler_kwargs: dict[str, Any] | None = None,
        dataloader_kwargs: dict[str, Any] | None = None,
        **trainer_kwargs: Any,
    ) -> None:
        loss = EllipsoidLoss() if loss is None else loss
        joint = isinstance(loss, EllipsoidLoss)
        if lr_scheduler is None and num_lr_decays < 1:
            lr_scheduler = torch.optim.lr_scheduler.OneCycleLR
            steps = max_steps + 1
            warmup = min(0.9, max(WARMUP, LEAST_WARMUP / steps))
            lr_scheduler_kwargs = {"max_lr": learning_rate, "total_steps": steps, "pct_start": warmup}
        super().__init__(
            h=h,
            input_size=input_size,
            stat_exog_list=stat_exog_list,
            hist_exog_list=hist_exog_list,
            futr_exog_list=futr_exog_list,
            exclude_insample_y=exclude_insample_y,
            loss=loss,
            valid_loss=valid_loss,
            max_steps=max_steps,
            learning_rate=learning_rate,
            num_lr_decays=num_lr_decays,
            early_stop_patience_steps=early_stop_patience_steps,
            val_monitor=val_monitor,
            val_check_steps=val_check_steps,
            batch_size=batch_size,
            valid_batch_size=valid_batch_size,
            windows_batch_size=windows_batch_size,
            inference_windows_batch_size=inference_windows_batch_size,
            start_padding_enabled=start_padding_enabled,
            training_data_availability_threshold=training_data_availability_threshold,
            step_size=step_size,
            scaler_type=scaler_type or ("identity" if joint else "standard"),
            random_seed=random_seed,
            drop_last_loader=drop_last_loader,
            alias=alias,
            optimizer=optimizer,
            optimizer_kwargs=optimizer_kwargs,
            lr_scheduler=lr_scheduler,
            lr_scheduler_kwargs=lr_scheduler_kwargs,
            dataloader_kwargs=dataloader_kwargs,
            **{"gradient_clip_val": 1.0, **trainer_kwargs},
        )
        # Numbers a step, beside those of the distribution.
        self.outputs = 1 if joint else self.loss.outputsize_multiplier
        self.fern = build_model(
            "fern",
            context_length=self.input_size,
            horizon=h * self.outputs,
            channels=1,
            mean="direct",
            hidden=hidden,
            latent=latent,
            layers=layers,
            activation=activation,
            normalise=normalise if joint or not loss.is_distribution_output else "none",
            skip=skip,
            # Only a loss of the distribution reads its axes.
            reflections=self.loss.reflections if joint else 0,
            patch_size=self.loss.patch_size if joint else h,
        )
        sizes = {"futr": self.futr_exog_size, "hist": self.hist_exog_size, "stat": self.stat_exog_size}
        self.effects: ColumnEffects | None = None
        if any(sizes.values()):
            self.effects = ColumnEffects(
                horizon=h, outputs=self.outputs, mean=not loss.is_distribution_output or joint, **sizes
            )
        self._prepared = False

    def forward(self, windows_batch: dict[str, Any]) -> Tensor:  # (B, h, outputs of the loss)
        """The distribution's numbers for `EllipsoidLoss`, for other losses the mean of Fern's distribution."""
        past = windows_batch["insample_y"]  # (B, L, 1)
        first = self.training and not self._prepared
        added = None
        if self.effects is not None:
            if first:
                self.effects.prepare(windows_batch)
            past, added = self.effects(past, windows_batch)
        if first:
            self.fern.prepare([(past.detach(), past.detach())])
            self._prepared = True
        distribution = self.fern(past).ellipsoid
        assert distribution is not None  # Fern has one always
        if isinstance(self.loss, EllipsoidLoss):
            numbers = _numbers(distribution, reflections=self.loss.reflections)
            return numbers if added is None else numbers + pad(added, (1, self.loss.reflections))
        mean: Tensor = distribution.mean.view(len(past), self.outputs, -1).transpose(1, 2)
        return mean if added is None else mean + added


def _numbers(distribution: Ellipsoid, *, reflections: int) -> Tensor:  # batch (B, 1) -> (B, h, 2 + R)
    assert distribution.offset is not None
    vectors = pad(distribution.reflections[:, 0], (0, 0, 0, reflections - distribution.reflections.shape[-2]))
    scalars = torch.stack((distribution.eigenvalues[:, 0], distribution.offset[:, 0]), dim=2)
    numbers = torch.cat((scalars, vectors), dim=2)
    return numbers.transpose(2, 3).flatten(1, 2)[:, : distribution.horizon]  # (B, g, 2 + R, p) -> (B, h, 2 + R)


# neuralforecast saves and loads what stands in these registries alone.
MODEL_FILENAME_DICT.setdefault("fern", Fern)
register_loss(EllipsoidLoss)
