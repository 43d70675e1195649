"""Record: what a history keeps of one results.json - case, commit, machine, conditions, and each variant's figures."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from harness.configuration.errors import UsageError, one_line
from harness.configuration.operation import CaseKey
from harness.results import columns, conditions, storage
from harness.results.column import Column
from harness.results.comparison import Comparison
from harness.results.entry import Entry
from harness.results.measurement import DEGRADED, OK
from harness.results.storage import Document

Figure = Sequence[Any]  # a value, and the bounds of its interval or None
Plain = tuple[str, list[Any]]  # what results hold: the JSON of a setup, and the plain values of the run

RELATIVE, DEVICE_RELATIVE, DEVICE, LATENCY = "relative", "device_relative", "device_time_us", "latency_us"
# Each measure, the steadiest first, with the columns of comparison.csv that hold its value and bounds
MEASURES = {
    RELATIVE: ("speedup", "speedup_hi", "speedup_lo"),
    DEVICE_RELATIVE: ("device_speedup", "device_speedup_hi", "device_speedup_lo"),
    DEVICE: ("device_time_us", "device_time_lo_us", "device_time_hi_us"),
    LATENCY: ("latency_us", "latency_lo_us", "latency_hi_us"),
}
RATIOS = (RELATIVE, DEVICE_RELATIVE)  # time relative to the baseline's, which is 1 / speedup
ABSOLUTE = {LATENCY: RELATIVE, DEVICE: DEVICE_RELATIVE}  # a time, and what it is relative to the baseline's

CONFIGURED = "op.variants."  # conditions that begin so configure a variant: NAME.KEY
SKEW_S = 300.0  # by which the clocks of two machines may differ


class Result(NamedTuple):
    """One variant in one run."""

    variant: str
    status: str
    reason: str  # empty if it is right
    figures: Mapping[str, Figure]  # by measure; only of a variant that is right, as declared


@dataclass(frozen=True, eq=False)
class Setup:
    """What many runs share: the case, and all that it was measured on and under."""

    case: CaseKey
    baseline: str
    machine: str  # CPU, cores and accelerator: runs on two hosts that are equal in these make one series
    conditions: Mapping[str, str]

    @classmethod
    def of(cls, plain: Sequence[Any]) -> Setup:
        """The setup from what its JSON, which `read` returned, holds."""
        (op, dims, *rest), baseline, machine, conditions = plain
        return cls(CaseKey(op, tuple((name, size) for name, size in dims), *rest), baseline, machine, conditions)

    def renamed(self, names: Mapping[str, str]) -> Setup:
        """The same with other names of variants."""

        def now(key: str) -> str:
            found = next((old for old in names if key.startswith(f"{CONFIGURED}{old}.")), None)
            return key if found is None else f"{CONFIGURED}{names[found]}{key[len(CONFIGURED) + len(found) :]}"

        known = {now(key): value for key, value in self.conditions.items()}
        return replace(self, baseline=names.get(self.baseline, self.baseline), conditions=known)


def read(content: bytes) -> Plain:
    """A results.json as the JSON of a setup, and the plain values of a run.

    Raises UsageError if it is damaged, of another schema version, not whole, or without samples.
    """
    document = storage.parsed(content, storage.SCHEMA_VERSION)
    try:
        with np.errstate(all="ignore"):  # of times that are no times: their figures are not known
            setup, run = storage.strict(_setup(document)), storage.strict(_run(document))
        text, told = (json.dumps(each, ensure_ascii=False, sort_keys=True) for each in (setup, run))
        (text + told).encode()  # no file can hold half of a surrogate pair
        return text, run
    except UsageError:
        raise
    except Exception as error:  # a file that anyone may have written
        raise UsageError(f"not the whole results of a run ({type(error).__name__}: {one_line(error)})") from error


def _setup(document: Document) -> list[Any]:
    case = document["case"]
    dims = [[_text(name), int(size)] for name, size in case["dims"].items()]
    described = [_text(case["op"]), dims, *(_text(case[name]) for name in ("dtype", "mode", "device"))]
    return [described, _text(case["baseline"]), _machine(document), conditions.of(document)]


def _run(document: Document) -> list[Any]:
    comparison = Comparison(document)
    entries = comparison.entries.values()
    if not document["samples"]["rows"] and any(entry.measurement.status in (OK, DEGRADED) for entry in entries):
        raise UsageError("holds no samples")
    figures = {entry.name: _figures(entry) for entry in entries}
    _add_ratios(figures, document["case"]["baseline"])
    commit = document.get("commit") or {}
    results = [
        [
            _text(entry.name),
            _text(entry.measurement.status),
            _text(entry.measurement.reason or ""),
            figures[entry.name],
        ]
        for entry in entries
    ]
    yardstick = _positive(comparison.machine.own_s)
    identity = _text(commit["id"]) if commit else None
    return [*_time(document), identity, bool(commit.get("changed")), yardstick, results]


def _figures(entry: Entry) -> dict[str, Figure]:
    if entry.measurement.status != OK or not entry.comparable:
        return {}
    found = {}
    for measure, known in _columns().items():
        value, low, high = (_positive(column.of(entry)) for column in known)
        doubtful = entry.host.too_short or entry.host.starved  # the loop around it, or the wait for a core
        if value is None or (doubtful and measure in (RELATIVE, LATENCY)):
            continue
        figure = (value, low, high)
        found[measure] = tuple(each and 1 / each for each in figure) if measure in RATIOS else figure
    return found  # type: ignore[return-value]


@cache
def _columns() -> dict[str, list[Column]]:
    """Those of each measure."""
    declared = {column.name: column for column in columns.MEASURED}
    return {measure: [declared[name] for name in names] for measure, names in MEASURES.items()}


def _add_ratios(figures: Mapping[str, dict[str, Figure]], baseline: str) -> None:
    """Adds ratios of device times that have no interval, and the baseline's, relative to the median of the others."""
    base = figures[baseline]
    for name, known in figures.items():
        if name != baseline and DEVICE_RELATIVE not in known and DEVICE in known and DEVICE in base:
            known[DEVICE_RELATIVE] = (known[DEVICE][0] / base[DEVICE][0], None, None)
    for ratio in RATIOS:
        base.pop(ratio, None)
        others = sorted((known[ratio] for known in figures.values() if ratio in known), key=itemgetter(0))
        if others:
            value, low, high = others[len(others) // 2] if len(others) % 2 else (_middle(others), None, None)
            base[ratio] = (1 / value, high and 1 / high, low and 1 / low)


def _middle(others: list[Figure]) -> float:
    """Between the two in the middle, on the scale of ratios."""
    half = len(others) // 2
    return math.sqrt(others[half - 1][0] * others[half][0])


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _positive(value: Any) -> float | None:
    return float(value) if value and math.isfinite(value) and value > 0 else None


def _machine(document: Document) -> str:
    environment, device = document["environment"], document["device"]
    host = f"{environment['cpu']}, {environment['cores']} cores"
    return f"{device.get('name', device.get('device'))} · {host}" if device.get("accelerator") else host


def _time(document: Document) -> tuple[float, str | None]:
    """When it was measured, and what is wrong with its clock: no run is older than its commit."""
    created = _instant(document["created"])
    commit = document.get("commit") or {}
    committed = _instant(commit["time"]) if commit.get("time") else created
    if committed > created + SKEW_S:
        return committed, f"its clock gives {document['created']}, but its commit is of {commit['time']}"
    return created, None


def _instant(text: str) -> float:
    instant = datetime.fromisoformat(text)
    aware = instant if instant.tzinfo else instant.replace(tzinfo=timezone.utc)
    return aware.astimezone(timezone.utc).timestamp()  # an error if UTC has no such year
