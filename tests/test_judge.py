"""The judge: its JSON, its exit status, who is valid, and what a candidate cannot do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest
from cli import PEAKS, QUICK, ROOT, Ran, in_process, run
from conftest import Shared
from neuron_runner import on_core

from harness.judge import candidate
from harness.measure.kinds import KINDS

TRICKS = Path(__file__).parent / "tricks"
PROBLEMS = Path(__file__).parent / "problems"
CASE = ("--op", "rmsnorm", "device=cpu", "dtype=float32", "op.dims.rows=64", "op.dims.hidden=256", "lock=none")
BRIEF = (*CASE, *PEAKS, "latency.processes=2", "latency.max_processes=2", "latency.seconds=0.1")
KEYS = {"schema_version", "valid", "verdict", "speedup", "speedup_lo", "speedup_hi", "max_error", "findings"}
PRISONER = """
import os, resource, socket, subprocess
from pathlib import Path

import torch

OUT = Path({out!r})
TRIED = {{}}


def attempt(name, action):
    try:
        action()
    except OSError:
        TRIED[name] = "refused"
    else:
        TRIED[name] = "done"


def connect():
    with socket.socket() as tried:
        tried.settimeout(2)
        tried.connect(("127.0.0.1", {port}))


def rmsnorm(x, weight):
    if not TRIED:
        attempt("write", lambda: (OUT / "written").write_text("by a candidate"))
        attempt("signal", lambda: os.kill({parent}, 0))
        attempt("limit", lambda: resource.prlimit({parent}, resource.RLIMIT_CORE))
        attempt("read", lambda: Path("/proc/{parent}/mem").open("rb").close())
        attempt("network", connect)
        subprocess.Popen(["sleep", {seconds!r}], start_new_session=True)
        if os.environ.get("TELL"):
            raise RuntimeError(str(TRIED))
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)
"""


def judge(folder: Path, *arguments: Any) -> Ran:
    return in_process(*map(str, arguments), *BRIEF, cwd=folder, module="harness.judge")


def said(ran: Ran) -> dict[str, Any]:
    return json.loads(ran.out, parse_constant=lambda text: pytest.fail(text))


@pytest.fixture(scope="module")
def several(shared: Shared) -> Ran:
    names = [TRICKS / "honest" / "per_shape.py", TRICKS / "cache_by_row.py", TRICKS / "precision_bfloat16.py"]

    def make(folder: Path) -> Ran:
        (folder / "broken.py").write_text("def rmsnorm(x, weight:\n")
        (folder / "raises.py").write_text("raise SystemExit(2)\ndef rmsnorm(x, weight): return x\n")
        return judge(folder, *names, "broken.py", "raises.py")

    return shared("judge", make)


def test_several_are_ranked_and_one_that_is_not_valid_decides_the_status(several: Ran) -> None:
    document = said(several)
    assert several.status == 1
    by_name = {each["candidate"]: each for each in document["ranking"]}
    assert document["ranking"][0]["candidate"] == document["candidate"] == "per_shape"
    assert [each["valid"] for each in document["ranking"]] == [True, False, False, False, False]
    assert set(document) >= KEYS
    assert all(set(each) >= KEYS - {"schema_version"} for each in by_name.values())
    assert {name: each["findings"][0]["kind"] for name, each in by_name.items() if each["findings"]} == {
        "cache_by_row": "cache",
        "precision_bfloat16": "values",
        "broken": "failed",
        "raises": "failed",
    }
    assert "SystemExit" in by_name["raises"]["findings"][0]["reason"]


def test_a_valid_one_has_its_figures_and_no_findings(several: Ran) -> None:
    document = said(several)
    assert document["valid"] and document["findings"] == []
    assert document["speedup_lo"] <= document["speedup"] <= document["speedup_hi"]
    assert document["verdict"] in ("faster", "slower", "same", "unclear")
    assert 0 <= document["max_error"] < 1
    assert document["latency_us"] > 0 and document["bound_share"] > 0
    assert document["operator_calls"] == 1 and document["operators"][0]["self_cpu_us"] > 0
    assert set(document["sandbox"]) >= {"no_network", "no_other_processes", "read_only", "limited_memory"}


def test_a_candidate_cannot_write_results_reach_the_network_or_end_the_judge(tmp_path: Path) -> None:
    import os
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        seconds = f"600.{os.getpid()}"  # told from others by it
        port = server.getsockname()[1]
        source = PRISONER.format(out=str(tmp_path), port=port, parent=os.getpid(), seconds=seconds)
        (tmp_path / "prisoner.py").write_text(source)
        ran = judge(tmp_path, "prisoner.py", "worker.env.TELL=1")
    document = said(ran)
    assert ran.status == 1
    refused = {
        "read_only": ["write"], "no_signals": ["signal"], "no_network": ["network"],
        "no_other_processes": ["limit", "read"],
    }  # fmt: skip
    for wanted, what in ((key, what) for key, each in refused.items() for what in each):
        if document["sandbox"][wanted]:
            assert f"'{what}': 'refused'" in document["findings"][0]["reason"]
    assert not document["sandbox"]["read_only"] or not (tmp_path / "written").exists()
    left = [
        process.pid for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == ["sleep", seconds]
    ]
    assert not document["sandbox"]["no_other_processes"] or left == []


@pytest.mark.slow
def test_solutions_of_a_definition_are_judged_and_told_as_its_traces(tmp_path: Path) -> None:
    """No process may write, so their code is unpacked before."""
    folder = PROBLEMS / "flashinfer"
    solutions = folder / "solutions" / "example" / "rmsnorm" / "rmsnorm_h256"
    ran = in_process(
        *(str(solutions / f"{name}.json") for name in ("one_operator", "scaled")),
        *("--problem", str(folder / "definitions" / "rmsnorm" / "rmsnorm_h256.json"), "device=cpu", "lock=none"),
        *BRIEF[len(CASE) :],
        cwd=tmp_path,
        module="harness.judge",
        XDG_CACHE_HOME=str(tmp_path),
    )
    document = said(ran)
    assert {each["candidate"]: each["valid"] for each in document["ranking"]} == {"one_operator": True, "scaled": False}
    assert {trace["solution"]: trace["evaluation"]["status"] for trace in document["traces"]} == {
        "one_operator": "PASSED",
        "scaled": "INCORRECT_NUMERICAL",
    }


def test_every_kind_of_finding_is_described() -> None:
    page = (ROOT / "docs" / "judge.md").read_text(encoding="utf-8")
    assert all(f"| `{kind}` | {meaning} |" in page for kind, meaning in KINDS.items())


@pytest.mark.slow
def test_a_file_without_a_solution_costs_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "nothing.py").write_text("x = 1\n")
    problem = PROBLEMS / "kernelbench" / "04_mish.py"
    command = (str(problem.parent / "new" / problem.name), "nothing.py", "--problem", str(problem), "op.shrink=64")
    ran = in_process(
        *command, "dtype=float32", "device=cpu", "lock=none", *BRIEF[len(CASE) :], cwd=tmp_path, module="harness.judge"
    )
    assert ran.status == 1
    assert {each["candidate"]: each["valid"] for each in said(ran)["ranking"]} == {"04_mish": True, "nothing": False}
    alone = in_process(*command[1:], "dtype=float32", "lock=none", cwd=tmp_path, module="harness.judge")
    assert (alone.status, alone.error.endswith("nothing.py: defines no ModelNew")) == (2, True)


@pytest.mark.parametrize(
    "source",
    [
        b"try:\n    import fast\nexcept ImportError:\n    def rmsnorm(x, weight): ...\n",
        b"if True:\n    rmsnorm = None\n",
        "\ufeffdef rmsnorm(x, weight): ...\n".encode(),
        b"# -*- coding: latin-1 -*-\n# caf\xe9\ndef rmsnorm(x, weight): ...\n",
    ],
)
def test_the_function_is_found_wherever_python_finds_it(tmp_path: Path, source: bytes) -> None:
    (tmp_path / "x=1.py").write_bytes(source)
    (found,) = candidate.read([str(tmp_path / "x=1.py")], None, "rmsnorm")
    assert (found.function, found.fault) == ("rmsnorm", None)


@pytest.mark.parametrize("source", ["x = " + "-" * 200_000 + "1", "x = " + "+".join(["1"] * 200_000), "\0"])
def test_what_python_cannot_read_is_the_candidates_fault(tmp_path: Path, source: str) -> None:
    (tmp_path / "deep.py").write_text(source)
    (found,) = candidate.read([str(tmp_path / "deep.py")], None, "rmsnorm")
    assert found.fault is not None and found.fault.startswith("is no Python: ")


@pytest.mark.slow
def test_what_stands_beside_a_candidate_runs_in_measuring_processes_alone(tmp_path: Path) -> None:
    """Torch imports triton if it is there, and the server that processes are forked from imports torch, unconfined."""
    beside, ran_by = tmp_path / "beside", tmp_path / "ran_by"
    beside.mkdir()
    (beside / "rmsnorm.py").write_text(
        "import torch\ndef rmsnorm(x, w): return torch.rms_norm(x, x.shape[-1:], w, 1e-6)\n"
    )
    for name in ("triton", "pyarrow", "numexpr", "bottleneck"):
        (beside / f"{name}.py").write_text(f"open({str(ran_by)!r}, 'a').write('{name} ')\n")
    ran = run(str(beside / "rmsnorm.py"), *BRIEF, cwd=tmp_path, module="harness.judge", XDG_CACHE_HOME=str(tmp_path))
    assert said(ran)["valid"]
    assert not ran_by.exists()


def test_an_operation_of_ones_own_is_found(tmp_path: Path) -> None:
    (tmp_path / "conf" / "op").mkdir(parents=True)
    text = "defaults: [rmsnorm, _self_]\nbaseline: fused\n"
    (tmp_path / "conf" / "op" / "mine.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "fused.py").write_text("def candidate(x, weight): ...\n", encoding="utf-8")
    ran = in_process("fused.py", "--op", "mine", "--config-dir", "conf", cwd=tmp_path, module="harness.judge")
    assert ran.status == 2
    assert "is called as the baseline is, fused" in ran.error


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ((), "CANDIDATE: name the file of at least one"),
        (("missing.py",), "missing.py: cannot be read"),
        (("empty.py",), "empty.py has no rmsnorm or candidate; it has: first, second"),
        (("empty.py", "--fn", "third"), "--fn=third: empty.py has no third; it has: first, second"),
        (("empty.py", "--seconds", "1"), "--seconds=1: expected a number of 5 or more"),
        (("naive.py",), "naive.py: is called as the baseline is, naive; rename the file"),
    ],
)
def test_what_is_wrong_with_the_command_is_said_in_a_line(
    tmp_path: Path, arguments: tuple[str, ...], refusal: str
) -> None:
    (tmp_path / "empty.py").write_text("def first(x): ...\ndef second(x): ...\n_THIRD = 3\n")
    (tmp_path / "naive.py").write_text("def candidate(x, weight): ...\n")
    ran = judge(tmp_path, *arguments)
    assert ran.status == 2
    assert refusal in ran.error


@pytest.mark.slow
def test_on_a_device_its_own_clock_has_a_verdict_as_well(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "import torch\ndef rmsnorm(x, weight):\n    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)\n"
    )
    two = ("latency.processes=2", "latency.max_processes=2", *QUICK[2:])
    ran = on_core("one.py", "--op", "rmsnorm", "lock=none", *two, cwd=tmp_path, module="harness.judge")
    document = json.loads(ran.out)
    assert (document["valid"], document["device_verdict"]) == (True, "faster")
    low, ratio, high = (document[f"device_speedup{end}"] for end in ("_lo", "", "_hi"))
    assert low <= ratio <= high
    assert ratio == pytest.approx(2354.8 / 403.3, rel=1e-3)
    assert document["device_time_lo_us"] <= document["device_time_us"] <= document["device_time_hi_us"]
