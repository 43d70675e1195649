"""Columns: the one declaration of every column of comparison.csv, operators.csv and the CSVs of raw samples.

The headers, the rows, the reading of a CSV, the keys that count as swept, and the tables of docs/files.md derive from
it. A derived column is an entry here. A measured column is an entry that names a probe, and the probe's file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.results.column import Column, Row

COMPILE, ERRORS, ROOFLINE = "Compile cost", "Errors against the reference", "Roofline"
TIMELINE, ENGINES = "Device timeline, per call", "Engine activity, from neuron-explorer"
ENVIRONMENTS = "Environments"
FURTHER = "Further measurements"  # of probes whose columns name no table


def _us(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def dim(name: str) -> Column:
    """The column of one dim."""
    return Column(f"dim_{name}", int, "size of a dim", lambda v: v.case["dims"][name], header=name, swept=True)


def _engine(name: str, header: str, unit: str, meaning: str) -> Column:
    meaning = f"{meaning}, from neuron-explorer"
    return Column(name, float, meaning, lambda v: (v.measurement.engines or {}).get(name), unit, header, ENGINES)


CASE: list[Column] = [
    Column("op", str, "the operation", lambda v: v.case["op"], header="Operation", swept=True),
    Column("variant", str, "the variant", lambda v: v.name, header="Variant"),
    Column("status", str, "`ok`, `wrong`, `failed`, `skipped`, `degraded`; in sweep.csv also `missing`",
           lambda v: v.measurement.status, header="Status"),
    Column("reason", str, "why it is not `ok`, in one line; or why it cannot be compared",
           lambda v: v.measurement.reason, header="Reason"),
    Column("device", str, "`neuron`, `cuda` or `cpu`", lambda v: v.case["device"], header="Device", swept=True),
    Column("dtype", str, "data type of the inputs", lambda v: v.case["dtype"], header="Dtype", swept=True),
    Column("mode", str, "`forward`, `backward` or `forward_backward`",
           lambda v: v.case["mode"], header="Mode", swept=True),
]  # fmt: skip

# The dims stand here

MEASURED: list[Column] = [
    Column("latency_us", float,
           "wall time per call, drained, without a profiler: trimmed mean of the processes' medians",
           lambda v: v.latency and v.latency.value * 1e6, "µs", "Latency"),
    Column("latency_lo_us", float, "lower bound of its interval, of confidence `latency.confidence`",
           lambda v: v.latency and v.latency.low * 1e6, "µs"),
    Column("latency_hi_us", float, "upper bound of its interval", lambda v: v.latency and v.latency.high * 1e6, "µs"),
    Column("speedup", float, "baseline latency / this latency, from paired rounds; empty if a ratio has no meaning",
           lambda v: v.host.speedup and v.host.speedup.value, header="Speedup"),
    Column("speedup_lo", float, "lower bound of its interval; those of all ranked variants hold jointly",
           lambda v: v.host.speedup and v.host.speedup.low),
    Column("speedup_hi", float, "upper bound of its interval",
           lambda v: v.host.speedup and v.host.speedup.high),
    Column("verdict", str, "`baseline`, `faster`, `slower`, `same`, `unclear`; empty for what is not ranked. "
           "A single process makes every verdict `unclear`", lambda v: v.host.verdict, header="Verdict"),
    Column("device_time_us", float, "the profiler's self device time: the median; empty on the CPU, and if the "
           "profiles do not hold it", lambda v: v.device_time_us, "µs", "Device time"),
    Column("self_cpu_us", float, "the profiler's Self CPU over the operators of the variant's own call",
           lambda v: v.profile.self_cpu_us if v.profile and v.profile.operators else None, "µs", "Self CPU time"),
    Column("operator_calls", int, "operators that launched device work; on the CPU the outermost operators",
           lambda v: v.profile and v.profile.operator_calls, header="Operator calls"),
    Column("device_executions", int, "executions on the device's own timeline",
           lambda v: v.profile and v.profile.device_executions, header="Device executions", table=TIMELINE),
    Column("compile_s", float, "time to the first result of the compiled variant, in the first process",
           lambda v: v.compile_cost and v.compile_cost.seconds, "s", "To the first result", COMPILE),
    Column("graphs", int, "graphs that Dynamo made", lambda v: v.compile_cost and v.compile_cost.graphs,
           header="Graphs", table=COMPILE),
    Column("graph_breaks", int, "breaks between them", lambda v: v.compile_cost and v.compile_cost.graph_breaks,
           header="Graph breaks", table=COMPILE),
    Column("recompiles", int, "compiles while it was timed", lambda v: v.measurement.recompiles,
           header="Recompiles while timed", table=COMPILE),
    Column("peak_memory_bytes", int, "the most memory that a call holds beyond what was allocated before it",
           lambda v: v.measurement.peak_memory_bytes, "B", "Peak memory"),
    Column("max_error", float, "largest absolute difference from the float64 reference",
           lambda v: v.error and v.error.absolute, header="Largest", table=ERRORS),
    # what follows is beyond the contract
    Column("max_error_relative", float, "largest difference relative to the element",
           lambda v: v.error and v.error.relative, header="Relative", table=ERRORS),
    Column("max_error_units", float, "largest difference in units in the last place (ulps) of the dtype",
           lambda v: v.error and v.error.units, "ulp", "Ulps", ERRORS),
    Column("error_allowed_share", float, "largest fraction of the tolerance that was used; above 1 is `wrong`",
           lambda v: v.error and v.error.allowed, header="Fraction of the tolerance", table=ERRORS),
    Column("latency_p5_us", float, "5th percentile of the samples of all rounds. A sample is the mean of a block of "
           "calls, so this is no percentile of single calls", lambda v: v.percentile(5), "µs"),
    Column("latency_p95_us", float, "95th percentile of the samples, likewise of means of blocks: it does not show "
           "the tail of single calls", lambda v: v.percentile(95), "µs"),
    Column("processes", int, "processes behind the latency", lambda v: len(v.host.processes), header="Processes"),
    Column("samples", int, "samples behind the latency: those in the best condition of the machine",
           lambda v: v.host.samples, header="Samples"),
    Column("noise_floor", float, "smallest relative difference of latency that is claimed of it in this run",
           lambda v: v.host.noise_floor, "fraction", "Noise floor"),
    Column("compile_cached", bool, "whether that compile found its code in a cache on disk",
           lambda v: v.compile_cost and v.compile_cached, header="From a warm cache", table=COMPILE),
    Column("compile_warm_s", float, "time to the first result from a warm cache: the median of later processes",
           lambda v: v.compile_warm_s, "s", "In a later process", COMPILE),
    Column("break_even_calls", int, "calls after which the compile has paid for itself against the baseline; empty "
           "if the cache was warm, so that the cost of compiling is not known", lambda v: v.break_even_calls,
           header="Pays for itself after calls", table=COMPILE),
    Column("profiled_us", float, "host time per call under the profiler",
           lambda v: v.profile and v.profile.host_us, "µs"),
    Column("profiler_overhead", float, "that over the latency; empty if a device was timed",
           lambda v: v.profiler_overhead),
    Column("host_dispatches", float, "outermost operators entered on the host",
           lambda v: v.timeline and v.timeline.host_dispatches, header="Host dispatches", table=TIMELINE),
    Column("runtime_schedules", float, "executions that the device's runtime was given",
           lambda v: v.timeline and v.timeline.runtime_schedules, header="Runtime schedules", table=TIMELINE),
    Column("device_busy_us", float, "time in which the device runs something",
           lambda v: v.timeline and v.timeline.device_busy_us, "µs", "Busy", TIMELINE),
    Column("device_span_us", float, "time from the start of the first execution to the end of the last",
           lambda v: v.timeline and v.timeline.device_span_us, "µs", "Span", TIMELINE),
    Column("device_gap_us", float, "of that span, the time in which the device runs nothing",
           lambda v: v.timeline and v.timeline.device_gap_us, "µs", "Gaps", TIMELINE),
    Column("device_gap_share", float, "these gaps over the span", lambda v: v.gap_share,
           "fraction", "Gaps, of the span", TIMELINE),
    _engine("tensor_engine_pct", "Tensor", "%", "active time of the tensor engine"),
    _engine("vector_engine_pct", "Vector", "%", "active time of the vector engine"),
    _engine("scalar_engine_pct", "Scalar", "%", "active time of the scalar engine"),
    _engine("gpsimd_engine_pct", "GpSimd", "%", "active time of the GpSimd engine"),
    _engine("dma_pct", "DMA", "%", "active time of the DMA engines"),
    _engine("mfu_pct", "MFU", "%", "model FLOP utilization, estimated"),
    _engine("throttled_pct", "Throttled", "%", "time in which the core was throttled, of the capture"),
    _engine("hbm_read_bytes", "HBM read", "B", "bytes read from HBM in the capture"),
    _engine("hbm_write_bytes", "HBM written", "B", "bytes written to HBM in the capture"),
    Column("flops_per_s", float, "the declared FLOPs over the latency", lambda v: v.rate("flops"),
           "FLOP/s", "FLOP/s", ROOFLINE),
    Column("bytes_per_s", float, "the declared bytes over the latency", lambda v: v.rate("bytes"),
           "B/s", "B/s", ROOFLINE),
    Column("cache", str, "`latency.cache`: `warm`, or `cold` if the caches are emptied before each call",
           lambda v: v.comparison.settings.cache),
    Column("bound", str, "what limits the operation on this machine: `compute` or `memory`",
           lambda v: v.bound and v.bound.kind, header="Bound by", table=ROOFLINE),
    Column("bound_share", float, "how near the latency comes to that bound: 1 is the roofline",
           lambda v: v.bound and v.bound.seconds / v.latency.value, "fraction", "Of the bound", ROOFLINE),
    Column("device_time_lo_us", float, "lower bound of the device time's interval, of confidence `latency.confidence`",
           lambda v: v.device_time and v.device_time.low * 1e6, "µs"),
    Column("device_time_hi_us", float, "upper bound of its interval",
           lambda v: v.device_time and v.device_time.high * 1e6, "µs"),
    Column("device_speedup", float, "baseline device time / this device time, paired within processes; empty if a "
           "ratio has no meaning", lambda v: v.device.speedup and v.device.speedup.value),
    Column("device_speedup_lo", float, "lower bound of its interval; those of all ranked variants hold jointly",
           lambda v: v.device.speedup and v.device.speedup.low),
    Column("device_speedup_hi", float, "upper bound of its interval",
           lambda v: v.device.speedup and v.device.speedup.high),
    Column("device_verdict", str, "the verdict on the device time, as `verdict` is on the latency",
           lambda v: v.device.verdict),
    Column("device_samples", int, "profiled calls behind the device time, over all processes",
           lambda v: v.device.samples or None),
    Column("device_noise_floor", float, "smallest relative difference of device time that is claimed of it in this run",
           lambda v: v.device.noise_floor, "fraction"),
    Column("condition", str, "of the machine, for the samples behind the latency: `quiet`; `slowed`: not as fast as at "
           "its best; `starved`: the variant's threads waited for cores", lambda v: v.host.condition),
    Column("quiet_share", float, "share of all its samples for which the machine was quiet",
           lambda v: v.host.quiet_share, "fraction"),
    Column("clear_after_s", float, "`latency.seconds` that would likely make an unclear verdict clear; empty if none "
           "would", lambda v: v.host.clear_after_s, "s"),
    Column("device_wait_us", float, "of the device's gaps, the time before the host had given it its next work",
           lambda v: v.timeline and v.timeline.device_wait_us, "µs", "Gaps, waiting for the host", TIMELINE),
    Column("environment", str, "what its processes have of their own: variables, threads, versions; empty for those of "
           "the baseline", lambda v: v.environment, header="Environment", table=ENVIRONMENTS),
]  # fmt: skip

OPERATORS: list[Column] = [
    Column("variant", str, "the variant", lambda o: o.variant, header="Variant"),
    Column("operator", str, "the operator's name", lambda o: o.row.operator, header="Name"),
    Column("calls", int, "calls of the operator", lambda o: o.row.calls, header="# Calls"),
    Column("self_cpu_us", float, "its Self CPU", lambda o: o.row.self_cpu_us, "µs", "Self CPU"),
    Column("device_time_us", float, "its self device time", lambda o: o.row.device_time_us, "µs", "Self device"),
    Column("device_pct", float, "its share of the variant's device time", lambda o: o.device_pct, "%", "% device"),
]

SAMPLES: list[Column] = [
    Column(
        "variant",
        str,
        "the variant; `(control)` is the baseline's second name, `(control, other process)` its third",
        lambda s: s[0],
    ),
    Column(
        "process", int, "the measuring process; of several environments each has one of this number", lambda s: s[1]
    ),
    Column("round", int, "the round within the process", lambda s: s[2]),
    Column("calls", int, "calls in the block that was timed", lambda s: s[3]),
    Column("latency_us", float, "the block's mean time per call", lambda s: s[4] * 1e6, "µs"),
    Column("yardstick_us", float, "what a fixed piece of work took just before", lambda s: _us(s[5]), "µs"),
    Column("waited_us", float, "time per call that its threads waited for a core, added up", lambda s: _us(s[6]), "µs"),
    Column("quiet", bool, "whether the machine was quiet meanwhile", lambda s: s[8]),
    Column("slice", int, "the time slice, of all processes, in which it was taken", lambda s: s[7]),
]

DEVICE_SAMPLES: list[Column] = [
    Column(
        "variant",
        str,
        "the variant; `(control)` is the baseline's second name, `(control, other process)` its third",
        lambda s: s[0],
    ),
    Column("process", int, "the measuring process", lambda s: s[1]),
    Column("call", int, "the profiled call within the process", lambda s: s[2]),
    Column(
        "device_time_us", float, "the time that the call's executions took on the device", lambda s: s[3] * 1e6, "µs"
    ),
]

SWEEP: list[Column] = [Column("case", str, "the folder of the case; sweep.csv only")]


def of_case(dims: Sequence[str]) -> list[Column]:
    """The columns of comparison.csv for an operation of these dims, in their order."""
    return [*CASE, *map(dim, dims), *MEASURED]


def names(columns: Sequence[Column]) -> list[str]:
    """The header of a CSV."""
    return [column.name for column in columns]


def find(name: str) -> Column | None:
    """The column of comparison.csv or sweep.csv by its name; None for a key of the configuration."""
    if name.startswith("dim_"):
        return dim(name.removeprefix("dim_"))
    return next((column for column in [*CASE, *MEASURED, *SWEEP] if column.name == name), None)


def shown_in(table: str) -> list[Column]:
    """The columns that a table shows to people, next to the variant."""
    return [column for column in MEASURED if (column.table or (FURTHER if column.probe else "")) == table]


def tables() -> list[str]:
    """The titles of these tables."""
    titles = dict.fromkeys(column.table for column in MEASURED if column.table)
    return [*titles, FURTHER]


def rows(columns: Sequence[Column], sources: Sequence[Any]) -> list[Row]:
    """A row for each source."""
    return [{column.name: column.of(source) for column in columns} for source in sources]


def read_rows(lines: Iterator[Mapping[str, str]], header: Sequence[str]) -> list[Row]:
    """The rows of a comparison.csv with such a header as typed values; a column that is not declared stays text.

    Raises ValueError or KeyError for a cell that its column cannot hold.
    """
    known = {name: find(name) for name in header}
    return [
        {name: column.read(line[name]) if column else line[name] or None for name, column in known.items()}
        for line in lines
    ]


def swept(name: str) -> bool:
    """Whether cases of a sweep may differ in it: op, device, dtype, mode, a dim, or a key of the configuration."""
    column = find(name)
    return column is None or column.swept


def documentation() -> str:
    """The tables of docs/files.md."""
    dims = Column("dim_…", int, "a column for each dim of the operation")
    parts = {
        "comparison.csv": [*CASE, dims, *MEASURED],
        "operators.csv": OPERATORS,
        "samples.csv": SAMPLES,
        "device_samples.csv": DEVICE_SAMPLES,
    }
    return "\n\n".join(f"## {file}\n\n{_table(columns)}" for file, columns in parts.items())


def _table(columns: Sequence[Column]) -> str:
    lines = [f"| `{column.name}` | {column.unit} | {column.meaning} |" for column in columns]
    return "\n".join(["| column | unit | meaning |", "|---|---|---|", *lines])


if __name__ == "__main__":
    print(documentation())
