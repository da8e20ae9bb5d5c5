"""Fine-tuning of the pretrained network to the series of one table: a few hundred steps from its weights."""

import copy
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fern.metrics.probabilistic import gaussian_crps
from fern.models.pretrained.network import Network
from fern.models.pretrained.representation import HORIZON, LARGEST, LONGEST, SHORTEST, Array, represent

STEPS, BATCH, RATE, DECAY, WARM = 600, 64, 5e-4, 1e-2, 20
"""Of AdamW, with half a cosine after a short rise."""

FEWEST_WINDOWS = 500
"""Windows from which the network is tuned."""

MOST_VALUES = 20_000_000
"""Values that windows are drawn from, at most: the newest of each series."""

EVENED = 0.5
"""β of the weight σ^-β of a window, σ its own predicted deviation, as in pretraining."""


def count_windows(series: Sequence[Array], horizon: int) -> int:
    """Windows with a context that the network reads and a whole horizon."""
    return sum(max(0, len(values) - horizon - SHORTEST + 1) for values in series)


def tune_network(
    network: Network, series: Sequence[Array], horizon: int, *, seed: int, steps: int = STEPS
) -> Network | None:
    """A copy of the network, trained further on windows of these series; None where there are too few.

    The loss is the CRPS of each step within the horizon. Series are drawn by the square root of their number of
    windows, contexts are all that lies before a window.

    Example:
        >>> from fern.models.pretrained.network import read_weights
        >>> rng = np.random.default_rng(0)
        >>> waves = [np.sin(np.arange(300) / k) + 0.1 * rng.standard_normal(300) for k in (2, 3, 5)]
        >>> tuned = tune_network(read_weights()[0], waves, 12, seed=0, steps=2)
        >>> tuned.training, tune_network(read_weights()[0], waves[:1], 12, seed=0) is None
        (False, True)
    """
    horizon = min(horizon, HORIZON)
    if count_windows(series, horizon) < FEWEST_WINDOWS:
        return None
    most = max(LONGEST + HORIZON, MOST_VALUES // len(series))
    counts = np.array([min(len(values), most) for values in series])
    width = int(counts.max())
    pool = np.zeros((len(series), width))
    for row, values, count in zip(pool, series, counts, strict=True):
        row[width - count :] = values[-count:]
    free = np.maximum(counts - horizon - SHORTEST + 1, 0)
    shares = np.sqrt(free)
    rng = np.random.default_rng(seed)
    tuned = copy.deepcopy(network).requires_grad_(True)  # in evaluation mode: nothing is drawn but windows
    optimiser = torch.optim.AdamW(tuned.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / WARM) * 0.5 * (1 + math.cos(math.pi * step / steps))
        rows = rng.choice(len(series), BATCH, p=shares / shares.sum())
        ends = width - horizon - (rng.random(BATCH) * free[rows]).astype(np.int64)
        loss = _loss(tuned, pool, rows, ends, np.minimum(ends - (width - counts[rows]), LONGEST), horizon)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(tuned.parameters(), 1.0)
        optimiser.step()
    return tuned.half().float().requires_grad_(False)  # as it is kept: in half precision


def _loss(
    network: Network,
    pool: Array,  # (series, rows)
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],  # (N,)
    ends: np.ndarray[tuple[int], np.dtype[np.int64]],  # (N,)
    lengths: np.ndarray[tuple[int], np.dtype[np.int64]],  # (N,)
    horizon: int,
) -> Tensor:
    """The mean CRPS of the first ``horizon`` steps, each window by σ^-β; windows that stand still do not count."""
    seen = represent(pool, rows, ends, lengths)
    future = pool[rows[:, None], ends[:, None] + np.arange(horizon)]
    moves = seen.scale > 1e-9 * (1 + np.abs(seen.level))
    scaled = (future - seen.level[:, None]) / np.where(moves, seen.scale, 1.0)[:, None]
    target = torch.from_numpy(np.clip(scaled, -LARGEST, LARGEST).astype(np.float32))
    ahead = network(torch.from_numpy(seen.inputs), torch.from_numpy(seen.paths))
    mean, stddev = (part[:, 0, :horizon] for part in (ahead.mean, ahead.stddev))
    weight = (stddev.detach().mean(1) + 0.05) ** -EVENED * torch.from_numpy(moves.astype(np.float32))
    loss: Tensor = (gaussian_crps(target - mean, stddev).mean(1) * weight).mean()
    return loss
