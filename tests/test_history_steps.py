"""Steps in a series: known levels under known noise."""

from __future__ import annotations

import numpy as np
import pytest

from harness.history import steps
from harness.history.steps import FEWEST, SHORTEST, threshold

TENTH = float(np.log(1.1))
FLOOR = float(np.log(1.03))


def noise(seed: int, runs: int, deviation: float = 0.015) -> np.ndarray:
    return deviation * np.random.default_rng(seed).standard_normal(runs)


@pytest.mark.parametrize("place", [4, 15, 30, 45, 56])
def test_a_step_of_a_tenth_is_found_at_its_run(place: int) -> None:
    found = 0
    for seed in range(20):
        values = noise(seed, 60)
        values[place:] += TENTH
        places = steps.steps(values, FLOOR)
        assert len(places) <= 1
        found += bool(places) and abs(places[0] - place) <= 1
    assert found >= 19


def test_an_unchanged_series_has_no_step() -> None:
    random = np.random.default_rng(1)
    for values in (
        random.standard_normal((1500, 60)),
        random.standard_t(3, (1500, 60)),
        random.exponential(size=(1500, 60)),
    ):
        assert np.mean(steps.largest(values) > threshold(60)) <= 0.015  # 1 %, and what chance adds
    assert not any(steps.steps(noise(seed, 60, 0.02), FLOOR) for seed in range(100))


def test_several_levels_are_found_one_by_one() -> None:
    values = noise(3, 120)
    for place, by in ((20, 0.1), (50, 0.6), (80, -0.4), (100, -0.1)):
        values[place:] += by
    assert steps.steps(values, FLOOR) == pytest.approx([20, 50, 80, 100], abs=1)


def test_a_level_that_lasted_for_some_runs_is_found_in_a_long_series() -> None:
    values = noise(4, 1000)
    values[500:512] += TENTH
    assert steps.steps(values, FLOOR) == pytest.approx([500, 512], abs=1)


def test_outliers_are_no_steps() -> None:
    values = noise(5, 60)
    values[[10, 30, 31, 59]] += 1.0
    assert not steps.steps(values, FLOOR)
    values[40:] += TENTH
    assert steps.steps(values, FLOOR) == pytest.approx([40], abs=1)


def test_scale_and_direction_do_not_matter() -> None:
    values = noise(6, 60)
    values[25:] += TENTH
    expected = steps.steps(values, FLOOR)
    assert expected
    assert steps.steps(-values, FLOOR) == expected
    assert steps.steps(values + 100.0, FLOOR) == expected
    assert steps.steps(10 * values, 10 * FLOOR) == expected
    assert steps.steps(values[::-1], FLOOR) == [60 - place for place in expected]


def test_small_steps_and_short_series_are_not_claimed() -> None:
    values = noise(7, 200, 0.001)
    values[100:] += float(np.log(1.02))
    assert not steps.steps(values, FLOOR)
    assert steps.steps(values, float(np.log(1.01))) == pytest.approx([100], abs=1)
    for runs in range(FEWEST):
        assert not steps.steps(np.arange(float(runs)) > runs // 2, FLOOR)


def test_values_without_scatter_have_steps_and_raise_no_warnings() -> None:
    values = np.zeros(60)
    assert not steps.steps(values, FLOOR)
    values[30:] = TENTH
    assert steps.steps(values, FLOOR) == [30]


def test_correlated_runs_need_a_larger_step() -> None:
    false = [0, 0]
    for seed in range(40):
        values = noise(seed, 200, 0.1)
        for place in range(1, len(values)):
            values[place] += 0.6 * values[place - 1]
        for correlated in (False, True):
            false[correlated] += bool(steps.steps(values, FLOOR, correlated))
    assert false[True] < false[False] / 2
    values = noise(1, 60, 0.1)
    values[30:] += 1.0
    assert steps.steps(values, FLOOR, correlated=True) == pytest.approx([30], abs=1)


def test_seeds_hold_every_pair_of_neighbouring_runs() -> None:
    for runs in (8, 37, 100, 1000):
        splits = steps.seeds(runs)
        lengths = splits.end - splits.start
        assert (np.diff(lengths) >= 0).all() and lengths[-1] == runs
        for length in np.unique(lengths):
            starts = np.unique(splits.start[lengths == length])
            assert starts[0] == 0 and starts[-1] + length == runs
            assert np.diff(starts).max(initial=0) <= length // 2 + 1
        assert (np.minimum(splits.place - splits.start, splits.end - splits.place) >= SHORTEST).all()


def test_the_statistic_is_the_difference_of_means_in_standard_errors() -> None:
    values = noise(8, 60, 1.0)
    splits = steps.seeds(60)
    for start, place, end, statistic in zip(*splits[:3], steps._statistics(values, splits), strict=True):
        before, after = values[start:place], values[place:end]
        error = np.sqrt(1 / len(before) + 1 / len(after))
        assert statistic == pytest.approx(abs(before.mean() - after.mean()) / error)
