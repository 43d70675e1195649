"""Intervals and verdicts by known answers and coverage."""

from __future__ import annotations

import numpy as np
import pytest

from harness.results import statistics
from harness.results.statistics import Interval


def processes(
    rng: np.random.Generator, centre: float, between: float, count: int, rounds: int = 40
) -> list[np.ndarray]:
    """Samples of several processes whose medians scatter by `between`, in logarithms."""
    return [centre * np.exp(rng.normal(0, between) + rng.normal(0, 0.02, rounds)) for _ in range(count)]


@pytest.mark.parametrize("count", [3, 5, 8, 12])
def test_intervals_hold_the_truth_as_often_as_they_say(count: int) -> None:
    rng = np.random.default_rng(0)
    found = [statistics.interval(processes(rng, 2.0, 0.03, count), 0.95) for _ in range(400)]
    assert np.mean([found.low <= 2.0 <= found.high for found in found]) > 0.92


def test_an_outlying_process_does_not_move_the_estimate() -> None:
    rng = np.random.default_rng(0)
    groups = [*processes(rng, 1.0, 0.01, 7), np.full(40, 500.0)]
    assert statistics.interval(groups, 0.95).value == pytest.approx(1.0, rel=0.02)


def test_one_process_gives_a_bootstrap_over_its_rounds() -> None:
    rng = np.random.default_rng(0)
    found = statistics.interval(processes(rng, 3.0, 0.0, 1, rounds=200), 0.95)
    assert found.low < 3.0 < found.high
    assert found.half_width < 0.02


def test_disturbed_rounds_are_left_out_and_nobody_is_favoured() -> None:
    """A disturbance slows one variant more than another; the scatter of a block stays out of the choice."""
    rng = np.random.default_rng(0)
    disturbed = np.where(rng.random(400) < 0.6, 1.0, 0.0)
    seconds = {
        name: [centre * np.exp(rng.normal(0, 0.1, 400) + cost * disturbed)]
        for name, centre, cost in (
            ("naive", 1.0, 0.7),
            ("copy", 1.0, 0.7),
            ("compiled", 2.0, 1.4),
            ("(control)", 1.0, 0.7),
        )
    }
    kept = statistics.undisturbed(seconds, "(control)")
    assert {len(groups[0]) for groups in kept.values()} == {len(kept["naive"][0])}
    assert 80 <= len(kept["naive"][0]) <= 200
    assert np.median(kept["naive"][0] / kept["copy"][0]) == pytest.approx(1.0, abs=0.03)
    assert np.median(kept["compiled"][0] / kept["naive"][0]) == pytest.approx(2.0, rel=0.05)
    assert np.median(seconds["compiled"][0] / seconds["naive"][0]) > 3


def test_rounds_stay_paired_where_a_variant_has_fewer_and_all_stay_without_a_twin() -> None:
    told = np.array([1.0, 9.0, 1.0, 1.0, 9.0, 1.0])
    seconds = {"naive": [np.arange(6.0), np.arange(3.0)], "late": [np.arange(3.0), np.arange(3.0)]}
    kept = statistics.undisturbed(seconds | {"(control)": [told, np.array([])]}, "(control)")
    assert [list(group) for group in kept["naive"]] == [[0, 2, 3, 5], [0, 1, 2]]
    assert [list(group) for group in kept["late"]] == [[0, 2], [0, 1, 2]]


def test_ratios_are_paired_within_rounds() -> None:
    drift = np.linspace(1, 10, 50)
    ratios = statistics.paired([2 * drift], [drift])
    assert ratios[0] == pytest.approx(2.0)
    assert statistics.interval(ratios, 0.95) == Interval(pytest.approx(2), pytest.approx(2), pytest.approx(2))


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((1.30, 1.20, 1.40), "faster"),
        ((0.70, 0.60, 0.80), "slower"),
        ((1.00, 0.99, 1.01), "same"),
        ((1.10, 1.03, 1.18), "unclear"),
        ((1.00, 0.80, 1.25), "unclear"),
        ((0.952, 0.94, 0.96), "unclear"),
    ],
)
def test_no_claim_goes_under_the_noise_floor(interval: tuple[float, float, float], verdict: str) -> None:
    assert statistics.verdict(Interval(*interval), floor=0.05) == verdict


def test_noise_makes_nothing_the_same() -> None:
    assert statistics.verdict(Interval(1.2, 0.5, 3.8), floor=5.0) == "unclear"
    assert statistics.verdict(Interval(1.0, 0.9, 1.1), floor=0.5) == "unclear"
    assert statistics.verdict(Interval(1.0, 0.97, 1.03), floor=0.5) == "same"


def test_the_floor_is_what_the_baseline_differs_from_itself_by() -> None:
    assert statistics.noise_floor(Interval(1.1, 1.0, 1.2), 0.02) == pytest.approx(0.1)
    assert statistics.noise_floor(Interval(1 / 1.1, 0.8, 1.0), 0.02) == pytest.approx(0.1)
    assert statistics.noise_floor(Interval(1.001, 0.9, 1.1), 0.02) == pytest.approx(0.02)


def test_several_comparisons_hold_together() -> None:
    assert statistics.level(0.95, 1) == pytest.approx(0.95)
    assert statistics.level(0.95, 10) ** 10 == pytest.approx(0.95)
