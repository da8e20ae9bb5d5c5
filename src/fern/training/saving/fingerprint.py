"""What a run is a run of: model, data, settings and versions, so that another's checkpoint is not taken for it."""

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from fern._version import __version__
from fern.data.windows import Windows
from fern.errors import FernError
from fern.models import Forecaster
from fern.training.config import TrainConfig
from fern.training.inputs import WindowSets

FREE_TO_CHANGE = (
    "threads",
    "accelerator",
    "compile",
    "checkpoint_steps",
    "checkpoint_seconds",
    "evaluation_batch_size",
    "time_limit",
)
"""Settings that a resumed run may change: they decide where, how fast and how long it computes."""

ADDED: Mapping[str, Any] = {
    "normalise": "none",
    "skip": "none",
    "channels_seen": "own",
    "objective": {"crps": 0.0},
    "head_spread": 0.1,
    "validation_windows": None,
}
"""Settings younger than some checkpoints, and what a run without them was made by."""

_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Fingerprint:
    """Model, data and settings of a run, and the versions that made it."""

    model: dict[str, Any]
    data: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, as they come back from a JSON file."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain


def fingerprint(model: Forecaster, config: TrainConfig, data: WindowSets) -> Fingerprint:
    """The fingerprint of a run."""
    shapes = {name: list(value.shape) for name, value in model.state_dict().items()}
    return Fingerprint(
        model={"class": type(model).__name__, "config": asdict(model.config), "shapes": shapes},
        data={name: None if windows is None else describe(windows) for name, windows in data.named().items()},
        settings=config.to_mapping(),
        versions={"fern": __version__, "torch": str(torch.__version__), "python": platform.python_version()},
    )


def describe(windows: Windows) -> dict[str, Any]:
    """The size of a window set, and a checksum of its series and of where its windows start."""
    digest = hashlib.sha256()
    for series in (windows.values,) if windows.targets is windows.values else (windows.values, windows.targets):
        values = series.cpu().contiguous()
        for first in range(0, len(values), _AT_ONCE):
            digest.update(values[first : first + _AT_ONCE].numpy().tobytes())
    for first in range(0, len(windows), _AT_ONCE):
        digest.update(windows.starts(torch.arange(first, min(first + _AT_ONCE, len(windows)))).numpy().tobytes())
    return {
        "windows": len(windows),
        "context_length": windows.context_length,
        "horizon": windows.horizon,
        "channels": windows.channels,
        "sha256": digest.hexdigest(),
    }


def require_same(saved: Mapping[str, Any], present: Mapping[str, Any], *, where: str) -> None:
    """Refuse to go on with a checkpoint of another model, other data or other settings; versions may differ."""
    was, now = saved["model"], present["model"]
    was = {**was, "config": _completed(was["config"], now["config"])}
    if was != now:
        changed = _differences(was["config"], now["config"]) or "other weights"
        raise FernError(
            f"resume: {where} belongs to another model: {was['class']} there, {now['class']} here"
            + (f" ({changed})" if was["class"] == now["class"] else "")
        )
    for name, described in saved["data"].items():
        if described != present["data"][name]:
            raise FernError(f"resume: {where} was trained on different data: {name} differ")
    completed = _completed(saved["settings"], present["settings"])
    was, now = ({k: v for k, v in s.items() if k not in FREE_TO_CHANGE} for s in (completed, present["settings"]))
    if was["schedule"] == now["schedule"] == "constant" and not now["warmup"]:
        for settings in (was, now):  # more epochs only continue a run whose learning rate does not depend on them
            settings.pop("epochs")
    if was != now:
        raise FernError(f"resume: {where} has different settings: {_differences(was, now)}")


def _completed(
    saved: Mapping[str, Any], present: Mapping[str, Any], added: Mapping[str, Any] = ADDED
) -> dict[str, Any]:
    """The saved settings with those that did not exist yet."""
    complete = dict(saved)
    for name in added.keys() & present.keys():
        if name not in saved:
            complete[name] = added[name]
        elif isinstance(saved[name], Mapping) and isinstance(present[name], Mapping):
            complete[name] = _completed(saved[name], present[name], added[name])
    return complete


def _differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    return ", ".join(f"{name} {was.get(name)!r} there, {now.get(name)!r} here" for name in names)
