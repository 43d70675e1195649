"""The numbers of a comparison of two runs, by known answers; nothing is read, written or timed."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from harness.diff import change
from harness.results.samples import QUIET, STARVED, Samples

NAMES = ("naive", "fused")


def run(
    rng: np.random.Generator, processes: int, rounds: int = 12, slower: float = 1.0, first_is_fast: bool = False
) -> list[np.ndarray]:
    """Seconds per call; each process is up to a fifth slower than the fastest, and noise is never negative."""
    speeds = slower * (1 + 0.2 * rng.random(processes)) * np.exp(0.01 * rng.standard_normal(processes))
    if first_is_fast:
        speeds[0] = slower
    return [speed * (1 + 0.02 * rng.exponential(size=rounds)) for speed in speeds]


def test_the_expected_minimum_is_the_mean_over_all_choices() -> None:
    rng = np.random.default_rng(0)
    groups = [1 + rng.exponential(size=size) for size in (4, 3, 5, 4)]
    groups[2][0] = groups[1][0]  # a tie

    def mean_log(chosen: list[np.ndarray]) -> float:
        choices = product(*(combinations(group, 2) for group in chosen))
        return float(np.mean([np.log(min(map(min, samples))) for samples in choices]))

    expected = np.mean([mean_log([groups[0], *others]) for others in combinations(groups[1:], 2)])
    assert change.minimum(groups, 3, 2) == pytest.approx(np.exp(expected))


def test_the_minimum_of_all_processes_and_samples_is_the_smallest_sample() -> None:
    groups = run(np.random.default_rng(0), 5)
    assert change.minimum([*groups, np.array([])], 5, 12) == pytest.approx(min(map(np.min, groups)))
    assert change.minimum(groups, 5, 99) == pytest.approx(min(map(np.min, groups)))
    with pytest.raises(ValueError, match="expected 1 to 5"):
        change.minimum(groups, 6, 12)


@pytest.mark.parametrize("first_is_fast", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "old_rounds", "new_rounds"), [(3, 12, 12, 12), (12, 3, 12, 12), (3, 12, 12, 60), (8, 8, 60, 12)]
)
def test_a_minimum_is_compared_over_equal_numbers(
    old: int, new: int, old_rounds: int, new_rounds: int, first_is_fast: bool
) -> None:
    """Minima as they are say 1.07 for three old processes and twelve new ones, and 1.135 the other way round."""
    rng = np.random.default_rng(3)
    found = [
        change.minimum_ratio(
            run(rng, old, old_rounds, first_is_fast=first_is_fast),
            run(rng, new, new_rounds, slower=1.1, first_is_fast=first_is_fast),
        )
        for _ in range(200)
    ]
    assert np.median(found) == pytest.approx(1.1, rel=0.01)


def test_the_control_separates_a_change_from_the_machines() -> None:
    def case(seed: int, machine: float, slower: float) -> Samples:
        rng = np.random.default_rng(seed)
        speeds = machine * (1 + 0.2 * rng.random(12)) * (np.arange(12) > 0) + machine * (np.arange(12) == 0)
        return Samples(
            {
                name: [speed * factor * (1 + 0.02 * rng.exponential(size=12)) for speed in speeds]
                for name, factor in (("naive", 2.0), ("fused", 1.0 * slower))
            }
        )

    found = change.changes(case(0, 1.0, 1.0), case(1, 1.0, 1.2), dict.fromkeys(NAMES, 0.05), confidence=0.99)
    assert (found["fused"].verdict, found["fused"].control) == ("slower", "naive")
    assert found["fused"].relative is not None
    assert found["fused"].relative.value == pytest.approx(1.2, rel=0.02)
    assert found["fused"].minimum == pytest.approx(1.2, rel=0.02)
    assert found["naive"].verdict in ("same", "unclear")
    machine = change.changes(case(0, 1.0, 1.0), case(1, 1.4, 1.0), dict.fromkeys(NAMES, 0.05), confidence=0.99)
    assert {row.verdict for row in machine.values()} == {"unclear"}
    wide = change.changes(case(0, 1.0, 1.0), case(1, 1.0, 1.2), {"naive": 0.05, "fused": 0.3}, confidence=0.99)
    assert wide["fused"].verdict in ("same", "unclear")  # below the noise floor of its own environment


def test_one_process_claims_nothing() -> None:
    rng = np.random.default_rng(0)
    old, new = (Samples({name: run(rng, 1, slower=slower) for name in NAMES}) for slower in (1.0, 3.0))
    for absolute in (False, True):
        found = change.changes(old, new, dict.fromkeys(NAMES, 0.05), confidence=0.99, absolute=absolute)["fused"]
        assert (found.verdict, found.typical) == ("unclear", None)
        assert "fewer than 2 processes" in (found.reason or "")


def test_nothing_is_claimed_of_a_variant_that_lacked_cores() -> None:
    rng = np.random.default_rng(0)

    def case(slower: float, condition: int) -> Samples:
        seconds = {"naive": run(rng, 8), "fused": run(rng, 8, slower=slower)}
        conditions = {"naive": QUIET, "fused": condition}
        return Samples(seconds, {name: [np.full(12, value)] * 8 for name, value in conditions.items()})

    given = change.changes(case(1.0, QUIET), case(4.0, QUIET), dict.fromkeys(NAMES, 0.05), confidence=0.99)
    assert given["fused"].verdict == "slower"
    for old, new, side in ((STARVED, QUIET, "OLD"), (QUIET, STARVED, "NEW")):
        lacked = change.changes(case(1.0, old), case(4.0, new), dict.fromkeys(NAMES, 0.05), confidence=0.99)
        assert lacked["fused"].verdict == "unclear"
        assert lacked["fused"].reason == f"in {side} its threads lacked the cores that they use"
