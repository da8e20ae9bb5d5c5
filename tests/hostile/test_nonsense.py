"""No silent nonsense: contexts too large for a model, weights of strange types, forged checkpoints."""

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.hostile.support import examples

from fern.data.windows import Windows
from fern.errors import FernError
from fern.models import FittedForecaster, build_model, load_model, model_names, save_model
from fern.models.registry import model_entry
from fern.models.storage import FORMAT, read_tensors, write_tensors
from fern.training import TrainConfig, train
from fern.training.checkpoints import FORMAT as RUN_FORMAT
from fern.training.checkpoints import LAST, Unresumable

SIZES: dict[str, Any] = {"context_length": 32, "horizon": 8, "channels": 2}
SERIES = torch.sin(torch.arange(300.0) / 5)[:, None].repeat(1, 2)


def prepared(name: str) -> Any:
    model = build_model(name, **SIZES, generator=torch.Generator().manual_seed(0))
    windows = Windows(SERIES, context_length=32, horizon=8)
    model.prepare([windows.gather(torch.arange(64))])
    if isinstance(model, FittedForecaster):
        model.fit([SERIES[:200]], *windows.gather(torch.arange(64)))
    return model.eval()


@pytest.mark.parametrize("size", [1e30, 1e37, 3e38])
@pytest.mark.parametrize("name", model_names())
def test_a_finite_context_gives_a_finite_forecast_or_a_refusal(name: str, size: float) -> None:
    model = prepared(name)
    past = torch.randn(3, 32, 2, generator=torch.Generator().manual_seed(1)).clamp(-1, 1) * size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # PFNN holds its rollout and says so
        try:
            mean = model(past).mean
        except FernError as error:
            assert "past: its values reach" in str(error)
            assert "scale them first" in str(error)
            return
    assert bool(torch.isfinite(mean).all())


@pytest.mark.filterwarnings("ignore:polymap.*held at:RuntimeWarning")  # beyond the rows it was fitted to
@pytest.mark.parametrize("name", model_names())
def test_a_large_context_that_a_model_can_do_is_done(name: str) -> None:
    past = 1e4 * torch.randn(2, 32, 2, generator=torch.Generator().manual_seed(1))
    assert bool(torch.isfinite(prepared(name)(past).mean).all())


def test_weights_that_are_not_finite_are_not_blamed_on_the_context() -> None:
    model = prepared("dlinear")
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    assert not bool(torch.isfinite(model(torch.ones(1, 32, 2)).mean).all())


@pytest.mark.filterwarnings("ignore:polymap.*held at:RuntimeWarning")  # beyond the rows it was fitted to
@pytest.mark.parametrize("name", model_names())
def test_every_model_is_saved_in_one_type_and_loads(name: str) -> None:
    model = prepared(name)
    save_model(model, Path("m.safetensors"))
    again = load_model(Path("m.safetensors"))
    past = torch.randn(2, 32, 2, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(again(past).mean, model(past).mean)


def forged(change: Callable[[dict[str, torch.Tensor]], Any], name: str = "dlinear") -> Path:
    model = prepared(name)
    tensors = {key: value.clone() for key, value in model.state_dict().items()}
    change(tensors)
    write_tensors(
        Path("m.safetensors"), tensors, {"model": name, "config": asdict(model.config), "version": "0"}, format_=FORMAT
    )
    return Path("m.safetensors")


def first(tensors: dict[str, torch.Tensor]) -> str:
    return next(name for name, value in tensors.items() if value.is_floating_point())


def as_type(kind: torch.dtype) -> Callable[[dict[str, torch.Tensor]], Any]:
    return lambda tensors: tensors.update({name: value.to(kind) for name, value in tensors.items()})


BAD_WEIGHTS: dict[str, tuple[Callable[[dict[str, torch.Tensor]], Any], str]] = {
    "float8": (as_type(torch.float8_e4m3fn), "is float8_e4m3fn, needs one of float32"),
    "int32": (as_type(torch.int32), "is int32, needs one of float32"),
    "uint8": (as_type(torch.uint8), "is uint8"),
    "bool": (as_type(torch.bool), "is bool"),
    "two types": (lambda t: t.update({first(t): t[first(t)].double()}), "of several types"),
    "another shape": (lambda t: t.update({first(t): torch.ones(3)}), "has shape"),
    "one missing": (lambda t: t.pop(first(t)), "missing"),
    "one too many": (lambda t: t.update({"surprise": torch.ones(1)}), "unexpected"),
    "none at all": (lambda t: t.clear(), "missing"),
}


@pytest.mark.parametrize("name", BAD_WEIGHTS)
def test_weights_of_strange_types_and_shapes_are_refused(name: str) -> None:
    change, says = BAD_WEIGHTS[name]
    with pytest.raises(FernError, match=says):
        load_model(forged(change))


def test_weights_of_half_and_double_precision_load() -> None:
    for kind in (torch.float64, torch.bfloat16, torch.float16):
        assert next(load_model(forged(as_type(kind))).parameters()).dtype == kind


HEADERS: dict[str, tuple[Any, str]] = {
    "no model": ({"config": {}}, "needs a model's name"),
    "a number for a model": ({"model": 3, "config": {}}, "needs a model's name"),
    "an unknown model": ({"model": "gpt", "config": {}}, "unknown model 'gpt'"),
    "a list for a config": ({"model": "dlinear", "config": []}, "needs a model's name and its settings"),
    "no config": ({"model": "dlinear"}, "needs a model's name and its settings"),
    "an empty config": ({"model": "dlinear", "config": {}}, "context_length"),
    "a billion layers": (
        {"model": "patchtst", "config": {**SIZES, "layers": 10**9}},
        "layers: got 1000000000",
    ),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_is_no_models_is_refused(name: str) -> None:
    described, says = HEADERS[name]
    write_tensors(Path("m.safetensors"), {"w": torch.ones(1)}, described, format_=FORMAT)
    with pytest.raises(FernError, match=says):
        load_model(Path("m.safetensors"))


@pytest.mark.parametrize("content", [b"", b"x", b"\0" * 8, b"\xff" * 100, (10).to_bytes(8, "little") + b"{}"])
def test_bytes_that_are_no_model_are_refused(content: bytes) -> None:
    Path("m.safetensors").write_bytes(content)
    with pytest.raises(FernError, match="not a readable safetensors file"):
        load_model(Path("m.safetensors"))


def test_a_pipe_is_no_model_and_does_not_hang() -> None:
    os.mkfifo("m.safetensors")
    with pytest.raises(FernError, match=r"no such file|not a"):
        load_model(Path("m.safetensors"))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**18),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)
NAMES = ["dlinear", "fern", "last-value", "patchtst"]


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(name=st.sampled_from(NAMES), data=st.data(), whole=values)
def test_any_header_is_a_model_or_a_mistake(name: str, data: st.DataObject, whole: Any) -> None:
    from dataclasses import fields

    known = [entry.name for entry in fields(model_entry(name).config)]
    config = {**SIZES, **data.draw(st.dictionaries(st.sampled_from(known), values, max_size=2))}
    described = data.draw(st.sampled_from([{"model": name, "config": config}, {"model": whole, "config": whole}]))
    path = Path("any.safetensors")
    try:
        write_tensors(path, build_model(name, **SIZES).state_dict(), described, format_=FORMAT)
    except UnicodeEncodeError:
        return
    try:
        model = load_model(path)
    except FernError:
        return
    assert model(torch.zeros(1, model.config.context_length, model.config.channels)).mean.shape[0] == 1


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The last checkpoint of a short training: what is described, and the tensors."""
    folder = tmp_path_factory.mktemp("trained")
    _train(directory=folder, epochs=2)
    described, tensors, _ = read_tensors(folder / LAST, format_=RUN_FORMAT)
    return described, tensors


def _train(epochs: int = 3, **place: Any) -> Any:
    windows = Windows(SERIES, context_length=32, horizon=8)
    config = TrainConfig(preset="shock", epochs=epochs, grace=0, patience=None, schedule="constant", warmup=0.0)
    return train(build_model("dlinear", **SIZES), windows, windows, config, progress="silent", **place)


def _without(*names: str) -> Callable[[dict[str, Any], dict[str, torch.Tensor]], Any]:
    def change(described: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        for name in names:
            described["run"].pop(name, None)
            described.pop(name, None)
            tensors.pop(name, None)

    return change


def _with(**changes: Any) -> Callable[[dict[str, Any], dict[str, torch.Tensor]], Any]:
    return lambda described, tensors: described["run"].update(changes)


def _tensor(prefix: str, make: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    def change(described: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        name = next(name for name in sorted(tensors) if name.startswith(prefix))
        tensors[name] = make(tensors[name])

    return change


def _dropped(prefix: str) -> Callable[..., Any]:
    def change(described: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if name.startswith(prefix)]:
            del tensors[name]

    return change


FORGED: dict[str, Callable[[dict[str, Any], dict[str, torch.Tensor]], Any]] = {
    **{f"without {name}": _without(name) for name in (
        "epoch", "step", "steps", "loss_sums", "norm_sum", "seconds", "history", "stopping", "reason", "noise",
        "foreign", "run", "fingerprint", "best_sha256",
    )},
    "an epoch of text": _with(epoch="2"),
    "an epoch of 0": _with(epoch=0),
    "steps below 0": _with(steps=-1),
    "steps of truth": _with(steps=True),
    "sums of text": _with(loss_sums="12"),
    "a sum of text": _with(loss_sums=["1"]),
    "two processes": _with(loss_sums=[0.0, 0.0]),
    "history of numbers": _with(history=[1, 2]),
    "history as a number": _with(history=7),
    "stopping as a list": _with(stopping=[]),
    "a reason of its own": _with(reason="tired"),
    "a run that is a list": lambda described, tensors: described.update(run=[1]),
    "a fingerprint that is text": lambda described, tensors: described.update(fingerprint="mine"),
    "a fingerprint without data": lambda described, tensors: described["fingerprint"].pop("data"),
    "a fingerprint of other data": lambda described, tensors: described["fingerprint"]["data"].update(train=None),
    "no weights": _dropped("model."),
    "weights of another shape": _tensor("model.", lambda value: value[:1]),
    "weights of integers": _tensor("model.", lambda value: value.int()),
    "no optimiser": _dropped("optimiser."),
    "an optimiser of another shape": _tensor("optimiser.0.exp_avg", lambda value: value[:1]),
    "an optimiser that would broadcast": _tensor("optimiser.0.exp_avg", lambda value: torch.zeros(1)),
    "an optimiser of integers": _tensor("optimiser.0.exp_avg", lambda value: value.int()),
    "an optimiser with a part missing": _dropped("optimiser.0.exp_avg_sq"),
    "an optimiser for a parameter that is not there": (
        lambda described, tensors: tensors.update({f"optimiser.99.{n}": torch.zeros(()) for n in ("step", "exp_avg")})
    ),
    "an optimiser for a parameter called x": lambda described, tensors: tensors.update({"optimiser.x": torch.ones(1)}),
    "noise of another length": _tensor("noise", lambda value: value[:, :7].clone()),
    "noise of floats": _tensor("noise", lambda value: value.float()),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_checkpoint_is_refused(name: str, trained: tuple[dict[str, Any], dict[str, torch.Tensor]]) -> None:
    described, tensors = json.loads(json.dumps(trained[0])), {key: value.clone() for key, value in trained[1].items()}
    FORGED[name](described, tensors)
    folder = Path("forged")
    folder.mkdir()
    write_tensors(folder / LAST, tensors, described, format_=RUN_FORMAT)
    with pytest.raises(Unresumable):
        _train(resume=folder)


def test_an_honest_checkpoint_is_still_taken_up(tmp_path: Path) -> None:
    _train(directory=tmp_path / "run", epochs=2)
    assert [record.epoch for record in _train(resume=tmp_path / "run").history] == [1, 2, 3]
