"""The families of synthetic series, apart from dynamical systems: each draws its own settings, then its rows.

A family is a function ``(rng, count, length) -> (count, length)``. Ranges follow what others found to work (dynamics
weigh more than seasons, a trend is drawn as a total excursion, two rows in five are nearly without noise) and what
people's tables look like.
"""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fern.synthetic import loops

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

CADENCES: Sequence[tuple[int, int, float]] = (
    (24, 168, 0.24),  # hours: day and week
    (12, 0, 0.14),  # months: year
    (7, 365, 0.08),  # days: week and year
    (7, 0, 0.04),
    (4, 0, 0.07),  # quarters: year
    (52, 0, 0.05),  # weeks: year
    (96, 672, 0.05),  # quarters of an hour
    (48, 336, 0.04),  # half hours
    (144, 1008, 0.04),  # ten minutes
    (288, 0, 0.01),  # five minutes
    (5, 0, 0.03),  # business days
    (30, 0, 0.01),
    (60, 0, 0.02),
    (13, 52, 0.02),
    (0, 0, 0.16),  # any: drawn by `draw_periods`
)
"""Short and long period in rows, and the share of seasonal series that have them."""

BURN = 200
"""Rows that are made before the first one, for a process to forget its start."""


def log_uniform(rng: Generator, low: float, high: float, size: int | tuple[int, ...]) -> Array:
    """Numbers whose logarithm is uniform."""
    values: Array = np.exp(rng.uniform(np.log(low), np.log(high), size))
    return values


def choose(rng: Generator, options: Sequence[float], size: int) -> Array:
    """One of the options for each, all as likely."""
    return np.asarray(options, dtype=np.float64)[rng.integers(len(options), size=size)]


def draw_periods(rng: Generator, count: int, length: int) -> tuple[Array, Array]:  # (count,), (count,)
    """A short and a long period for each series; the long one is 0 where there is none or too few rows for it."""
    weights = np.array([weight for *_, weight in CADENCES])
    picked = rng.choice(len(CADENCES), size=count, p=weights / weights.sum())
    short = np.array([float(pair[0]) for pair in CADENCES])[picked]
    long = np.array([float(pair[1]) for pair in CADENCES])[picked]
    anything = short == 0
    free = log_uniform(rng, 3.0, 300.0, count)
    free = np.where(rng.random(count) < 0.7, np.round(free), free)
    short = np.where(anything, free, short)
    long = np.where(anything & (rng.random(count) < 0.4), short * rng.integers(2, 13, count), long)
    short = np.where(short > length / 3, np.maximum(2.0, np.floor(length / 8)), short)
    return short, np.where(long > length / 2, 0.0, long)


def add_seasons(
    rng: Generator,
    periods: Array,  # (count,), in rows
    amplitude: Array,  # (count,)
    out: Array,  # (count, length), added to
    *,
    inner: Array | None = None,  # (count,), shorter periods that repeat within
    modulated: float = 0.35,
) -> None:
    """Add a season to each series; a share ``modulated`` swells and drifts slowly."""
    count = len(out)
    sizes = np.maximum(2, np.ceil(periods - 1e-9)).astype(np.int64)
    kinds: Whole = rng.choice(np.arange(4), size=count, p=[0.5, 0.3, 0.12, 0.08])
    days = np.zeros(count, dtype=np.int64)
    if inner is not None:
        whole = (inner > 1) & (sizes % np.maximum(inner, 1) == 0) & (rng.random(count) < 0.75)
        kinds, days = np.where(whole, 4, kinds), np.where(whole, inner, 0).astype(np.int64)
    profiles = np.zeros((count, int(sizes.max())))
    noise = rng.standard_normal((count, max(72, int(sizes.max()))))
    loops.shape_profiles(noise, sizes, kinds, rng.random(count), days, profiles)
    moving = rng.random(count) < modulated
    modulation = np.stack(
        [
            periods * rng.uniform(4, 12, count),
            moving * rng.uniform(0.05, 0.45, count),
            rng.uniform(0, 2 * np.pi, count),
            moving * (rng.random(count) < 0.4) * periods * rng.uniform(0.01, 0.12, count),
        ],
        axis=1,
    )
    offsets = np.floor(rng.uniform(0, sizes))
    loops.add_seasons(profiles, sizes, periods, offsets, modulation, amplitude, out)


def draw_seasons(rng: Generator, count: int, length: int, *, share: float = 1.0) -> tuple[Array, Array]:
    """The seasons of each series (count, length), of deviation about 1, and its short periods (count,)."""
    out = np.zeros((count, length))
    short, long = draw_periods(rng, count, length)
    seasonal = rng.random(count) < share
    both = long > 0
    weight = np.where(both, rng.uniform(0.1, 1.0, count), 1.0)
    add_seasons(rng, short, np.where(seasonal, np.sqrt(weight), 0.0), out)
    rows = np.flatnonzero(both & seasonal)
    if len(rows):
        part = np.zeros((len(rows), length))
        add_seasons(rng, long[rows], np.sqrt(1.0 - 0.9 * weight[rows]), part, inner=short[rows])
        out[rows] += part
    return out, short


def draw_trends(rng: Generator, count: int, length: int) -> Array:  # (count, length)
    """Broken lines: the rise between two knots is N(0, 0.4²), or N(0, 3²) for one in four; many have one knot only."""
    spans = log_uniform(rng, min(48.0, length), 1.5 * length, count)
    size = np.where(rng.random(count) < 0.25, 3.0, 0.4) * np.minimum(1.0, np.sqrt(2.0 * spans / length) + 0.2)
    keep = rng.random((count, 1)) < 0.5  # of one direction throughout
    slopes = rng.standard_normal((count, 48))
    slopes = np.where(keep, 0.7 * slopes[:, :1] + 0.5 * slopes, slopes) * size[:, None]
    bend = np.where(rng.random(count) < 0.3, rng.uniform(-3, 5, count), 0.0)
    out = np.zeros((count, length))
    loops.add_trends(slopes, spans, bend, out)
    return out


def draw_noise(rng: Generator, count: int, length: int) -> Array:  # (count, length)
    """White noise of deviation 1; a fifth with heavy tails, sinh(1.2 n) scaled back."""
    noise = rng.standard_normal((count, length))
    heavy = np.flatnonzero(rng.random(count) < 0.2)
    strength = rng.uniform(0.6, 1.4, (len(heavy), 1))
    noise[heavy] = np.sinh(strength * noise[heavy]) / np.sqrt(0.5 * np.expm1(2.0 * strength**2))
    return noise


def draw_correlated_noise(rng: Generator, count: int, length: int) -> Array:  # (count, length)
    """An AR(1) of deviation about 1: white for 30 %, φ up to 0.85 for 40 %, and up to 0.995 for 30 %.

    The persistent ones stray from their season for days, as temperatures, loads and prices do. A quarter of the series
    have calm and restless times: their steps are multiplied by exp(v), v a slow AR(1) of deviation 0.3 to 0.8.
    """
    kind = rng.random(count)
    phi = np.where(kind < 0.4, rng.uniform(0, 0.85, count), 1 - log_uniform(rng, 0.005, 0.15, count))
    phi = np.where(kind >= 0.7, 0.0, phi)
    noise = draw_noise(rng, count, length) * np.sqrt(1 - phi**2)[:, None]
    noise[:, 0] /= np.sqrt(1 - phi**2)
    restless = np.flatnonzero(rng.random(count) < 0.25)
    slow = 1 - log_uniform(rng, 0.003, 0.05, len(restless))
    kicks = rng.standard_normal((len(restless), length)) * np.sqrt(1 - slow**2)[:, None]
    kicks[:, 0] /= np.sqrt(1 - slow**2)
    volatility: Array = np.empty_like(kicks)
    loops.filter_arma(kicks, slow[:, None].copy(), np.zeros((len(restless), 0)), volatility)
    size = rng.uniform(0.3, 0.8, (len(restless), 1))
    noise[restless] *= np.exp(size * volatility - size**2)  # E exp(2v) = 1
    out: Array = np.empty_like(noise)
    loops.filter_arma(noise, phi[:, None].copy(), np.zeros((count, 0)), out)
    return out


def draw_deviations_by_phase(rng: Generator, periods: Array, length: int) -> Array:  # (count, length)
    """What noise is multiplied by at each row: 1, or for a third a factor by the phase of the season.

    The factor is exp(a cos + b cos) of the season and its half, at some phases 0, with mean square 1: loads vary more
    by day, rain and wind in the afternoon, sunshine not at all at night.
    """
    count = len(periods)
    moving = np.flatnonzero((rng.random(count) < 0.35) & (periods >= 4))
    out = np.ones((count, length))
    angle = 2 * np.pi * (np.arange(length)[None] + rng.uniform(0, 400, (len(moving), 1))) / periods[moving, None]
    first = np.cos(angle)
    factor = np.exp(
        rng.uniform(0.2, 1.5, (len(moving), 1)) * first
        + rng.normal(0, 0.3, (len(moving), 1)) * np.cos(2 * angle + rng.uniform(0, 2 * np.pi, (len(moving), 1)))
    )
    quiet = rng.random(len(moving)) < 0.35
    factor[quiet] *= first[quiet] > rng.uniform(-0.7, 0.5, (int(quiet.sum()), 1))
    out[moving] = factor / np.sqrt((factor**2).mean(1, keepdims=True) + 1e-12)
    return out


def draw_noise_levels(rng: Generator, count: int) -> Array:  # (count,)
    """The deviation of the noise beside a season of about 1: two in five nearly clean."""
    return np.where(rng.random(count) < 0.4, log_uniform(rng, 0.01, 0.12, count), log_uniform(rng, 0.1, 1.2, count))


def trend_seasons(rng: Generator, count: int, length: int) -> Array:
    """A broken trend, one or two seasons and correlated noise, for a third by the phase of the season; added up."""
    seasons, periods = draw_seasons(rng, count, length, share=0.85)
    values = seasons * rng.uniform(0.2, 2.0, count)[:, None] + draw_trends(rng, count, length)
    noise = draw_correlated_noise(rng, count, length) * draw_deviations_by_phase(rng, periods, length)
    values += noise * draw_noise_levels(rng, count)[:, None]
    walks = np.flatnonzero(rng.random(count) < 0.35)
    steps = rng.standard_normal((len(walks), length)) * log_uniform(rng, 0.003, 0.1, (len(walks), 1))
    values[walks] += np.cumsum(steps, axis=1)
    return values


def multiplicative(rng: Generator, count: int, length: int) -> Array:
    """exp(growth + seasons + noise): the season and the noise grow with the level."""
    seasons, _ = draw_seasons(rng, count, length, share=0.85)
    values = seasons * rng.uniform(0.05, 0.6, count)[:, None] + draw_trends(rng, count, length)
    values += draw_correlated_noise(rng, count, length) * log_uniform(rng, 0.01, 0.25, count)[:, None]
    out: Array = np.exp(8 * np.tanh(values / 8)) * log_uniform(rng, 1.0, 1e4, count)[:, None]
    return out


def exponential_smoothing(rng: Generator, count: int, length: int) -> Array:
    """Level, damped trend and season under one error (ETS): what short yearly to monthly series resemble."""
    monthly = rng.choice([1, 4, 12, 7, 24, 52], size=count, p=[0.2, 0.25, 0.35, 0.08, 0.08, 0.04]).astype(np.int64)
    periods = np.minimum(monthly, max(1, length // 4))
    seasonal = periods > 1
    times_season = (rng.random(count) < 0.5) & seasonal
    times_error = times_season | (rng.random(count) < 0.3)
    alpha = rng.beta(0.7, 1.1, count)
    beta = np.where(rng.random(count) < 0.5, 0.0, alpha * rng.beta(0.5, 6.0, count))
    gamma = (1 - alpha) * rng.beta(0.5, 5.0, count) * seasonal * 0.6
    damping = np.where(rng.random(count) < 0.6, rng.uniform(0.8, 0.99, count), 1.0)
    damping = np.where(times_error & (damping == 1.0), 0.995, damping)
    sigma = log_uniform(rng, 0.004, 0.15, count)
    level = np.where(times_error, log_uniform(rng, 1.0, 50.0, count), rng.normal(0, 1, count))
    scale = np.where(times_error, level, 1.0)
    moving = (rng.random(count) < 0.7) * log_uniform(rng, 0.002, 0.04, count)
    kicks = rng.normal(0, 1, (count, 40)) * moving[:, None]
    apart = log_uniform(rng, 24.0, float(max(25, length)), count)
    trend = kicks[:, 0] * scale
    # A multiplicative error is a share of the level; an additive one is in units of 1.
    sigma = np.where(times_error, sigma, sigma * 3)
    rates = np.stack(
        [alpha, np.where(times_error, beta * 0.5, beta), gamma, damping, sigma, times_error, times_season], axis=1
    ).astype(np.float64)
    size = max(2, int(periods.max()))
    profiles = np.zeros((count, size))
    kinds = rng.choice(2, size=count).astype(np.int64)
    noise = rng.standard_normal((count, max(72, size)))
    loops.shape_profiles(noise, np.maximum(periods, 2), kinds, rng.random(count), np.zeros(count, np.int64), profiles)
    strength = log_uniform(rng, 0.02, 0.5, count) * seasonal
    cycle = profiles * strength[:, None] * np.where(times_season, 1.0, scale)[:, None]
    cycle = np.where(times_season[:, None], np.exp(np.clip(cycle, -2, 2)), cycle)
    out = np.empty((count, length))
    start = np.stack([level, trend, apart], axis=1)
    noise, cycle = draw_noise(rng, count, length), np.ascontiguousarray(cycle)
    loops.smooth_exponentially(noise, rates, start, periods, cycle, kicks, out)
    return out


def arma(rng: Generator, count: int, length: int) -> Array:
    """Stationary: up to two pairs of poles (waves of random period and decay), or partial autocorrelations."""
    out = np.empty((count, length + BURN))
    ar = np.zeros((count, 4))
    for pair in range(2):
        used = (rng.random(count) < (1.0 if pair == 0 else 0.4)).astype(np.float64)
        radius = used * np.where(rng.random(count) < 0.5, rng.uniform(0.3, 0.9, count), rng.uniform(0.9, 0.999, count))
        turning = rng.random(count) < 0.6
        angle = 2 * np.pi / log_uniform(rng, 2.5, 120.0, count)
        second = np.where(turning, 0.0, used * rng.uniform(-0.6, 0.9, count))
        first = np.where(turning, 2 * radius * np.cos(angle), radius + second)
        product = np.where(turning, -(radius**2), -radius * second)
        # The polynomial of earlier pairs times 1 - first·B - product·B².
        a, b = ar[:, 0].copy(), ar[:, 1].copy()
        ar = np.stack([a + first, b + product - a * first, -a * product - b * first, -b * product], axis=1)
    ma = rng.uniform(-0.8, 0.8, (count, 2)) * (rng.random((count, 2)) < 0.4)
    loops.filter_arma(draw_noise(rng, count, length + BURN), np.ascontiguousarray(ar), ma, out)
    return out[:, BURN:].copy()


def integrated(rng: Generator, count: int, length: int) -> Array:
    """Random walks: of correlated steps, of a slowly changing velocity, or over the season (airline model)."""
    kinds = rng.choice(3, size=count, p=[0.5, 0.25, 0.25])
    phi = np.where(kinds == 1, rng.uniform(0.97, 0.999, count), rng.uniform(-0.35, 0.85, count))
    phi = np.where((kinds != 1) & (rng.random(count) < 0.4), 0.0, phi)
    steps = np.empty((count, length))
    loops.filter_arma(draw_noise(rng, count, length), phi[:, None].copy(), np.zeros((count, 0)), steps)
    drift = rng.random(count)
    steps += (rng.normal(0, 1, count) * np.where(drift < 0.3, 0.05, np.where(drift < 0.5, 0.5, 0.0)))[:, None]
    out: Array = np.cumsum(steps, axis=1)
    rows = np.flatnonzero(kinds == 2)
    if len(rows):
        short, _ = draw_periods(rng, len(rows), length)
        periods = np.maximum(2, np.round(short)).astype(np.int64)
        theta, seasonal = rng.uniform(0.0, 0.95, len(rows)), rng.uniform(0.3, 0.98, len(rows))
        noise = draw_noise(rng, len(rows), length)
        moved = noise.copy()
        for i, period in enumerate(periods):
            moved[i, period:] -= seasonal[i] * noise[i, :-period]
        loops.filter_arma(moved, np.zeros((len(rows), 0)), -theta[:, None].copy(), steps := np.empty_like(moved))
        first = rng.normal(0, 1, steps.shape) * log_uniform(rng, 0.5, 6.0, (len(rows), 1))
        inside = np.arange(length)[None] < periods[:, None]
        steps = np.where(inside, first, steps)
        loops.sum_over_seasons(periods, steps)
        level = np.where(rng.random(len(rows)) < 0.7, 1.0, 0.0)[:, None]
        out[rows] = level * np.cumsum(steps, axis=1) / np.sqrt(periods)[:, None] + (1 - level) * steps
    noisy = np.where(rng.random(count) < 0.3, log_uniform(rng, 0.05, 0.5, count) * out.std(1), 0.0)
    return out + noisy[:, None] * rng.standard_normal((count, length))


def threshold(rng: Generator, count: int, length: int) -> Array:
    """Threshold autoregressions (SETAR): two regimes, told apart by an earlier value."""
    phi = np.stack([rng.uniform(-0.9, 0.6, count), rng.uniform(0.3, 0.98, count)], axis=1)
    out = np.empty((count, length + BURN))
    delay = rng.integers(1, 13, count).astype(np.float64)
    drift = rng.uniform(0, 1.5, count)
    noise = draw_noise(rng, count, length + BURN) * log_uniform(rng, 0.1, 1.0, count)[:, None]
    loops.filter_threshold(noise, phi, rng.normal(0, 0.5, count), delay, drift, out)
    return out[:, BURN:].copy()


def gaussian_process(rng: Generator, count: int, length: int) -> Array:
    """Samples of Gaussian processes by their spectrum: smooth, rough and quasi-periodic kernels, added up.

    A stationary kernel on a ring of 2·length rows has the discrete Fourier transform as its eigenvectors, so a sample
    is white noise coloured by the square root of the spectrum. The second half of the ring is dropped.
    """
    size = 2 * length
    frequency = np.fft.rfftfreq(size)[None]  # cycles per row
    spectrum = np.zeros((count, frequency.shape[1]))
    for term in range(3):
        used = (rng.random(count) < (1.0, 0.7, 0.4)[term])[:, None]
        width = 1.0 / (2 * np.pi * log_uniform(rng, 4.0, length, (count, 1)))
        centre = np.where(rng.random((count, 1)) < 0.4, 1.0 / log_uniform(rng, 4.0, 300.0, (count, 1)), 0.0)
        width = np.where(centre > 0, width * rng.uniform(0.02, 0.5, (count, 1)), width)
        rough = rng.random((count, 1)) < 0.5
        power = rng.uniform(1.0, 3.0, (count, 1))  # of a Matérn or rational quadratic tail
        harmonics = np.where(centre > 0, rng.integers(1, 4, (count, 1)), 1)
        for h in (1, 2, 3):
            rows = np.flatnonzero(((h <= harmonics) & used)[:, 0])
            apart = ((frequency - h * centre[rows]) / width[rows]) ** 2
            # Rough: the power law of Matérn and rational quadratic kernels. Smooth: that of a squared exponential.
            exponent = np.where(rough[rows], power[rows] * np.log1p(apart), 0.5 * np.minimum(apart, 700.0))
            shape = np.exp(-exponent)
            shape *= log_uniform(rng, 0.1, 1.0, (len(rows), 1)) / (h * shape.sum(1, keepdims=True) + 1e-12)
            spectrum[rows] += shape
    spectrum /= spectrum.sum(1, keepdims=True)
    waves = rng.standard_normal((count, frequency.shape[1], 2)).view(np.complex128)[..., 0]
    values = np.fft.irfft(waves * np.sqrt(spectrum), n=size, axis=1)[:, :length]
    values /= values.std(1, keepdims=True) + 1e-12
    values += np.where(rng.random(count) < 0.3, 1.0, 0.0)[:, None] * draw_trends(rng, count, length)
    noise = np.where(rng.random(count) < 0.6, log_uniform(rng, 0.01, 0.5, count), 0.0)
    out: Array = values + noise[:, None] * rng.standard_normal((count, length))
    return out


def long_memory(rng: Generator, count: int, length: int) -> Array:
    """Fractional Gaussian noise, H from 0.3 to 0.95, by its spectrum; a third summed up."""
    hurst = rng.uniform(0.3, 0.95, (count, 1))
    frequency = np.fft.rfftfreq(2 * length)[None]
    frequency[0, 0] = np.inf
    colour = np.sin(np.pi * np.minimum(frequency, 0.5)) ** (0.5 - hurst)
    colour[:, 0] = 0.0
    waves = rng.standard_normal((count, frequency.shape[1], 2)).view(np.complex128)[..., 0]
    values = np.fft.irfft(waves * colour, n=2 * length, axis=1)[:, :length]
    values /= values.std(1, keepdims=True) + 1e-12
    out: Array = np.where(rng.random((count, 1)) < 0.35, np.cumsum(values, axis=1), values)
    return out


def mean_reversion(rng: Generator, count: int, length: int) -> Array:
    """Ornstein-Uhlenbeck with stochastic volatility, jumps and two levels between which some switch."""
    band = rng.random(count)
    phi = np.where(
        band < 0.2,
        rng.uniform(0.9975, 0.9995, count),
        np.where(band < 0.65, rng.uniform(0.985, 0.9975, count), rng.uniform(0.8, 0.98, count)),
    )
    wild = rng.random(count) < 0.6
    settings = np.stack(
        [
            phi,
            rng.uniform(-2, 0, count),
            rng.uniform(0, 2, count),
            np.where(rng.random(count) < 0.3, log_uniform(rng, 0.0005, 0.03, count), 0.0),
            rng.uniform(0.951, 0.995, count),
            wild * rng.uniform(0.03, 0.2, count),
            np.where(rng.random(count) < 0.3, 3.0 / length, 0.0),
            rng.uniform(0.5, 5.0, count),
        ],
        axis=1,
    )
    out = np.empty((count, length))
    noise, shocks = draw_noise(rng, count, length), rng.standard_normal((count, length))
    loops.revert_with_volatility(noise, shocks, rng.random((count, length)), settings, out)
    seasonal = np.flatnonzero(rng.random(count) < 0.3)
    if len(seasonal):
        seasons, _ = draw_seasons(rng, len(seasonal), length)
        out[seasonal] += seasons * rng.uniform(0.3, 1.5, len(seasonal))[:, None]
    return out


def regimes(rng: Generator, count: int, length: int) -> Array:
    """Levels, slopes and volatilities that jump, half of them over a season."""
    out, _ = draw_seasons(rng, count, length, share=0.5)
    rate = log_uniform(rng, 1.0, 16.0, count) / length
    settings = np.stack(
        [
            rate * rng.random(count),
            rng.uniform(0.3, 2.0, count),
            rate * rng.random(count),
            rng.uniform(0.2, 2.0, count) * rate,
            rate * rng.random(count),
            rng.uniform(0.3, 1.0, count),
            draw_noise_levels(rng, count),
        ],
        axis=1,
    )
    loops.jump_regimes(rng.random((count, length)), rng.standard_normal((count, length)), settings, out)
    return out


def counts(rng: Generator, count: int, length: int) -> Array:
    """Counts: Poisson, half of them with a gamma-mixed rate, about a seasonal and drifting mean."""
    seasons, _ = draw_seasons(rng, count, length, share=0.8)
    rate = seasons * rng.uniform(0.05, 0.6, count)[:, None] + 0.4 * draw_trends(rng, count, length)
    rate = np.exp(4 * np.tanh(rate / 4)) * log_uniform(rng, 0.5, 1000.0, count)[:, None]
    mixed = np.flatnonzero(rng.random(count) < 0.5)
    shape = log_uniform(rng, 1.0, 50.0, (len(mixed), 1))
    # A gamma variable by the Wilson-Hilferty cube of a normal one: close, and several times faster to draw.
    cube = 1.0 - 1.0 / (9.0 * shape) + rng.standard_normal((len(mixed), length)) / (3.0 * np.sqrt(shape))
    rate[mixed] *= np.maximum(cube, 0.0) ** 3
    few = rate < 30.0
    normal: Array = np.maximum(np.round(rate + np.sqrt(rate) * rng.standard_normal(rate.shape)), 0.0)
    normal[few] = rng.poisson(rate[few])
    return normal


def intermittent(rng: Generator, count: int, length: int) -> Array:
    """Orders now and then, zeros between them."""
    out, _ = draw_seasons(rng, count, length, share=0.4)
    settings = np.stack(
        [
            rng.uniform(0.03, 0.5, count),
            rng.uniform(-0.5, 4.0, count),
            rng.uniform(0.1, 1.0, count),
            np.where(rng.random(count) < 0.5, rng.uniform(0, 0.95, count), 0.0),
            rng.uniform(0, 0.8, count),
        ],
        axis=1,
    )
    loops.demand_now_and_then(rng.random((count, length)), rng.standard_normal((count, length)), settings, out)
    return out


def pulses(rng: Generator, count: int, length: int) -> Array:
    """A calm series with pulses, regular or not, that decay; and single outliers."""
    out = draw_correlated_noise(rng, count, length) * log_uniform(rng, 0.02, 0.3, count)[:, None]
    gap = log_uniform(rng, 8.0, max(9.0, length / 4), count)
    regular = rng.random(count) < 0.5
    hits = np.where(regular[:, None], 0.0, (rng.random((count, length)) < 1 / gap[:, None]) * 1.0)
    steps = np.arange(length)[None] + np.floor(rng.uniform(0, gap))[:, None]
    hits += np.where(regular[:, None], (steps % np.maximum(np.round(gap), 2)[:, None] == 0) * 1.0, 0.0)
    hits *= np.exp(rng.normal(0, 1, (count, length)) * rng.uniform(0, 0.6, count)[:, None])
    hits += (rng.random((count, length)) < 2.0 / length) * rng.normal(0, 5, (count, length))
    fade = np.where(rng.random(count) < 0.4, 0.0, rng.uniform(0.3, 0.97, count))
    decayed = np.empty_like(hits)
    loops.filter_arma(hits, fade[:, None].copy(), np.zeros((count, 0)), decayed)
    return out + decayed * log_uniform(rng, 0.5, 8.0, count)[:, None]


def sensors(rng: Generator, count: int, length: int) -> Array:
    """Physical readings: a daily wave cut off at night, slow weather over it, and a device that rounds and sticks."""
    day = choose(rng, (24, 48, 96, 144, 288), count)
    day = np.where(day > length / 4, max(4.0, length // 8), day)
    angle = 2 * np.pi * (np.arange(length)[None] + rng.uniform(0, day)[:, None]) / day[:, None]
    wave = np.cos(angle) + rng.uniform(-0.3, 0.5, count)[:, None]
    cut = rng.random(count)[:, None] < 0.5
    weather = np.empty((count, length))
    phi = 1.0 - 1.0 / (day * log_uniform(rng, 0.2, 5.0, count))
    noise = rng.standard_normal((count, length)) * np.sqrt(1 - phi**2)[:, None]
    loops.filter_arma(noise, phi[:, None].copy(), np.zeros((count, 0)), weather)
    # Clouds: the weather of days, and for half of the series broken ones that pass within the hour.
    passing = np.empty((count, length))
    phi = 1.0 - 1.0 / log_uniform(rng, 1.2, 12.0, count)
    noise = rng.standard_normal((count, length)) * np.sqrt(1 - phi**2)[:, None]
    loops.filter_arma(noise, phi[:, None].copy(), np.zeros((count, 0)), passing)
    broken = (rng.random(count) < 0.5) * rng.uniform(0.3, 2.5, count)
    cloud = 1.0 / (1.0 + np.exp(-2.0 * weather - broken[:, None] * passing - 1.0))
    out: Array = np.where(
        cut, np.maximum(wave, 0.0) * cloud, wave + weather * log_uniform(rng, 0.2, 3.0, count)[:, None]
    )
    fast = log_uniform(rng, 0.003, 0.2, count)[:, None] * rng.standard_normal((count, length))
    return out + np.where(cut, fast * (wave > 0), fast)


def weekly_demand(rng: Generator, count: int, length: int) -> Array:
    """Sales by the day: a week with closed days, a year, promotions, holidays and a drifting level."""
    out = draw_trends(rng, count, length) * 0.3
    out += np.cumsum(rng.standard_normal((count, length)), axis=1) * log_uniform(rng, 0.002, 0.03, count)[:, None]
    week = rng.normal(0, 1, (count, 7)) * rng.uniform(0.05, 0.6, count)[:, None]
    days = (np.arange(length)[None] + rng.integers(0, 7, count)[:, None]) % 7
    out += np.take_along_axis(week, days, axis=1)
    if length >= 400:
        add_seasons(rng, np.full(count, 365.0), rng.uniform(0.0, 0.4, count), out, modulated=0.0)
    promotion = np.empty((count, length))
    started = (rng.random((count, length)) < rng.uniform(0, 0.03, count)[:, None]) * rng.uniform(0.2, 1.2, (count, 1))
    fade = rng.uniform(0.4, 0.85, count)[:, None].copy()
    loops.filter_arma(started, fade, np.zeros((count, 0)), promotion)
    out += promotion + draw_noise(rng, count, length) * log_uniform(rng, 0.03, 0.4, count)[:, None]
    out = np.exp(6 * np.tanh(out / 6)) * log_uniform(rng, 3.0, 1000.0, count)[:, None]
    closed = (rng.random(count) < 0.25)[:, None] & (days == rng.integers(0, 7, count)[:, None])
    holiday = rng.random((count, length)) < (rng.random(count) < 0.4)[:, None] * 0.01
    out = np.where(closed | holiday, 0.0, out)
    return np.where((rng.random(count) < 0.5)[:, None], np.round(out), out)
