"""Training on synthetic series alone: endless fresh windows, a schedule fitted to the time there is, resumable."""

import json
import math
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from benchmarks.pretrain.validation import judge_all
from fern.metrics.probabilistic import gaussian_crps
from fern.models.pretrained.forecasting import Contexts, forecast_distribution
from fern.models.pretrained.network import FORMAT, Network, NetworkConfig, write_weights
from fern.models.pretrained.representation import HORIZON, LARGEST, LONGEST, SHORTEST, represent
from fern.models.storage import read_tensors
from fern.settings import from_mapping
from fern.synthetic import FAMILIES, stream
from fern.synthetic.mixture import BLOCK

ROWS = LONGEST + HORIZON
VALIDATION_SEED = 1_000_003
STEP_WEIGHTS = torch.repeat_interleave(torch.tensor([1.6, 1.1, 0.75, 0.55]), HORIZON // 4)
"""Of the loss: the first day of steps is asked for more often than the fourth."""


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """All that decides a training run but the machine.

    ``minutes``, ``processor_minutes``  the budget, of the clock and of the processor: the schedule ends with the one
                    that is used up first, so that a busy machine ends a run in time.
    ``blocks``      of 256 series that are drawn anew each time, with ``windows`` windows of each series.
    ``mixed``       the share of series that are a sum of two.
    ``start``       the weights to start from, of a network with the first of these inputs; none for new ones.
    ``evened``      β of the weight σ^-β of a window, σ its own predicted deviation: 0 counts errors in scales, 1 in σ.
    """

    seed: int = 1
    minutes: float = 60.0
    processor_minutes: float = 1e6
    batch: int = 128
    rate: float = 1.5e-3
    warm: float = 0.03
    decay: float = 1e-2
    blocks: int = 4
    windows: int = 12
    mixed: float = 0.2
    evened: float = 0.5
    start: str = ""
    network: NetworkConfig = field(default_factory=NetworkConfig)


@dataclass(frozen=True)
class Windows:
    """Windows as the network is trained on them."""

    inputs: Tensor  # (N, WIDTH)
    paths: Tensor  # (N, PATHS, HORIZON)
    future: Tensor  # (N, HORIZON), in scales about the level

    def __len__(self) -> int:
        return len(self.inputs)


def draw_lengths(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Lengths of contexts: short ones, long ones and all between."""
    kind = rng.random(count)
    anything = np.exp(rng.uniform(np.log(SHORTEST), np.log(LONGEST), count))
    short = np.exp(rng.uniform(np.log(12), np.log(160), count))
    long = rng.uniform(96, LONGEST, count)
    lengths = np.where(kind < 0.4, anything, np.where(kind < 0.7, short, long))
    return np.clip(lengths.astype(np.int64), SHORTEST, LONGEST)


def draw_windows(pool: NDArray[np.float64], rng: np.random.Generator, each: int, *, mixed: float) -> Windows:
    """So many windows of each series of a pool, in random order; half of the series upside down, some mixed."""
    pool = pool * rng.choice([-1.0, 1.0], len(pool))[:, None]
    chosen = np.flatnonzero(rng.random(len(pool)) < mixed)
    if len(chosen):
        partner = rng.permutation(len(pool))[: len(chosen)]
        share = rng.uniform(0.15, 0.85, (len(chosen), 1))
        spread = pool.std(1, keepdims=True) + 1e-12
        pool[chosen] = share * pool[chosen] / spread[chosen] + (1 - share) * pool[partner] / spread[partner]
    rows = rng.permutation(np.repeat(np.arange(len(pool)), each))
    lengths = draw_lengths(rng, len(rows))
    ends = rng.integers(lengths, pool.shape[1] - HORIZON + 1)
    seen = represent(pool, rows, ends, lengths)
    future = pool[rows[:, None], ends[:, None] + np.arange(HORIZON)[None]]
    usable = seen.scale > 1e-5 * (np.abs(seen.level) + np.abs(future).max(1)) + 1e-12
    scaled = np.clip((future - seen.level[:, None]) / seen.scale[:, None], -LARGEST, LARGEST)
    parts = (seen.inputs[usable], seen.paths[usable], scaled[usable].astype(np.float32))
    return Windows(*(torch.from_numpy(part) for part in parts))


def endless_windows(config: PretrainConfig, first: int) -> Iterator[Windows]:
    """Chunk after chunk of fresh windows, from chunk ``first`` on."""
    blocks = stream(length=ROWS, seed=config.seed, first=first * config.blocks)
    chunk = first
    while True:
        pool = np.concatenate([next(blocks).values for _ in range(config.blocks)]).astype(np.float64)
        yield draw_windows(pool, np.random.default_rng([config.seed, 77, chunk]), config.windows, mixed=config.mixed)
        chunk += 1


def loss_of(network: Network, windows: Windows, *, evened: float) -> Tensor:
    """The whitened CRPS, step by step weighted, each window by σ^-β."""
    ahead = network(windows.inputs, windows.paths)
    error, stddev = ahead.axis_coordinates(windows.future.unsqueeze(1)), ahead.axis_stddev
    crps = (gaussian_crps(error, stddev) * STEP_WEIGHTS).mean((1, 2))
    if evened:
        weight = (stddev.detach().mean((1, 2)) + 0.05) ** -evened
        crps = crps * weight
    loss: Tensor = crps.mean()
    return loss


def share_done(config: PretrainConfig, seconds: float, processor_seconds: float) -> float:
    """The share of the budget that is used up."""
    return max(seconds / config.minutes, processor_seconds / config.processor_minutes) / 60.0


def rate_at(config: PretrainConfig, done: float) -> float:
    """The learning rate at a share of the time: a short rise, then half a cosine to 1 % of it."""
    if done < config.warm:
        return config.rate * (0.05 + 0.95 * done / config.warm)
    share = min(1.0, (done - config.warm) / (1 - config.warm))
    return config.rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * share)))


@dataclass
class Progress:
    """Where a run stands."""

    steps: int = 0
    chunks: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0


def train(config: PretrainConfig, folder: Path, *, judge_every: float = 600.0, save_every: float = 120.0) -> Network:
    """Train until the minutes are over, or go on where the folder's checkpoint stands."""
    torch.manual_seed(config.seed)
    network = Network(config.network)
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.rate, weight_decay=config.decay, fused=True)
    folder.mkdir(parents=True, exist_ok=True)
    progress = Progress()
    if (folder / "state.json").exists():
        progress = restore(folder, network, optimiser)
        note(folder, f"goes on at step {progress.steps}, {progress.seconds:.0f} s")
    else:
        if config.start:
            widen(network, read_tensors(Path(config.start), format_=FORMAT)[1])
        (folder / "config.json").write_text(json.dumps(asdict(config) | {"commit": commit()}, indent=1) + "\n")
    network.train()
    start = time.monotonic() - progress.seconds
    processor = time.process_time() - progress.processor_seconds
    smooth, judged, saved = None, progress.seconds, progress.seconds
    for chunk in endless_windows(config, progress.chunks):
        for first in range(0, len(chunk) - config.batch + 1, config.batch):
            rate = rate_at(config, share_done(config, time.monotonic() - start, time.process_time() - processor))
            for group in optimiser.param_groups:
                group["lr"] = rate
            part = slice(first, first + config.batch)
            windows = Windows(chunk.inputs[part], chunk.paths[part], chunk.future[part])
            loss = loss_of(network, windows, evened=config.evened)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            progress.steps += 1
            smooth = loss.item() if smooth is None else 0.995 * smooth + 0.005 * loss.item()
            if progress.steps % 500 == 0:
                spent = time.process_time() - processor
                note(folder, f"step {progress.steps} loss {smooth:.4f} rate {rate:.2e} cpu {spent:.0f} s")
        progress.chunks += 1
        progress.seconds, progress.processor_seconds = time.monotonic() - start, time.process_time() - processor
        over = share_done(config, progress.seconds, progress.processor_seconds) >= 1
        if over or progress.seconds - saved > save_every:
            store(folder, progress, network, optimiser)
            saved = progress.seconds
        if over or progress.seconds - judged > judge_every:
            note(folder, report(network, details=over))
            judged = time.monotonic() - start
            network.train()
        if over:
            break
    return network


def widen(network: Network, tensors: Mapping[str, Tensor]) -> None:
    """Fill a network from the weights of one with fewer inputs so that it forecasts the same: new inputs weigh nothing.

    Inputs are the columns of most matrices; the maps back to them have a block of scales and one of shifts.
    """
    own = network.state_dict()
    for name, value in own.items():
        blocks = 2 if name.startswith("fern.heads_z") else 1
        rows, mine = (part.float().view(blocks, -1, *part.shape[1:]) for part in (tensors[name], value))
        if mine.dim() > 2:
            mine[..., rows.shape[-1] :] = 0.0
            mine[:, : rows.shape[1], : rows.shape[2]] = rows
        else:
            mine[:, : rows.shape[1]] = rows
        own[name] = mine.flatten(0, 1)
    network.load_state_dict(own)


@cache
def validation_windows(count: int = 24) -> dict[str, Windows]:
    """Fresh windows of each family, of a seed that training never has."""
    rng = np.random.default_rng(VALIDATION_SEED)
    windows = {}
    for name in FAMILIES:
        pool = next(stream(length=ROWS, seed=VALIDATION_SEED, only=[name])).values[:count].astype(np.float64)
        windows[name] = draw_windows(pool, rng, 8, mixed=0.0)
    return windows


def report(network: Network, *, details: bool = False) -> str:
    """Held-out loss of the families, and the public tasks before their test part."""
    network.eval()
    losses = {}
    with torch.inference_mode():
        for name, windows in validation_windows().items():
            ahead = network(windows.inputs, windows.paths)
            losses[name] = float(gaussian_crps(windows.future - ahead.mean[:, 0], ahead.stddev[:, 0]).mean())

    def forecast(series: list[NDArray[np.float64]], horizon: int, season: int) -> Any:
        ahead = forecast_distribution(network, Contexts.of(series), horizon)
        return ahead.mean.numpy(), ahead.stddev.numpy()

    scores, line = judge_all(forecast)
    lines = [f"CRPS of held-out synthetic series {np.mean(list(losses.values())):.4f}; {line}"]
    if details:
        lines += [f"  {name}: {value:.4f}" for name, value in losses.items()]
        lines += [
            f"  {name}: MASE {score.mase:.4f} ({score.mase / score.naive_mase:.3f}), "
            f"WQL {score.wql:.4f} ({score.wql / score.naive_wql:.3f}), coverage {score.coverage_80:.3f}"
            for name, score in scores.items()
        ]
    return "\n".join(lines)


def store(folder: Path, progress: Progress, network: Network, optimiser: torch.optim.Optimizer) -> None:
    """Weights, the optimiser's moments and the counters; the counters last, in one move."""
    tensors = {f"weights.{name}": value.contiguous() for name, value in network.state_dict().items()}
    for i, parameter in enumerate(network.parameters()):
        moments = optimiser.state[parameter]
        tensors |= {f"moments.{i}.{name}": torch.as_tensor(value) for name, value in moments.items()}
    number = progress.steps
    save_file(tensors, folder / f"checkpoint-{number}.safetensors")
    draft = folder / "state.json.part"
    draft.write_text(json.dumps(asdict(progress), indent=1) + "\n")
    draft.replace(folder / "state.json")
    for old in folder.glob("checkpoint-*.safetensors"):
        if old.name != f"checkpoint-{number}.safetensors":
            old.unlink()


def restore(folder: Path, network: Network, optimiser: torch.optim.Optimizer) -> Progress:
    """Fill the network and the optimiser from a folder."""
    progress, tensors = read_checkpoint(folder)
    network.load_state_dict(weights_of(tensors))
    for i, parameter in enumerate(network.parameters()):
        prefix = f"moments.{i}."
        optimiser.state[parameter] = {
            name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)
        }
    return progress


def read_checkpoint(folder: Path) -> tuple[Progress, dict[str, Tensor]]:
    """Where a run stands, and all of its tensors."""
    progress = Progress(**json.loads((folder / "state.json").read_text()))
    return progress, load_file(folder / f"checkpoint-{progress.steps}.safetensors")


def weights_of(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the network among the tensors of a checkpoint."""
    prefix = "weights."
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def export(folder: Path, path: Path) -> None:
    """Write the weights of a run as the package holds them, with the record of how they were made."""
    config = read_config(folder / "config.json")
    progress, tensors = read_checkpoint(folder)
    network = Network(config.network)
    network.load_state_dict(weights_of(tensors))
    record = {
        "generator": "fern.synthetic",
        "families": {name: family.weight for name, family in FAMILIES.items()},
        "settings": {name: value for name, value in asdict(config).items() if name not in ("network", "start")},
        "start": describe_start(config.start),
        "commit": json.loads((folder / "config.json").read_text())["commit"],
        "steps": progress.steps,
        "windows": progress.steps * config.batch,
        "series": progress.chunks * config.blocks * BLOCK,
        "hours": round(progress.seconds / 3600, 3),
        "processor_hours": round(progress.processor_seconds / 3600, 3),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    write_weights(network, path, record)


def describe_start(start: str) -> dict[str, Any] | None:
    """The name and the record of the weights that a run started from."""
    if not start:
        return None
    described, _, _ = read_tensors(Path(start), format_=FORMAT)
    return {"weights": Path(start).stem, **described["training"]}


def note(folder: Path, text: str) -> None:
    """A line of the log, on the screen and in the folder."""
    line = f"{time.strftime('%H:%M:%S')} {text}"
    print(line, flush=True)
    with (folder / "log.txt").open("a") as file:
        file.write(line + "\n")


def commit() -> str:
    """The commit that the code stands at."""
    answer = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def read_config(path: Path) -> PretrainConfig:
    """The settings that a run's folder holds."""
    values = json.loads(path.read_text())
    values.pop("commit", None)
    values["network"] = from_mapping(NetworkConfig, values["network"], where=str(path))
    return PretrainConfig(**values)
