"""Saved models: whole, checked, and refused when they are not what they say."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tests.errors import raises_error
from torch import Generator

from fern.errors import FernError
from fern.models import Forecaster, build_model, load_model, save_model, storage
from fern.models import storage as tensorfile
from fern.models.naive import LastValue

FILE = Path("model.safetensors")


def model(seed: int = 7, hidden: int = 8) -> Forecaster:
    return build_model(
        "fern",
        context_length=12,
        horizon=10,
        channels=2,
        hidden=hidden,
        latent=3,
        patch_size=4,
        reflections=2,
        generator=Generator().manual_seed(seed),
    )


def described(name: str, like: Forecaster) -> str:
    """A header for ``like``'s settings under a model's name."""
    return json.dumps({"model": name, "config": like.config.__dict__, "version": "0"})


def write(text: str, tensors: dict[str, torch.Tensor], **changed: str) -> None:
    """A file with a right checksum, whatever it says."""
    header = {"format": storage.FORMAT, "fern": text, "sha256": tensorfile._digest(text, tensors), **changed}
    save_file(tensors, FILE, metadata=header)


def test_round_trip_keeps_every_bit_and_the_settings() -> None:
    saved = model()
    save_model(saved, FILE)
    loaded = load_model(FILE)
    assert loaded.config == saved.config
    assert type(loaded) is type(saved)
    for (name, a), (_, b) in zip(saved.state_dict().items(), loaded.state_dict().items(), strict=True):
        assert torch.equal(a, b), name


def test_double_precision_comes_back_in_double_precision() -> None:
    save_model(model().double(), FILE)
    assert next(load_model(FILE).parameters()).dtype == torch.float64


def test_what_prepare_learnt_is_saved() -> None:
    mean = build_model("training-mean", context_length=3, horizon=2, channels=1)
    mean.prepare([(torch.zeros(1, 3, 1), torch.full((1, 2, 1), 4.5))])
    save_model(mean, FILE)
    assert load_model(FILE)(torch.zeros(1, 3, 1)).mean.flatten().tolist() == [4.5, 4.5]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.99])
def test_a_truncated_file_is_refused(share: float) -> None:
    save_model(model(), FILE)
    whole = FILE.read_bytes()
    FILE.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(FernError, match="not a readable safetensors file"):
        load_model(FILE)


def test_a_changed_weight_is_refused() -> None:
    save_model(model(), FILE)
    contents = bytearray(FILE.read_bytes())
    contents[-1] ^= 1
    FILE.write_bytes(bytes(contents))
    with pytest.raises(FernError, match="do not match their checksum"):
        load_model(FILE)


def test_a_changed_setting_is_refused() -> None:
    save_model(model(), FILE)
    contents = FILE.read_bytes()
    assert contents.count(b'\\"noise\\": 0.1') == 1
    FILE.write_bytes(contents.replace(b'\\"noise\\": 0.1', b'\\"noise\\": 0.2'))
    with pytest.raises(FernError, match="do not match their checksum"):
        load_model(FILE)


def test_weights_of_another_size_or_model_are_refused() -> None:
    small, large = model(), model(hidden=9)
    write(described("fern", small), large.state_dict())
    with pytest.raises(FernError, match="has shape"):
        load_model(FILE)
    write(described("fern", small), {"weight": torch.zeros(3)})
    with pytest.raises(FernError, match=r"do not match fern: missing .* unexpected \['weight'\]"):
        load_model(FILE)


def test_unknown_models_settings_and_formats_are_refused_by_name() -> None:
    own = model()
    write(described("ferm", own), own.state_dict())
    with pytest.raises(FernError, match="unknown model 'ferm': did you mean 'fern'"):
        load_model(FILE)
    write(described("fern", own).replace("hidden", "hiden"), own.state_dict())
    with pytest.raises(FernError, match="unknown setting 'hiden'"):
        load_model(FILE)
    write("[1", own.state_dict())
    with pytest.raises(FernError, match="not valid JSON"):
        load_model(FILE)
    write("[1]", own.state_dict())
    with pytest.raises(FernError, match="are list, need an object"):
        load_model(FILE)
    write(described("fern", own), own.state_dict(), format="other")
    with raises_error("format", got="other"):
        load_model(FILE)
    FILE.write_text("weights")
    with pytest.raises(FernError, match="not a readable safetensors file"):
        load_model(FILE)
    with pytest.raises(FernError, match="no such file"):
        load_model(Path("absent"))


def test_a_failed_save_leaves_the_earlier_file(monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(model(), FILE)
    before = FILE.read_bytes()

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tensorfile, "save_file", full_disk)
    with pytest.raises(FernError, match="No space left on device"):
        save_model(model(seed=8), FILE)
    assert FILE.read_bytes() == before
    assert [path.name for path in Path().iterdir()] == [FILE.name]


def test_tied_weights_are_saved_each_under_its_name() -> None:
    shared = torch.arange(3.0)
    tensorfile.write_tensors(FILE, {"a": shared, "b": shared}, {}, format_="tied-1")
    _, tensors, _ = tensorfile.read_tensors(FILE, format_="tied-1")
    assert torch.equal(tensors["a"], shared)
    assert torch.equal(tensors["b"], shared)


def test_an_unregistered_model_is_refused() -> None:
    class Own(LastValue):
        pass

    own = Own(build_model("last-value", context_length=3, horizon=2, channels=1).config)
    with raises_error("model"):
        save_model(own, FILE)
