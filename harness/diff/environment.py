"""Environment: differences other than the code that may change a latency, and warnings about either run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.diff.runs import DEVICE, Pair, Run
from harness.report import formatting
from harness.results import conditions
from harness.results.statistics import MINIMUM_PROCESSES


@dataclass(frozen=True)
class EnvironmentDifference:
    """A difference of environment or configuration."""

    key: str
    old: str
    new: str
    cases: int  # how many of the cases of both sides have it

    def sentence(self, total: int) -> str:
        """`torch: 2.12.0 → 2.13.0`, with the number of cases if these are not all of `total`."""
        return f"{self.key}: {self.old} → {self.new}{_cases(self.cases, total)}"


@dataclass(frozen=True)
class RunWarning:
    """Why a side is a poor measurement."""

    side: str  # old or new
    kind: str  # run: a warning of its own; noise_floor: above the threshold; processes: too few for a claim
    message: str
    cases: int  # how many of its cases have it

    def sentence(self, total: int) -> str:
        """`NEW: other processes used 1.3 cores while timing`, with the number of cases if these are not all."""
        return f"{self.side.upper()}: {self.message}{_cases(self.cases, total)}"


def environment_differences(pairs: Sequence[Pair]) -> list[EnvironmentDifference]:
    """All differences, each once; the machine first."""
    counts: dict[tuple[str, str, str], int] = {}
    for pair in pairs:
        if pair.old is None or pair.new is None:
            continue
        before = conditions.of(pair.old.document)
        after = conditions.of(pair.new.document)
        for key in dict.fromkeys([*before, *after]):
            old = before.get(key, "unset")
            new = after.get(key, "unset")
            if old != new and not _of_one_side(key, pair.old, pair.new):
                counts[key, old, new] = counts.get((key, old, new), 0) + 1
    return [EnvironmentDifference(key, old, new, count) for (key, old, new), count in counts.items()]


def run_warnings(pairs: Sequence[Pair], threshold: float, metrics: Sequence[str]) -> list[RunWarning]:
    """Warnings about either side: of each kind the worst, or the first of several, with the number of cases."""
    warnings = []
    for side in ("old", "new"):
        runs = [run for pair in pairs if (run := getattr(pair, side)) is not None]
        warnings += [RunWarning(side, *details) for details in _warnings(runs, threshold, metrics)]
    return warnings


def _warnings(runs: Sequence[Run], threshold: float, metrics: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Kind, message and number of cases."""
    warned = [run.warnings for run in runs if run.warnings]
    if warned:
        total = sum(map(len, warned))
        more = f" (the first of {total} warnings)" if total > 1 else ""
        yield "run", f"{warned[0][0]}{more}", len(warned)
    for metric in metrics:
        noisy = [run.clocks[metric].noise_floor for run in runs if run.clocks[metric].noise_floor > threshold]
        if noisy:
            floor = f"a noise floor of {formatting.percent(max(noisy))}{' on the device' if metric == DEVICE else ''}"
            yield "noise_floor", f"{floor} is above --threshold: smaller changes go unnoticed", len(noisy)
    few = [run.processes for run in runs if 0 < run.processes < MINIMUM_PROCESSES]
    if few:
        count = f"{min(few)} process{'es' if min(few) > 1 else ''}"
        yield "processes", f"measured in {count}: no change of latency is claimed; try latency.processes=5", len(few)


def _cases(count: int, total: int) -> str:
    return "" if count == total else f" (in {count} of {total} cases)"


def _of_one_side(key: str, old: Run, new: Run) -> bool:
    """Whether it configures a variant that only one side has, which is reported as added or missing."""
    if not key.startswith("op.variants."):
        return False
    return not any(key.startswith(f"op.variants.{name}.") for name in old.variants.keys() & new.variants.keys())
