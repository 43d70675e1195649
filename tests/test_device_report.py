"""What people read of device time: both verdicts in tables, charts, pages and sentences; widths of terminals."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
import synthetic_results
from rich.console import Console

from harness.report import causes, formatting, rendering, run_report, summary, sweep_report, tables
from harness.report.charts import speedup_map
from harness.report.swept_keys import SweptRows
from harness.results.column import Row
from harness.results.comparison import Comparison

ON_DEVICE = {"device": "neuron", "processes": 5, "noise_floor": 0.02, "operator_calls": 1, "self_cpu_us": 20.0}


def row(variant: str, latency: float, device: float, speedup: float, faster: float, **known: Any) -> Row:
    """A row whose wall time and device time have such ratios to the baseline's, known to 1 %."""
    made = {"verdict": verdict_of(speedup), "device_verdict": verdict_of(faster), "device_time_us": device}
    for name, value in (("speedup", speedup), ("device_speedup", faster), ("device_time", device)):
        unit = "_us" if name == "device_time" else ""
        made |= {f"{name}{unit}": value, f"{name}_lo{unit}": 0.99 * value, f"{name}_hi{unit}": 1.01 * value}
    return synthetic_results.row(variant, latency, **ON_DEVICE | made | known)


def verdict_of(ratio: float) -> str:
    return "faster" if ratio > 1.02 else "slower" if ratio < 0.98 else "same"


def compared(*others: Row, **base: Any) -> Comparison:
    """A baseline of 1,000 µs, of which the device works 300, and these beside it."""
    known = {"verdict": "baseline", "device_verdict": "baseline", "device_busy_us": 300.0, "device_gap_us": 0.0}
    return synthetic_results.comparison([row("naive", 1000.0, 300.0, 1.0, 1.0, **known | base), *others])


def sentence(*others: Row, **base: Any) -> str:
    return summary.sentences(compared(*others, **base))[0]


FAST = {"device_busy_us": 97.0, "device_gap_us": 0.0}


def test_a_sentence_says_that_the_host_is_the_limit() -> None:
    text = sentence(row("fused", 1000.0, 97.0, 1.0, 3.1, **FAST | {"device_busy_us": 80.0}))
    assert "is as fast, within ±2.0% (0.990 to 1.01)" in text
    assert (
        "On the device it is 3.10 times as fast (3.07 to 3.13), in wall time the same: 92% of a call is dispatch."
        in text
    )
    waiting = row("fused", 1000.0, 97.0, 1.0, 3.1, device_busy_us=80.0, device_gap_us=600.0, device_wait_us=590.0)
    assert "in wall time the same: 91% of a call is dispatch. " in sentence(waiting)
    assert "idle between executions" in sentence(waiting | {"device_wait_us": 0.0}), "the device's own gaps"


def test_a_sentence_says_that_gaps_on_the_device_are_the_cause_and_whose() -> None:
    gaps = {"device_gap_us": 600.0, "device_wait_us": 10.0}
    assert "in wall time slower: 59% of a call is gaps between executions." in sentence(
        row("split", 1000.0, 97.0, 0.9, 3.1, **FAST | gaps)
    )
    naive = {"device_gap_us": 700.0, "device_wait_us": 0.0}
    assert "in wall time faster: 70% of a call of naive is gaps between executions." in sentence(
        row("fused", 320.0, 300.0, 3.1, 1.0, device_busy_us=300.0, device_gap_us=0.0), **naive
    )


def test_a_sentence_says_that_the_device_was_throttled() -> None:
    busy = {"device_busy_us": 600.0, "device_gap_us": 0.0}
    naive = {"device_busy_us": 950.0}
    assert (
        "On the device it is slower, 0.500 times as fast (0.495 to 0.505), in wall time faster: the device is "
        "throttled after a pause: 600 µs in a profiled call, 320 µs in calls in a row."
    ) in sentence(row("small", 320.0, 600.0, 3.1, 0.5, **busy), **naive)
    known = row("small", 320.0, 300.0, 3.1, 0.5, device_busy_us=300.0, device_gap_us=0.0, throttled_pct=80.0)
    assert "in wall time faster: the device was throttled for 80% of the profile." in sentence(known, **naive)


def test_of_several_causes_it_is_the_one_that_makes_the_difference() -> None:
    """A call of either is mostly dispatch; of the baseline's device time half would be no surprise, but for gaps."""
    both = row("fused", 1000.0, 97.0, 0.9, 3.1, device_busy_us=97.0, device_gap_us=300.0, device_wait_us=0.0)
    assert "in wall time slower: 30% of a call is gaps between executions." in sentence(both, device_busy_us=150.0)


def test_two_causes_at_once_are_both_told() -> None:
    torn = row("fused", 1000.0, 97.0, 0.9, 3.1, device_busy_us=97.0, device_gap_us=400.0, device_wait_us=0.0)
    told = "in wall time slower: 50% of a call is dispatch and 40% of a call is gaps between executions."
    assert told in sentence(torn, device_busy_us=900.0)


def test_what_works_against_the_difference_is_no_cause_of_it() -> None:
    """Throttling alone would have made the device's verdict the worse one, and it is the better one."""
    torn = row("fused", 1000.0, 200.0, 1.0, 1.5, device_busy_us=200.0, throttled_pct=100.0)
    torn |= {"device_gap_us": 0.0, "device_wait_us": 0.0}
    assert "in wall time the same: 80% of a call is dispatch. " in sentence(torn, device_busy_us=300.0)


def test_first_executions_are_told_where_they_may_be_what_wall_time_has_more_of() -> None:
    made = compared(row("fused", 1000.0, 97.0, 1.0, 3.1, **FAST))
    made.document["measurements"][1]["profile"] |= {"active": 5, "first_calls": 5}
    told = "in wall time the same: 90% of a call is dispatch and first executions, as in 5 of 10 profiled calls."
    assert told in summary.sentences(made)[0]


def test_equal_verdicts_need_no_sentence_and_what_was_not_seen_is_not_guessed() -> None:
    assert "On the device" not in sentence(row("fused", 500.0, 100.0, 2.0, 3.0, **FAST))
    unknown = row("fused", 1000.0, 97.0, 1.0, 3.1)
    assert "in wall time the same: nothing that was seen says why." in sentence(unknown, device_busy_us=None)
    scattered = unknown | {"verdict": "unclear"}
    assert "in wall time not clearly faster or slower: wall time scatters" in sentence(scattered, device_busy_us=None)
    why = "not clearly faster or slower: wall time scatters between processes and 92% of a call is dispatch."
    assert why in sentence(unknown | {"verdict": "unclear", "device_busy_us": 80.0, "device_gap_us": 0.0})
    vague = row("fused", 500.0, 97.0, 2.0, 3.1, **FAST | {"device_verdict": "unclear", "device_speedup_hi": 99.0})
    assert (
        "On the device it is not clearly faster or slower, in wall time faster: device time scatters between processes."
    ) in sentence(vague)


def test_parts_of_a_call_add_up_to_it() -> None:
    made = compared(row("fused", 1000.0, 97.0, 1.0, 3.1, device_busy_us=200.0, device_gap_us=5000.0))
    parts = causes.parts(made.entries["fused"], made.rows[1])
    assert parts is not None
    assert (parts.busy, parts.gaps, parts.dispatch) == (200.0, 800.0, 0.0)


def test_what_leaves_the_verdict_on_the_device_unclear_is_a_warning() -> None:
    wide = {"device_speedup_lo": 2.0, "device_speedup_hi": 4.0, "device_verdict": "unclear"}
    warnings = summary.warnings(compared(row("fused", 500.0, 97.0, 2.0, 3.1, **FAST | wide)))
    assert [text for text in warnings if "device_samples.csv" in text] == [
        "fused: the speedup on the device is only known as 2.00 to 4.00, because its samples scatter between processes "
        "(device_samples.csv); try a larger profile.active"
    ]


def test_a_disturbed_profile_is_a_warning() -> None:
    """Two threads that share a core with another program wait for each other by whole time slices."""
    spent = {"self_cpu_us": 11e3, "peak_memory_bytes": 1}
    disturbed = synthetic_results.row("fused", 25.0, profiled_us=11.9e3, profiler_overhead=476.0, **spent)
    usual = synthetic_results.row("fused", 25.0, profiled_us=75.0, profiler_overhead=3.0, **spent)
    told = "fused: a call took 11.9 ms under the profiler, 25.0 µs without it"
    assert any(text.startswith(told) for text in summary.warnings(compared(disturbed)))
    assert not any("under the profiler" in text for text in summary.warnings(compared(usual)))


def test_a_name_has_no_colour_of_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = io.StringIO()
    table = tables.Table("title", ["Variant", "NEURON verdict"], [False, False], [["slower", "slower"]])
    rendering.show(Console(file=out, width=80, force_terminal=True, color_system="standard"), table)
    assert out.getvalue().count("\x1b[31mslower") == 1


@pytest.mark.parametrize("width", [200, 130, 100, 60])
def test_tables_fold_their_headers_before_they_lose_columns(width: int) -> None:
    table = tables.comparison_table(compared(row("fused", 1000.0, 97.0, 1.0, 3.1, **FAST)), "title")
    assert table.headers[4:7] == ["NEURON time", "NEURON speedup", "NEURON verdict"]
    out = io.StringIO()
    rendering.show(Console(file=out, width=width), table)
    lines = [line for line in out.getvalue().splitlines() if line[:1] in "┃│"]
    assert all(len(line) <= width for line in lines)
    assert len(lines[-1].split("│")) - 2 == len(table.headers) or "too wide for" in out.getvalue()
    if width >= 130:
        assert "too wide" not in out.getvalue()
        assert ("NEURON verdict" in out.getvalue()) == (width == 200)


def test_both_verdicts_stand_in_the_files_of_a_run(tmp_path: Path) -> None:
    made = compared(row("fused", 1000.0, 97.0, 1.0, 3.1, **FAST))
    assert "| NEURON time | NEURON speedup | NEURON verdict |" in rendering.markdown_table(
        tables.comparison_table(made, "")
    )
    made.document |= {"command": "c", "environment": {}, "created": "", "harness": "", "stopped": ""}
    run_report.write(tmp_path, made, ["comparison"])
    drawn = "\n".join(re.findall(r"<!-- (.*?) -->", (tmp_path / "comparison.svg").read_text(encoding="utf-8"), re.S))
    assert "1.00× (0.990–1.01) same · NEURON: 3.10× (3.07–3.13) faster" in drawn
    assert formatting.device_time(made.rows[1]) == "97.00 µs ±1.0%"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "NEURON verdict" in page and "3.10× (3.07–3.13)" in page


def test_a_sweep_shows_both_verdicts(tmp_path: Path) -> None:
    rows, jobs = synthetic_results.sweep({"hidden": [256, 4096]}, ["float32", "float16"])
    for made in rows:
        if made["variant"] == "compiled":
            made.update(device_verdict="faster", device_speedup=3.1, device_speedup_lo=3.0, device_speedup_hi=3.2)
            made.update(device_time_us=90.0, device_time_lo_us=85.0, device_time_hi_us=95.0)
        elif made["variant"] == "naive":
            made.update(device_verdict="baseline", device_speedup=1.0, device_time_us=280.0)
    swept = SweptRows(rows)
    found = sweep_report.table(swept)
    assert {"Device time", "Device speedup", "Device verdict"} <= set(found.headers)
    assert "On the device compiled is faster in 4 (3.10 times as fast) of 4 cases." in sweep_report.sentences(swept)
    figure = speedup_map.draw(swept, tmp_path)
    assert figure is not None
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["wall time", "device time"]
    sweep_report.write(synthetic_results.sweep_report(tmp_path, rows, jobs))
    assert (tmp_path / "sweep.png").exists()
