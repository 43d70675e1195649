"""Estimates, intervals, the stopping rule and verdicts, by known answers and by simulated coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks import coverage
from harness.results import statistics, stopping
from harness.results.statistics import Interval
from harness.results.stopping import Compared, StoppingRule

RULE = coverage.DEFAULT


def processes(
    rng: np.random.Generator, centre: float, between: float, count: int, rounds: int = 40
) -> list[np.ndarray]:
    """Samples of several processes whose medians scatter by `between`, in logarithms."""
    return [centre * np.exp(rng.normal(0, between) + rng.normal(0, 0.02, rounds)) for _ in range(count)]


def constant(values: np.ndarray) -> list[np.ndarray]:
    """Processes of which each gives the exponential of one value again and again."""
    return [np.full(10, np.exp(value)) for value in values]


def half_width(found: Interval) -> float:
    """In logarithms."""
    return float(np.log(found.high / found.low)) / 2


@pytest.mark.parametrize("count", [2, 3, 5, 8, 12])
def test_intervals_of_a_fixed_number_of_processes_cover_as_often_as_they_say(count: int) -> None:
    rng = np.random.default_rng(0)
    mean, error, _ = statistics.trimmed_mean(rng.standard_normal((40_000, count)))
    covered = np.mean(np.abs(mean) <= statistics.critical_value(count, 0.95) * error)
    assert covered == pytest.approx(0.95, abs=0.005)


@pytest.mark.parametrize("count", [3, 5, 7])
def test_the_interval_of_few_processes_is_that_of_students_t(count: int) -> None:
    values = np.random.default_rng(count).normal(0, 0.03, count)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    found = statistics.interval(constant(values), 0.95)
    assert np.log([found.value, found.low, found.high]) == pytest.approx([values.mean(), expected.low, expected.high])


@pytest.mark.parametrize("degrees", [*range(1, 40), 99, 100, 999, 5000])
def test_students_t_is_that_of_scipy(degrees: int) -> None:
    for confidence in (0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 0.99999):
        expected = stats.t.ppf((1 + confidence) / 2, degrees)
        assert statistics.students_t(degrees, confidence) == pytest.approx(expected, rel=1e-9)
    for confidence in (1 - 1e-12, 1 - 2**-53):  # as far as they can be told from 1
        assert 7 < statistics.students_t(degrees, confidence) < np.inf


@pytest.mark.parametrize("count", [2, 3, 5, 6, 7, 8, 11, 12, 16, 24])
def test_a_trimmed_mean_has_the_standard_error_and_degrees_of_freedom_of_scipys_test(count: int) -> None:
    values = np.random.default_rng(count).standard_t(3, count) + 1
    mean, error, freedom = statistics.trimmed_mean(values)
    # beside a sample that hardly scatters, Welch's test is the test of one sample
    rest = 1e-9 * np.arange(1000.0)
    test = stats.ttest_ind(values, rest, equal_var=False, trim=statistics.TRIMMED)
    assert float(mean / error) == pytest.approx(float(test.statistic), rel=1e-5)
    assert freedom == pytest.approx(float(test.df), rel=1e-5)


def test_more_processes_narrow_the_interval_without_jumps() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((20_000, 16))
    typical = {
        count: np.median(statistics.trimmed_mean(drawn[:, :count])[1]) * statistics.critical_value(count, 0.95)
        for count in range(3, 17)
    }
    # trimming from eight and sixteen on loses degrees of freedom, and there as much as one more process gains
    theory = {count: stats.t.ppf(0.975, count - 2 * (count // 8) - 1) / np.sqrt(count) for count in typical}
    for count in range(4, 17):
        assert typical[count] < 1.05 * typical[count - 1]
        assert typical[count] / typical[count - 1] == pytest.approx(theory[count] / theory[count - 1], rel=0.1)


def test_trimmed_means_of_many_samples_at_once_are_those_of_each() -> None:
    values = np.random.default_rng(0).standard_normal((3, 4, 9))
    mean, error, freedom = statistics.trimmed_mean(values)
    assert mean.shape == error.shape == (3, 4)
    for place in np.ndindex(3, 4):
        assert statistics.trimmed_mean(values[place]) == (mean[place], error[place], freedom)
        assert mean[place] == pytest.approx(stats.trim_mean(values[place], statistics.TRIMMED))


def test_an_outlying_process_does_not_move_the_estimate() -> None:
    rng = np.random.default_rng(0)
    groups = [*processes(rng, 1.0, 0.01, 7), np.full(40, 500.0)]
    assert statistics.interval(groups, 0.95).value == pytest.approx(1.0, rel=0.02)


def test_processes_that_agree_by_accident_do_not_hide_the_scatter_within_them() -> None:
    """The bound is one standard error: one at the nominal level would cover in 98.5 % where processes are alike."""
    scatter = np.exp(0.1 * stats.norm.ppf((np.arange(101) + 0.5) / 101))
    found = statistics.interval([scatter, scatter, scatter], 0.95)
    assert half_width(found) == pytest.approx(0.1 * np.sqrt(np.pi / 2 / 101 / 3), rel=0.02)
    rng = np.random.default_rng(0)
    alike = [statistics.interval(processes(rng, 1.0, 0.0, 3), 0.95) for _ in range(1500)]
    assert 0.945 < np.mean([found.low <= 1 <= found.high for found in alike]) < 0.97


def test_one_process_gives_a_bootstrap_over_its_rounds() -> None:
    rng = np.random.default_rng(0)
    groups = processes(rng, 3.0, 0.0, 1, rounds=200)
    found = statistics.interval(groups, 0.95)
    assert found.low < 3.0 < found.high
    assert found.half_width < 0.02
    assert RULE.interval([*groups, np.array([])], comparisons=1) == found


def test_no_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        statistics.interval([np.array([])], 0.95)


@pytest.mark.parametrize("tail", coverage.TAILS)
@pytest.mark.parametrize("comparisons", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("speedup", [1.0, 1.02, 1.1])
def test_the_whole_procedure_covers_as_often_as_it_says(tail: str, comparisons: int, speedup: float) -> None:
    """94 % and more, whatever ends the sampling, also of a ratio that is exactly as large as the noise floor.

    Up to 98 % where processes scatter so much that sampling ends for lack of any prospect: it does so above all where
    the ratio seems to be near 1, as that of a variant with itself is.
    """
    paths = coverage.draw(tail, comparisons, 20_000, np.random.default_rng(1))
    for deviation in coverage.DEVIATIONS:
        for budget in (5, 6, 8, 10, 12):
            found = coverage.procedure(paths, deviation, budget, speedup=speedup)
            most = 0.976 if deviation <= 0.03 else 0.984
            assert 0.94 < found.coverage < most, (deviation, budget)
            assert 0.94 < found.latency_coverage < 0.97, (deviation, budget)


def test_coverage_is_lost_if_stopping_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the corrections are for: without them a nominal 95 % is 91 %."""
    monkeypatch.setattr(stopping, "STOPPING_CORRECTION", 0.0)
    monkeypatch.setattr(stopping, "MARGIN", 1.0)
    paths = coverage.draw("normal", 1, 20_000, np.random.default_rng(1))
    assert coverage.procedure(paths, 0.01, 12, speedup=1.02).coverage < 0.925


@pytest.mark.parametrize("tail", coverage.TAILS)
@pytest.mark.parametrize("comparisons", [1, 3])
def test_hardly_any_claims_are_false_and_a_tenth_is_found(tail: str, comparisons: int) -> None:
    paths = coverage.draw(tail, comparisons, 20_000, np.random.default_rng(2))
    for deviation in (0.01, 0.02, 0.03, 0.05):
        for budget in (6, 12):
            same = coverage.procedure(paths, deviation, budget)
            assert same.faster + same.slower < 0.006, (deviation, budget)
    assert coverage.procedure(paths, 0.02, 6, speedup=1.1).faster > 0.95
    assert coverage.procedure(paths, 0.05, 12, speedup=1.1).faster > 0.9
    assert coverage.procedure(paths, 0.05, 12, speedup=1.1).slower == 0


def compared(*ratios: list[np.ndarray], floor: float = 0.02) -> list[Compared]:
    return [Compared(ratios, [floor] * len(ratios))]


def test_the_rule_of_single_runs_is_the_rule_of_the_simulation() -> None:
    rng = np.random.default_rng(0)
    for count in (5, 6, 9, 12):
        for comparisons in (1, 3):
            values = rng.normal(0, 0.03, count)
            mean, error, _ = statistics.trimmed_mean(values)
            level = statistics.level(RULE.confidence, comparisons)
            half = float(RULE.widened(statistics.critical_value(count, level) * error, count, comparisons))
            assert half_width(RULE.interval(constant(values), comparisons)) == pytest.approx(half)
            reason = RULE.reason(compared(*[constant(values)] * comparisons), count, elapsed=0.1)
            settled = reason is not None and reason.startswith("more processes")
            growth = min(RULE.maximum / count, RULE.seconds / 0.1)
            assert count == RULE.maximum or settled == bool(RULE.settled(mean, half, 0.02, growth))


def test_sampling_ends_by_verdicts_processes_or_time() -> None:
    rng = np.random.default_rng(0)
    steady, noisy = constant(rng.normal(0, 0.002, 12)), constant(0.1 + 0.07 * np.resize([1, -1, 0], 12))

    def reason(*ratios: list[np.ndarray], complete: int, elapsed: float = 0.0) -> str | None:
        return RULE.reason(compared(*[groups[:complete] for groups in ratios]), complete, elapsed)

    assert reason(steady, complete=4, elapsed=99) is None
    assert "more processes would change no verdict" in (reason(steady, complete=5) or "")
    assert reason(steady, noisy, complete=5) is None
    assert "latency.seconds=2.5 are spent" in (reason(steady, noisy, complete=5, elapsed=2.5) or "")
    assert "latency.max_processes=12 are spent" in (reason(steady, noisy, complete=12) or "")
    assert reason(complete=5) == "nothing to compare"
    assert reason([np.array([])] * 5, complete=5) == "nothing to compare"


@pytest.mark.parametrize(
    ("ratio", "half", "settled"),
    [
        (1.0, 0.012, True),  # the same
        (1.0, 0.019, False),  # the same by a hair, and by accident perhaps
        (1.06, 0.025, True),  # faster
        (1.06, 0.035, False),  # faster by a hair
        (2.0, 0.3, True),  # faster beyond doubt, however little is known of how much
        (1.0, 0.25, False),  # more processes may show a large difference
        (1.0, 0.4, True),  # nothing will be clear
        (1.02, 0.02, True),  # at the noise floor: it will never be clear
    ],
)
def test_a_ratio_needs_no_more_samples_if_its_verdict_will_not_change(ratio: float, half: float, settled: bool) -> None:
    for centre in (np.log(ratio), -np.log(ratio)):
        assert bool(RULE.settled(centre, half, 0.02, growth=25)) == settled


def test_a_row_that_is_not_handed_over_neither_prolongs_sampling_nor_widens_intervals() -> None:
    rng = np.random.default_rng(0)
    ranked = constant(rng.normal(0, 0.005, 5))
    alone = RULE.reason(compared(ranked), 5, 0.0)
    assert alone is not None
    assert RULE.reason(compared(ranked, []), 5, 0.0) == alone
    assert RULE.interval(ranked, 1).half_width < RULE.interval(ranked, 2).half_width


def test_what_a_clear_verdict_would_take() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, 8)
    values = (values - statistics.trimmed_mean(values)[0]) * 0.05

    def after(ratio: float) -> int | None:
        return RULE.clear_after(constant(values + np.log(ratio)), 1, 0.02)

    half = half_width(statistics.interval(constant(values), 0.95))
    assert after(1.05) == pytest.approx(8 * (half / (np.log(1.05) - np.log(1.02))) ** 2, abs=1)
    assert after(1.0) == pytest.approx(8 * (half / np.log(1.02)) ** 2, abs=1)
    assert after(1.0201) is None  # nothing would
    assert RULE.clear_after(constant(values[:1]), 1, 0.02) is None


def test_one_process_is_never_enough() -> None:
    single = StoppingRule(minimum=1, maximum=3, seconds=2.5, precision=0.03, confidence=0.95)
    same = [np.ones(50)]
    assert single.reason(compared(same), 1, 0.1) is None
    assert "change no verdict" in (single.reason(compared(same * 2), 2, 0.1) or "")


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
    assert statistics.verdict(Interval(*interval), floor=0.05, processes=3) == verdict
    assert statistics.verdict(Interval(*interval), floor=0.05, processes=1) == "unclear"


def test_noise_makes_nothing_the_same() -> None:
    assert statistics.verdict(Interval(1.2, 0.5, 3.8), floor=5.0, processes=3) == "unclear"
    assert statistics.verdict(Interval(1.0, 0.9, 1.1), floor=0.5, processes=3) == "unclear"
    assert statistics.verdict(Interval(1.0, 0.97, 1.03), floor=0.5, processes=3) == "same"


def test_the_floor_is_what_the_baseline_differs_from_itself_by() -> None:
    for control in (1.1, 1 / 1.1):
        assert statistics.noise_floor([np.full(3, control)] * 5, 0.02) == pytest.approx(0.1)
        assert statistics.noise_floor([np.full(3, control)], 0.02) == pytest.approx(0.1)
    assert statistics.noise_floor([np.full(3, 1.001), np.array([])], 0.02) == pytest.approx(0.02)
    assert statistics.noise_floor([], 0.02) == pytest.approx(0.02)


def test_several_comparisons_hold_together() -> None:
    assert statistics.level(0.95, 1) == pytest.approx(0.95)
    assert statistics.level(0.95, 10) ** 10 == pytest.approx(0.95)
