"""What Neuron's profiler leaves, known by its files alone, and the summaries of neuron-explorer in all their shapes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from harness.devices import neuron_artefacts as capture
from harness.devices import neuron_explorer as explorer
from harness.devices.base import Capture, Pair

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
    found = explorer.parse(f"INFO[0001] processing\n{json.dumps(root, indent=1)}\nINFO[0002] done\n")
    assert found == {
        "tensor_engine_pct": 25,
        "dma_pct": 50,
        "mfu_pct": 0.5,
        "hbm_read_bytes": 100,
        "hbm_write_bytes": 50,
    }


def test_over_cores_shares_are_averaged_and_bytes_added() -> None:
    other = SUMMARY | {"tensor_engine_active_time_percent": 0.75, "hbm_read_bytes": 300}
    found = explorer.parse(json.dumps({"nc_0": SUMMARY, "nc_1": other}))
    assert (found["tensor_engine_pct"], found["hbm_read_bytes"], found["hbm_write_bytes"]) == (50, 400, 100)


def test_what_the_summary_calls_percent_is_a_share_of_one() -> None:
    """Of a small share as of a large one: nothing is guessed from the values or the times beside them."""
    summary = {"total_time": 3.13, "tensor_engine_active_time": 0.565, "tensor_engine_active_time_percent": 0.1805}
    found = explorer.parse(json.dumps(summary | {"mfu_estimated_percent": 0.0628, "dma_active_time_percent": 1.0}))
    assert found == {
        "tensor_engine_pct": pytest.approx(18.05),
        "mfu_pct": pytest.approx(6.28),
        "dma_pct": pytest.approx(100),
    }


@pytest.mark.parametrize(
    "text", ["", "total_time | 375.5us", "{", "[]", '{"nc_0": {"cycles": 3}}', '{"a": null}', "[1, 2"]
)
def test_an_unknown_summary_is_no_summary(text: str) -> None:
    assert explorer.parse(text) == {}


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Puts a stand-in for neuron-explorer on the PATH."""
    path = folder / "bin" / "neuron-explorer"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")


def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = explorer.summarize(tmp_path, 5)
    assert found.metrics == {}
    assert found.problem is not None
    assert "aws-neuronx-tools" in found.problem


def test_a_program_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, f"echo reading\nsleep 60 & echo $! > {tmp_path}/child; wait")
    start = time.monotonic()
    found = explorer.summarize(tmp_path, 0.5)
    assert found.timed_out
    assert time.monotonic() - start < 30
    assert (tmp_path / explorer.RAW).read_text() == "reading\n"
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "stat"
    assert not child.exists() or child.read_text().split()[2] == "Z"


def test_a_summary_that_was_printed_before_the_program_stayed_on_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, f"echo '{json.dumps(SUMMARY)}'\necho 'View a list of profiles'\nsleep 60")
    assert explorer.summarize(tmp_path, 0.5).metrics["dma_pct"] == 50


def test_a_program_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, monkeypatch, "echo starting\necho 'error: unsupported version' >&2\nexit 3")
    found = explorer.summarize(tmp_path, 5)
    assert found.problem == "neuron-explorer ended with exit status 3: error: unsupported version"
