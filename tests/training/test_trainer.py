"""``train`` from outside: what it gives back, what it depends on, and what it refuses."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
import torch
from tests.errors import raises_error
from torch import Tensor, nn

from fern.data.windows import Windows
from fern.errors import FernError
from fern.metrics import mae, mse, w2_squared
from fern.models import Forecaster, ModelConfig, PointForecaster, build_model
from fern.training import TrainConfig, train
from fern.training.runtime import generator_for

Sets = dict[str, Windows]
Builder = Callable[[], Forecaster]


def objective(pred: Tensor, true: Tensor) -> Tensor:
    """The paper's checkpoint score."""
    return 0.1 * mse(pred, true) + mae(pred, true) + 0.1 * w2_squared(pred, true)


class Straight(PointForecaster):
    """A forecaster of a user's own: one linear map, not registered."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.map = nn.Linear(config.context_length, config.horizon)

    def predict(self, past: Tensor) -> Tensor:
        return self.map(past.mT).mT


def straight(windows: Windows) -> Straight:
    return Straight(
        ModelConfig(context_length=windows.context_length, horizon=windows.horizon, channels=windows.channels)
    )


def weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_the_model_comes_back_with_the_weights_of_the_best_epoch(windows: Sets, fern: Builder) -> None:
    # A learning rate this high makes later epochs worse, so that best and last differ.
    config = TrainConfig(preset="shock", epochs=6, grace=0, patience=None, batch_size=16, learning_rate=0.1, threads=1)
    model = fern()
    result = train(model, windows["train"], windows["validation"], config, progress="silent")
    best = min(result.history, key=lambda record: record.validation["objective"])
    assert result.model is model
    assert not model.training
    assert result.best_epoch == best.epoch
    assert result.best == best
    assert best.epoch < len(result.history) == 6
    past, future = windows["validation"].gather(torch.arange(len(windows["validation"])))
    with torch.no_grad():
        score = objective(model(past).mean, future)
    # All windows once, whatever the batches: the accumulator sums in float64.
    assert abs(score.item() - best.validation["objective"]) < 1e-9


def test_history_holds_train_validation_and_test_figures_of_every_epoch(
    windows: Sets, fern: Builder, quick: TrainConfig
) -> None:
    result = train(
        fern(), windows["train"], windows["validation"], quick, windows_test=windows["test"], progress="silent"
    )
    assert [record.epoch for record in result.history] == [1, 2, 3]
    for record in result.history:
        assert set(record.validation) == {"mse", "mae", "w2", "objective"}
        assert record.test is not None
        assert set(record.test) == set(record.validation)
        assert record.learning_rate == 1e-2
        assert record.seconds > 0
    assert result.history[2].train_loss < result.history[0].train_loss
    assert [row.choice for row in result.history.recency()] == ["epoch 1", "best by validation", "best by test"]
    assert result.stopped == "epochs"
    assert result.fingerprint.versions["torch"] == torch.__version__


def test_the_last_test_windows_alone_have_figures_beside_those_of_all(
    windows: Sets, fern: Builder, quick: TrainConfig
) -> None:
    test, last = windows["test"], windows["validation"]  # of whatever windows: here of others, to tell them apart
    sizes = {"context_length": test.context_length, "horizon": test.horizon, "channels": test.channels}
    for model in (fern(), build_model("last-value", **sizes)):
        result = train(
            model,
            windows["train"],
            windows["validation"],
            quick,
            windows_test=test,
            windows_last=last,
            progress="silent",
        )
        for record in result.history:
            assert record.test is not None
            assert {name: record.test[f"last_{name}"] for name in record.validation} == record.validation
            assert record.test["mse"] != record.test["last_mse"]


def test_test_windows_are_never_used_for_a_decision(windows: Sets, fern: Builder, quick: TrainConfig) -> None:
    plain = train(fern(), windows["train"], windows["validation"], quick, progress="silent")
    watched = train(
        fern(), windows["train"], windows["validation"], quick, windows_test=windows["test"], progress="silent"
    )
    assert torch.equal(weights(plain.model), weights(watched.model))


def test_the_seed_decides_every_bit_and_nothing_else_does(windows: Sets, fern: Builder, quick: TrainConfig) -> None:
    def run(seed: int) -> Tensor:
        torch.rand(3)  # the global generator is in another state each time
        result = train(fern(), windows["train"], windows["validation"], replace(quick, seed=seed), progress="silent")
        return weights(result.model)

    state = torch.get_rng_state()
    train(fern(), windows["train"], windows["validation"], quick, progress="silent")
    first, second, other = run(7), run(7), run(8)
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    torch.set_rng_state(state)
    model = fern()
    drawn = torch.get_rng_state()
    train(model, windows["train"], windows["validation"], quick, progress="silent")
    assert torch.equal(torch.get_rng_state(), drawn), "training drew from the global generator"


def test_a_model_that_draws_from_the_global_generator_follows_the_seed_too(windows: Sets, quick: TrainConfig) -> None:
    class Dropping(Straight):
        def predict(self, past: Tensor) -> Tensor:
            return super().predict(nn.functional.dropout(past, 0.5, training=self.training))

    def run() -> Tensor:
        model = Dropping(straight(windows["train"]).config)
        state = torch.get_rng_state()
        train(model, windows["train"], windows["validation"], quick, progress="silent")
        assert torch.equal(torch.get_rng_state(), state), "the global generator did not come back"
        return weights(model)

    assert torch.equal(run(), run())


def test_starting_weights_are_those_of_the_seed_or_those_given(windows: Sets, fern: Builder) -> None:
    still = TrainConfig(preset="shock", epochs=1, learning_rate=1e-30, batch_size=64, threads=1)
    drawn = build_model(
        "fern",
        context_length=12,
        horizon=6,
        channels=2,
        hidden=8,
        latent=3,
        layers=2,
        patch_size=3,
        reflections=2,
        generator=generator_for(7, "init"),
    )
    # At such a learning rate no weight moves by a bit (but zeros, which move by the learning rate itself).
    fresh = train(fern(), windows["train"], windows["validation"], still, progress="silent")
    assert torch.allclose(weights(fresh.model), weights(drawn), rtol=0, atol=1e-20)
    given = fern()
    before = weights(given)
    train(given, windows["train"], windows["validation"], replace(still, start="given"), progress="silent")
    assert torch.allclose(weights(given), before, rtol=0, atol=1e-20)
    assert not torch.allclose(before, weights(drawn))


def test_a_model_of_one_s_own_trains_like_the_registered_ones(windows: Sets, quick: TrainConfig) -> None:
    config = replace(quick, epochs=10)
    result = train(straight(windows["train"]), windows["train"], windows["validation"], config, progress="silent")
    assert result.best.validation["mse"] < 0.1 < result.history[0].validation["mse"]


def test_a_part_that_cannot_be_drawn_anew_is_named(windows: Sets, quick: TrainConfig) -> None:
    class Odd(Straight):
        def __init__(self, config: ModelConfig) -> None:
            super().__init__(config)
            self.level = nn.Parameter(torch.zeros(1))

        def predict(self, past: Tensor) -> Tensor:
            return super().predict(past) + self.level

    odd = Odd(straight(windows["train"]).config)
    with raises_error("start"):
        train(odd, windows["train"], windows["validation"], quick, progress="silent")
    result = train(odd, windows["train"], windows["validation"], replace(quick, start="given"), progress="silent")
    assert len(result.history) == 3


def test_a_model_with_nothing_to_train_is_scored_as_epoch_0(windows: Sets) -> None:
    model = build_model("training-mean", context_length=12, horizon=6, channels=2)
    result = train(model, windows["train"], windows["validation"], windows_test=windows["test"], progress="silent")
    assert (result.stopped, result.best_epoch, len(result.history)) == ("nothing to train", 0, 1)
    assert result.best.validation["mse"] > 0
    assert result.best.test is not None


def test_smoothing_and_grace_of_the_config_reach_the_run(windows: Sets, fern: Builder, quick: TrainConfig) -> None:
    config = replace(quick, grace=1, smoothing=0.5)
    result = train(fern(), windows["train"], windows["validation"], config, progress="silent")
    values = [record.validation["objective"] for record in result.history]
    judged = [record.judged for record in result.history]
    assert judged == [None, values[1], 0.5 * values[1] + 0.5 * values[2]]
    assert result.best_epoch > 1


def test_averaged_weights_are_what_is_evaluated_and_kept(windows: Sets, fern: Builder, quick: TrainConfig) -> None:
    config = replace(quick, averaging=0.9, epochs=4)
    result = train(fern(), windows["train"], windows["validation"], config, progress="silent")
    plain = train(fern(), windows["train"], windows["validation"], replace(config, averaging=None), progress="silent")
    # The steps are the same; only what is evaluated differs.
    assert [r.train_loss for r in result.history] == [r.train_loss for r in plain.history]
    assert [r.validation for r in result.history] != [r.validation for r in plain.history]
    past, future = windows["validation"].gather(torch.arange(len(windows["validation"])))
    with torch.no_grad():
        score = objective(result.model(past).mean, future)
    assert abs(score.item() - result.best.validation["objective"]) < 1e-9


@pytest.mark.parametrize("precision", ["64-true", "bf16-true"])
def test_the_precision_of_an_earlier_run_does_not_stay_in_the_model(
    windows: Sets, quick: TrainConfig, precision: str
) -> None:
    fresh = train(straight(windows["train"]), windows["train"], windows["validation"], quick, progress="silent")
    model = straight(windows["train"])
    train(model, windows["train"], windows["validation"], replace(quick, precision=precision), progress="silent")
    again = train(model, windows["train"], windows["validation"], quick, progress="silent")
    assert next(model.parameters()).dtype == torch.float32
    assert again.history == fresh.history


@pytest.mark.parametrize("block", [torch.no_grad, torch.inference_mode])
def test_a_run_within_a_block_without_gradients_trains_all_the_same(
    windows: Sets, fern: Builder, quick: TrainConfig, block: Callable[[], AbstractContextManager[None]]
) -> None:
    plain = train(fern(), windows["train"], windows["validation"], quick, progress="silent")
    model = fern()
    with block():
        within = train(model, windows["train"], windows["validation"], quick, progress="silent")
    assert within.history == plain.history


@pytest.mark.parametrize("precision", ["64-true", "bf16-mixed"])
def test_other_precisions_train(windows: Sets, quick: TrainConfig, precision: str) -> None:
    config = replace(quick, precision=precision)
    exact = train(straight(windows["train"]), windows["train"], windows["validation"], quick, progress="silent")
    result = train(straight(windows["train"]), windows["train"], windows["validation"], config, progress="silent")
    # bfloat16 has 8 bits: a relative error of 2^-8 in each product of the forward pass.
    assert result.history[-1].train_loss == pytest.approx(exact.history[-1].train_loss, rel=0.02)
    assert result.history[-1].train_loss != exact.history[-1].train_loss
    assert next(result.model.parameters()).dtype == (torch.float64 if precision == "64-true" else torch.float32)


def test_threads_are_those_asked_for_during_the_run_and_the_former_ones_after_it(
    windows: Sets, quick: TrainConfig
) -> None:
    seen = []

    class Watching(Straight):
        def predict(self, past: Tensor) -> Tensor:
            seen.append(torch.get_num_threads())
            return super().predict(past)

    before = torch.get_num_threads()
    model = Watching(straight(windows["train"]).config)
    train(model, windows["train"], windows["validation"], replace(quick, threads=before + 1), progress="silent")
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


class Empty(Windows):
    """A window set without windows, which `Windows` itself refuses to build."""

    def __len__(self) -> int:
        return 0


def test_empty_window_sets_are_refused(series: Tensor, windows: Sets, fern: Builder) -> None:
    with pytest.raises(FernError, match="fewer than one window"):
        Windows(series[:10], context_length=12, horizon=6)
    empty = Empty(series, context_length=12, horizon=6)
    with raises_error("windows_val"):
        train(fern(), windows["train"], empty)


def test_windows_of_another_size_than_the_model_s_are_refused(series: Tensor, windows: Sets, fern: Builder) -> None:
    longer = Windows(series, context_length=12, horizon=7)
    with raises_error("windows_val"):
        train(fern(), windows["train"], longer)
    with raises_error("windows_train"):
        train(fern(), Windows(series, context_length=13, horizon=6), windows["validation"])
    with raises_error("windows_test"):
        one = Windows(series[:, :1], context_length=12, horizon=6)
        train(fern(), windows["train"], windows["validation"], windows_test=one)


def test_things_of_another_kind_are_refused(windows: Sets, fern: Builder) -> None:
    with raises_error("model"):
        train(nn.Linear(1, 1), windows["train"], windows["validation"])  # type: ignore[arg-type]
    with raises_error("windows_train"):
        train(fern(), [], windows["validation"])  # type: ignore[arg-type]
    with raises_error("config"):
        train(fern(), windows["train"], windows["validation"], {})  # type: ignore[arg-type]
    with pytest.raises(FernError, match="unknown progress 'sillent': did you mean 'silent'"):
        train(fern(), windows["train"], windows["validation"], progress="sillent")  # type: ignore[arg-type]
    with raises_error("progress"):
        train(fern(), windows["train"], windows["validation"], progress=False)  # type: ignore[arg-type]
    with raises_error("tracker"):
        train(fern(), windows["train"], windows["validation"], tracker=True)  # type: ignore[arg-type]
    with raises_error("resume"):
        train(fern(), windows["train"], windows["validation"], resume=True)  # type: ignore[arg-type]


def test_a_loss_of_the_distribution_is_refused_for_a_model_without_one(windows: Sets) -> None:
    with raises_error("loss"):
        train(straight(windows["train"]), windows["train"], windows["validation"], TrainConfig(loss="nll"))


@pytest.mark.parametrize("wrong", [{"accelerator": "abacus"}, {"accelerator": "tpu"}, {"strategy": "deepspeed"}])
def test_hardware_that_is_not_there_is_a_clear_error(windows: Sets, fern: Builder, wrong: dict[str, str]) -> None:
    (name, value), *_ = wrong.items()
    with pytest.raises(FernError, match=f"{name} '{value}'.*not available here"):
        train(fern(), windows["train"], windows["validation"], TrainConfig(**wrong), progress="silent")
