"""TensorBoard and MLflow by one argument, and nothing without it."""

import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fern.data.windows import Windows
from fern.errors import FernError
from fern.models import Forecaster
from fern.training import TrainConfig, train

Sets = dict[str, Windows]
Builder = Callable[[], Forecaster]


class Recorder(types.ModuleType):
    """A module in which every function notes its calls."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **named: self.calls.append((name, args, named))


def test_mlflow_gets_settings_figures_and_outcome(
    windows: Sets, fern: Builder, quick: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = Recorder("mlflow")
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    result = train(
        fern(), windows["train"], windows["validation"], quick, windows_test=windows["test"], progress="silent",
        tracker="mlflow",
    )  # fmt: skip
    names = [name for name, _, _ in mlflow.calls]
    assert names == ["start_run", "log_params", "log_metrics", "log_metrics", "log_metrics", "set_tag", "end_run"]
    assert mlflow.calls[1][1][0]["learning_rate"] == 1e-2
    for call, record in zip(mlflow.calls[2:5], result.history, strict=True):
        assert call[2] == {"step": record.epoch}
        assert call[1][0]["train/loss"] == record.train_loss
        assert call[1][0]["validation/objective"] == record.validation["objective"]
        assert call[1][0]["test/mse"] == record.test["mse"]
    assert mlflow.calls[5][1] == ("outcome", f"stopped by epochs, kept epoch {result.best_epoch}")


class Runs(Recorder):
    """An MLflow whose runs are numbered from 0."""

    def start_run(self, run_id: str | None = None) -> types.SimpleNamespace:
        begun = sum(name == "begin" for name, _, _ in self.calls)
        self.calls.append(("begin" if run_id is None else "continue", (run_id,), {}))
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=f"run-{begun}"))


def test_a_resumed_training_goes_on_with_its_mlflow_run(
    windows: Sets, fern: Builder, quick: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = Runs("mlflow")
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    told: dict[str, Any] = {"progress": "silent", "tracker": "mlflow"}
    train(fern(), windows["train"], windows["validation"], quick, directory="run", **told)
    longer = replace(quick, epochs=quick.epochs + 1)
    train(fern(), windows["train"], windows["validation"], longer, resume="run", **told)
    starts = [call[:2] for call in mlflow.calls if call[0] in ("begin", "continue")]
    assert starts == [("begin", (None,)), ("continue", ("run-0",))]
    assert [name for name, _, _ in mlflow.calls].count("log_params") == 1
    steps = [named["step"] for name, _, named in mlflow.calls if name == "log_metrics"]
    assert steps == [1, 2, 3, 4]


def test_another_training_in_a_directory_is_another_mlflow_run(
    windows: Sets, fern: Builder, quick: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = Runs("mlflow")
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    Path("run").mkdir()
    Path("run/mlflow_run").write_text("left behind\n")
    train(fern(), windows["train"], windows["validation"], quick, directory="run", progress="silent", tracker="mlflow")
    assert mlflow.calls[0][0] == "begin"
    assert Path("run/mlflow_run").read_text() == "run-0\n"


def test_tensorboard_gets_the_figures_in_the_run_s_directory(
    windows: Sets, fern: Builder, quick: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers: list[Recorder] = []

    def writer(log_dir: str) -> Recorder:
        writers.append(Recorder(log_dir))
        return writers[-1]

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setitem(sys.modules, "tensorboard", types.ModuleType("tensorboard"))
    result = train(
        fern(), windows["train"], windows["validation"], quick, directory="run", progress="silent",
        tracker="tensorboard",
    )  # fmt: skip
    assert [one.__name__ for one in writers] == [str(Path("run/tensorboard"))]
    scalars = {
        (args[0], named["global_step"]): args[1] for name, args, named in writers[0].calls if name == "add_scalar"
    }
    for record in result.history:
        assert scalars["train/loss", record.epoch] == record.train_loss
        assert scalars["validation/mse", record.epoch] == record.validation["mse"]
    assert writers[0].calls[-1][0] == "close"


def test_tensorboard_writes_event_files(windows: Sets, fern: Builder, quick: TrainConfig) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    train(
        fern(),
        windows["train"],
        windows["validation"],
        quick,
        directory="run",
        progress="silent",
        tracker="tensorboard",
    )
    assert len(list(Path("run/tensorboard").glob("events.*"))) == 1


def test_a_tracker_that_is_not_installed_is_a_clear_error_before_any_training(
    windows: Sets, fern: Builder, quick: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(FernError, match="mlflow is not installed"):
        train(fern(), windows["train"], windows["validation"], quick, progress="silent", tracker="mlflow")


def test_unknown_trackers_and_a_tensorboard_without_a_directory_are_refused(
    windows: Sets, fern: Builder, quick: TrainConfig
) -> None:
    with pytest.raises(FernError, match="unknown tracker 'tensorbord': did you mean 'tensorboard'"):
        train(fern(), windows["train"], windows["validation"], quick, tracker="tensorbord")  # type: ignore[arg-type]
    with pytest.raises(FernError, match="tensorboard writes files; give train"):
        train(fern(), windows["train"], windows["validation"], quick, tracker="tensorboard")


def test_a_run_that_diverges_tells_the_tracker(windows: Sets, fern: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = Recorder("mlflow")
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    config = TrainConfig(preset="shock", epochs=2, learning_rate=1e30, loss="mse", threads=1)
    with pytest.raises(FernError, match="diverged"):
        train(fern(), windows["train"], windows["validation"], config, progress="silent", tracker="mlflow")
    name, args, _ = mlflow.calls[-2]
    assert name == "set_tag"
    assert args[1].startswith("diverged at epoch 1")
    assert mlflow.calls[-1][0] == "end_run"


def test_a_tracker_that_fails_is_left_out_and_the_run_goes_on(windows: Sets, fern: Builder, quick: TrainConfig) -> None:
    heard: list[str] = []

    class Away:
        def start(self, settings: object) -> None:
            heard.append("start")

        def epoch(self, record: object) -> None:
            heard.append("epoch")
            raise ConnectionError("the server is away")

        def stop(self, outcome: str, *, failed: bool) -> None:
            heard.append("stop")

    with pytest.warns(RuntimeWarning, match="disabled after it failed with ConnectionError: the server is away"):
        result = train(fern(), windows["train"], windows["validation"], quick, progress="silent", tracker=Away())
    assert len(result.history) == 3
    assert heard == ["start", "epoch"]
