"""Words: what a comparison shows, in plain sentences, and what troubles it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from harness.measure.torch_private import GUARDS
from harness.report import tables as cells
from harness.results.comparison import Row
from harness.results.folder import Document

NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()
RANKED = ("faster", "same", "unclear", "slower")  # verdicts, in the order in which they are told
SAME_WORK = 0.9  # a call that enters so large a share of the baseline's operators does its work under another name
LESS_MEMORY = 0.75  # of the baseline's peak, or less, is worth a word
GAPS = 0.01  # of the baseline's latency: gaps worth a word
NOISY = 0.05  # a noise floor worth a warning
LOOSE = 0.05  # half an interval that leaves its verdict unclear for want of samples


def summary(document: Document, rows: Sequence[Row]) -> list[str]:
    """Sentences about each variant: those that are ranked, the best first, then the others with the reason."""
    base = next(row for row in rows if row["variant"] == document["case"]["baseline"])
    measured = {measurement["variant"]: measurement for measurement in document["measurements"]}
    ranked = [row for row in rows if row["verdict"] in RANKED]
    ranked.sort(key=lambda row: (RANKED.index(row["verdict"]), -row["speedup"]))
    sentences = []
    for row in ranked:
        sentences.append(
            " ".join([_verdict(row, base), *_fusion(row, base, measured), *_spent(row, base, measured), *_bound(row)])
        )
    return sentences + [_unranked(row, base, measured) for row in rows if row not in ranked and row["verdict"] is None]


def warnings(document: Document, rows: Sequence[Row]) -> list[str]:
    """Troubles of the whole run, then of each variant: what was seen, the likely cause, what to try."""
    noise = next((row["noise_floor"] for row in rows if row["noise_floor"]), 0.0)
    found = _merged(document["warnings"])
    if noise > NOISY:
        found.append(
            f"no difference below {cells.percent(noise)} is claimed: the baseline, timed twice, differs from itself by "
            "as much, as on a busy machine; try worker.threads=1, fewer neighbours, or a larger latency.seconds"
        )
    for row, measurement in zip(rows, document["measurements"], strict=True):
        found += [f"{row['variant']}: {note}" for note in measurement["notes"]]
        if row["verdict"] == "unclear" and (row["speedup_hi"] - row["speedup_lo"]) / 2 > LOOSE * row["speedup"]:
            settings, alone = document["config"]["latency"], row["processes"] == 1
            scatter = "within its one process" if alone else "between processes"
            more = "latency.processes=3" if alone else f"latency.seconds={4 * settings['seconds']:g}"
            known = "to no factor of ten" if _vague(row) else f"only as {_range(row)}"
            found.append(
                f"{row['variant']}: its ratio is known {known}, because its samples scatter {scatter} "
                f"(samples.csv); try {more}, or a quieter machine"
            )
    return found


def _verdict(row: Row, base: Row) -> str:
    """`compiled does in one device execution what naive does in six, is 6.30 times as fast (6.10 to 6.40), …`"""
    other, factor = base["variant"], cells.digits(row["speedup"], 3)
    counts = _executions(row, base)
    clauses = [*counts]
    if row["verdict"] == "faster":
        clauses.append(f"is {factor} times as fast ({_range(row)})")
    elif row["verdict"] == "slower":
        clauses.append(f"is slower, {factor} times as fast ({_range(row)})")
    elif row["verdict"] == "same":
        clauses.append(f"is as fast, within ±{cells.percent(row['noise_floor'])} ({_range(row)})")
    else:
        known = "known to no factor of ten" if _vague(row) else f"{_range(row)} times as fast"
        clauses.append(f"is not clearly faster or slower ({known})")
    mine, gaps = row["device_gap_us"], base["device_gap_us"]
    if mine is not None and gaps and gaps > GAPS * base["latency_us"]:
        spent = _time(mine) if mine else "no time"
        clauses.append(f"spends {spent} in gaps between executions where {other} spends {_time(gaps)}")
    if row["compile_s"]:
        cached = " with a warm cache" if row["compile_cached"] else ""
        clauses.append(f"took {cells.duration(row['compile_s'])} to compile{cached}")
    if row["break_even_calls"]:
        clauses.append(f"pays for itself after {row['break_even_calls']:,} calls")
    against = "" if counts else f", against {other}"
    return f"{row['variant']} {_listed(clauses)}{against}."


def _executions(row: Row, base: Row) -> list[str]:
    for key, unit in (("device_executions", "device execution"), ("operator_calls", "operator call")):
        mine, others = row[key], base[key]
        if mine and others and mine != others:
            return [
                f"does in {_number(mine)} {unit}{'s' * (mine > 1)} what {base['variant']} does in {_number(others)}"
            ]
        if mine and others:
            return [f"makes as many {unit}s as {base['variant']} ({_number(mine)})"]
    return []


def _operators(count: int) -> str:
    return "one operator" if count == 1 else f"{count} operators"


def _fusion(row: Row, base: Row, measured: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Whether the work was fused, or goes by another name; a device's executions have already told."""
    if row["device_executions"] or not row["operator_calls"] or not base["operator_calls"]:
        return []
    inner, others = (_entered(measured[which["variant"]]) for which in (row, base))
    if row["compile_s"] is not None:
        return [f"Compiled code replaces the {_operators(others)} that {base['variant']} enters."]
    if row["operator_calls"] < base["operator_calls"] and inner >= SAME_WORK * others:
        return [
            f"It is the same work under another name: it enters {_operators(inner)}, inner ones counted, where "
            f"{base['variant']} enters {others}."
        ]
    if inner < others:
        return [f"It enters {_operators(inner)}, inner ones counted, where {base['variant']} enters {others}."]
    return []


def _spent(row: Row, base: Row, measured: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Where a call's time went, and what paid."""
    guards = _guards(measured[row["variant"]])
    checked = f", of which Dynamo's guards take {_time(guards)}" if guards else ""
    busy, gaps = row["device_busy_us"], row["device_gap_us"]
    if busy is not None and row["latency_us"] and busy <= row["latency_us"]:
        rest = max(row["latency_us"] - busy - gaps, 0.0)
        idle = f", idle between executions {_share(gaps, row)}" if gaps > GAPS * row["latency_us"] else ""
        text = (
            f"Of its {_time(row['latency_us'])} the device is busy {_share(busy, row)}{idle}; "
            f"the rest, {_share(rest, row)}, is dispatch{checked}."
        )
        return [text, *_paid(row, base)]
    profile = measured[row["variant"]]["profile"] or {}
    spent, whole = row["self_cpu_us"], profile.get("host_us")
    if row["device"] != "cpu" or not spent or not whole:
        return []
    inside = (spent - guards) / whole
    return [
        f"Under the profiler {cells.percent(inside)} of its call goes to operators"
        + (f", {cells.percent(guards / whole)} to Dynamo's guards" if guards > GAPS * whole else "")
        + f" and {cells.percent(max(1 - spent / whole, 0.0))} to Python between them.",
        *_memory(row, base),
    ]


def _bound(row: Row) -> list[str]:
    """How near it comes to what the machine can do."""
    if row["bound_share"] is None:
        return []
    return [f"It reaches {cells.digits(100 * row['bound_share'], 2)}% of what the machine's {row['bound']} allows."]


def _paid(row: Row, base: Row) -> list[str]:
    if row["verdict"] != "faster" or base["device_busy_us"] is None:
        return []
    saved = base["latency_us"] - row["latency_us"]
    parts = {
        "less work on the device": base["device_busy_us"] - row["device_busy_us"],
        "fewer gaps": base["device_gap_us"] - row["device_gap_us"],
    }
    parts["less dispatch"] = saved - sum(parts.values())
    what, most = max(parts.items(), key=lambda part: part[1])
    return [f"What pays is {what}: {_time(min(most, saved))} of the {_time(saved)} saved."]


def _memory(row: Row, base: Row) -> list[str]:
    mine, others = row["peak_memory_bytes"], base["peak_memory_bytes"]
    if not mine or not others or mine > LESS_MEMORY * others:
        return []
    return [f"It holds {cells.size(mine)} at most where {base['variant']} holds {cells.size(others)}."]


def _unranked(row: Row, base: Row, measured: Mapping[str, Mapping[str, Any]]) -> str:
    name = row["variant"]
    if row["status"] != "ok":
        told = row["speedup"] and not _vague(row)
        ratio = f" It ran at {_range(row)} times the speed of {base['variant']}." if told else ""
        rest = " It is the baseline, so nothing is ranked." if row is base and row["speedup"] is None else ""
        verb = "" if row["status"] == "failed" else "is "
        return f"{name} {verb}{row['status']}: {(row['reason'] or 'no reason known').rstrip('.')}.{ratio}{rest}"
    if measured[name]["no_op"]:
        return f"{name} hands back its input, or runs no operator that torch sees, so that it is not ranked."
    if row["reason"]:
        return f"{name} is not ranked: {row['reason'].rstrip('.')}."
    if base["speedup"] is None:
        idle = measured[base["variant"]]["no_op"]
        return f"{name} is not ranked, for want of a baseline{' that does something' if idle else ''}."
    return f"{name} is not ranked: a call is as short as the loop around it."


def _merged(texts: Sequence[str]) -> list[str]:
    """Warnings that differ in their numbers only, as one."""
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(re.sub(r"\d[\d.,]*", "#", text), []).append(text)
    return [
        group[0] if len(group) == 1 else f"{max(group, key=_first_number)} (the most of {len(group)} processes)"
        for group in alike.values()
    ]


def _first_number(text: str) -> float:
    found = re.search(r"\d[\d,]*(\.\d+)?", text)
    return float(found[0].replace(",", "")) if found else 0.0


def _entered(measurement: Mapping[str, Any]) -> int:
    """Operators that a call enters, inner ones counted."""
    rows = (measurement["profile"] or {}).get("operators", ())
    return sum(row["calls"] for row in rows if row["operator"] != GUARDS)


def _guards(measurement: Mapping[str, Any]) -> float:
    rows = (measurement["profile"] or {}).get("operators", ())
    return float(sum(row["self_cpu_us"] for row in rows if row["operator"] == GUARDS))


def _range(row: Row) -> str:
    """`1.02 to 1.07`."""
    return f"{cells.digits(row['speedup_lo'], 3)} to {cells.digits(row['speedup_hi'], 3)}"


def _vague(row: Row) -> bool:
    return cells.vague(row["speedup"], row["speedup_lo"], row["speedup_hi"])


def _share(us: float, row: Row) -> str:
    return cells.percent(us / row["latency_us"])


def _time(us: float) -> str:
    unit = cells.Unit.of([us])
    return f"{cells.digits(us / unit.microseconds, 3)} {unit.name}"


def _number(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else f"{count:,}"


def _listed(clauses: Sequence[str]) -> str:
    return clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])} and {clauses[-1]}"
