"""Fern rolled on: the flow map of one patch of all channels, applied again and again over the horizon."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import get_args

import torch
from torch import Generator, Tensor

from fern.errors import FernError, require_choice, require_number, require_whole
from fern.models.base import Criterion, Forecast, Forecaster, ModelConfig, Sees, require_finite
from fern.models.fern import Fern, FernConfig
from fern.models.fern_parts.flow import LEAST_UNIT, Earlier, PolynomialFlow
from fern.models.polynomial import Layout, Ring
from fern.models.registry import register_model
from fern.transport import Ellipsoid
from fern.transport._checks import has_values

REACH = 8
"""Neighbours on either side that a channel of a ring is forecast from, unless another number is asked for."""

CARRIED = (1.0, 0.5, 0.25, 0.125, 0.0625, 0.0)
"""Shares of what a patch misses by that a particle may roll on from; the rest counts as noise of observation."""

MOST_JUDGED, JUDGING_PARTICLES = 128, 32
"""Windows and particles by which the share is chosen."""


@dataclass(frozen=True, kw_only=True)
class RolledFernConfig(ModelConfig):
    """The settings of `RolledFern`.

    ``seen``     rows of all channels that a patch is forecast from, the newest of the context; at most
                 ``context_length``.
    ``step``     rows of a patch: what is forecast at once and then rolled on from. Longer than the horizon, it is cut.
    ``unroll``   patches that the training loss looks at, each from the forecast of the one before.
    ``margin``   share of the range of the contexts of the training windows by which values may leave it; beyond they
                 are held before the roll goes on from them: one that leaves the attractor does not overflow. Rows that
                 are in futures alone, the last of the training part, do not widen the range.
    ``degree``   of the polynomial in the newest row that is fitted to the patch by least squares before training, with
                 linear terms of the earlier rows where they pay; the network learns what it leaves. 0: a constant. Cut
                 where it would have too many terms for the windows, or more than 512: to degree 2, and of more than 30
                 channels to that of the 30 leading principal components (`fern.models.fern_parts.flow`).
    ``earlier``  ``chosen``: those linear terms are taken where the flow without the network then rolls clearly better
                 over training windows. ``none``: never; under much noise the network may find more by itself.
    ``layout``   ``free``: each channel in its own right, forecast from all. ``ring``: points of a ring and alike
                 everywhere, as those of a field in space; one map for all, of a channel's neighbours.
    ``reach``    neighbours on either side, on a ring; None: 8. Of so many the polynomial has degree 2.
    ``hidden``, ``latent``, ``layers``, ``reflections``, ``noise``, ``activation``, ``head_spread``  as in `FernConfig`.
                 A network that starts near the identity is nearly linear, and what the polynomial leaves is orthogonal
                 to that: heads at their full spread find it sooner (`python -m benchmarks.rivals.rolled`).
    """

    seen: int = 8
    step: int = 4
    unroll: int = 2
    margin: float = 0.1
    degree: int = 3
    earlier: Earlier = "chosen"
    layout: Layout = "free"
    reach: int | None = None
    hidden: int = 128
    latent: int = 32
    layers: int = 5
    reflections: int = 2
    noise: float = 1e-6
    activation: str = "silu"
    head_spread: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("seen", "step", "unroll"):
            require_whole(name, getattr(self, name), 1)
        require_whole("degree", self.degree, 0)
        if self.reach is not None:
            require_whole("reach", self.reach, 0)
            if self.layout != "ring":
                raise FernError(argument="reach", got=self.reach, expected="layout 'ring': other channels have none")
        for name, kind in (("earlier", Earlier), ("layout", Layout)):
            require_choice(name, getattr(self, name), get_args(kind))
        require_number("margin", self.margin, "a share of the range, at least 0", lambda value: value >= 0)
        self.patch()  # checks the rest

    @property
    def sees(self) -> Sees:
        """All channels, because a state belongs together, or those within reach."""
        return "all" if self.layout == "free" else "near"

    @property
    def ring(self) -> Ring | None:
        """The channels and their neighbours, where they lie on a ring."""
        return None if self.layout == "free" else Ring(self.channels, REACH if self.reach is None else self.reach)

    @property
    def rows_seen(self) -> int:
        """``seen``, cut to the context."""
        return min(self.seen, self.context_length)

    @property
    def rows_made(self) -> int:
        """``step``, cut to the horizon."""
        return min(self.step, self.horizon)

    def patch(self) -> FernConfig:
        """The settings of the model of one patch; on a ring the rows of all neighbours are a channel's context."""
        ring = self.ring
        same = ("channels", "reflections", "hidden", "latent", "layers", "noise", "activation", "head_spread")
        return FernConfig(
            context_length=self.rows_seen * (1 if ring is None else ring.width),
            horizon=self.rows_made,
            patch_size=None,
            channels_seen="all" if ring is None else "own",
            **{name: getattr(self, name) for name in same},
        )


class RolledFern(Forecaster):
    """Fern for systems whose state is seen: learns one patch of the flow and rolls it.

    With the newest rows x of all channels, standardised by the training mean and deviation, what follows is

        x_last + P(x_last) + Σ B_j (x_{last-j} - x_last) + u·d        d ~ N(At, aA²), from a `Fern` of one patch

    for each channel. The polynomial P fits the training windows best; the linear B_j, of the earlier rows that are
    seen, average noise of observation out and are 0 where they do not pay (`PolynomialFlow`); u is the deviation of
    what both leave, over all channels. Then x ← (x, what followed), and so on. Direct forecasts over many Lyapunov
    times have to learn every step of the horizon anew; one short patch is the same smooth map everywhere, and P has
    most of it where the flow is smooth. The network reads x_last and the differences from it, and is left with a target
    of size 1. The loss is measured in u.

    *On a ring* P, B and the network are one map for every channel, of its neighbours x_{c-r}, …, x_{c+r}:
    level, scale, range and weights are shared, so that a window teaches it as often as there are channels. Waves that
    the training rows do not have are taken out of every state (`fern.models.polynomial.strong_waves`): the rows
    do not determine what becomes of them, and in a recursive forecast they would grow.

    The distribution is an `Ellipsoid` of patches, each given the *mean* path before it: what an error grows to over
    later patches is not in it. ``samples`` are particles, whose every patch starts from its own past: they have it.
    Trained by squared error, as the preset ``chaos`` does, neither has learnt a width. `learn_spread` gives the
    particles one, from windows that were not trained on.

    Example:
        >>> config = RolledFernConfig(context_length=48, horizon=60, channels=3, seen=12, step=24)
        >>> forecast = RolledFern(config).eval()(torch.randn(2, 48, 3), samples=4)
        >>> forecast.mean.shape, forecast.samples.shape, forecast.ellipsoid.batch_shape
        (torch.Size([2, 60, 3]), torch.Size([4, 2, 60, 3]), torch.Size([2, 3]))
    """

    has_distribution = True
    config: RolledFernConfig
    spread: Tensor  # (step·C, step·C), lower triangular
    carried: Tensor  # ()

    def __init__(self, config: RolledFernConfig) -> None:
        super().__init__(config)
        self.patch = Fern(config.patch())
        self.flow = PolynomialFlow(
            channels=config.channels,
            seen=config.rows_seen,
            step=config.rows_made,
            degree=config.degree,
            earlier=config.earlier,
            margin=config.margin,
            ring=config.ring,
        )
        size = config.rows_made * config.channels
        self.register_buffer("spread", torch.zeros(size, size))
        self.register_buffer("carried", torch.ones(()))

    def prepare(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Learn the units of a state and the polynomial."""
        self.flow.learn(batches)

    @torch.no_grad()
    def learn_spread(self, batches: Iterable[tuple[Tensor, Tensor]], *, generator: Generator | None = None) -> None:
        """Learn from windows that were not trained on how far a patch misses: particles are drawn that wide from now.

        With e the error of the first patch of all channels, standardised, every patch of a particle is the mean of the
        patch plus S·ε, ε ~ N(0, I), with SSᵀ the mean of e·eᵀ over the windows. That is the whole error: the ellipsoid
        is not drawn from beside it. Of it c·S·ε is rolled on from; the rest is noise of observation, √(1 − c²)·S·ε',
        which is shown and forgotten. c is the one of `CARRIED` whose particles have the lowest CRPS over the whole
        horizon. Mean path and ellipsoid stay as they are.

        Example:
            >>> model = RolledFern(RolledFernConfig(context_length=8, horizon=8, channels=2, step=4))
            >>> model.learn_spread([(torch.randn(50, 8, 2), torch.randn(50, 8, 2))])
            >>> bool((model.spread.diagonal() > 0).all()), 0 <= float(model.carried) <= 1
            (True, True)
        """
        pasts, futures = self._collect_windows(batches)
        training = self.training
        self.eval()
        try:
            self._learn(self.flow.standardise(pasts), self.flow.standardise(futures), generator)
        finally:
            self.train(training)

    def _collect_windows(
        self, batches: Iterable[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:  # (n, L, C), (n, H, C)
        """All windows, where they are enough to learn a spread from."""
        pairs = list(batches)
        if not pairs:
            raise FernError("got none", argument="batches", expected="at least one (past, future)")
        for past, future in pairs:
            self._check_past(past)
            self.check_future(past, future)
            require_finite("future", future)
        pasts, futures = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        least = len(self.spread)
        if len(pasts) < least:
            expected = f"at least {least}, one for each value of a patch"
            raise FernError(f"got {len(pasts)} windows", argument="learn_spread", expected=expected)
        return pasts, futures

    def _learn(
        self,
        x: Tensor,  # (n, L, C) standardised
        target: Tensor,  # (n, H, C) standardised
        generator: Generator | None,
    ) -> None:
        """The spread, and the share of it that rolls on."""
        path, _ = self._roll(x, 1, None)
        error = (target[:, : self.config.rows_made] - path).flatten(1).double()
        total = error.T @ error / len(error)
        # Steps of one patch miss almost alike: without a little more on the diagonal rounding would decide.
        little = 1e-6 * total.diagonal().mean().clamp_min(LEAST_UNIT**2)
        ridge = little * torch.eye(len(total), dtype=total.dtype, device=total.device)
        self.spread.copy_(torch.linalg.cholesky(total + ridge))
        judged = torch.linspace(0, len(x) - 1, min(len(x), MOST_JUDGED), device=x.device).long()
        scores = {}
        for share in CARRIED:
            self.carried.fill_(share)
            drawn = self._particles(x[judged], JUDGING_PARTICLES, generator)
            distance = (drawn - drawn.roll(1, dims=0)).abs() / self.flow.scale
            error = (self.flow.standardise(drawn) - target[judged]).abs()
            scores[share] = float((error - 0.5 * distance).mean())
        self.carried.fill_(min(scores, key=lambda share: scores[share]))

    def forecast(self, past: Tensor, *, samples: int, generator: Generator | None) -> Forecast:
        """The path rolled on from its own mean (in training: from draws), and the particles."""
        x = self.flow.standardise(past)
        path, distributions = self._roll(x, ceil(self.config.horizon / self.config.rows_made), generator)
        distribution = _join(distributions, horizon=self.config.horizon).affine(self.flow.scale, self.flow.level)
        drawn = self._particles(x, samples, generator) if samples else None
        return Forecast(mean=self.flow.restore(path[:, : self.config.horizon]), ellipsoid=distribution, samples=drawn)

    def loss(self, past: Tensor, future: Tensor, criterion: Criterion, *, generator: Generator | None = None) -> Tensor:
        """The criterion on the first ``unroll`` patches, in deviations of what the polynomial leaves.

        On a ring a path has the strong waves alone, and so has what it is compared with.
        """
        self._check_past(past)
        self.check_future(past, future)
        config = self.config
        patches = min(config.unroll, ceil(config.horizon / config.rows_made))
        steps = min(patches * config.rows_made, config.horizon)
        path, distributions = self._roll(self.flow.standardise(past), patches, generator)
        target = self.flow.without_weak_waves(self.flow.standardise(future[:, :steps]))
        # Errors first and units then: the quotients of values by a small unit would lose their difference to rounding.
        distribution = (
            _join(distributions, horizon=steps).affine(1.0, -target.transpose(1, 2)).affine(1.0 / self.flow.unit)
        )
        error = (path[:, :steps] - target) / self.flow.unit
        return criterion(Forecast(mean=error, ellipsoid=distribution), torch.zeros_like(error))

    def _roll(
        self,
        x: Tensor,  # (B, L, C) standardised
        patches: int,
        generator: Generator | None,
    ) -> tuple[Tensor, list[Ellipsoid]]:  # (B, patches·step, C)
        """The path, and the distribution of each patch given the path before it: of the network about the flow."""
        x = self.flow.without_weak_waves(x[:, -self.config.rows_seen :])
        path, distributions = [], []
        for _ in range(patches):
            base, residual = self.flow(x), self.patch.forecast(self.flow.context(x), samples=0, generator=generator)
            path.append(self.flow.without_weak_waves(base + self.flow.unit * residual.mean))
            mean = (base + self._correct_weak_waves(base, residual)).transpose(1, 2)
            assert residual.ellipsoid is not None
            distributions.append(residual.ellipsoid.affine(self.flow.unit, mean))
            x = self.flow.after(x, path[-1])
        return torch.cat(path, dim=1), distributions

    def _particles(self, x: Tensor, samples: int, generator: Generator | None) -> Tensor:  # (S, B, H, C)
        """Paths that roll on from their own draws: of the ellipsoid, or of the spread where one was learnt."""
        config, batch = self.config, len(x)
        x = self.flow.without_weak_waves(x[:, -config.rows_seen :]).repeat(samples, 1, 1)
        path, learnt = [], not has_values(self.spread) or bool(self.spread.any())
        for _ in range(ceil(config.horizon / config.rows_made)):
            base = self.flow(x)
            residual = self.patch.forecast(self.flow.context(x), samples=0 if learnt else 1, generator=generator)
            if residual.samples is None:
                middle = self.flow.without_weak_waves(base + self.flow.unit * residual.mean)
                noise = torch.randn((2, len(x), len(self.spread)), generator=generator, dtype=x.dtype, device=x.device)
                kept, shown = (noise @ self.spread.T).view(2, len(x), -1, config.channels)
                following = middle + self.carried * kept
                path.append(following + (1.0 - self.carried.square()).sqrt() * shown)
            else:
                following = base + self.flow.unit * residual.samples[0] + self._correct_weak_waves(base, residual)
                path.append(following)
            x = self.flow.after(x, self.flow.without_weak_waves(following))
        paths = torch.cat(path, dim=1)[:, : config.horizon]
        return self.flow.restore(paths).view(samples, batch, config.horizon, config.channels)

    def _correct_weak_waves(self, base: Tensor, residual: Forecast) -> Tensor | float:  # (B, step, C)
        """What is added to the mean of a patch to take its weak waves off."""
        if self.flow.ring is None:
            return 0.0
        assert residual.ellipsoid is not None
        mean = base + self.flow.unit * residual.ellipsoid.mean.transpose(1, 2)
        return self.flow.without_weak_waves(mean) - mean


def _join(distributions: list[Ellipsoid], *, horizon: int) -> Ellipsoid:
    """The distributions of successive patches as one, independent given the path they were made on.

    Their means are its offset: a last patch that is cut keeps the mean it had whole.
    """
    return Ellipsoid(
        torch.cat([distribution.eigenvalues for distribution in distributions], dim=-2),
        None,
        torch.cat([distribution.reflections for distribution in distributions], dim=-3),
        offset=torch.stack([distribution.mean for distribution in distributions], dim=-2),
        base_variance=distributions[0].base_variance,
        horizon=horizon,
        validate_args=False,
    )


register_model("fern-rolled", RolledFernConfig, RolledFern, presets={"chaos": {}, "ring": {"layout": "ring"}})
