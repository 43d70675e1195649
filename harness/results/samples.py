"""Samples: raw samples by variant and process, without the noisy rounds, and paired with the baseline's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.results.statistics import Groups

NOISY_ROUND = 1.2  # a round is noisy in which the control takes longer than this times its fastest fifth


def by_process(samples: Sequence[Sequence], names: Sequence[str]) -> dict[str, list[np.ndarray]]:
    """Each variant's seconds per call in every process, in the order in which they were taken.

    `samples` are rows that begin with the variant's name and the process and end with the seconds per call.
    """
    processes = sorted({sample[1] for sample in samples})
    collected: dict[tuple[str, int], list[float]] = {(name, process): [] for name in names for process in processes}
    for name, process, *_, seconds in samples:
        collected[name, process].append(seconds)
    return {name: [np.array(collected[name, process]) for process in processes] for name in names}


def without_noisy_rounds(seconds: Mapping[str, Groups], control: str) -> dict[str, list[np.ndarray]]:
    """Seconds per call by process, without the rounds in which the machine was busy with something else.

    `control` names the baseline timed a second time. Nothing is compared with it, so selecting rounds by it favours
    no variant. A round is kept if the control took at most NOISY_ROUND times the 20th percentile of its process;
    a process in which the control has no samples keeps all rounds.
    """
    selected: dict[str, list[np.ndarray]] = {name: [] for name in seconds}
    for process, reference in enumerate(seconds[control]):
        quiet = reference <= NOISY_ROUND * np.percentile(reference, 20) if len(reference) else np.array([], bool)
        for name, groups in seconds.items():
            group = groups[process]
            selected[name].append(group[: len(quiet)][quiet[: len(group)]] if len(reference) else group)
    return selected


def paired(baseline: Groups, other: Groups) -> list[np.ndarray]:
    """Ratios baseline / other, paired round by round in each process that has samples of both."""
    return [b[: len(o)] / o[: len(b)] for b, o in zip(baseline, other, strict=True) if len(b) and len(o)]
