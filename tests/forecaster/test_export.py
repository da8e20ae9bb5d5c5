"""The exported program gives the point forecast of `predict_array`, for any number of windows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fern.errors import FernError
from fern.forecaster import FernForecaster

# torch's own serialisation uses names that Python calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def test_an_exported_program_agrees_with_the_forecaster(fitted: FernForecaster, tmp_path: Path) -> None:
    fitted.export(tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    rng = np.random.default_rng(0)
    for windows in (1, 3, 40):
        past = rng.normal(5.0, 2.0, size=(windows, fitted.context_length_, 1)).astype(np.float32)
        with torch.no_grad():
            found = program(torch.from_numpy(past)).numpy()
        np.testing.assert_allclose(found, fitted.predict_array(past), atol=1e-5)


def test_the_scale_of_a_single_series_is_inside(tmp_path: Path) -> None:
    time = np.arange(200)
    frame = pd.DataFrame({"t": time, "a": 100 * np.sin(time / 5), "b": 2.0 + np.cos(time / 3)})
    forecaster = FernForecaster(horizon=5, model="dlinear", epochs=1, progress="silent", threads=1).fit(frame)
    forecaster.export(tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    past = frame[["a", "b"]].to_numpy()[-forecaster.context_length_ :].astype(np.float32)
    found = program(torch.from_numpy(past)[None])[0].detach().numpy()
    np.testing.assert_allclose(found, forecaster.predict()[["a", "b"]], rtol=1e-5, atol=1e-5)


def test_another_ending_and_no_model_are_refused(fitted: FernForecaster, tmp_path: Path) -> None:
    with pytest.raises(FernError, match=r"ends in .pt2, got '.onnx'"):
        fitted.export(tmp_path / "model.onnx")
    with pytest.raises(FernError, match="does not exist"):
        fitted.export(tmp_path / "no" / "model.pt2")
