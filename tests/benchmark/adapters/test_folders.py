"""Models that are named by a folder: saved forecasters, and Chronos models on disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fern import FernForecaster
from fern.benchmark import execute_run, make_plan, read_task
from fern.benchmark.adapters.outside import build_outside_model, source_fingerprint
from fern.benchmark.execute import RunCache, RunContext
from fern.benchmark.stress.targets import open_target
from fern.errors import FernError
from fern.models import ModelConfig

SIZES = ModelConfig(context_length=12, horizon=4, channels=1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = pd.DataFrame({"x": np.sin(np.arange(200) / 3)})
    folder = tmp_path_factory.mktemp("models") / "mine"
    options = {"model": "dlinear", "context_length": 12, "epochs": 1, "classical": False, "progress": "silent"}
    FernForecaster(4, **options).fit(frame).save(folder)
    return folder


def test_a_saved_forecaster_is_a_model_that_forecasts_as_it_did(saved: Path) -> None:
    model = build_outside_model(str(saved), SIZES, seed=0)
    assert not model.trainable
    past = torch.randn(3, 12, 1)
    np.testing.assert_allclose(model(past).mean, FernForecaster.load(saved).predict_array(past.numpy()), rtol=1e-6)
    with pytest.raises(FernError, match="the model's horizon is 4, needs 5"):
        build_outside_model(str(saved), ModelConfig(context_length=12, horizon=5, channels=1), seed=0)


def test_a_saved_forecaster_is_a_target_with_its_own_lengths(saved: Path) -> None:
    assert open_target(str(saved)).config == SIZES


def test_the_benchmark_takes_a_folder(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved.parent)
    task = read_task("quick").narrowed(models=["last-value"], datasets=["OU_PARAM"], horizons=[4])
    from dataclasses import replace

    run = make_plan(replace(task, context_length=12).beside(["mine"])).runs[-1]
    assert run.settings.model == "./mine"
    row = execute_run(run, RunContext(), RunCache()).result
    assert row.status == "done" and row.epochs == 0
    assert run.settings.code_version.endswith(source_fingerprint("./mine"))


def test_other_folders_and_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FernError, match="holds neither a saved FernForecaster"):
        build_outside_model(str(tmp_path), SIZES, seed=0)
    with pytest.raises(FernError, match=r"got 'mnie', needs module:callable.*or the folder"):
        read_task("quick").beside(["mnie"])
    with pytest.raises(FernError, match=r"has no saved model .*forecaster\.json"):
        open_target(str(tmp_path))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("channels", [1, 2])
def test_a_chronos_model_on_disk_is_read_from_its_folder(
    needs: Callable[..., Any], tmp_path: Path, channels: int
) -> None:
    needs("chronos")
    from chronos.chronos_bolt import ChronosBoltModelForForecasting
    from transformers import T5Config

    config = T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, vocab_size=2, feed_forward_proj="relu")
    config.decoder_start_token_id = config.pad_token_id = 0
    config.chronos_config = {
        "context_length": 32,
        "prediction_length": 8,
        "input_patch_size": 4,
        "input_patch_stride": 4,
        "quantiles": [0.1, 0.5, 0.9],
        "use_reg_token": True,
    }
    config.chronos_pipeline_class = "ChronosBoltPipeline"
    config.architectures = ["ChronosBoltModelForForecasting"]
    torch.manual_seed(0)
    folder = tmp_path / "bolt"
    ChronosBoltModelForForecasting(config).save_pretrained(folder)
    sizes = ModelConfig(context_length=12, horizon=4, channels=channels)
    past = torch.randn(3, 12, channels) + 5
    made = build_outside_model(str(folder), sizes, seed=0)(past).mean
    from chronos import BaseChronosPipeline

    pipeline = BaseChronosPipeline.from_pretrained(str(folder))
    for c in range(channels):
        quantiles, _ = pipeline.predict_quantiles(past[:, :, c], prediction_length=4, quantile_levels=[0.5])
        torch.testing.assert_close(made[:, :, c], quantiles[..., 0])


def test_without_chronos_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for module in [name for name in sys.modules if name.partition(".")[0] == "chronos"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "chronos", None)
    (tmp_path / "config.json").write_text('{"chronos_config": {}}')
    with pytest.raises(FernError, match=r"chronos is not installed: pip install 'fern-forecast\[chronos\]'"):
        build_outside_model(str(tmp_path), SIZES, seed=0)
