"""Checkpoints: what they hold, that they survive bad luck, and which are refused."""

import errno
import json
import resource
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from tests.errors import raises_error
from tests.training.support import InterruptedAt, InterruptionError
from torch import nn

from fern.data.windows import Windows
from fern.errors import FernError
from fern.models import Forecaster, ModelConfig, PointForecaster, build_model, load_model
from fern.models import storage as tensorfile
from fern.training import TrainConfig, TrainResult, resumable, train
from fern.training.checkpoints import ADDED, fingerprint, require_same_run
from fern.training.evaluation import WindowSets

Sets = dict[str, Windows]
Builder = Callable[[], Forecaster]

LAST, BEST = Path("run/last.safetensors"), Path("run/best.safetensors")


def run(
    model: Forecaster,
    windows: Sets,
    config: TrainConfig,
    *,
    resume: bool = False,
    interrupted_at: int | None = None,
) -> TrainResult:
    """Train in the folder ``run``."""
    progress = "silent" if interrupted_at is None else InterruptedAt(interrupted_at)
    where = {"resume": "run"} if resume else {"directory": "run"}
    return train(model, windows["train"], windows["validation"], config, progress=progress, **where)


@pytest.fixture
def config(quick: TrainConfig) -> TrainConfig:
    return replace(quick, checkpoint_steps=2)


def same(first: TrainResult, second: TrainResult) -> bool:
    mine, yours = first.model.state_dict(), second.model.state_dict()
    return first.history == second.history and all(torch.equal(mine[name], yours[name]) for name in mine)


def test_best_is_a_model_file_that_load_model_reads(windows: Sets, fern: Builder, config: TrainConfig) -> None:
    result = run(fern(), windows, config)
    loaded = load_model(BEST)
    past, _ = windows["validation"].gather(torch.arange(5))
    with torch.no_grad():
        assert torch.equal(loaded(past).mean, result.model(past).mean)
    assert sorted(path.name for path in Path("run").iterdir()) == ["best.safetensors", "last.safetensors"]


@pytest.mark.parametrize("interrupted_at", [1, 2, 3, 4, 7, 8])
def test_a_run_interrupted_at_any_step_resumes_to_the_same_bits(
    windows: Sets, fern: Builder, config: TrainConfig, interrupted_at: int
) -> None:
    # Windows in batches of 32 make 4 steps an epoch; checkpoints are at steps 2 and 4 of each.
    whole = train(fern(), windows["train"], windows["validation"], config, progress="silent")
    with pytest.raises(InterruptionError):
        run(fern(), windows, config, interrupted_at=interrupted_at)
    assert resumable("run")
    assert same(run(fern(), windows, config, resume=True), whole)


def test_a_model_that_draws_from_the_global_generator_resumes_to_the_same_bits(
    windows: Sets, config: TrainConfig
) -> None:
    class Dropping(PointForecaster):
        def __init__(self) -> None:
            super().__init__(ModelConfig(context_length=12, horizon=6, channels=2))
            self.map, self.drop = nn.Linear(12, 6), nn.Dropout(0.3)

        def predict(self, past: torch.Tensor) -> torch.Tensor:
            return self.map(self.drop(past).mT).mT

    whole = train(Dropping(), windows["train"], windows["validation"], config, progress="silent")
    with pytest.raises(InterruptionError):
        run(Dropping(), windows, config, interrupted_at=3)
    assert same(run(Dropping(), windows, config, resume=True), whole)


def test_a_checkpoint_by_the_clock_within_an_epoch(windows: Sets, fern: Builder, quick: TrainConfig) -> None:
    config = replace(quick, checkpoint_seconds=1e-9)
    with pytest.raises(InterruptionError):
        run(fern(), windows, config, interrupted_at=3)
    with safe_open(LAST, framework="pt") as file:
        state = json.loads(file.metadata()["fern"])["run"]
    assert (state["epoch"], state["step"]) == (1, 2)


def test_the_header_tells_history_and_settings_as_json(windows: Sets, fern: Builder, config: TrainConfig) -> None:
    result = run(fern(), windows, config)
    with safe_open(LAST, framework="pt") as file:
        header = json.loads(file.metadata()["fern"])
    assert [record["epoch"] for record in header["run"]["history"]] == [1, 2, 3]
    assert header["run"]["reason"] == result.stopped == "epochs"
    assert header["fingerprint"]["settings"]["learning_rate"] == 1e-2


def test_a_finished_run_is_not_trained_further(windows: Sets, fern: Builder, config: TrainConfig) -> None:
    whole = run(fern(), windows, config)
    before = LAST.read_bytes()
    again = run(fern(), windows, config, resume=True)
    assert same(again, whole)
    assert again.best_epoch == whole.best_epoch
    assert LAST.read_bytes() == before


def test_a_constant_learning_rate_lets_a_finished_run_have_more_epochs(
    windows: Sets, fern: Builder, config: TrainConfig
) -> None:
    longer = replace(config, epochs=5)
    whole = train(fern(), windows["train"], windows["validation"], longer, progress="silent")
    run(fern(), windows, config)
    assert same(run(fern(), windows, longer, resume=True), whole)


def test_a_run_that_has_more_epochs_than_are_asked_for_now_is_given_back(
    windows: Sets, fern: Builder, config: TrainConfig
) -> None:
    whole = run(fern(), windows, config)
    fewer = run(fern(), windows, replace(config, epochs=2), resume=True)
    assert same(fewer, whole)


def test_only_what_a_killed_write_left_is_cleared(windows: Sets, fern: Builder, config: TrainConfig) -> None:
    Path("run").mkdir()
    left, own = Path("run/.last.ab12.safetensors"), Path("run/.mine.safetensors")
    left.touch()
    own.touch()
    run(fern(), windows, config)
    assert own.exists()
    assert not left.exists()


def test_a_schedule_over_the_epochs_does_not(windows: Sets, fern: Builder, config: TrainConfig) -> None:
    cycle = replace(config, schedule="one-cycle")
    run(fern(), windows, cycle)
    with pytest.raises(FernError, match="different settings: epochs 3 there, 5 here"):
        run(fern(), windows, replace(cycle, epochs=5), resume=True)


def test_a_directory_with_a_run_is_not_overwritten(windows: Sets, fern: Builder, config: TrainConfig) -> None:
    run(fern(), windows, config)
    with pytest.raises(FernError, match="run already holds a run; give resume='run'"):
        run(fern(), windows, config)


def test_resuming_from_nothing_or_elsewhere_is_refused(windows: Sets, fern: Builder, config: TrainConfig) -> None:
    with raises_error("resume"):
        run(fern(), windows, config, resume=True)
    with raises_error("directory"):
        train(fern(), windows["train"], windows["validation"], config, directory="a", resume="b", progress="silent")
    Path("file").touch()
    with raises_error(where="file"):
        train(fern(), windows["train"], windows["validation"], config, directory="file", progress="silent")


def test_a_checkpoint_of_another_model_data_or_settings_is_refused(
    windows: Sets, fern: Builder, config: TrainConfig
) -> None:
    run(fern(), windows, config)
    sizes = {"context_length": 12, "horizon": 6, "channels": 2, "hidden": 8, "layers": 2, "patch_size": 3}
    with pytest.raises(FernError, match=r"another model: Fern there, Fern here \(latent 3 there, 4 here\)"):
        run(build_model("fern", **sizes, reflections=2, latent=4), windows, config, resume=True)
    with pytest.raises(FernError, match="trained on different data: windows_train differ"):
        run(fern(), {**windows, "train": windows["test"]}, config, resume=True)
    with pytest.raises(FernError, match=r"different settings: learning_rate 0\.01 there, 0\.02 here"):
        run(fern(), windows, replace(config, learning_rate=0.02), resume=True)
    assert len(run(fern(), windows, replace(config, threads=None, checkpoint_steps=None), resume=True).history) == 3


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_checkpoint_is_refused(windows: Sets, fern: Builder, config: TrainConfig, share: float) -> None:
    run(fern(), windows, config)
    whole = LAST.read_bytes()
    LAST.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(FernError, match=r"last\.safetensors: not a readable safetensors file"):
        run(fern(), windows, config, resume=True)


def test_a_tampered_checkpoint_is_refused(windows: Sets, fern: Builder, config: TrainConfig) -> None:
    run(fern(), windows, config)
    whole = LAST.read_bytes()
    changed = bytearray(whole)
    changed[-1] ^= 1
    LAST.write_bytes(bytes(changed))
    with pytest.raises(FernError, match="do not match their checksum"):
        run(fern(), windows, config, resume=True)
    assert whole.count(b'\\"reason\\": \\"epochs\\"') == 1
    LAST.write_bytes(whole.replace(b'\\"reason\\": \\"epochs\\"', b'\\"reason\\": \\"epochz\\"'))
    with pytest.raises(FernError, match="do not match their checksum"):
        run(fern(), windows, config, resume=True)


def test_best_weights_that_are_lost_for_good_are_an_error_and_others_are_mended(
    windows: Sets, fern: Builder, config: TrainConfig
) -> None:
    rising = replace(config, keep="last")  # so that the last epoch is the one to keep
    whole = run(fern(), windows, rising)
    kept = tensorfile.read_tensors(BEST, format_="fern-model-1")[2]
    BEST.write_bytes(b"damaged")
    assert same(run(fern(), windows, rising, resume=True), whole)
    assert tensorfile.read_tensors(BEST, format_="fern-model-1")[2] == kept
    with pytest.raises(InterruptionError):  # within epoch 5 the weights of epoch 4 are in best alone
        train_on = replace(rising, epochs=6)
        train(
            fern(),
            windows["train"],
            windows["validation"],
            train_on,
            resume="run",
            progress=InterruptedAt(4 + 3),
        )
    BEST.unlink()
    with pytest.raises(FernError, match=r"best\.safetensors: no such file; the weights of epoch 4 are lost"):
        run(fern(), windows, train_on, resume=True)


def test_a_full_disk_ends_the_run_clearly_and_leaves_the_earlier_checkpoint(
    windows: Sets, fern: Builder, config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(fern(), windows["train"], windows["validation"], config, progress="silent")
    write, writes = tensorfile.save_file, []

    def full(tensors: dict[str, torch.Tensor], path: Path, *, metadata: dict[str, str]) -> None:
        writes.append(path)
        write(tensors, path, metadata=metadata)
        if len(writes) == 5:
            with open(path, "r+b") as file:  # noqa: PTH123
                file.truncate(100)
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(tensorfile, "save_file", full)
        with pytest.raises(FernError, match=r"last\.safetensors: was not written \(No space left on device\)"):
            run(fern(), windows, config)
    assert sorted(path.name for path in Path("run").iterdir()) == ["best.safetensors", "last.safetensors"]
    assert same(run(fern(), windows, config, resume=True), whole)


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs a limit on file sizes")
def test_a_write_that_the_system_refuses_half_way_is_a_clear_error_too() -> None:
    # A real refusal by the kernel, here of a file that grows too large, as safetensors itself meets it.
    file, most = Path("a.safetensors"), resource.getrlimit(resource.RLIMIT_FSIZE)
    tensorfile.write_tensors(file, {"w": torch.zeros(1000)}, {}, format_="t")
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, most[1]))  # Python ignores the signal that would tell of it
    try:
        with raises_error(where="a.safetensors"):
            tensorfile.write_tensors(file, {"w": torch.ones(100_000)}, {}, format_="t")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert tensorfile.read_tensors(file, format_="t")[1]["w"].sum().item() == 0.0
    assert [path.name for path in Path().iterdir()] == ["a.safetensors"]


def test_a_run_from_before_a_setting_existed_was_made_by_its_neutral_value(windows: dict[str, Windows]) -> None:
    sizes = {"context_length": 12, "horizon": 6, "channels": 2}
    data = WindowSets(windows["train"], windows["validation"], None)
    present = fingerprint(build_model("fern", **sizes), TrainConfig(), data).to_mapping()
    saved = deepcopy(present)
    for name in ADDED.keys() & saved["model"]["config"].keys():
        del saved["model"]["config"][name]
    del saved["settings"]["objective"]["crps"]
    require_same_run(saved, present, where="run")
    saved["settings"]["objective"]["mae"] = 2.0
    with pytest.raises(FernError, match="different settings: objective"):
        require_same_run(saved, present, where="run")
