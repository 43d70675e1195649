"""What Neuron's profiler leaves, known by its files alone, and the summaries of neuron-explorer in all their shapes."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import time
from pathlib import Path

import neuroncore
import pytest
from cli import running, wait_for

from harness.devices import neuron_artefacts as capture
from harness.devices import neuron_explorer as explorer
from harness.devices import neuron_summary as summary
from harness.devices.base import Capture, Pair, Summary

BOTH = ["DEVICE", "RUNTIME"]
SYSTEM = {"ntrace.pb": 9, "trace_info.pb": 9}
SESSION = {"neff_17_vnc_0.neff": 9, "neff_23_vnc_0.neff": 9, "profile_nc_0_session_0.ntff": 9}
SUMMARY = {
    "total_time": 2.0,
    "tensor_engine_active_time_percent": 0.25,
    "dma_active_time_percent": 0.5,
    "mfu_estimated_percent": 0.005,
    "hbm_read_bytes": 100,
    "hbm_write_bytes": 50,
}


def taken(run: Path, files: dict[str, int], modes: list[str] = BOTH) -> Capture:
    """The inventory of a capture with files of these sizes, in the layout of the Neuron tools."""
    folder = run / "traces" / "naive"
    session = folder / "i-0_pid_7" / "2026"
    session.mkdir(parents=True)
    (folder / "trace.json").write_text("{}")
    for name, size in files.items():
        (session / name).write_bytes(b"x" * size)
    return capture.inventory(folder, run, modes, "rms norm")


def test_a_capture_in_order(tmp_path: Path) -> None:
    found = taken(tmp_path, SYSTEM | SESSION)
    assert not found.problems
    assert not found.empty
    assert found.decodable
    assert [Path(file.path).name for file in found.files] == sorted(SYSTEM | SESSION)
    assert found.pairs == [], "one device profile of the whole session goes with every graph"
    assert found.commands == [
        "neuron-explorer view -d traces/naive --ingest-only --display-name 'rms norm'",
        "neuron-explorer view -d traces/naive --output-format summary-text",
    ]


def test_graphs_and_device_profiles_are_paired_by_their_hash(tmp_path: Path) -> None:
    files = {"neff_395.neff": 9, "395_instid_0_vnc_0.ntff": 9, "396_instid_0_vnc_0.ntff": 9}
    found = taken(tmp_path, SYSTEM | files)
    below = "i-0_pid_7/2026"
    assert found.pairs == [
        Pair(f"{below}/395_instid_0_vnc_0.ntff", f"{below}/neff_395.neff"),
        Pair(f"{below}/396_instid_0_vnc_0.ntff", None),
    ]
    assert any(text.startswith("396_instid_0_vnc_0.ntff has no NEFF of its hash") for text in found.problems)
    there = f"traces/naive/{below}"
    assert f"neuron-explorer view -n {there}/neff_395.neff -s {there}/395_instid_0_vnc_0.ntff" in found.commands


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "empty capture"),
        (SYSTEM | SESSION | {"profile_nc_0_session_0.ntff": 0}, "profile_nc_0_session_0.ntff: 0 bytes"),
        (SYSTEM | {"profile_nc_0_session_0.ntff": 9}, "no compiled graph (.neff)"),
        (SYSTEM, "only system files (.pb)"),
        (SYSTEM | {"neff_17_vnc_0.neff": 9}, "no device profile (.ntff)"),
        (SESSION | {"ntrace.pb": 9}, "no trace_info.pb"),
    ],
    ids=["empty folder", "empty NTFF", "no NEFF", "only .pb", "no NTFF", "no system profile"],
)
def test_a_failed_capture_is_reported_with_a_remedy(tmp_path: Path, files: dict[str, int], message: str) -> None:
    found = taken(tmp_path, files)
    assert len(found.problems) == 1
    assert found.problems[0].startswith(message)
    assert ";" in found.problems[0], "it ends with a remedy"
    assert found.empty == (not files)


def test_what_was_not_asked_for_is_not_missed(tmp_path: Path) -> None:
    assert taken(tmp_path / "runtime", SYSTEM, ["RUNTIME"]).problems == []
    assert taken(tmp_path / "device", SESSION, ["DEVICE"]).problems == []
    nothing = taken(tmp_path / "nothing", {}, [])
    assert (nothing.problems, nothing.empty) == ([], False)


def test_a_core_that_ran_nothing_leaves_an_empty_file_and_no_trouble(tmp_path: Path) -> None:
    assert taken(tmp_path, SYSTEM | SESSION | {"profile_nc_1_session_0.ntff": 0}).problems == []


@pytest.mark.parametrize(
    "root", [{"nc_0": SUMMARY}, SUMMARY, [SUMMARY], {"version": 3, "cores": [{"id": 0, "summary": SUMMARY}]}]
)
def test_every_shape_of_summary_is_read(root: object) -> None:
    found = summary.of_text(f"INFO[0001] processing\n{json.dumps(root, indent=1)}\nINFO[0002] done\n")
    assert found == {
        "tensor_engine_pct": 25,
        "dma_pct": 50,
        "mfu_pct": 0.5,
        "hbm_read_bytes": 100,
        "hbm_write_bytes": 50,
    }


def test_over_cores_shares_are_averaged_and_bytes_added() -> None:
    other = SUMMARY | {"tensor_engine_active_time_percent": 0.75, "hbm_read_bytes": 300}
    found = summary.of_text(json.dumps({"nc_0": SUMMARY, "nc_1": other}))
    assert (found["tensor_engine_pct"], found["hbm_read_bytes"], found["hbm_write_bytes"]) == (50, 400, 100)


def test_what_the_summary_calls_percent_is_a_share_of_one() -> None:
    """Of a small share as of a large one: nothing is guessed from the values or the times beside them."""
    long = {"total_time": 3.13, "tensor_engine_active_time": 0.565, "tensor_engine_active_time_percent": 0.1805}
    found = summary.of_text(json.dumps(long | {"mfu_estimated_percent": 0.0628, "dma_active_time_percent": 1.0}))
    assert found == {
        "tensor_engine_pct": pytest.approx(18.05),
        "mfu_pct": pytest.approx(6.28),
        "dma_pct": pytest.approx(100),
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "total_time | 375.5us",
        "{",
        "[]",
        '{"nc_0": {"cycles": 3}}',
        '{"a": null}',
        "[1, 2",
        "[" * 100_000,
        '{"dma_active_time_percent": NaN, "mfu_estimated_percent": "-", "hbm_read_bytes": -1}',
    ],
    ids=itertools.count(),
)
def test_an_unknown_summary_is_no_summary(text: str) -> None:
    assert summary.of_text(text) == {}


def test_a_summary_is_found_behind_a_log_in_json_and_before_what_is_cut_off() -> None:
    log = '{"level": "info", "message": "[0/3] ingesting"}\n'
    cut = '{"events": [' + '\n  {"id": 1},' * 20_000
    assert summary.of_text(f"{log}{log}  {json.dumps(SUMMARY)}\n{cut}")["dma_pct"] == 50
    assert summary.of_text(cut) == {}


def test_shares_of_an_unknown_unit_are_not_taken() -> None:
    """One above 1 tells that all of them are percentages, the small ones too; amounts have a unit of their own."""
    percent = SUMMARY | {"tensor_engine_active_time_percent": 25.0, "mfu_estimated_percent": 0.5}
    assert summary.of_text(json.dumps(percent)) == {"hbm_read_bytes": 100, "hbm_write_bytes": 50}
    assert summary.of_throttling([{"throttle_type": "all", "throttle_active_time_percent": 25.0}]) == {}


def test_of_throttling_the_core_counts_that_was_throttled_longest() -> None:
    def row(core: int, kind: str, share: float | None) -> dict[str, object]:
        return {"nc_idx": core, "throttle_type": kind, "throttle_active_time_percent": share}

    assert summary.of_throttling([row(0, "all", 0.25), row(1, "all", 0.5), row(1, "activity_0", 0.75)]) == {
        summary.THROTTLED: 50
    }
    assert summary.of_throttling([row(0, "activity_0", 0.125), row(0, "activity_1", None)]) == {summary.THROTTLED: 12.5}
    assert summary.of_throttling([]) == {}
    limits = [{"max_achievable_util_with_throttling_percent": limit} for limit in (0.5, None, 1.0)]
    assert (summary.lowest_limit(limits), summary.lowest_limit([])) == (50, None)


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Puts a stand-in for neuron-explorer on the PATH."""
    path = folder / "bin" / "neuron-explorer"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")


def explored(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str, throttled: bool = False) -> Summary:
    """What the simulated core's stand-in makes of a capture of two executions."""
    for name, value in neuroncore.explorer_environment(answer).items():
        monkeypatch.setenv(name, value)
    ran = [{"start": 0, "end": 100, "flow": 1, "throttled": throttled}]
    ran.append({"start": 100, "end": 400, "flow": 2, "throttled": False})
    (folder / "neff_1_vnc_0.neff").write_text("graph")
    capture = {"simulated": {"physical_cores": 2, "executions": ran}}
    (folder / "profile_nc_0_session_0.ntff").write_text(json.dumps(capture))
    return explorer.Explorer(30).summarize(folder)


def test_what_the_summary_lacks_is_read_from_the_parquet_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    found = explored(tmp_path, monkeypatch, "lacking")
    assert not found.problems
    assert not found.notes
    assert (found.metrics["dma_pct"], found.metrics["vector_engine_pct"]) == (22, 41.5)
    assert set(found.metrics) == set(summary.COLUMNS), "no table of throttling is no throttling that is known"


def test_throttling_is_told_beside_the_figures_that_it_spoils(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    found = explored(tmp_path, monkeypatch, "flat", throttled=True)
    assert found.metrics[summary.THROTTLED] == 25
    (note,) = found.notes
    assert note.startswith(
        "the core was throttled for 25% of the capture, to 50% of its capacity at most: after a pause"
    )


def test_without_pyarrow_the_printed_summary_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert explored(tmp_path, monkeypatch, "flat").metrics["dma_pct"] == 22
    whole, lacking = (explored(tmp_path, monkeypatch, answer).problems for answer in ("flat", "lacking"))
    assert whole == ("throttling is not known: to read neuron-explorer's Parquet tables, pip install pyarrow",)
    assert lacking[1].startswith("not known: tensor_engine_pct, vector_engine_pct")
    assert lacking[1].endswith("pip install pyarrow")


def test_a_table_that_is_no_parquet_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    program(
        tmp_path,
        monkeypatch,
        'case "$*" in *parquet*) ;; *) exit 0;; esac\n'
        'while [ "$1" != --data-path ]; do shift; done; echo damaged > "$2/Summary_0.parquet"',
    )
    (problem,) = explorer.Explorer(5).summarize(tmp_path).problems
    assert "gave a summary in a form that is not known" in problem
    assert "Parquet tables cannot be read" in problem


def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = explorer.Explorer(5).summarize(tmp_path)
    assert found.metrics == {}
    assert "aws-neuronx-tools" in found.problems[0]


def test_a_program_that_hangs_is_ended_with_all_that_it_started_and_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, f"echo reading\nsleep 60 & echo $! > {tmp_path}/child; wait")
    start = time.monotonic()
    asked = explorer.Explorer(0.5)
    found = asked.summarize(tmp_path)
    assert len(found.problems) == 1
    assert "gave no summary within 0.5 s; raise neuron.explorer_timeout_s" in found.problems[0]
    assert time.monotonic() - start < 30
    assert (tmp_path / explorer.RAW).read_text() == "reading\n"
    child = int((tmp_path / "child").read_text())
    wait_for(lambda: not running(child))
    assert asked.summarize(tmp_path) == Summary()


def test_a_summary_that_was_printed_before_the_program_stayed_on_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    program(tmp_path, monkeypatch, f"echo '{json.dumps(SUMMARY)}'\necho 'View a list of profiles'\nsleep 60")
    asked = explorer.Explorer(0.5)
    assert [asked.summarize(tmp_path).metrics["dma_pct"] for _ in range(2)] == [50, 50]


def test_a_program_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, monkeypatch, "echo starting\necho 'error: unsupported version' >&2\nexit 3")
    (problem,) = explorer.Explorer(5).summarize(tmp_path).problems
    assert "engine activity is not known: neuron-explorer ended with exit status 3: error: unsupported" in problem
