"""The checkpoint score, and metrics that stream: any split into batches, any order of merging, one value."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error
from torch import Tensor

import fern.metrics
from fern.errors import FernError
from fern.metrics import MetricAccumulator, ObjectiveWeights, mae, mse, sliced_w2_squared, sphere_directions, w2_squared
from fern.metrics.streaming import METRICS
from fern.settings import from_mapping
from fern.transport import Ellipsoid


def objective(pred: Tensor, true: Tensor, **options: object) -> float:
    accumulator = MetricAccumulator(["objective"], **options)
    accumulator.update(pred, true)
    return accumulator.compute()["objective"]


def test_it_is_the_papers_weighted_sum_with_either_distance(draw) -> None:
    pred, true = draw(6, 9, 2), draw(6, 9, 2)
    directions = sphere_directions(9, 33, generator=torch.Generator().manual_seed(4))
    points = 0.1 * mse(pred, true) + 1.0 * mae(pred, true)
    assert objective(pred, true) == pytest.approx((points + 0.1 * sliced_w2_squared(pred, true)).item(), rel=1e-12)
    assert objective(pred, true, directions=directions) == pytest.approx(
        (points + 0.1 * sliced_w2_squared(pred, true, directions=directions)).item(), rel=1e-12
    )
    assert objective(pred, true, distance="w2") == pytest.approx(
        (points + 0.1 * w2_squared(pred, true)).item(), rel=1e-12
    )


def test_weights_are_settings(draw) -> None:
    pred, true = draw(6, 9, 2), draw(6, 9, 2)
    only_mse = from_mapping(ObjectiveWeights, {"mse": 1.0, "mae": 0.0, "distance": 0.0})
    assert objective(pred, true, weights=only_mse) == pytest.approx(mse(pred, true).item(), rel=1e-12)
    with pytest.raises(FernError, match=r"unknown setting 'mea': did you mean .*'mae'"):
        from_mapping(ObjectiveWeights, {"mea": 1.0})


def test_the_crps_of_a_point_forecast_is_its_absolute_error(draw) -> None:
    pred, true = draw(6, 9, 2), draw(6, 9, 2)
    only_crps = ObjectiveWeights(mse=0.0, mae=0.0, distance=0.0, crps=2.0)
    assert objective(pred, true, weights=only_crps) == pytest.approx(2 * mae(pred, true).item(), rel=1e-12)
    assert ObjectiveWeights(crps=2.0).score(mse=0.0, mae=1.0, distance=0.0, crps=0.5) == 2.0


def test_no_weight_of_the_crps_leaves_the_settings_equal_to_the_papers() -> None:
    assert from_mapping(ObjectiveWeights, {"mse": 0.1, "mae": 1.0, "distance": 0.1}) == ObjectiveWeights()


@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf")])
def test_a_weight_that_is_no_weight_is_refused(weight: float) -> None:
    with raises_error("mae"):
        ObjectiveWeights(mae=weight)


WINDOWS, HORIZON, CHANNELS = 24, 10, 2
STD = [0.8, 1.1]
LEVELS = (50, 97.5)


class Data:
    """Windows with a distribution, and the part of them that a batch is."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64)

        self.parts = (
            normal(WINDOWS, CHANNELS, 3, 4).abs() + 0.2,
            normal(WINDOWS, CHANNELS, 3, 4),
            normal(WINDOWS, CHANNELS, 3, 2, 4),
        )
        self.true = normal(WINDOWS, HORIZON, CHANNELS)
        self.pred = self.distribution().mean.transpose(1, 2)

    def distribution(self, part: slice = slice(None)) -> Ellipsoid:
        return Ellipsoid(*(values[part] for values in self.parts), base_variance=0.3, horizon=HORIZON)

    def feed(self, accumulator: MetricAccumulator, part: slice) -> MetricAccumulator:
        accumulator.update(self.pred[part], self.true[part], distribution=self.distribution(part))
        return accumulator


def everything() -> MetricAccumulator:
    directions = sphere_directions(HORIZON, 30, generator=torch.Generator().manual_seed(3))
    return MetricAccumulator(METRICS, std=STD, directions=directions, levels=LEVELS)


cuts = st.lists(st.integers(1, WINDOWS - 1), unique=True).map(lambda inner: [0, *sorted(inner), WINDOWS])


def batches(edges: list[int]) -> list[slice]:
    return [slice(start, stop) for start, stop in pairwise(edges)]


@given(cuts, st.integers(0, 2**32 - 1))
def test_any_split_into_batches_gives_the_value_of_one_go(edges: list[int], seed: int) -> None:
    data = Data(seed)
    whole = data.feed(everything(), slice(None)).compute()
    streamed = everything()
    for part in batches(edges):
        data.feed(streamed, part)
    values = streamed.compute()
    assert list(values) == list(whole)
    for key, value in values.items():
        assert value == pytest.approx(whole[key], rel=1e-12, abs=1e-15), key
    assert values["sliced_w2"] == whole["sliced_w2"]  # exactly: the windows themselves are kept


def test_values_are_those_of_the_functions() -> None:
    data = Data(1)
    values = data.feed(everything(), slice(None)).compute()
    distribution = data.distribution()
    directions = sphere_directions(HORIZON, 30, generator=torch.Generator().manual_seed(3))
    sliced = sliced_w2_squared(data.pred, data.true, directions=directions).item()
    assert values["sliced_w2"] == pytest.approx(sliced, rel=1e-12)
    assert values["ept"] == pytest.approx(fern.metrics.ept(data.pred, data.true, STD).item())
    for name, metric in (("mse", mse), ("mae", mae), ("w2", w2_squared)):
        assert values[name] == pytest.approx(metric(data.pred, data.true).item(), rel=1e-12)
    for name in ("nll", "crps"):
        assert values[name] == pytest.approx(getattr(fern.metrics, name)(distribution, data.true).item(), rel=1e-12)
    for level, label in zip(LEVELS, ("50", "97.5"), strict=True):
        expected = fern.metrics.coverage(distribution, data.true, level=level).item()
        assert values[f"coverage_{label}"] == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, WINDOWS - 2), st.integers(0, 2**32 - 1))
def test_merging_is_associative_commutative_and_equals_one_go(cut: int, seed: int) -> None:
    data = Data(seed)
    a, b, c = (data.feed(everything(), part) for part in batches([0, cut, cut + 1, WINDOWS]))
    whole = data.feed(everything(), slice(None)).compute()
    for merged in (a.merge(b).merge(c), a.merge(b.merge(c)), c.merge(a).merge(b)):
        assert merged.windows == WINDOWS
        # Another order of the windows may round the projections of sliced_w2 otherwise.
        assert merged.compute() == pytest.approx(whole, rel=1e-12, abs=1e-15)
    assert (a.windows, b.windows, c.windows) == (cut, 1, WINDOWS - cut - 1)  # the three stay as they were


def test_an_empty_accumulator_is_neutral_in_a_merge() -> None:
    data = Data(2)
    filled = data.feed(everything(), slice(None))
    assert filled.merge(everything()).compute() == filled.compute() == everything().merge(filled).compute()


def test_later_batches_leave_a_merge_of_earlier_ones_alone() -> None:
    data = Data(2)
    first = data.feed(everything(), slice(0, 5))
    merged = first.merge(everything())
    before = merged.compute()
    data.feed(first, slice(5, 10))
    assert merged.compute() == before and merged.windows == 5


def test_reused_buffers_do_not_change_what_was_gathered() -> None:
    accumulator, expected = MetricAccumulator(["sliced_w2"]), Data(4)
    pred, true = expected.pred.clone(), expected.true.clone()
    accumulator.update(pred, true)
    pred.zero_(), true.fill_(7.0)
    assert accumulator.compute()["sliced_w2"] == sliced_w2_squared(expected.pred, expected.true).item()


def test_only_what_is_asked_for_is_reported_and_kept() -> None:
    data = Data(5)
    accumulator = MetricAccumulator(["objective", "mae"], distance="w2", weights=ObjectiveWeights(mse=2.0))
    accumulator.update(data.pred, data.true)
    values = accumulator.compute()
    assert list(values) == ["objective", "mae"]
    parts = 2 * mse(data.pred, data.true) + mae(data.pred, data.true) + 0.1 * w2_squared(data.pred, data.true)
    assert values["objective"] == pytest.approx(parts.item(), rel=1e-12)
    assert not accumulator._kept


def test_numpy_batches_and_samples_as_the_distribution_are_taken(rng: np.random.Generator) -> None:
    pred, true, distribution = rng.normal(size=(8, 6, 3)), rng.normal(size=(8, 6, 3)), rng.normal(size=(5, 8, 6, 3))
    accumulator = MetricAccumulator(["mse", "crps", "coverage", "sliced_w2"])
    for part in (slice(0, 3), slice(3, 8)):
        accumulator.update(pred[part], true[part], distribution=distribution[:, part])
    values = accumulator.compute()
    assert values["crps"] == pytest.approx(fern.metrics.crps(distribution, true), rel=1e-12)
    assert values["coverage_90"] == pytest.approx(fern.metrics.coverage(distribution, true), rel=1e-12)
    assert values["sliced_w2"] == sliced_w2_squared(pred, true)


def test_gradients_are_not_kept() -> None:
    data = Data(6)
    accumulator = MetricAccumulator(["mse", "sliced_w2"])
    accumulator.update(data.pred.requires_grad_(), data.true)
    assert not any(values.requires_grad for pair in accumulator._kept for values in pair)


def test_a_bad_batch_leaves_everything_as_it_was() -> None:
    data = Data(7)
    accumulator = data.feed(everything(), slice(0, 9))
    before = accumulator.compute()
    bad = data.true[9:].clone()
    bad[1, 2, 0] = torch.nan
    with raises_error("true"):
        accumulator.update(data.pred[9:], bad, distribution=data.distribution(slice(9, None)))
    with raises_error("distribution"):
        accumulator.update(data.pred[9:], data.true[9:])
    with pytest.raises(FernError, match=r"\(horizon, channels\) is \(4, 2\) and was \(10, 2\)"):
        short = data.true[9:, :4]
        accumulator.update(short, short)
    assert accumulator.compute() == before and accumulator.windows == 9


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (["mse", "sliced_w"], {}, "unknown metric 'sliced_w': did you mean 'sliced_w2'"),
        (["mse", "mae", "mse"], {}, "metrics: "),
        ([], {}, "metrics: "),
        ("mse", {}, "metrics: "),
        (["ept"], {}, "std: "),
        (["ept"], {"std": [-1.0]}, "std: "),
        (["objective"], {"distance": "wd"}, "unknown distance 'wd'"),
        (["sliced_w2"], {"directions": 3 * torch.eye(4)}, "directions: "),
        (["coverage"], {"levels": (90, 150)}, "level: "),
        (["coverage"], {"levels": (90, 90)}, "levels: "),
    ],
)
def test_bad_settings_are_refused_at_once(arguments, options, words: str) -> None:
    with pytest.raises(FernError, match=words):
        MetricAccumulator(arguments, **options)


def test_directions_of_another_horizon_are_refused_by_the_first_batch() -> None:
    accumulator = MetricAccumulator(["sliced_w2"], directions=torch.eye(4))
    with raises_error("directions"):
        accumulator.update(Data(1).pred, Data(1).true)


def test_nothing_to_compute_is_an_error() -> None:
    with pytest.raises(FernError, match="no windows yet"):
        MetricAccumulator(["mse"]).compute()


def test_merging_what_was_set_up_otherwise_is_refused() -> None:
    base = MetricAccumulator(["mse", "ept"], std=[1.0])
    for other, words in (
        (MetricAccumulator(["mse"]), "merge: metrics is .* here and .* in the other"),
        (MetricAccumulator(["mse", "ept"], std=[2.0]), "merge: std differ"),
        (MetricAccumulator(["mse", "ept"], std=[1.0], directions=torch.eye(2)), "merge: directions differ"),
        (MetricAccumulator(["mse", "ept"], std=[1.0], levels=[50]), "merge: levels is"),
    ):
        with pytest.raises(FernError, match=words):
            base.merge(other)
    one, two = MetricAccumulator(["mse"]), MetricAccumulator(["mse"])
    one.update(torch.zeros(1, 3, 1), torch.zeros(1, 3, 1))
    two.update(torch.zeros(1, 4, 1), torch.zeros(1, 4, 1))
    with raises_error("merge"):
        one.merge(two)
