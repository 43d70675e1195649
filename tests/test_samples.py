"""Samples: which of them count, by what the machine was like, and how they are paired."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.results.machine import Machine, fastest
from harness.results.samples import QUIET, SLOWED, STARVED, Samples

NAMES = ("naive", "fused", "(control)")
BEST = 15e-6
MACHINE = Machine(remembered_s=BEST, own_s=BEST, others_cores=1.0)


def rows(
    processes: int = 5, rounds: int = 20, loud: float = 0.5, phase: int = 5, waits: tuple[str, ...] = (), seed: int = 0
) -> list[list]:
    """Processes that take turns of `phase` rounds, of which some are loud: everything takes 1.7 times as long.

    The threads of the variants in `waits` wait for a core in the loud ones.
    """
    rng = np.random.default_rng(seed)
    made = []
    for start in range(0, rounds, phase):
        disturbed = rng.random() < loud
        for process in range(processes):
            for number in range(start, min(start + phase, rounds)):
                for name, seconds in zip(NAMES, (2e-5, 1e-5, 2e-5), strict=True):
                    slower = 1.7 if disturbed else 1.0
                    taken = seconds * slower * (1 + 0.01 * rng.exponential())
                    waited = taken * (0.5 if disturbed and name in waits else 0.0)
                    made.append([name, process, number, 50, taken, BEST * slower, waited])
    return made


def test_latency_is_that_of_quiet_rounds_where_there_were_some() -> None:
    samples = Samples.of_latencies(rows(rounds=40), NAMES, MACHINE)
    assert samples.condition("naive") == samples.condition("naive", "fused") == QUIET
    assert 0.2 < samples.share("naive", QUIET) < 0.8
    quiet, every = samples.of("naive"), samples.seconds["naive"]
    assert [np.median(group) for group in quiet] == pytest.approx([2e-5] * 5, rel=0.02)
    assert max(group.max() for group in quiet) < 1.5 * 2e-5 < max(group.max() for group in every)


def test_all_rounds_count_where_the_machine_was_never_quiet() -> None:
    samples = Samples.of_latencies(rows(loud=1.0), NAMES, MACHINE)
    assert samples.condition("naive") == SLOWED
    assert sum(map(len, samples.of("naive"))) == 100
    assert np.median(np.concatenate(samples.paired("naive", "fused"))) == pytest.approx(2.0, rel=0.02)


def test_without_a_memory_a_run_takes_the_machine_as_it_finds_it() -> None:
    loud = rows(loud=1.0)
    forgetful = replace(MACHINE, remembered_s=None, own_s=fastest(loud))
    assert Samples.of_latencies(loud, NAMES, forgetful).condition("naive") == QUIET


def test_a_variant_that_lacked_cores_keeps_no_other_from_a_verdict() -> None:
    samples = Samples.of_latencies(rows(loud=1.0, waits=("fused",)), NAMES, MACHINE)
    assert samples.condition("naive") == SLOWED
    assert samples.condition("naive", "(control)") == SLOWED
    assert samples.condition("naive", "fused") == STARVED
    assert sum(map(len, samples.paired("naive", "fused"))) == 100  # there is a ratio, but no claim


def test_threads_that_wait_for_their_own_kind_lack_nothing() -> None:
    alone = replace(MACHINE, others_cores=0.01)
    assert Samples.of_latencies(rows(loud=1.0, waits=NAMES), NAMES, alone).condition("naive", "fused") == SLOWED


def test_pairs_are_of_the_same_round_where_a_variant_has_fewer() -> None:
    made = [row for row in rows(loud=0.5) if row[0] != "fused" or row[1] != 0 or row[2] < 7]
    samples = Samples.of_latencies(made, NAMES, MACHINE)
    for ratios in samples.paired("naive", "fused"):
        assert ratios == pytest.approx(2.0, rel=0.2)
    assert len(samples.paired("naive", "fused")[0]) <= 7


def test_a_process_that_saw_too_little_of_the_quiet_is_left_out() -> None:
    made = rows(loud=0.0)
    for row in made:
        if row[1] == 4 and row[2] >= 2:  # the last process has but two quiet rounds
            row[4], row[5] = 1.7 * row[4], 1.7 * row[5]
    samples = Samples.of_latencies(made, NAMES, MACHINE)
    assert samples.condition("naive") == QUIET
    assert [len(group) for group in samples.of("naive")] == [20, 20, 20, 20, 0]


@pytest.mark.parametrize(("processes", "rounds"), [(1, 20), (3, 1), (2, 2)])
def test_few_processes_and_rounds_are_enough_where_there_are_no_more(processes: int, rounds: int) -> None:
    samples = Samples.of_latencies(rows(processes, rounds, loud=0.0), NAMES, MACHINE)
    assert samples.condition("naive", "fused") == QUIET
    assert sum(map(len, samples.of("fused"))) == processes * rounds


def test_results_of_an_earlier_version_are_read_as_quiet() -> None:
    samples = Samples.of_latencies([row[:5] for row in rows()], NAMES, Machine())
    assert samples.condition("naive") == QUIET
    assert Samples.of_latencies([], NAMES, Machine()).of("naive") == []


def test_the_choice_of_rounds_favours_no_variant() -> None:
    """The scatter of a block has no part in it: a ratio of two that are equal stays 1."""
    rng = np.random.default_rng(1)
    made = rows(processes=8, rounds=60)
    for row in made:
        row[4] = 2e-5 * (row[5] / BEST) * np.exp(rng.normal(0, 0.1))
        row[5] *= np.exp(abs(rng.normal(0, 0.05)))
    samples = Samples.of_latencies(made, NAMES, MACHINE)
    kept = np.concatenate(samples.paired("naive", "fused"))
    assert 60 < len(kept) < 400
    assert np.median(kept) == pytest.approx(1.0, abs=0.02)


def of_two_processes(sets: int = 4, turns: int = 3, rounds: int = 5, slower: float = 1.2) -> list[list]:
    """Sets of two processes that take turns: the machine is half as fast in every other set of time slices."""
    made: list[list] = []
    slice_ = 0
    for turn in range(turns):
        for number in range(sets):
            speed = 1.0 + (turn + number) % 2
            for names, factor in ((("naive", "fused"), 1.0), (("naive@other",), slower)):
                slice_ += 1
                for each in range(rounds + (factor > 1)):
                    for name in names:
                        taken = 1e-5 * factor * speed
                        made.append([name, number, turn * rounds + each, 50, taken, BEST, 0.0, slice_])
    return made


def test_samples_of_two_processes_are_paired_by_their_time_slices() -> None:
    names = ("naive", "fused", "naive@other")
    samples = Samples.of_latencies(of_two_processes(), names, MACHINE)
    for name, ratio in (("fused", 1.0), ("naive@other", 1 / 1.2)):
        pairs = samples.paired("naive", name)
        assert [len(group) for group in pairs] == [15] * 4
        assert np.concatenate(pairs) == pytest.approx(ratio)
    assert [len(group) for group in samples.of("naive@other")] == [18] * 4


def test_the_quiet_of_a_round_is_that_of_its_own_process() -> None:
    made = of_two_processes()
    for row in made:
        row[5] = 2 * BEST if row[0] == "naive@other" else BEST
    samples = Samples.of_latencies(made, ("naive", "fused", "naive@other"), MACHINE)
    assert samples.condition("naive", "fused") == QUIET
    assert samples.condition("naive", "naive@other") == SLOWED


def test_a_process_that_ended_early_pairs_what_it_has() -> None:
    made = [row for row in of_two_processes() if not (row[0] == "naive@other" and row[1] == 0 and row[2] >= 5)]
    samples = Samples.of_latencies(made, ("naive", "fused", "naive@other"), MACHINE)
    assert [len(group) for group in samples.paired("naive", "naive@other")] == [5, 15, 15, 15]
