"""Runs: what a history keeps of many runs, as columns; one of them is a view of these, made where it is looked at."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np

from harness.configuration.operation import CaseKey
from harness.history.record import MEASURES, SKEW_S, Figure, Result, Setup

NONE = -1  # the number of no text, and of no setup
UNKNOWN = (np.nan, np.nan, np.nan)  # a figure
RUN = np.dtype(
    [
        ("setup", "<i4"),  # its number; NONE of a content that holds no run
        ("time", "<f8"),  # seconds since 1970
        ("clock", "<i4"),  # the text of what is wrong with the time that it gives
        ("commit", "<i4"),  # the text of its id
        ("changed", "?"),  # whether files of the commit were changed
        ("yardstick", "<f8"),  # seconds that a fixed piece of work took the machine at its fastest; NaN if not known
        ("results", "<i4"),  # how many variants it has
    ]
)
RESULT = np.dtype([("variant", "<i4"), ("status", "<i4"), ("reason", "<i4")])  # texts
FIGURE = np.dtype(("<f8", 3))  # a value and the bounds of its interval, or NaN
NO_RUN = (NONE, np.nan, NONE, NONE, False, np.nan, 0)


class Texts:
    """Texts by number, in the order in which they came."""

    def __init__(self, texts: Iterable[str] = ()):
        self.texts = list(texts)
        self._numbers = {text: number for number, text in enumerate(self.texts)}

    def number(self, text: str | None) -> int:
        """A text's number, a new one if it is new; NONE of None."""
        if text is None:
            return NONE
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number


def encoded(
    runs: Iterable[tuple[int, Sequence[Any]] | None], texts: Texts
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Runs as the columns RUN; and their results, in the same order, as RESULT, and as FIGURE by measure.

    Each is the number of its setup and the plain values that `record.read` returned; None is a content that holds none.
    A measure that no result has is left out.
    """
    rows, results, figures = [], [], []
    for run in runs:
        if run is None:
            rows.append(NO_RUN)
            continue
        setup, (instant, clock, commit, changed, yardstick, measured) = run
        known = np.nan if yardstick is None else yardstick
        rows.append((setup, instant, texts.number(clock), texts.number(commit), changed, known, len(measured)))
        results += [tuple(map(texts.number, described)) for *described, _ in measured]
        figures += [known for *_, known in measured]
    present = [measure for measure in MEASURES if any(measure in known for known in figures)]
    by_measure = {
        measure: np.array([known.get(measure, UNKNOWN) for known in figures], float).reshape(-1, 3)
        for measure in present
    }
    return np.array(rows, RUN), np.array(results, RESULT), by_measure


@dataclass(frozen=True, eq=False)
class Columns:
    """Runs, whose setups and texts are numbers, and the results of each of them in their order."""

    setups: Sequence[Setup]
    texts: Sequence[str]
    runs: np.ndarray  # of RUN, shape (runs,)
    results: np.ndarray  # of RESULT, shape (results,)
    figures: Mapping[str, np.ndarray]  # of FIGURE, shape (results, 3), by measure; none of one that no result has

    @cached_property
    def ends(self) -> np.ndarray:
        """The row after the last of each run's results."""
        return np.cumsum(self.runs["results"])

    def rows(self, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of these runs' results, and which of the runs each is of."""
        counts = self.runs["results"][runs]
        of = np.repeat(np.arange(len(runs)), counts)
        return np.arange(len(of)) + np.repeat(self.ends[runs] - np.cumsum(counts), counts), of

    def named(self, numbers: np.ndarray) -> list[str | None]:
        """Texts by their numbers."""
        return self._texts[numbers].tolist()

    @cached_property
    def _texts(self) -> np.ndarray:
        return np.array([*self.texts, None], object)  # the last one is that of NONE

    def renamed(self, names: Mapping[str, str]) -> Columns:
        """The same with other names of variants; one keeps its name if another variant of its run has the new one."""
        texts, runs, results = Texts(self.texts), self.runs.copy(), self.results.copy()
        of = np.repeat(np.arange(len(runs)), runs["results"])

        def having(name: str) -> np.ndarray:
            found = np.zeros(len(runs), bool)
            found[of[self.results["variant"] == texts.number(name)]] = True
            return found

        applied = np.array([having(old) & ~having(new) for old, new in names.items()])
        for (old, new), where in zip(names.items(), applied, strict=True):
            results["variant"][(self.results["variant"] == texts.number(old)) & where[of]] = texts.number(new)
        kinds, which = np.unique(np.vstack([runs["setup"], applied]), axis=1, return_inverse=True)
        runs["setup"] = which.ravel()
        pairs = names.items()
        setups = [
            self.setups[setup].renamed({old: new for (old, new), held in zip(pairs, several, strict=True) if held})
            for setup, *several in kinds.T.tolist()
        ]
        return Columns(setups, texts.texts, runs, results, self.figures)


def commit_name(commit: str | None, changed: bool) -> str | None:
    """A commit in seven digits, with a + if files of it were changed."""
    return f"{commit[:7]}{'+' if changed else ''}" if commit else None


@dataclass(frozen=True, eq=False)
class Runs(Sequence["Run"]):
    """Some of the runs of columns, each of a file."""

    columns: Columns
    places: np.ndarray  # of the runs in the columns
    names: np.ndarray  # of texts: each run's file, or BRANCH:file
    pages: np.ndarray  # of texts, or None: its report.html

    @classmethod
    def of(cls, runs: Iterable[tuple[str, Setup, Sequence[Any]]]) -> Runs:
        """Runs of the names of their files, setups, and the plain values that `record.read` returned."""
        names, setups, plains = zip(*runs, strict=True)
        several, texts = {setup: number for number, setup in enumerate(dict.fromkeys(setups))}, Texts()
        columns = encoded(zip(map(several.__getitem__, setups), plains, strict=True), texts)
        pages = np.full(len(names), None, object)
        return cls(Columns(list(several), texts.texts, *columns), np.arange(len(names)), np.array(names, object), pages)

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, place: int) -> Run: ...
    @overload
    def __getitem__(self, place: slice | np.ndarray) -> Runs: ...
    def __getitem__(self, place: int | slice | np.ndarray) -> Run | Runs:
        if isinstance(place, (slice, np.ndarray)):
            return Runs(self.columns, self.places[place], self.names[place], self.pages[place])
        return Run(self.columns, int(self.places[place]), self.names[place], self.pages[place])

    def __iter__(self) -> Iterator[Run]:
        return map(self.__getitem__, range(len(self)))

    def column(self, name: str) -> np.ndarray:
        """A column of RUN of these runs."""
        return self.columns.runs[name][self.places]

    @property
    def commit_names(self) -> list[str | None]:
        """The commit of each in seven digits, with a + if files of it were changed."""
        commits, which = np.unique(2 * self.column("commit") + self.column("changed"), return_inverse=True)
        named = zip(self.columns.named(commits // 2), (commits % 2).tolist(), strict=True)  # NONE is -1
        return np.array([commit_name(commit, bool(changed)) for commit, changed in named], object)[which].tolist()

    @cached_property
    def times(self) -> np.ndarray:
        """When each was, in seconds since 1970."""
        return self.column("time")

    @cached_property
    def ahead(self) -> np.ndarray:
        """Which are yet to come, by clocks that were wrong; none if half of them are: then this machine's clock is."""
        late = self.times > time.time() + SKEW_S
        return late & (2 * late.sum() < len(self))

    @cached_property
    def setups(self) -> dict[int, Setup]:
        """All setups that these runs have, by number, in the order in which they come."""
        numbers, first = np.unique(self.column("setup"), return_index=True)
        return {int(number): self.columns.setups[number] for number in numbers[np.argsort(first)]}

    def numbered(self, key: Callable[[Setup], Hashable]) -> tuple[np.ndarray, list[Any]]:
        """The place of each run's key in the list of keys that their setups have, in the order in which they come."""
        keys: dict[Hashable, int] = {}
        of_setup = np.zeros(len(self.columns.setups), int)
        for number, setup in self.setups.items():
            of_setup[number] = keys.setdefault(key(setup), len(keys))
        return of_setup[self.column("setup")], list(keys)

    def renamed(self, names: Mapping[str, str]) -> Runs:
        """The same with other names of variants."""
        return replace(self, columns=self.columns.renamed(names)) if names and self else self


@dataclass(frozen=True, eq=False)
class Run:
    """One case as one run measured it."""

    columns: Columns
    place: int
    name: str  # its file, or BRANCH:file
    page: str | None  # its report.html

    @property
    def setup(self) -> Setup:
        """What it shares with other runs."""
        return self.columns.setups[self._of("setup")]

    @property
    def case(self) -> CaseKey:
        """The case that was measured."""
        return self.setup.case

    @property
    def baseline(self) -> str:
        """The variant that others were compared with."""
        return self.setup.baseline

    @property
    def machine(self) -> str:
        """What it was measured on."""
        return self.setup.machine

    @property
    def conditions(self) -> Mapping[str, str]:
        """What it was measured under."""
        return self.setup.conditions

    @property
    def time(self) -> float:
        """Seconds since 1970."""
        return self._of("time")

    @property
    def clock(self) -> str | None:
        """What is wrong with the time that it gives."""
        return self._text("clock")

    @property
    def commit(self) -> str | None:
        """The id of the commit that was measured."""
        return self._text("commit")

    @property
    def changed(self) -> bool:
        """Whether files of the commit were changed."""
        return self._of("changed")

    @property
    def commit_name(self) -> str | None:
        """Its commit in seven digits, with a + if files of it were changed."""
        return commit_name(self.commit, self.changed)

    @cached_property
    def results(self) -> Mapping[str, Result]:
        """Each variant's, by its name."""
        rows, _ = self.columns.rows(np.array([self.place]))
        return {result.variant: result for result in map(self._result, rows.tolist())}

    def _of(self, name: str) -> Any:
        return self.columns.runs[name][self.place].item()

    def _text(self, name: str) -> str | None:
        (text,) = self.columns.named(np.array([self._of(name)]))
        return text

    def _result(self, row: int) -> Result:
        variant, status, reason = (self.columns.texts[number] for number in self.columns.results[row].item())
        figures = {measure: known[row].tolist() for measure, known in self.columns.figures.items()}
        known: dict[str, Figure] = {
            measure: tuple(None if math.isnan(each) else each for each in figure)
            for measure, figure in figures.items()
            if not math.isnan(figure[0])
        }
        return Result(variant, status, reason, known)
