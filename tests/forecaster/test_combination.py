"""Weights, shape and bias of a combination come from held-out windows, and paths agree with quantiles."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.errors import raises_error

from fern import FernForecaster
from fern.forecaster import held_out as module
from fern.forecaster.combination import Blend, HeldOut, average, blocks_of, choose_blend, loss, naive_scales
from fern.forecaster.partner import Combination, Partner, choose_partner, find_absurd, find_floor, hold_back
from fern.models.classical import KNOTS, QuantileForecast

HORIZON = 6


def forecast(mean, stddev=1.0):
    mean = np.asarray(mean, dtype=float)
    return QuantileForecast.normal(mean, np.full(mean.shape, stddev), np.ones(mean.shape))


def held_out(rng, *, windows=200, model=0.0, classical=0.0, errors=None, times=10):
    """Windows whose truth is noise; model and classical forecasts miss it by these standard deviations."""
    actual = rng.standard_normal((windows, HORIZON)) if errors is None else errors(rng, (windows, HORIZON))
    shape = actual.shape
    wrong, other = (size * rng.standard_normal((windows, 1)) for size in (model, classical))
    return HeldOut(
        actual,
        forecast(np.zeros(shape) + wrong),
        forecast(np.zeros(shape) + other),
        np.ones(windows),
        np.arange(windows) // times,
        1 + HORIZON * (np.arange(windows) % times),
        np.full(windows, -np.inf),
    )


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_the_better_forecast_has_the_weight(rng):
    assert choose_blend(held_out(rng, classical=3.0))[0].weight == 1.0
    assert choose_blend(held_out(rng, model=3.0))[0].weight == 0.0


def test_forecasts_with_errors_of_their_own_are_averaged(rng):
    blend, losses = choose_blend(held_out(rng, model=1.0, classical=1.0))
    assert blend.weight == 0.5
    assert losses[0.5] < min(losses[0.0], losses[1.0])


def test_one_window_is_not_enough_to_prefer_a_model(rng):
    few = held_out(rng, classical=0.3).take(np.arange(200) == 0)
    assert few.worth == 1
    assert choose_blend(few)[0].weight == 0.0


def test_many_series_at_one_time_are_few_windows(rng):
    assert held_out(rng, times=1).worth == pytest.approx(200**0.5)
    assert held_out(rng, times=10).worth == pytest.approx((200 * 10) ** 0.5)


def test_windows_that_overlap_count_once(rng):
    held = held_out(rng, windows=30, times=1)
    overlapping = HeldOut(
        held.actual, held.model, held.classical, held.scale, np.zeros(30, dtype=int), np.arange(1, 31), held.least
    )
    assert overlapping.worth == 5  # 30 rows hold five windows of six


def test_the_shape_of_skewed_errors_is_taken(rng):
    held = held_out(rng, windows=600, errors=lambda r, s: r.exponential(1.0, s) - np.log(2))
    blend, _ = choose_blend(held)
    assert blend.shape is not None
    made = blend.apply(held.model, held.classical, held.least)
    shares = (held.actual[None] < made.quantile([0.1, 0.5, 0.9])).mean(axis=(1, 2))
    assert shares == pytest.approx([0.1, 0.5, 0.9], abs=0.03)


def test_normal_errors_keep_the_shape_they_have(rng):
    held = held_out(rng, windows=600)
    made = choose_blend(held)[0].apply(held.model, held.classical, held.least)
    assert made.quantile([0.1, 0.5, 0.9]).mean(axis=(1, 2)) == pytest.approx([-1.28, 0, 1.28], abs=0.07)


def test_intervals_that_are_too_narrow_widen_to_what_held_out_errors_need(rng):
    held = held_out(rng, windows=600, errors=lambda r, s: 2 * r.standard_normal(s), times=40)
    made = choose_blend(held)[0].apply(held.model, held.classical, held.least)
    low, high = made.quantile([0.1, 0.9])
    assert ((low < held.actual) & (held.actual < high)).mean() == pytest.approx(0.8, abs=0.02)


def test_a_bias_that_all_times_show_moves_the_mean(rng):
    held = held_out(rng, windows=600, errors=lambda r, s: 1 + r.standard_normal(s), times=20)
    blend, _ = choose_blend(held)
    made = blend.apply(held.model, held.classical, held.least)
    assert made.mean.mean() == pytest.approx(1.0, abs=0.1)
    assert made.quantile([0.5]).mean() == pytest.approx(1.0, abs=0.15)


def test_a_bias_of_one_time_moves_nothing(rng):
    held = held_out(rng, windows=600, errors=lambda r, s: 1 + r.standard_normal(s), times=1)
    blend, _ = choose_blend(held)
    assert blend.bias is None
    assert blend.apply(held.model, held.classical, held.least).mean.mean() == pytest.approx(0.0)


def test_the_average_is_one_of_quantiles():
    made = average(forecast([[0.0]], 1.0), forecast([[4.0]], 3.0), 0.25)
    assert made.mean.item() == 3.0
    assert made.quantile([0.9]).item() == pytest.approx(3 + 1.2816 * 2.5, abs=1e-3)


def test_nothing_lies_below_the_floor():
    made = Blend(0.5).apply(forecast([[0.1]]), forecast([[0.2]]), np.zeros(1))
    assert made.table.min() == 0


def test_a_blend_survives_being_taken_apart(rng):
    blend, _ = choose_blend(held_out(rng, windows=600, errors=lambda r, s: 1 + r.exponential(1.0, s), times=20))
    plain, arrays = blend.to_parts()
    again = Blend.from_parts(plain, arrays)
    assert (again.weight, again.trust) == (blend.weight, blend.trust)
    assert (again.shape == blend.shape).all() and (again.bias == blend.bias).all()


def test_a_combination_survives_being_taken_apart():
    whole = Combination(partner=Partner(season=12, transform="log1p"), learnt=Blend(0.25), floors={"a": np.zeros(1)})
    again = Combination.from_parts(*whole.to_parts(), whole.floors)
    assert (again.partner, again.learnt.weight, again.positive) == (whole.partner, 0.25, "auto")


def test_the_floor_of_a_series_that_was_never_negative_is_zero():
    values = np.array([[0.0, -1.0], [2.0, 3.0]])
    assert find_floor(values, "auto").tolist() == [0.0, -np.inf]
    assert find_floor(values, True).tolist() == [0.0, 0.0]
    assert find_floor(values, False).tolist() == [-np.inf, -np.inf]


def test_a_forecast_far_outside_the_history_is_held_back():
    histories = [np.linspace(200, 480, 100), np.linspace(200, 480, 100)]
    model = forecast([[490.0] * 4, [1180.0] * 4], 20.0)
    partner = forecast([[480.0] * 4, [480.0] * 4], 20.0)
    made, absurd = hold_back(model, partner, histories, season=12)
    assert absurd.tolist() == [False, True]
    assert made.mean[:, 0].tolist() == [490.0, 480.0]
    assert find_absurd(model.mean, histories, 12).tolist() == [False, True]


def test_growth_that_the_partner_sees_too_is_let_through():
    histories = [np.exp(np.arange(60) / 10)]
    model = forecast([[1200.0] * 4], 50.0)
    made, absurd = hold_back(model, forecast([[1100.0] * 4], 100.0), histories, season=1)
    assert not absurd.any()
    assert made.mean[0, 0] == 1200


@pytest.mark.parametrize("transform", ["log1p", "asinh"])
def test_a_transform_has_the_mean_of_its_distribution_and_not_the_median(transform):
    rng = np.random.default_rng(1)
    histories = [rng.lognormal(1.0, 0.8, 400) for _ in range(60)]
    made = Partner(season=1, transform=transform).forecast(histories, 8)
    assert made.mean.mean() == pytest.approx(np.exp(1 + 0.32), rel=0.06)
    assert made.quantile([0.5]).mean() == pytest.approx(np.e, rel=0.1)


def test_steps_fall_into_blocks():
    assert blocks_of(20).tolist() == [0] * 3 + [1] * 12 + [2] * 5


def test_losses_are_scaled_by_seasonal_changes():
    assert naive_scales([np.arange(40.0), np.full(5, 3.0), np.zeros(3)], 12).tolist() == [12.0, 3.0, 1.0]


def test_the_loss_is_the_crps_over_the_scale():
    one = HeldOut(
        np.zeros((1, 1)), None, forecast([[0.0]]), np.full(1, 2.0), *([np.ones(1, dtype=int)] * 2), np.zeros(1)
    )
    assert loss(one, one.classical) == pytest.approx(0.2337 / 2, abs=0.01)
    assert len(KNOTS) == one.classical.table.shape[-1]


def with_pretrained(held, mean):
    return replace(held, pretrained=forecast(np.zeros(held.actual.shape) + mean))


def test_two_forecasts_that_have_not_seen_the_series_are_averaged_until_windows_say_otherwise(rng):
    alike = with_pretrained(replace(held_out(rng), model=None), 0.0)
    assert choose_blend(alike)[0].share == 0.5
    assert choose_blend(with_pretrained(replace(held_out(rng, classical=3.0), model=None), 0.0))[0].share == 1.0
    assert choose_blend(with_pretrained(alike, 5.0))[0].share == 0.0


def test_a_share_that_other_windows_chose_is_kept(rng):
    held = with_pretrained(held_out(rng, model=1.0, classical=3.0), 0.0)
    assert choose_blend(held)[0].share == 1.0
    assert choose_blend(held, share=0.25)[0].share == 0.25


def test_over_long_horizons_the_networks_share_is_chosen_further_back_than_the_model_has_windows(rng, monkeypatch):
    stretches = {}

    def spy(held, *, share=None):
        stretches[held.model is not None] = max(len(np.unique(held.times)), stretches.get(held.model is not None, 0))
        return choose_blend(held, share=share)

    monkeypatch.setattr(module, "choose_blend", spy)
    rows = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=900, freq="h"), "y": rng.standard_normal(900)})
    FernForecaster(horizon=60, epochs=1, progress="silent").fit(rows)
    assert stretches[True] < module.EARLIER == stretches[False]


def test_the_model_the_network_and_classical_models_share_the_weight(rng):
    held = replace(held_out(rng, model=1.0, classical=1.0), pretrained=held_out(rng, model=1.0).model)
    blend, losses = choose_blend(held)
    assert 0 < blend.weight < 1 and 0 < blend.share < 1
    assert losses[blend.weight] < choose_blend(replace(held, pretrained=None))[1][0.5]


def test_series_with_many_zeros_are_none_of_the_networks():
    counts = replace(forecast([[0.0, 0.0], [1.0, 1.0]]), stepped=np.array([True, False]))
    made = Blend(0.0, share=1.0).apply(None, counts, np.full(2, -np.inf), forecast([[7.0, 7.0], [7.0, 7.0]]))
    assert made.mean.tolist() == [[0.0, 0.0], [7.0, 7.0]]
    assert made.stepped.tolist() == [True, False]


def test_skewed_series_are_none_of_the_networks():
    rng = np.random.default_rng(0)
    histories = [rng.lognormal(0, 1, 300), rng.normal(5, 1, 300)]
    classical = Partner(season=1).forecast(histories, 4)
    made = Blend(0.0, share=1.0).apply(None, classical, np.full(2, -np.inf), forecast(np.full((2, 4), 9.0)))
    assert made.mean[0] == pytest.approx(classical.mean[0], rel=0.1)
    assert made.mean[1] == pytest.approx(9.0, rel=0.05)


def test_the_network_forecasts_what_has_rows_enough_and_classical_models_the_rest():
    partner = Partner(season=1)
    histories = [np.arange(5.0), np.sin(np.arange(48.0) * np.pi / 6)]
    classical = partner.forecast(histories, 4)
    made = partner.forecast_pretrained(histories, classical)
    assert (made.table[0] == classical.table[0]).all()
    assert np.abs(made.mean[1] - np.sin(np.arange(48, 52) * np.pi / 6)).max() < 0.3


def test_a_share_survives_being_taken_apart_and_a_folder_from_before_has_none():
    plain, arrays = Blend(0.25, share=0.75).to_parts()
    assert Blend.from_parts(plain, arrays).share == 0.75
    del plain["share"]
    assert Blend.from_parts(plain, arrays).share == 0.0


def test_weights_that_do_not_come_with_the_package_are_refused():
    plain, arrays = Combination(partner=Partner(season=1)).to_parts()
    with raises_error("weights"):
        Combination.from_parts({**plain, "weights": "synthetic-0"}, arrays, {})


def test_widths_follow_recent_changes_where_held_out_windows_say_so(rng):
    def walk(sizes):
        return np.cumsum(sizes * rng.standard_normal(len(sizes)))

    calm, rough = np.ones(200), np.concatenate((np.ones(170), np.full(30, 4.0)))
    histories, actual = [], []
    for sizes in [calm] * 60 + [rough] * 60:
        rows = walk(np.concatenate((sizes, np.full(6, sizes[-1]))))
        histories.append(rows[:-6])
        actual.append(rows[-6:])
    numbers = np.arange(120)
    bare = forecast(np.zeros((120, 6)))
    held = HeldOut(np.stack(actual), None, bare, np.ones(120), numbers, numbers + 6, np.full(120, -np.inf))
    partner, made, losses = choose_partner(histories, held, season=1)
    assert partner.recent and losses["none, recent changes"] < losses["none"]
    plain = replace(partner, recent=False).forecast(histories, 6)
    wider = (np.diff(made.quantile([0.1, 0.9]), axis=0) / np.diff(plain.quantile([0.1, 0.9]), axis=0))[0, :, 0]
    assert wider[:60].mean() == pytest.approx(1.0, abs=0.05) and wider[60:].min() > 1.2
    assert (made.table == partner.forecast(histories, 6).table).all()


def test_the_width_of_one_time_is_believed_in_part_and_that_of_many_whole(rng):
    def width(times):
        held = held_out(rng, windows=600, errors=lambda r, s: 3 * r.standard_normal(s), times=times)
        made = choose_blend(replace(held, model=None))[0].apply(None, held.classical, held.least)
        low, high = made.quantile([0.1, 0.9])
        return (high - low).mean() / 2.563

    assert width(1) < width(2) < width(20)
    assert 1.2 < width(1) < 1.8
    assert width(20) == pytest.approx(3, rel=0.12)
