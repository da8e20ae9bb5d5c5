"""What the network reads: relative to level and scale, finite for any context, the same for a series alone."""

import numpy as np
import pytest

from fern.models.pretrained.representation import HORIZON, LONGEST, WIDTH, represent

RNG = np.random.default_rng(6)


def seen_of(values, **options):
    n = len(values)
    return represent(
        np.ascontiguousarray(values[None], dtype=float), np.array([0]), np.array([n]), np.array([n]), **options
    )


@pytest.mark.parametrize("length", [8, 9, 13, 50, 191, 192, 193, 500, 2048, LONGEST])
def test_any_length_gives_finite_inputs_of_one_width(length):
    seen = seen_of(RNG.normal(size=length))
    assert seen.inputs.shape == (1, WIDTH)
    assert np.isfinite(seen.inputs).all()
    assert np.isfinite(seen.paths).all()
    assert seen.scale[0] > 0


@pytest.mark.parametrize("scale", [1e-6, 1e3, 1e9])
def test_inputs_do_not_depend_on_unit_and_level(scale):
    values = np.sin(np.arange(100) / 3) + 0.1 * RNG.normal(size=100)
    plain, other = seen_of(values), seen_of(scale * values + 10 * scale)
    assert np.allclose(plain.inputs, other.inputs, atol=1e-4)
    assert np.allclose(plain.paths, other.paths, atol=1e-4)
    assert other.scale[0] == pytest.approx(scale * plain.scale[0])


def test_a_series_upside_down_gives_plain_forecasts_upside_down():
    values = np.cumsum(RNG.normal(size=300))
    plain, mirrored = seen_of(values), seen_of(-values)
    assert np.allclose(plain.paths, -mirrored.paths, atol=1e-6)
    assert mirrored.scale[0] == pytest.approx(plain.scale[0])


def test_plain_forecasts_are_what_they_are_called():
    values = np.tile([1.0, 5.0, 2.0, 8.0], 20) + np.repeat(np.arange(20.0), 4)
    seen = seen_of(values, season=np.array([4]))
    paths = seen.paths[0] * seen.scale[0]
    level = seen.level[0]
    assert np.allclose(paths[0] + level, np.tile(values[-4:], HORIZON // 4), atol=1e-4)  # the last cycle
    assert np.allclose(paths[1] + level, np.tile(values[-4:], HORIZON // 4), atol=1e-4)  # cycles differ by a level only
    assert np.allclose(paths[4], (np.arange(HORIZON) + 1) / 4, atol=1e-4)  # one step up a cycle of four rows
    assert np.allclose(paths[6] + level, values[-1], atol=1e-4)
    assert np.allclose(paths[7], 1.0, atol=1e-4)


def test_nothing_after_the_end_is_read():
    pool = RNG.normal(size=(1, 400))
    changed = pool.copy()
    changed[0, 300:] = 1e6
    places = np.array([0]), np.array([300]), np.array([250])
    assert np.array_equal(represent(pool, *places).inputs, represent(changed, *places).inputs)


def test_nothing_before_the_start_is_read():
    pool = RNG.normal(size=(1, 400))
    changed = pool.copy()
    changed[0, :50] = -1e6
    places = np.array([0]), np.array([300]), np.array([250])
    assert np.array_equal(represent(pool, *places).inputs, represent(changed, *places).inputs)


def test_a_constant_context_has_no_movement():
    seen = seen_of(np.full(64, 5.0))
    assert np.allclose(seen.paths, 0.0)
    assert seen.level[0] == 5.0


def test_the_spread_at_each_phase_is_read():
    values = 20 * np.sin(np.arange(960) * np.pi / 12) + RNG.normal(size=960) * (np.arange(960) % 24 < 12)
    spreads = seen_of(values, season=np.array([24])).inputs[0, -HORIZON // 4 :]
    restless = np.arange(HORIZON // 4) % 6 < 3
    assert spreads[restless].min() > spreads[~restless].max() + 1.0
