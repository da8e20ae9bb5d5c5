"""Which saved runs are a run's own."""

from copy import deepcopy

import pytest

from fern.data.windows import Windows
from fern.errors import FernError
from fern.models import build_model
from fern.training import TrainConfig
from fern.training.checkpoints import ADDED, fingerprint, require_same_run
from fern.training.inputs import WindowSets


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
