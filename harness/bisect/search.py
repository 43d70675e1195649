"""The search: git bisect's, each step decided by measuring the commit side by side with the good one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.bisect.trees import FOUND, POSSIBLE, Commit, Trees
from harness.bisect.turns import Quantity, Turns, UntestableError, decide, right
from harness.configuration.errors import UsageError
from harness.diff.runs import Run
from harness.diff.summary import interval
from harness.history import words
from harness.report import formatting
from harness.results import statistics
from harness.results.statistics import Interval

BAD, GOOD, SKIP = "bad", "good", "skip"
NAMED = 5  # commits in a sentence


@dataclass(frozen=True)
class Settings:
    """What is claimed, and after how much measuring it is given up."""

    variant: str | None  # that is looked at; None: whichever changed
    threshold: float  # the smallest change between good and bad that is looked for
    confidence: float  # of each step
    turns: int  # pairs of runs after which a step is given up

    def each(self, quantities: int = 1) -> float:
        """The confidence of one look at one of several quantities: there is a look after each pair."""
        return statistics.level(self.confidence, quantities * self.turns)


@dataclass
class Search:
    """A search, and what it has found."""

    trees: Trees
    turns: Turns
    settings: Settings
    say: Callable[[str], None]  # progress
    quantity: Quantity | None = None
    whole: Interval | None = None  # bad / good of that quantity
    steps: int = 0
    skipped: list[str] = field(default_factory=list)

    def tell_apart(self) -> None:
        """Finds what differs between the bad commit and the good one, both measured now.

        Raises UsageError if the good one cannot be measured, or the two cannot be told apart.
        """
        self.say(f"good: {self.trees.commit(self.trees.good).name}; bad: {self.trees.commit(self.trees.bad).name}")
        good = self._first_run("--good", self.trees.good_tree)
        bad = self._first_run("--bad", self.trees.candidate_tree)
        for name, result in good.variants.items():
            worse = name in bad.variants and right(result.status) and not right(bad.variants[name].status)
            if worse and self.settings.variant in (None, name):
                self.quantity = Quantity(name)
                self.say(f"{self.quantity.title} tells them apart: {result.status}, and {bad.variants[name].status}")
                return
        self.turns.pairs = [(good, bad)]
        for pair in range(self.settings.turns):
            try:
                if pair:
                    self.turns.take()
                self._compare()
            except UntestableError as error:
                raise UsageError(f"the two cannot be compared: {error}") from error
            if self.quantity is not None:
                self.say(f"{self.quantity.title} tells them apart: {self.difference}")
                return
        raise UnclearError(
            f"bad is not told from good in {self.settings.turns} pairs of runs; try a longer latency.seconds, more "
            "--turns, a quieter machine, or a lower --threshold"
        )

    def run(self, log: Path | None) -> Commit:
        """Finds the first bad commit; raises UnclearError if it cannot be told. Keeps git's own log in `log`."""
        said = self.trees.start(log if log is not None and log.exists() else None)
        while True:
            if log is not None:
                log.write_text(self.trees.log, encoding="utf-8")
            found = FOUND.search(said)
            if found is not None:
                return self.trees.commit(found[1])
            if "skip'ped commits left" in said:
                possible = [self.trees.commit(commit).name for commit in POSSIBLE.findall(said)]
                raise UnclearError(f"only skipped commits are left; it is one of {formatting.some(possible, NAMED)}")
            commit = self.trees.candidate
            self.steps += 1
            said = self.trees.tell(self._decide(commit))

    @property
    def difference(self) -> str:
        """Bad / good of the quantity: `+20.1% (+18.0% to +22.3%)`."""
        return "wrong, failed or degraded, where it was right" if self.whole is None else interval(self.whole)

    def _first_run(self, option: str, tree: Path) -> Run:
        """Builds a tree and measures it once."""
        try:
            self.turns.prepare(tree)
            return self.turns.run(tree)
        except UntestableError as error:
            raise UsageError(f"{option}: {error}") from error

    def _compare(self) -> None:
        """Sets the quantity by which the two differ, if there is one yet: the ratio that is known best, else a time.

        A ratio is taken within a run, so that the machine matters less to it, however well it knows times just now.
        """
        quantities = self.turns.quantities(self.settings.variant)
        if not quantities:
            raise UntestableError(f"{self.settings.variant or 'no variant'} is not timed in both")
        known: list[tuple[bool, float, Quantity, Interval]] = []
        for quantity in quantities:
            ratio = self.turns.ratio(quantity, self.settings.each(len(quantities)))
            if ratio is None or abs(np.log(ratio.value)) < np.log1p(self.settings.threshold):
                continue
            if ratio.low > 1 or ratio.high < 1:
                clear = abs(np.log(ratio.value)) / np.log(ratio.high / ratio.low)
                known.append((quantity.control is not None, clear, quantity, ratio))
        if known:
            *_, self.quantity, self.whole = max(known, key=lambda each: each[:2])

    def _decide(self, commit: Commit) -> str:
        """Whether a commit is good or bad, or has to be skipped; raises UnclearError if measuring does not tell."""
        try:
            self.turns.candidate_changed()
            verdict, why = self._measured()
        except UntestableError as error:
            verdict, why = SKIP, str(error)
            self.skipped.append(commit.name)
        self.say(f"step {self.steps}: {commit.name} is {'skipped' if verdict == SKIP else verdict}: {why}")
        return verdict

    def _measured(self) -> tuple[str, str]:
        assert self.quantity is not None
        if self.whole is None:
            result = self.turns.run(self.trees.candidate_tree).variants.get(self.quantity.variant)
            if result is None:
                raise UntestableError(f"has no variant {self.quantity.variant}")
            return (
                GOOD if right(result.status) else BAD
            ), f"{result.status}{f' ({result.reason})' if result.reason else ''}"
        ratio = None
        for pair in range(self.settings.turns):
            self.turns.take()
            ratio = self.turns.ratio(self.quantity, self.settings.each())
            verdict = decide(ratio, self.whole.value)
            if verdict is not None:
                return verdict, f"{interval(ratio)} in {words.count(pair + 1, 'pair')} of runs"
        left = [self.trees.commit(name).name for name in self.trees.left]
        raise UnclearError(
            f"{self.trees.candidate.name} is neither as good nor as bad: {interval(ratio)}, where bad is "
            f"{self.difference}; the first bad commit is one of {formatting.some(left, NAMED)}"
        )


class UnclearError(Exception):
    """The search ends without the commit; says what is known."""
