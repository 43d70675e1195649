"""Turns: two worktrees measured side by side, one run of each after the other, and what can be told from them.

The machine's speed changes from minute to minute, so that a stored number says little about a commit that is measured
today. Here both commits are measured within the same minutes, and the one that comes first changes from pair to pair.

Relative to another variant, which ran on the machine at the same time, a time is known from each process of a run: the
interval is that of harness.diff, over the processes of all pairs, and one pair may decide. A time by itself moves with
the machine from run to run, however alike its processes are: there a pair is one sample, the logarithm of candidate /
good, and the interval over pairs is Student's t.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.bisect.trees import Trees
from harness.configuration.errors import UsageError, one_line
from harness.diff import change, runs
from harness.diff.runs import METRICS, Run
from harness.results import statistics
from harness.results.measurement import OK
from harness.results.statistics import Interval

FEWEST = 4  # samples that a decision needs: processes of either commit, or pairs


class UntestableError(Exception):
    """A commit that does not build, run, or have the variant; says why."""


@dataclass(frozen=True)
class Quantity:
    """What tells bad commits from good ones: a variant's time, by itself or relative to another's, or its status."""

    variant: str
    metric: str | None = None  # None: the status
    control: str | None = None

    @property
    def title(self) -> str:
        """`fused, its latency relative to naive`."""
        if self.metric is None:
            return f"{self.variant}, its status"
        what = "latency" if self.metric == runs.LATENCY else "device time"
        return f"{self.variant}, its {what}{f' relative to {self.control}' if self.control else ''}"

    def groups(self, run: Run) -> list[np.ndarray]:
        """The times in one run by process, in one unit; raises UntestableError if the run does not have them."""
        assert self.metric is not None
        for name in filter(None, (self.variant, self.control)):
            _check_timed(run, name, self.metric)
        samples = run.clocks[self.metric].samples
        groups = samples.of(self.variant) if self.control is None else samples.paired(self.variant, self.control)
        measured = [group for group in groups if len(group)]
        if not measured:
            raise UntestableError(f"{self.variant} was not timed")
        return measured


class Turns:
    """The pairs of runs of the good commit and of the candidate that is in its worktree."""

    def __init__(self, trees: Trees, overrides: Sequence[str], build: str | None):
        self.trees = trees
        self.overrides = overrides
        self.build = build
        self.pairs: list[tuple[Run, Run]] = []
        self._count = 0

    def candidate_changed(self) -> None:
        """Forgets the pairs, and builds the commit that is there now; raises UntestableError if that fails."""
        self.pairs = []
        self.prepare(self.trees.candidate_tree)

    def prepare(self, tree: Path) -> None:
        """Builds a worktree, if there is a command for it."""
        if self.build is not None:
            status, said = self._ended(["/bin/sh", "-c", self.build], tree)
            if status != 0:
                raise UntestableError(f"does not build: {said}")

    def take(self) -> None:
        """Measures both once more; the one that came second comes first."""
        first = [self.trees.good_tree, self.trees.candidate_tree]
        order = first if len(self.pairs) % 2 == 0 else first[::-1]
        measured = {tree: self.run(tree) for tree in order}
        self.pairs.append((measured[self.trees.good_tree], measured[self.trees.candidate_tree]))

    def run(self, tree: Path) -> Run:
        """One run of a worktree; raises UntestableError if there is none."""
        self._count += 1
        folder = self.trees.folder / "runs" / f"{self._count:03d}"
        command = [sys.executable, "-m", "harness", "report.charts=[]", *self.overrides, f"hydra.run.dir={folder}"]
        _, said = self._ended(command, tree)
        try:
            return runs.read(folder)[0]
        except UsageError as error:
            raise UntestableError(f"does not run: {said or error}") from error

    def _ended(self, command: Sequence[str], tree: Path) -> tuple[int, str]:
        """Runs a program where the user would stand in a worktree; returns its status and the last line that it wrote.

        It writes into a file, and not into a pipe, whose end a process that outlives it would keep from coming.
        """
        place = self.trees.place(tree)
        if not place.is_dir():
            raise UntestableError(f"has no folder {self.trees.below}")
        with tempfile.TemporaryFile(dir=self.trees.folder) as file:
            environment = self.trees.environment(tree)
            ended = subprocess.run(
                command, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
            )
            file.seek(0)
            return ended.returncode, _last(file.read().decode(errors="replace"))

    def ratio(self, quantity: Quantity, confidence: float) -> Interval | None:
        """Candidate / good of a quantity; None with too few samples."""
        pairs = [(quantity.groups(old), quantity.groups(new)) for old, new in self.pairs]
        if quantity.control is None:
            logs = [_typical(new) - _typical(old) for old, new in pairs]
            return statistics.interval([np.exp([log]) for log in logs], confidence) if len(logs) >= FEWEST else None
        good, candidate = ([group for pair in pairs for group in pair[side]] for side in (0, 1))
        return change.ratio(good, candidate, confidence) if min(len(good), len(candidate)) >= FEWEST else None

    def quantities(self, variant: str | None) -> list[Quantity]:
        """What could tell them apart, ratios first; of one variant, if it is named."""
        good, bad = self.pairs[-1]
        baseline = bad.document["case"]["baseline"]
        names = [name for name in bad.variants if name in good.variants and variant in (None, name)]
        timed = [
            (name, metric)
            for metric in METRICS
            for name in names
            if all(run.variants[name].times[metric].right for run in (good, bad))
        ]
        beside = [Quantity(name, metric, baseline) for name, metric in timed if name != baseline]
        known = [each for each in beside if all(_has(run, baseline, each.metric) for run in (good, bad))]
        return [*known, *(Quantity(name, metric) for name, metric in timed)]


def _typical(groups: Sequence[np.ndarray]) -> float:
    """The median over processes of the medians of logarithms."""
    return float(np.median([np.median(np.log(group)) for group in groups]))


def decide(ratio: Interval | None, whole: float) -> str | None:
    """`good` or `bad`, by which side of half of the whole change the interval lies on; None if on neither."""
    if ratio is None:
        return None
    half = np.sqrt(whole)
    if (ratio.low > half) if whole > 1 else (ratio.high < half):
        return "bad"
    if (ratio.high < half) if whole > 1 else (ratio.low > half):
        return "good"
    return None


def right(status: str) -> bool:
    """Whether a variant of this status is as it should be."""
    return status == OK


def _check_timed(run: Run, variant: str, metric: str) -> None:
    result = run.variants.get(variant)
    if result is None:
        raise UntestableError(f"has no variant {variant}")
    if not result.times[metric].right:
        raise UntestableError(
            f"{variant} is {result.status}{f': {result.reason}' if result.reason else ', and was not timed'}"
        )


def _has(run: Run, variant: str, metric: str | None) -> bool:
    result = run.variants.get(variant)
    return result is not None and metric is not None and result.times[metric].right


def _last(text: str) -> str:
    """The last line of what a program said."""
    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""
