"""Pivot: the newest figures side by side by device, torch, machine, commit, variant, or what else runs differ in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from harness.configuration.errors import UsageError, unknown_key
from harness.history import causes, words
from harness.history.history import History, keys, value
from harness.history.record import LATENCY, RELATIVE, Figure
from harness.history.runs import Run
from harness.report import formatting
from harness.report.tables import Table

VARIANT = "variant"
NEWEST = 5  # runs of a column that its figures are the medians of
BARRED = 12  # cases of which a chart is drawn
NAMED = 4  # differences in a sentence
FOLLOWING: dict[str, tuple[str, ...]] = {  # from another value of the key, by how their names begin
    "device": ("device ", "profile."),
    "machine": ("device ", "cpu", "cores", "threads", "memory"),
}
UNLIKE = (causes.HOST, "commit")  # what differs without making runs less comparable


@dataclass(frozen=True)
class Pivot:
    """A table and bars of many runs, a column for each value of a key."""

    title: str
    sentences: Sequence[str]  # what makes the columns comparable, or not
    table: Table
    bars: Sequence[dict[str, Any]]  # of each case: title and rows of name, value, low, high, text


def pivot(history: History, key: str) -> Pivot:
    """The figures of the newest runs of each case and variant, a column for each value of a key.

    Raises UsageError for a key that no run has a value of, or that all have the same of.
    """
    known = [VARIANT, *keys(history.runs)]
    if key not in known:
        raise unknown_key("", key, known)
    columns, runs = _columns(history.runs, key)
    if len(columns) < 2:
        only = words.safe(next(iter(columns), "none"))
        raise UsageError(f"--pivot={key}: all runs have {only}; nothing stands side by side")
    rows: dict[str, dict[str, tuple[Figure | None, Figure]]] = defaultdict(dict)
    for (title, variant, column), several in runs.items():
        figures = _figures(several[-NEWEST:], variant or column)
        if figures is not None:
            row = title if key == VARIANT else f"{title} · {words.safe(variant)}"
            rows[row][column] = figures
    lines = [[row, *(_text(cells.get(column)) for column in columns)] for row, cells in rows.items()]
    headers = ["Case" if key == VARIANT else "Case and variant", *map(words.safe, columns)]
    table = Table(f"Side by side: {key}", headers, [False, *[True] * len(columns)], lines)
    return Pivot(key, _comparable(history.runs, key, columns), table, _bars(rows, columns))


def _columns(runs: Sequence[Run], key: str) -> tuple[list[str], dict[tuple[str, str, str], list[Run]]]:
    """The values of the key, numbers in order and others by time; the runs by case without it, variant and value."""
    columns: dict[str, None] = {}
    found: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.time):
        title = words.safe(_title(run, key), 120)
        for variant in run.results:
            column = variant if key == VARIANT else _column(run, key)
            if column is not None:
                columns[column] = None
                found[title, variant if key != VARIANT else "", column].append(run)
    try:
        return sorted(columns, key=float), found
    except ValueError:
        return list(columns), found


def _column(run: Run, key: str) -> str | None:
    return run.commit_name if key == "commit" else value(run, key)


def _title(run: Run, key: str) -> str:
    """The case's title without the key."""
    case = run.case
    what = " ".join([case.op, *(f"{name}={size}" for name, size in case.dims if name != key)])
    how = {"dtype": case.dtype, "mode": case.mode, "device": case.device}
    return " · ".join([what, *(text for name, text in how.items() if name != key)])


def _figures(runs: Sequence[Run], variant: str) -> tuple[Figure | None, Figure] | None:
    """The typical ratio and latency of the newest runs; None if the variant was never right."""
    results = [run.results.get(variant) for run in runs]
    latencies = [result.figures[LATENCY] for result in results if result and LATENCY in result.figures]
    beside = [run.results[variant] for run in runs if variant in run.results and variant != run.baseline]
    ratios = [result.figures[RELATIVE] for result in beside if RELATIVE in result.figures]
    return (_typical(ratios) if ratios else None, _typical(latencies)) if latencies else None


def _typical(figures: Sequence[Figure]) -> Figure:
    """The figure in the middle; its interval is that of the run."""
    return sorted(figures, key=itemgetter(0))[len(figures) // 2]


def _text(figures: tuple[Figure | None, Figure] | None) -> str:
    """`18.00 µs, 1.11×`: latency, and speedup over the baseline."""
    if figures is None:
        return formatting.NOTHING
    ratio, latency = figures
    speedup = f", {formatting.times_factor(1 / ratio[0])}" if ratio else ""
    return f"{formatting.time(latency[0])}{speedup}"


def _bars(rows: dict[str, dict[str, tuple[Figure | None, Figure]]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Latencies of the first rows in which several columns have one."""
    several = [(row, cells) for row, cells in rows.items() if len(cells) > 1]
    return [
        {
            "title": row,
            "rows": [
                {
                    "name": words.safe(column, 24),
                    "value": cells[column][1][0],
                    "low": cells[column][1][1],
                    "high": cells[column][1][2],
                    "text": _text(cells[column]),
                }
                for column in columns
                if column in cells
            ],
        }
        for row, cells in several[:BARRED]
    ]


def _comparable(runs: Sequence[Run], key: str, columns: Sequence[str]) -> list[str]:
    """What else the columns differ in, and how many runs each has."""
    if key == VARIANT:
        return ["Variants of a case were measured side by side, in the same runs: all columns are comparable."]
    sentences = [f"Each figure is the median of up to {NEWEST} runs, the newest of its column."]
    newest: dict[str, dict[str, Run]] = defaultdict(dict)  # by case without the key, and column
    counts: dict[str, int] = defaultdict(int)
    for run in sorted(runs, key=lambda run: run.time):
        column = _column(run, key)
        if column is not None:
            newest[_title(run, key)][column] = run
            counts[column] += 1
    shared = [measured for measured in newest.values() if len(measured) > 1]
    unlike = [
        f"{name} ({formatting.some(sorted(map(words.safe, values)), NAMED)})"
        for name, values in _differing(shared).items()
        if name not in (key, *UNLIKE) and not name.startswith(FOLLOWING.get(key, ()))
    ]
    if not shared:
        sentences.append("Not comparable: no case stands in two columns.")
    elif unlike:
        sentences.append(f"Not comparable in all: the columns also differ in {formatting.some(unlike, NAMED)}.")
    else:
        sentences.append(f"Comparable: the columns differ in {key} alone.")
    few = [words.safe(column) for column in columns if counts[column] < 3]
    if few:
        sentences.append(f"Fewer than three runs: {formatting.some(few, NAMED)}.")
    return sentences


def _differing(cases: Iterable[Mapping[str, Run]]) -> dict[str, set[str]]:
    """The conditions in which runs of one case differ, with their values."""
    found: dict[str, set[str]] = defaultdict(set)
    for measured in cases:
        for name in dict.fromkeys(name for run in measured.values() for name in run.conditions):
            values = {run.conditions.get(name, "unset") for run in measured.values()}
            if len(values) > 1:
                found[name] |= values
    return found
