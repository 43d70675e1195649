"""Summary: a comparison in plain sentences, and its warnings."""

from __future__ import annotations

from harness.measure.torch_private import GUARDS
from harness.report import causes, formatting, unclear
from harness.report.causes import Parts
from harness.results.column import Row
from harness.results.comparison import Comparison
from harness.results.entry import Entry
from harness.results.measurement import merged
from harness.results.samples import SLOWED

NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()
RANKED = ("faster", "same", "unclear", "slower")  # verdicts, in the order of their sentences
NOT_FUSED = 0.9  # a call that dispatches so large a share of the baseline's operators does the same work
LESS_MEMORY = 0.75  # of the baseline's peak, or less, is worth a sentence
GAPS = 0.01  # of the baseline's latency: gaps worth a clause
NOISY = 0.05  # a noise floor worth a warning
LOOSE = 0.05  # half an interval that leaves its verdict unclear for lack of samples
DISTURBED = 20  # times the latency: the profiler slows small operators two to five times
SLICE_US = 1000  # what a thread that waits for a core waits at least, by the order of magnitude
VAGUE = "the interval spans more than a factor of ten"


def sentences(comparison: Comparison) -> list[str]:
    """Sentences about each variant: those that are ranked, the best first, then the others with the reason."""
    ranked = [row for row in comparison.rows if row["verdict"] in RANKED]
    ranked.sort(key=lambda row: (RANKED.index(row["verdict"]), -row["speedup"]))
    others = [row for row in comparison.rows if row["verdict"] is None]
    return [*(_ranked(comparison, row) for row in ranked), *(_unranked(comparison, row) for row in others)]


def warnings(comparison: Comparison) -> list[str]:
    """Warnings of the whole run, then of each variant, each with its likely cause and a remedy."""
    rows = comparison.rows
    texts = merged(comparison.document["warnings"])
    texts += of_machine(comparison)
    floor = comparison.host_clock.noise_floor
    if floor is not None and floor > NOISY:
        texts.append(
            f"no difference below {formatting.percent(floor)} is claimed: the baseline, timed twice, differs from "
            f"itself by as much, as on a busy machine; try {unclear.fewer_threads(comparison, 'worker.threads=1, ')}"
            "fewer neighbours, or a larger latency.seconds"
        )
    floor = comparison.host_clock.noise_floor_across
    if any(row["environment"] for row in rows) and floor is not None and floor > NOISY:
        texts.append(
            f"between environments no difference below {formatting.percent(floor)} is claimed: processes of the "
            "baseline's differ by as much; try a quieter machine, or a larger latency.seconds"
        )
    floor = comparison.device_clock.noise_floor
    if floor is not None and floor > NOISY:
        texts.append(
            f"no difference of device time below {formatting.percent(floor)} is claimed: the baseline, profiled twice, "
            "differs from itself by as much; try a larger profile.active, or latency.processes=12"
        )
    alone = [row for row in rows if row["verdict"] == "unclear" and row["processes"] == 1]
    if alone:
        texts.append(f"no verdict on {', '.join(row['variant'] for row in alone)}: {unclear.ONE_PROCESS}")
    for row in rows:
        texts += [f"{row['variant']}: {note}" for note in comparison.entries[row["variant"]].measurement.notes]
        texts += [] if row in alone else _loose(comparison, row)
        if _disturbed(row):
            texts.append(
                f"{row['variant']}: a call took {_time(row['profiled_us'])} under the profiler, "
                f"{_time(row['latency_us'])} without it: its operators' times are not to be relied on, as threads "
                "may have waited for cores; end other programs"
                f"{unclear.fewer_threads(comparison, ', or try worker.threads=1')}"
            )
    return texts


def _disturbed(row: Row) -> bool:
    """Whether the profiled calls took so long that something else than the profiler must have slowed them."""
    return (row["profiler_overhead"] or 0.0) > DISTURBED and row["profiled_us"] > SLICE_US


def _loose(comparison: Comparison, row: Row) -> list[str]:
    """Warnings of verdicts that are unclear for lack of cores, or of samples, with what it would take."""
    entry = comparison.entries[row["variant"]]
    texts = []
    for clock, timing, where, file, remedy in (
        (formatting.HOST, entry.host, "", "samples.csv", unclear.more_samples(entry.host)),
        (formatting.DEVICE, entry.device, " on the device", "device_samples.csv", "try a larger profile.active"),
    ):
        if row[f"{clock}verdict"] != "unclear" or timing.starved:
            continue
        width = row[f"{clock}speedup_hi"] - row[f"{clock}speedup_lo"]
        if width / 2 > LOOSE * row[f"{clock}speedup"]:
            known = f"the speedup{where} is only known as {formatting.between(row, clock)}"
            known = f"{VAGUE}{where}" if formatting.vague_speedup(row, clock) else known
            texts.append(f"{row['variant']}: {known}, because its samples scatter between processes ({file}); {remedy}")
    return texts


def of_machine(comparison: Comparison) -> list[str]:
    """Warnings of a machine that was not quiet, and of variants that lacked the cores that they use."""
    machine = comparison.machine
    timed = [entry for entry in comparison.entries.values() if entry.host.processes]
    texts = []
    if any(entry.host.condition == "slowed" for entry in timed):
        slower = (
            f" (at its fastest {machine.slowdown:.2f} times slower than it has been)" if machine.slowdown > 1.05 else ""
        )
        texts.append(
            f"the machine was not quiet for long enough{slower}: latencies are those of a loud machine; try a quieter "
            f"hour, or {unclear.longer_wait(comparison)}, which waits for quiet so many seconds more"
        )
    starved = [entry for entry in timed if entry.host.starved]
    if starved:
        lacked = formatting.listed(
            [
                f"{entry.name} in {formatting.percent(share)}"
                for entry in starved
                if (share := 1 - entry.host.clock.samples.share(entry.name, SLOWED)) > 0
            ]
        )
        texts.append(
            f"threads waited for cores, of which other programs used {machine.others_cores:.1f}, in too many samples "
            f"({lacked}): no verdict; {unclear.cores(comparison)}"
        )
    return texts


def _ranked(comparison: Comparison, row: Row) -> str:
    base = comparison.baseline_row
    entry = comparison.entries[row["variant"]]
    baseline = comparison.baseline
    further = [
        *causes.disagreement(entry, row, base),
        *_fusion(entry, baseline, row, base),
        *_spent(entry, row, base),
        *_bound(row),
    ]
    return " ".join([_verdict(entry, row, base), *further])


def _verdict(entry: Entry, row: Row, base: Row) -> str:
    """`compiled does in one device execution what naive does in six, is 6.30 times as fast (6.10 to 6.40), …`"""
    other = base["variant"]
    factor = formatting.digits(row["speedup"], 3)
    counts = _executions(row, base)
    clauses = [*counts]
    if row["verdict"] == "faster":
        clauses.append(f"is {factor} times as fast ({formatting.between(row)})")
    elif row["verdict"] == "slower":
        clauses.append(f"is slower, {factor} times as fast ({formatting.between(row)})")
    elif row["verdict"] == "same":
        clauses.append(f"is as fast, within ±{formatting.percent(row['noise_floor'])} ({formatting.between(row)})")
    else:
        known = VAGUE if formatting.vague_speedup(row) else f"{formatting.between(row)} times as fast"
        if row["processes"] == 1:
            known += "; one process cannot tell how processes scatter"
        elif entry.host.starved:
            known = "its threads lacked the cores that they use"
        clauses.append(f"is not clearly faster or slower ({known})")
    own, gaps = row["device_gap_us"], base["device_gap_us"]
    if own is not None and gaps and gaps > GAPS * base["latency_us"]:
        spent = _time(own) if own else "no time"
        clauses.append(f"spends {spent} in gaps between executions where {other} spends {_time(gaps)}")
    if row["compile_s"]:
        cached = " with a warm cache" if row["compile_cached"] else ""
        clauses.append(f"took {formatting.duration(row['compile_s'])} to compile{cached}")
    if row["break_even_calls"]:
        clauses.append(f"pays for itself after {row['break_even_calls']:,} calls")
    against = "" if counts else f", against {other}"
    environment = f" ({row['environment']})" if row["environment"] else ""
    return f"{row['variant']}{environment} {formatting.listed(clauses)}{against}."


def _executions(row: Row, base: Row) -> list[str]:
    for key, unit in (("device_executions", "device execution"), ("operator_calls", "operator call")):
        own, others = row[key], base[key]
        if own and others and own != others:
            return [f"does in {_number(own)} {unit}{'s' * (own > 1)} what {base['variant']} does in {_number(others)}"]
        if own and others:
            return [f"makes as many {unit}s as {base['variant']} ({_number(own)})"]
    return []


def _fusion(entry: Entry, baseline: Entry, row: Row, base: Row) -> list[str]:
    """Whether the work was fused; if a device's executions are known, they have already shown it."""
    if row["device_executions"] or not row["operator_calls"] or not base["operator_calls"]:
        return []
    inner, others = _dispatched(entry), _dispatched(baseline)
    if row["compile_s"] is not None:
        return [f"Compiled code replaces the {_operators(others)} that {baseline.name} dispatches."]
    counted = f"{_operators(inner)}, inner ones counted, where {baseline.name} dispatches {_number(others)}."
    if row["operator_calls"] < base["operator_calls"] and inner >= NOT_FUSED * others:
        return [f"It is not actually fused: it still dispatches {counted}"]
    return [f"It dispatches {counted}"] if inner < others else []


def _spent(entry: Entry, row: Row, base: Row) -> list[str]:
    """Where a call's time went, and where the gain comes from."""
    guards = _guards(entry)
    checked = f", of which Dynamo's guards take {_time(guards)}" if guards else ""
    parts = causes.parts(entry, row)
    if parts is not None:
        rest = "first executions and " if entry.profile and entry.profile.first_calls else ""
        idle = f", idle between executions {_share(parts.gaps, row)}" if parts.gaps > GAPS * row["latency_us"] else ""
        text = (
            f"Of its {_time(row['latency_us'])} the device is busy {_share(parts.busy, row)}{idle}; "
            f"the rest, {_share(parts.dispatch, row)}, is {rest}dispatch{checked}."
        )
        return [text, *_gain(parts, causes.parts(entry.comparison.baseline, base), row)]
    spent = row["self_cpu_us"]
    whole = row["profiled_us"]
    if entry.comparison.accelerator or not spent or not whole:
        return []
    if _disturbed(row):
        return _memory(row, base)
    inside = (spent - guards) / whole
    return [
        f"Under the profiler {formatting.percent(inside)} of its call goes to operators"
        + (f", {formatting.percent(guards / whole)} to Dynamo's guards" if guards > GAPS * whole else "")
        + f" and {formatting.percent(max(1 - spent / whole, 0.0))} to Python between them.",
        *_memory(row, base),
    ]


def _bound(row: Row) -> list[str]:
    """How near it comes to what the machine can do."""
    if row["bound_share"] is None:
        return []
    return [f"It reaches {formatting.digits(100 * row['bound_share'], 2)}% of the machine's {row['bound']} bound."]


def _gain(own: Parts, others: Parts | None, row: Row) -> list[str]:
    if row["verdict"] != "faster" or others is None:
        return []
    parts = {
        "less work on the device": others.busy - own.busy,
        "fewer gaps": others.gaps - own.gaps,
        "less dispatch": others.dispatch - own.dispatch,
    }
    what, most = max(parts.items(), key=lambda part: part[1])
    saved = sum(parts.values())
    return [f"Most of the gain comes from {what}: {_time(min(most, saved))} of the {_time(saved)} saved."]


def _memory(row: Row, base: Row) -> list[str]:
    own, others = row["peak_memory_bytes"], base["peak_memory_bytes"]
    if not own or not others or own > LESS_MEMORY * others:
        return []
    return [f"It holds {formatting.size(own)} at most where {base['variant']} holds {formatting.size(others)}."]


def _unranked(comparison: Comparison, row: Row) -> str:
    name = row["variant"]
    baseline = comparison.baseline
    base = comparison.baseline_row
    if row["status"] != "ok":
        known = row["speedup"] and not formatting.vague_speedup(row)
        ratio = f" It ran at {formatting.between(row)} times the speed of {baseline.name}." if known else ""
        rest = " It is the baseline, so nothing is ranked." if row is base and row["speedup"] is None else ""
        measured = [other["status"] for other in comparison.rows if other["status"] != "skipped"]
        if row is base and len(measured) > 1 and set(measured) == {"wrong"}:
            rest += " Every variant is wrong, so the reference may be at fault."
        verb = "" if row["status"] == "failed" else "is "
        return f"{name} {verb}{row['status']}: {(row['reason'] or 'no reason known').rstrip('.')}.{ratio}{rest}"
    if comparison.entries[name].measurement.no_op:
        return f"{name} is not ranked: it hands back its input, or runs no operator that torch sees."
    if row["reason"]:
        return f"{name} is not ranked: {row['reason'].rstrip('.')}."
    if base["speedup"] is None:
        does = " that does something" if baseline.measurement.no_op else ""
        return f"{name} is not ranked: there is no baseline{does} to compare it with."
    return f"{name} is not ranked: a call is as short as the loop around it."


def _dispatched(entry: Entry) -> int:
    """Operators that a call dispatches, inner ones counted."""
    rows = entry.profile.operators if entry.profile else ()
    return sum(row.calls for row in rows if row.operator != GUARDS)


def _guards(entry: Entry) -> float:
    rows = entry.profile.operators if entry.profile else ()
    return float(sum(row.self_cpu_us for row in rows if row.operator == GUARDS))


def _operators(count: int) -> str:
    return f"{_number(count)} operator{'s' * (count != 1)}"


def _share(us: float, row: Row) -> str:
    return formatting.percent(us / row["latency_us"])


def _time(us: float) -> str:
    return formatting.time(us, significant=3)


def _number(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else f"{count:,}"
