"""Faults: what goes wrong in a sweep costs its own row, leaves nothing running, and is fixed by a resume."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cli import QUICK, ROOT, in_process, run, running, table, wait_for
from conftest import Shared

from harness.results import sweeps

PICKY = (
    "-m", "dtype=float32,bfloat16", "device=cpu", "variants=[naive,picky]", "+op.variants.picky.fn=faults.picky",
    *QUICK, "report.charts=[comparison]",
)  # fmt: skip

FAULTS = """
import os, signal, subprocess, sys, time, torch

def raises(x, weight):
    raise RuntimeError("out of luck")

def exits(x, weight):
    sys.exit("enough")

def quits(x, weight):
    os._exit(7)

def crashes(x, weight):
    os.kill(os.getpid(), signal.SIGSEGV)

def is_killed(x, weight):
    os.kill(os.getpid(), signal.SIGKILL)

def hangs(x, weight):
    time.sleep(1000)

def breeds(x, weight):
    global child
    if "child" not in globals():
        child = subprocess.Popen(["sleep", "1000"])
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)

def picky(x, weight):
    if x.dtype == torch.bfloat16:
        raise RuntimeError("no bfloat16")
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)
"""
REASONS = {
    "raises": "RuntimeError: out of luck",
    "exits": "called sys.exit('enough')",
    "quits": "ended its process with exit status 7",
    "crashes": "ended its process with SIGSEGV",
    "is_killed": "ended its process with SIGKILL (out of memory?)",
    "hangs": "did not end within worker.timeout_s=3 s",
}


def sweep_of(cwd: Path) -> Path:
    """The folder of the only sweep that ran in `cwd`."""
    return next(cwd.glob("outputs/*/*/sweep.json")).parent


def rows_of(folder: Path) -> dict[tuple[str, str], dict[str, str]]:
    """sweep.csv by case and variant."""
    return {(row["case"], row["variant"]): row for row in table(folder / "sweep.csv")}


def written(folder: Path) -> dict[str, int]:
    """When each case's results were written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("*/results.json")}


def left_running(cwd: Path) -> list[list[str]]:
    """Processes that a program started in `cwd` has left; those that are about to end are waited for."""
    for _ in range(100):
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("XDG_RUNTIME_DIR") == str(cwd) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.cmdline())
            except psutil.Error:
                continue
        if not found:
            break
        time.sleep(0.1)
    return found


def start(*arguments: str, cwd: Path, largest_file: int = resource.RLIM_INFINITY) -> subprocess.Popen[str]:
    """Starts the program in a process group of its own that Ctrl-C reaches, as a shell does."""

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # where the tests run in the background it is ignored
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))

    environment = {**os.environ, "CI": "true", "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": str(cwd)}
    return subprocess.Popen(
        [sys.executable, "-m", "harness", *arguments],
        cwd=cwd,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=prepare,
    )


@pytest.fixture(scope="module")
def swept(shared: Shared) -> Path:
    """Where a sweep has run whose second case failed for one variant."""

    def make(folder: Path) -> Path:
        (folder / "faults.py").write_text(FAULTS)
        assert in_process(*PICKY, cwd=folder).status == 1
        return folder

    return shared("picky", make)


@pytest.fixture
def again(swept: Path, tmp_path: Path) -> Path:
    """A copy of it, to resume."""
    return shutil.copytree(swept, tmp_path / "again")


@pytest.fixture(autouse=True)
def nothing_is_left_running(tmp_path: Path) -> Iterator[None]:
    yield
    assert left_running(tmp_path) == []


@pytest.mark.slow  # the sweep of the tests below has a variant that fails
@pytest.mark.parametrize("dtypes", ["float32", "float32,float64"])
def test_each_fault_costs_its_own_row(package: Path, dtypes: str) -> None:
    (package / "faults.py").write_text(FAULTS)
    names = [*REASONS, "breeds"]
    variants = [f"variants=[naive,{','.join(names)},fused]", *(f"+op.variants.{n}.fn=faults.{n}" for n in names)]
    ran = run("-m", f"dtype={dtypes}", "device=cpu", "worker.timeout_s=3", *variants, *QUICK, cwd=package)
    assert ran.status == 1
    assert "Traceback" not in ran.err
    rows = rows_of(sweep_of(package))
    cases = {case for case, _ in rows}
    assert len(cases) == len(dtypes.split(","))
    assert len(rows) == len(cases) * (len(names) + 2)
    for case in cases:
        for name, reason in REASONS.items():
            assert rows[case, name]["status"] == "failed"
            assert rows[case, name]["reason"].startswith(reason)
            lines = [line for line in ran.err.splitlines() if f"{name} failed: {reason}" in line and case in line]
            assert len(lines) == 2  # at once, and at the end
            assert f"{case}/worker.log" in lines[0]
        assert {rows[case, name]["status"] for name in ("naive", "breeds", "fused")} == {"ok"}
        assert rows[case, "fused"]["speedup"]


def test_a_resume_measures_what_failed_and_nothing_else(again: Path) -> None:
    folder = sweep_of(again)
    before = written(folder)
    other = in_process(*PICKY, "op.dims.hidden=64", "resume=last", cwd=again)
    assert other.status == 2
    assert "other settings" in other.error
    more = in_process(*PICKY, "dtype=float32,bfloat16,float64", f"resume={folder}", cwd=again)
    assert more.status == 2
    assert "has 2 cases, and this command has 3" in more.error
    assert written(folder) == before
    (again / "faults.py").write_text(FAULTS.replace("torch.bfloat16", "None"))
    ran = in_process(*PICKY, "resume=last", cwd=again)
    assert ran.status == 0, ran.err
    assert {row["status"] for row in rows_of(folder).values()} == {"ok"}
    assert written(folder)["000-float32"] == before["000-float32"]
    assert written(folder)["001-bfloat16"] > before["001-bfloat16"]


def test_results_of_another_version_are_not_measured_over(again: Path) -> None:
    results = sweep_of(again) / "001-bfloat16" / "results.json"
    results.write_text(results.read_text().replace('"schema_version": 2', '"schema_version": 99', 1))
    ran = in_process(*PICKY, "resume=last", cwd=again)
    assert ran.status == 2
    assert "001-bfloat16: results.json has schema_version 99" in ran.error


@pytest.mark.slow
def test_a_full_disk_ends_the_sweep_and_what_was_saved_stays_readable(again: Path) -> None:
    """A limit on the size of a file stands in for the disk."""
    folder = sweep_of(again)
    before = written(folder)
    shutil.rmtree(folder / "000-float32")
    program = start(*PICKY, "resume=last", cwd=again, largest_file=100_000)
    _, message = program.communicate(timeout=120)
    assert program.returncode == 1, message
    assert "Traceback" not in message
    assert message.count("error: ") == 1
    assert "File too large" in message
    assert written(folder)["001-bfloat16"] == before["001-bfloat16"]
    assert [row["status"] for row in rows_of(folder).values()] == ["ok", "ok", "ok", "failed"]
    assert not list(folder.rglob("*.part"))


def test_a_case_whose_folder_cannot_be_made_ends_the_sweep(again: Path) -> None:
    folder = sweep_of(again)
    shutil.rmtree(folder / "000-float32")
    (folder / "000-float32").touch()
    ran = in_process(*PICKY, "resume=last", cwd=again)
    assert ran.status == 1
    assert "Traceback" not in ran.err
    assert "000-float32: File exists" in ran.err
    assert [row["status"] for row in rows_of(folder).values()] == ["missing", "missing", "ok", "failed"]


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_resume(tmp_path: Path) -> None:
    program = start("-m", "op.dims.hidden=32,64,96", "device=cpu", "variants=[naive,fused]", *QUICK, cwd=tmp_path)
    wait_for(lambda: any(tmp_path.glob("outputs/*/*/001*/worker.log")))
    os.killpg(program.pid, signal.SIGINT)
    _, message = program.communicate(timeout=60)
    assert program.returncode == 130, message
    assert "Traceback" not in message
    assert "interrupted: 1 of 3 cases finished" in message
    folder = sweep_of(tmp_path)
    assert f"resume={folder.relative_to(tmp_path)}" in message
    assert [row["status"] for row in rows_of(folder).values()] == ["ok"] * 2 + ["missing"] * 4


@pytest.mark.slow  # after Ctrl-C, above, nothing is lost either
@pytest.mark.parametrize("instant", ["sweep.json", "000*/worker.log", "000*/results.json"])
def test_a_kill_loses_nothing_that_was_finished(swept: Path, tmp_path: Path, instant: str) -> None:
    (tmp_path / "faults.py").write_text(FAULTS)
    program = start(*PICKY, cwd=tmp_path)
    wait_for(lambda: any(tmp_path.glob(f"outputs/*/*/{instant}")))
    program.kill()
    program.communicate()
    folder = sweep_of(tmp_path)
    done = written(folder)
    assert len(done) == (instant == "000*/results.json")
    assert [case.missing is None for case in sweeps.read(folder).cases] == [bool(done), False]
    if done:
        assert run(*PICKY, "resume=last", cwd=tmp_path).status == 1
        assert [row["status"] for row in rows_of(folder).values()] == ["ok", "ok", "ok", "failed"]
        assert written(folder)["000-float32"] == done["000-float32"]


@pytest.mark.slow  # nor Ctrl-C, above
def test_nothing_outlives_a_kill(tmp_path: Path) -> None:
    """Neither the measuring process, hanging in C, nor what a variant has started."""
    (tmp_path / "stuck.py").write_text(
        "import ctypes, os, subprocess\n"
        "def forever(x, weight):\n"
        "    child = subprocess.Popen(['sleep', '1000'])\n"
        "    open('pids.part', 'w').write(f'{os.getpid()} {child.pid}')\n"
        "    os.rename('pids.part', 'pids')\n"
        "    ctypes.PyDLL(None).sleep(1000)\n"
    )
    stuck = ("variants=[naive,stuck]", "+op.variants.stuck.fn=stuck.forever")
    program = start("device=cpu", *stuck, *QUICK, cwd=tmp_path)
    wait_for((tmp_path / "pids").exists)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert all(map(running, pids))
    program.kill()
    program.communicate()
    wait_for(lambda: not any(map(running, pids)), 30)


@pytest.mark.slow
def test_a_command_at_fault_in_one_case_harms_no_other(tmp_path: Path) -> None:
    """Known only where it is measured: there is no such device here."""
    ran = run("-m", "device=cuda,cpu", "variants=[naive,fused]", *QUICK, cwd=tmp_path)
    assert ran.status == 2
    rows = rows_of(sweep_of(tmp_path))
    assert rows["000-cuda", "fused"]["status"] == "failed"
    assert rows["000-cuda", "fused"]["reason"].startswith("device=cuda")
    assert rows["001-cpu", "naive"]["status"] == "ok"
