"""The report: its files, its sentences, and charts of whatever a run or a sweep came to."""

from __future__ import annotations

import copy
import logging
import re
import shutil
import subprocess
import sys
import threading
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic_results
from cli import ROOT, Ran, run
from matplotlib.collections import LineCollection
from matplotlib.container import ErrorbarContainer

from harness.measure import trace
from harness.measure.trace import Event
from harness.report import charts, drawing, formatting, run_report, summary, sweep_report, unclear
from harness.report.charts import comparison, roofline, samples, speedup_map, style, sweep_lines, timeline
from harness.report.swept_keys import SweptRows
from harness.results import storage
from harness.results.comparison import Comparison

CHARTS = ("comparison", "timeline", "samples")


@pytest.fixture(autouse=True)
def no_warnings(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fails a test in which matplotlib complains, by a warning or in its log."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def text_of(svg: Path | bytes) -> str:
    """The texts of a chart: matplotlib draws them as shapes, and says what they are in comments."""
    text = svg.decode() if isinstance(svg, bytes) else svg.read_text(encoding="utf-8")
    return "\n".join(re.findall(r"<!-- (.*?) -->", text, re.DOTALL))


def written(folder: Path, document: dict[str, Any]) -> dict[str, str]:
    """Writes a document's report and returns the texts of its charts; each must be a whole PNG and SVG."""
    run_report.write(folder, Comparison(document))
    for name in CHARTS:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        ElementTree.parse(folder / f"{name}.svg")
    return {name: text_of(folder / f"{name}.svg") for name in CHARTS}


def test_a_run_leaves_its_charts_and_its_page(main_job: Ran) -> None:
    for name in CHARTS:
        assert (main_job.folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (main_job.folder / f"{name}.svg").exists()
    chart = text_of(main_job.folder / "comparison.svg")
    rows = Comparison(main_job.results).rows
    given = [row for row in rows if row["condition"] != "starved"] or rows
    unit = formatting.time_unit([row[name] for row in given for name in ("latency_us", "self_cpu_us")])
    for row in rows:
        assert row["variant"] in chart
        assert formatting.latency(row, unit) in chart
    assert "dispatch" in text_of(main_job.folder / "timeline.svg")
    assert "samples" in text_of(main_job.folder / "samples.svg")
    assert (main_job.folder / "report.html").exists()


@pytest.mark.parametrize("lost", [["fused"], ["naive"], ["compiled", "fused"], ["naive", "fused", "compiled"]])
@pytest.mark.parametrize("status", ["failed", "skipped"])
def test_charts_say_what_has_no_result(main_job: Ran, tmp_path: Path, lost: list[str], status: str) -> None:
    document = synthetic_results.with_status(
        main_job.results, status, "RuntimeError: no_such $kernel$ (latency)", *lost
    )
    for texts in written(tmp_path, document).values():
        for name in lost:
            assert name in texts
        assert texts.count(status) == len(lost)


def test_names_are_drawn_as_they_are(main_job: Ran, tmp_path: Path) -> None:
    names = {"naive": "a_$b^2$_c", "fused": "多 line\nname", "compiled": synthetic_results.AWKWARD}
    folder = synthetic_results.renamed(main_job.folder, tmp_path / "run", names)
    for texts in written(folder, storage.read(folder)).values():
        assert "a_$b^2$_c" in texts
        assert r"\u591a line name" in texts
        assert synthetic_results.AWKWARD in texts.replace("&lt;", "<").replace("&gt;", ">")


@pytest.mark.slow  # other charts are compared with what they should show
def test_equal_results_make_equal_charts(main_job: Ran, tmp_path: Path) -> None:
    for name in ("one", "other"):
        shutil.copytree(main_job.folder / "traces", tmp_path / name / "traces")
        run_report.write(tmp_path / name, Comparison(main_job.results))
    for chart in CHARTS:
        assert (tmp_path / "one" / f"{chart}.svg").read_bytes() == (tmp_path / "other" / f"{chart}.svg").read_bytes()


def test_a_report_is_made_again_from_results_alone(main_job: Ran, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(main_job.folder / "results.json", folder)
    ran = run(str(folder), cwd=tmp_path, module="harness.report")
    assert ran.status == 0, ran.err
    for name in ("comparison.csv", "operators.csv", "samples.csv", "comparison.md"):
        assert (folder / name).read_text() == (main_job.folder / name).read_text()
    assert "no trace" in text_of(folder / "timeline.svg")
    assert (folder / "results.json").read_bytes() == (main_job.folder / "results.json").read_bytes()


@pytest.mark.parametrize("arguments", [["missing"], [], ["one", "two"], ["--nonsense", "x"]])
def test_a_wrong_command_is_an_error_of_one_line(tmp_path: Path, arguments: list[str]) -> None:
    ran = run(*arguments, cwd=tmp_path, module="harness.report")
    assert ran.status == 2
    assert ran.error.startswith("error: ")


def test_a_report_needs_no_torch() -> None:
    code = "import sys, harness.report.run_report, harness.report.sweep_report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# Sentences


def test_a_sentence_says_what_a_compiled_variant_does() -> None:
    known = {"device": "neuron", "device_gap_us": 400.0, "device_busy_us": 2000.0, "noise_floor": 0.02}
    naive = synthetic_results.row(
        "naive", 2520.0, device_executions=6, operator_calls=6, speedup=1.0, verdict="baseline", **known
    )
    compiled = synthetic_results.row(
        "compiled", 400.0, device_executions=1, operator_calls=1, speedup=6.3, speedup_lo=6.1, speedup_hi=6.4,
        verdict="faster", compile_s=21.0, break_even_calls=11_000, device_gap_us=0.0, device_busy_us=360.0,
    )  # fmt: skip
    guards = [{"operator": "TorchDynamo Cache Lookup", "calls": 1, "self_cpu_us": 8.0, "device_time_us": None}]
    (sentence,) = summary.sentences(synthetic_results.comparison([naive, compiled], {"compiled": guards}))
    assert sentence == (
        "compiled does in one device execution what naive does in six, is 6.30 times as fast (6.10 to 6.40), spends no "
        "time in gaps between executions where naive spends 400 µs, took 21.0 s to compile and pays for itself after "
        "11,000 calls. Of its 400 µs the device is busy 90%; the rest, 10%, is dispatch, of which Dynamo's guards take "
        "8.00 µs. Most of the gain comes from less work on the device: 1,640 µs of the 2,120 µs saved."
    )


def test_work_that_is_not_fused_is_called_so() -> None:
    naive = synthetic_results.row("naive", 20.0, operator_calls=6, speedup=1.0, verdict="baseline", noise_floor=0.02)
    fused = synthetic_results.row(
        "fused", 20.0, operator_calls=1, speedup=1.0, speedup_lo=0.99, speedup_hi=1.01, verdict="same", noise_floor=0.02
    )
    inner = [{"operator": "aten::mul", "calls": 27, "self_cpu_us": 1.0, "device_time_us": None}]
    (sentence,) = summary.sentences(synthetic_results.comparison([naive, fused], {"naive": inner, "fused": inner}))
    assert "does in one operator call what naive does in six" in sentence
    assert "is as fast, within ±2.0% (0.990 to 1.01)" in sentence
    assert "It is not actually fused: it still dispatches 27 operators" in sentence


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        ({"status": "wrong", "reason": "off by 3."}, "x is wrong: off by 3."),
        ({"status": "failed", "reason": "KeyError: 'a' (prepare)"}, "x failed: KeyError: 'a' (prepare)."),
        ({"reason": "not comparable: it draws numbers"}, "x is not ranked: not comparable: it draws numbers."),
        ({}, "x is not ranked: a call is as short as the loop around it."),
    ],
)  # fmt: skip
def test_a_sentence_says_why_a_variant_is_not_ranked(known: dict, sentence: str) -> None:
    naive = synthetic_results.row("naive", 20.0, speedup=1.0, verdict="baseline")
    rows = [naive, synthetic_results.row("x", 20.0, **known)]
    assert summary.sentences(synthetic_results.comparison(rows)) == [sentence]


def test_a_vague_interval_is_not_spelled_out() -> None:
    naive = synthetic_results.row("naive", 20.0, speedup=1.0, verdict="baseline")
    known = {"speedup": 1.7, "speedup_lo": 1e-6, "speedup_hi": 1e9, "verdict": "unclear"}
    wild = synthetic_results.row("wild", 20.0, **known) | {"latency_lo_us": 1e-9, "latency_hi_us": 1e12}
    assert formatting.latency(wild) == "20.00 µs (unknown)"
    tame = wild | {"latency_lo_us": 19.0, "latency_hi_us": 21.0}
    assert formatting.latency(tame, formatting.time_unit([20_000.0])) == "0.02000 ms ±5.0%"  # the unit of an axis
    assert formatting.speedup(wild) == "1.70× (unknown)"
    one = tame | {"speedup_lo": 1.7, "speedup_hi": 1.7, "samples": 1}
    assert (formatting.latency(one), formatting.speedup(one)) == ("20.00 µs (unknown)", "1.70× (unknown)")
    comparison = synthetic_results.comparison([naive, wild])
    (sentence,) = summary.sentences(comparison)
    assert "is not clearly faster or slower (the interval spans more than a factor of ten)" in sentence
    assert [warning for warning in summary.warnings(comparison) if warning.startswith("wild: the interval spans")]


def test_one_process_supports_no_verdict() -> None:
    naive = synthetic_results.row("naive", 20.0, speedup=1.0, verdict="baseline")
    known = {"speedup": 2.0, "speedup_lo": 1.99, "speedup_hi": 2.01, "verdict": "unclear", "processes": 1}
    comparison = synthetic_results.comparison([naive, synthetic_results.row("x", 10.0, **known)])
    assert (
        "1.99 to 2.01 times as fast; one process cannot tell how processes scatter" in summary.sentences(comparison)[0]
    )
    assert "try latency.processes=5" in summary.warnings(comparison)[0]


def test_what_was_done_is_not_advised(main_job: Ran) -> None:
    loud = copy.deepcopy(main_job.results)
    for row in loud["samples"]["rows"]:
        row[4] *= 2 if row[0] == "(control)" else 1
    alone = copy.deepcopy(loud)
    alone["device"]["threads"] = 1
    alone["config"]["latency"]["wait"] = 100
    told, left = (" ".join(summary.warnings(Comparison(document))) for document in (loud, alone))
    assert "try worker.threads=1, fewer neighbours" in told
    assert "try fewer neighbours" in left
    assert "threads=1" not in left
    assert unclear.cores(Comparison(alone)) == "end those programs, or try latency.wait=200"


def test_warnings_that_differ_in_numbers_are_one(main_job: Ran) -> None:
    document = main_job.results | {"warnings": ["used 1.3 cores; try", "used 1,900 cores; try", "other; try"]}
    warnings = summary.warnings(Comparison(document))
    assert warnings[:2] == ["used 1,900 cores; try (the most of 2 processes)", "other; try"]


def test_every_warning_says_what_to_try(main_job: Ran) -> None:
    warnings = summary.warnings(Comparison(main_job.results))
    assert warnings  # of a single process, at least that it supports no verdict
    for warning in warnings:
        assert re.search(r": .*; (try|end|raise|\w+\.\w+)|; it comes with", warning), warning


# Timeline


def call(start: int, device: list[tuple[int, int]]) -> list[Event]:
    """A call with an operator for each execution; times in ns from its start."""
    events = [Event(trace.CALL, trace.ANNOTATION, start, start + 1000, 1, 0, 0)]
    for number, (begin, end) in enumerate(device):
        at, link = start + 100 * number, start + number + 1
        events.append(Event("aten::mul", trace.OPERATOR, at, at + 50, 1, link, 0))
        events.append(Event("launch", trace.RUNTIME, at + 10, at + 20, 1, 0, link))
        events.append(Event("kernel", trace.DEVICE, start + begin, start + end, (0, 0), 0, link))
    return sorted(events, key=lambda event: (event.start, -event.end))


def test_the_timeline_shows_the_call_of_median_length_and_its_gaps() -> None:
    events = [*call(0, [(500, 9000)]), *call(10_000, [(500, 1500), (1800, 2500)]), *call(20_000, [(500, 1100)])]
    typical = timeline.typical(events)
    assert typical is not None
    assert (typical.start, typical.length, len(typical.executions)) == (10_000, 2500, 2)
    assert timeline.gaps(typical.executions, 10_500, 12_500) == [(11_500.0, 300.0)]
    rows = [synthetic_results.row("naive", 2.5), synthetic_results.row("lost", None, status="failed", reason="no")]
    figure = timeline.of_traces(synthetic_results.comparison(rows), {"naive": events})
    lines = next(found for found in figure.axes[0].collections if isinstance(found, LineCollection))
    assert len(lines.get_paths()) == 2  # a dispatch each
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert "2 executions in 2.000 µs, 0.3000 µs of it gaps between them" in texts
    assert "failed, no trace" in texts


def test_gaps_of_overlapping_spans() -> None:
    spans = [Event("", trace.DEVICE, start, end, 0, 0, 0) for start, end in ((10, 30), (15, 20), (40, 50))]
    assert timeline.gaps(spans, 0, 60) == [(0.0, 10.0), (30.0, 10.0), (50.0, 10.0)]
    assert timeline.gaps([], 0, 5) == [(0.0, 5.0)]


# Other charts


def test_samples_far_from_the_rest_stand_at_the_edge(tmp_path: Path) -> None:
    taken = [
        {"variant": "naive", "process": number // 20, "round": number % 20, "calls": 1, "latency_us": 100 + number % 3}
        | {"quiet": number < 50}
        for number in range(60)
    ]
    taken[7]["latency_us"] = 9000.0
    comparison = synthetic_results.comparison([synthetic_results.row("naive", 101.0)])
    comparison.__dict__["samples"] = taken
    figure = samples.draw(comparison, tmp_path)
    (panel,) = figure.axes
    assert panel.get_ylim()[1] < 120
    shown = [len(line.get_xdata()) for line in panel.lines if line.get_marker() in ("o", "^", "v")]
    assert shown == [10, 49, 1, 0]
    assert "60 samples, 100.0 to 9,000 µs, 1 of them beyond this panel" in [text.get_text() for text in panel.texts]


def test_an_interval_wider_than_its_figure_is_said_and_not_drawn(tmp_path: Path) -> None:
    wide = {"latency_lo_us": 9.0, "latency_hi_us": 44.0}
    rows = [synthetic_results.row("naive", 15.0), synthetic_results.row("loud", 16.0) | wide]
    made = synthetic_results.comparison(rows)
    taken = [{"variant": "loud", "process": 0, "round": n, "latency_us": 16.0, "quiet": True} for n in range(5)]
    made.__dict__["samples"] = taken
    (panel,) = [axes for axes in samples.draw(made, tmp_path).axes if axes.lines]
    assert not panel.patches, "a band would swallow the panel"
    assert any("16.00 µs (9.000–44.00)" in text.get_text() for text in panel.texts)
    (axes,) = comparison.draw(made, tmp_path).axes
    whiskers = [container for container in axes.containers if isinstance(container, ErrorbarContainer)]
    assert len(whiskers) == 1, "only naive's"
    assert any("16.00 µs (9.000–44.00)" in text.get_text() for text in axes.texts)


def test_a_variant_that_lacked_cores_does_not_flatten_the_others(tmp_path: Path) -> None:
    rows = [synthetic_results.row("naive", 15.0), synthetic_results.row("loud", 27_000.0, condition="starved")]
    (axes,) = comparison.draw(synthetic_results.comparison(rows), tmp_path).axes
    assert axes.get_xlim()[1] < 30
    assert max(bar.get_width() for bar in axes.patches) < 20
    (text,) = [text for text in axes.texts if "27,000 µs" in text.get_text()]
    assert text.get_position()[0] < 20


def test_a_stack_ends_with_the_axis(tmp_path: Path) -> None:
    loud = synthetic_results.row("loud", 27_000.0, condition="starved")
    made = synthetic_results.comparison([synthetic_results.row("naive", 15.0), loud])
    costs = {"aten::a_long_name_of_an_operator": 100.0, "aten::mul": 30.0}
    cells = {"calls": 1, "device_time_us": None, "device_pct": None}
    made.__dict__["operators"] = [
        {"variant": "loud", "operator": operator, "self_cpu_us": cost, **cells} for operator, cost in costs.items()
    ]
    (axes,) = comparison.draw(made, tmp_path).axes
    assert len([bar for bar in axes.patches if 0 < bar.get_x() + bar.get_width() > 20]) == 0
    (name,) = [text for text in axes.texts if "a_long_name" in text.get_text()]
    assert name.get_position()[0] < 11, "in the middle of what is seen of its segment"


def test_a_sweep_in_a_loud_hour_is_readable(tmp_path: Path) -> None:
    """Six cases, of which some intervals reach from half to three times the figure."""
    swept, _ = synthetic_results.sweep({"hidden": (512, 1024, 2048, 4096, 8192, 16384)})
    for number, row in enumerate(swept):
        if row["latency_us"] is not None and number % 2:
            row.update(latency_lo_us=0.5 * row["latency_us"], latency_hi_us=3 * row["latency_us"])
    largest = max(row["latency_us"] for row in swept if row["latency_us"] is not None)
    figure = sweep_lines.draw(SweptRows(swept), tmp_path)
    assert figure is not None
    (panel,) = figure.axes
    assert panel.get_ylim()[1] < 1.6 * largest  # no wide interval stretches it
    for band in panel.collections:
        assert all(np.ptp(path.vertices[:, 1]) < largest for path in band.get_paths())
    assert any("hollow: interval wider than the figure" in text.get_text() for text in figure.texts)


def test_the_roofline_knows_its_bound(tmp_path: Path) -> None:
    rows = [
        synthetic_results.row("naive", 10.0, flops_per_s=1e9, bound_share=0.1),
        synthetic_results.row("compiled", 5.0, flops_per_s=2e9, bound_share=0.2),
    ]
    peaks = {"flops_per_s": 1e12, "bytes_per_s": 1e10, "source": "a data sheet"}
    work = {"flops": 1e4, "bytes": 1e4}
    known = synthetic_results.comparison(rows, work=work, device={"peaks": peaks})
    figure = roofline.draw(known, tmp_path)
    assert figure is not None
    style.save(figure, tmp_path, "roofline")
    svg = (tmp_path / "roofline.svg").read_bytes()
    assert "bound by memory at 10.0 GFLOP/s; peaks: a data sheet" in text_of(svg)
    assert "naive: 10% of the bound" in text_of(svg)
    assert "compiled: 20% of the bound" in text_of(svg)
    assert roofline.draw(synthetic_results.comparison(rows), tmp_path) is None  # no peaks


# Sweeps


def test_swept_numbers_are_in_order(tmp_path: Path) -> None:
    rows, _ = synthetic_results.sweep({"hidden": [1024, 256, 4096]})
    sweep = SweptRows(rows)
    (hidden,) = sweep.keys
    assert (hidden.label, hidden.values) == ("hidden", (256, 1024, 4096))
    (panel,) = sweep_lines.draw(sweep, tmp_path).axes
    assert panel.get_xscale() == "log"
    assert list(panel.get_xticks()) == [256, 1024, 4096]
    for line in panel.lines:
        assert list(line.get_xdata()) == sorted(line.get_xdata())
        assert all(isinstance(x, float) for x in line.get_xdata())


def test_names_keep_their_order_and_their_own_axis(tmp_path: Path) -> None:
    rows, _ = synthetic_results.sweep({"hidden": [64]}, ["float32", "float16", "bfloat16"])
    sweep = SweptRows(rows)
    (dtype,) = sweep.keys
    assert (dtype.label, dtype.numeric, dtype.values) == ("dtype", False, ("float32", "float16", "bfloat16"))
    (panel,) = sweep_lines.draw(sweep, tmp_path).axes
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["float32", "float16", "bfloat16"]


def test_crossovers_are_found_and_what_is_unclear_decides_nothing() -> None:
    rows, _ = synthetic_results.sweep({"rows": [1], "hidden": [512, 256, 8192, 4096]})
    sweep = SweptRows(rows)
    sentences = ["compiled is slower than naive up to hidden=512 and faster from hidden=4096."]
    assert sweep_report.crossovers(sweep) == sentences
    middle = next(row for row in rows if row["dim_hidden"] == 512 and row["variant"] == "compiled")
    middle["verdict"] = "unclear"
    assert sweep_report.crossovers(SweptRows(rows)) == [sentences[0].replace("512", "256")]


def test_a_sweep_is_summarized_with_its_missing_cases(tmp_path: Path) -> None:
    rows, jobs = synthetic_results.sweep({"rows": [4, 1], "hidden": [1024, 256, 4096]}, ["float32", "float16"])
    for row in rows[:3]:
        row.update(dict.fromkeys(("latency_us", "speedup", "verdict")), status="missing", reason="not started")
    jobs[0] = sweep_report.Job(jobs[0].name, jobs[0].folder, "not started")
    report = synthetic_results.sweep_report(tmp_path, rows, jobs)
    sweep_report.write(report)
    assert "naive, the baseline, has no result in 1 of 12 cases." in report.sentences
    assert "fused is unclear in 5, failed in 6 and missing in 1 of 12 cases." in report.sentences
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "11 of 12 cases have results" in page
    assert "rows=4 hidden=1024 dtype=float32" in page
    for chart in ("sweep", "speedup"):
        ElementTree.parse(tmp_path / f"{chart}.svg")
        assert (tmp_path / f"{chart}.png").read_bytes().startswith(b"\x89PNG")
    speedup = text_of(tmp_path / "speedup.svg")
    assert "fused failed" in speedup
    assert "×" in speedup
    assert "compiled" in speedup


def test_a_sweep_without_any_result_is_drawn(tmp_path: Path) -> None:
    rows, jobs = synthetic_results.sweep({"hidden": [256, 4096]}, ["float32", "float16"])
    lost = [
        synthetic_results.row(row["variant"], None, status="failed", reason="why", dtype=row["dtype"]) for row in rows
    ]
    rows = [new | {"dim_hidden": row["dim_hidden"]} for new, row in zip(lost, rows, strict=True)]
    sweep_report.write(synthetic_results.sweep_report(tmp_path, rows, jobs))
    assert (tmp_path / "sweep.png").exists()
    assert text_of(tmp_path / "speedup.svg").count("×") >= 4


def test_zeros_do_not_blank_a_logarithmic_axis(tmp_path: Path) -> None:
    rows, _ = synthetic_results.sweep({"hidden": [256, 4096, 65536]})
    for row in rows:
        row["device_time_us"] = 0.0 if row["dim_hidden"] == 256 else row["latency_us"]
    latency, device = sweep_lines.draw(SweptRows(rows), tmp_path).axes
    for panel in (latency, device):
        assert panel.get_yscale() == "log"
        assert 0 < panel.get_ylim()[0] < panel.get_ylim()[1] < 1000
    assert [len(line.get_xdata()) for line in device.lines if len(line.get_xdata())] == [2, 2, 2]


def test_the_fastest_of_a_case_is_not_guessed() -> None:
    known = {"status": "ok"}
    naive = synthetic_results.row("naive", 10.0, speedup=1.0, speedup_lo=1.0, speedup_hi=1.0, verdict="baseline")
    one = synthetic_results.row("one", 5.0, speedup=2.0, speedup_lo=1.9, speedup_hi=2.1, verdict="faster", **known)
    two = synthetic_results.row("two", 4.9, speedup=2.05, speedup_lo=1.95, speedup_hi=2.2, verdict="faster", **known)
    names = ["naive", "one", "two"]
    assert speedup_map.winner([naive, one, two], names)[0] == ["two or one", "2.05×"]
    assert speedup_map.winner([naive, one | {"verdict": "unclear"}], names)[0] == ["unclear"]
    assert speedup_map.winner([naive, one | {"verdict": "slower"}], names)[0] == ["naive", "1×"]
    assert speedup_map.winner([naive, one | {"verdict": "same"}], names)[0] == ["the same"]
    assert speedup_map.winner([one | {"verdict": None}], names)[0] == ["×"]


def test_the_columns_of_a_sweep_stand_in_its_table() -> None:
    rows, _ = synthetic_results.sweep({"rows": [1], "hidden": [256, 512]})
    for row in rows:
        row["op.variants.fused.args.block"] = row["dim_hidden"] // 2
    found = sweep_report.table(SweptRows(rows))
    assert found.headers[:3] == ["hidden", "fused.args.block", "Variant"]
    assert found.rows[0][:3] == ["256", "128", "naive"]


# Which charts are drawn


def test_charts_are_chosen_and_what_was_drawn_before_is_removed(main_job: Ran, tmp_path: Path) -> None:
    comparison = Comparison(main_job.results)
    run_report.write(tmp_path, comparison, ["samples", "timeline"])
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["samples.png", "timeline.png"]
    run_report.write(tmp_path, comparison, [])
    assert not [*tmp_path.glob("*.png"), *tmp_path.glob("*.svg")]
    assert "<img" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_chart_is_a_file_and_a_line(main_job: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spread.py").write_text(
        "from matplotlib.figure import Figure\ndef draw(comparison, folder):\n    return Figure()\n"
    )
    monkeypatch.setattr("harness.report.charts.__path__", [*charts.__path__, str(tmp_path)])
    monkeypatch.setattr(drawing, "RUN", (*drawing.RUN, drawing.Chart("spread", "How the samples are spread")))
    drawing.check(["spread"])
    run_report.write(tmp_path / "run", Comparison(main_job.results), ["spread"])
    assert (tmp_path / "run" / "spread.png").exists()
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Spread</h2>" in page
    assert 'alt="How the samples are spread"' in page


def test_a_chart_that_hangs_is_ended(
    main_job: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(drawing, "TIMEOUT_S", 0.0)
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # whatever other tests have left: it is drawn in a fork
    monkeypatch.setattr(timeline, "draw", lambda comparison, folder: threading.Event().wait())
    run_report.write(tmp_path, Comparison(main_job.results), ["comparison", "timeline"])
    assert (tmp_path / "comparison.png").exists()
    assert not (tmp_path / "timeline.png").exists()
    (record,) = caplog.records
    assert record.message.startswith("timeline: the chart was not drawn within")
    caplog.clear()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["bogus", "module://matplotlib_inline.backend_inline"])
def test_charts_need_no_backend(main_job: Ran, tmp_path: Path, backend: str) -> None:
    shutil.copy(main_job.folder / "results.json", tmp_path)
    ran = run(str(tmp_path), cwd=tmp_path, module="harness.report", MPLBACKEND=backend)
    assert ran.status == 0, ran.err
    assert ran.err == ""
    assert (tmp_path / "comparison.png").exists()


@pytest.mark.parametrize("arguments", [["op=rmsnorm"], ["-m", "op=rmsnorm", "dtype=float32,bfloat16"]])
def test_an_unknown_chart_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    ran = run(*arguments, "report.charts=[comparisn]", cwd=tmp_path)
    assert ran.status == 2
    assert "report.charts=comparisn: unknown; did you mean comparison?" in ran.error
    assert "choices: comparison, roofline, samples, speedup, step, sweep, timeline" in ran.error
