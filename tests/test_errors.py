"""What is wrong with a command is one line that names the key and the choices, and exit status 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli import QUICK, in_process, run
from in_process import say

from harness.configuration.errors import nearest

COMPOSED = [
    (["op=rmsnrom"], ["op=rmsnrom", "did you mean rmsnorm?", "softmax"]),
    (["op=large/rmsnrm"], ["op=large/rmsnrm: ", "did you mean large/rmsnorm?", "softmax", "large/softmax"]),
    (["op=larg/rmsnorm"], ["op=larg/rmsnorm: ", "did you mean large/rmsnorm?"]),
    (["-m", "op=rmsnorm,large/rmsnrm"], ["op=large/rmsnrm: ", "did you mean large/rmsnorm?"]),
    (["dtype=bogus"], ["dtype=bogus", "bfloat16, float16, float32, float64"]),
    (["device=tpu"], ["device=tpu: unknown; choices: auto, cpu, cuda, neuron"]),
    (["mode=backwards"], ["mode=backwards", "did you mean backward?"]),
    (["op.dims.hiden=64"], ["op.dims.hiden", "did you mean op.dims.hidden?", "rows"]),
    (["op.dims.rows=0"], ["op.dims.rows=0", "positive"]),
    (["op.dims.hidden=-5"], ["op.dims.hidden=-5", "positive"]),
    (["op.dims.hidden=1e3"], ["op.dims.hidden=1000.0", "whole number"]),
    (["op.dims.hidden=abc"], ["op.dims.hidden=abc", "whole number"]),
    (["op.dims.hidden=[64]"], ["op.dims.hidden=[64]", "whole number"]),
    (["variants=naive"], ["variants=naive", "variants=[naive]"]),
    (["variants=[naive,fusd]"], ["variants=fusd", "did you mean fused?"]),
    (["variants=[naive,1]", "+op.variants.1.fn=a.b", "lock=later"], ["lock=later", "fail, none, wait"]),
    (["+op.variants.(control).fn=a.b"], ["+op.variants.(control).fn=a.b"]),
    (["worker.env.A-B=1"], ["worker.env.A-B"]),
    (["worker.env.X=a=b"], ["worker.env.X=a=b: ", """put the value in quotes, "worker.env.X='a=b'"""]),
    (["worker.env.X='a=b"], ["worker.env.X='a=b: ", "a quote is left open"]),
    (["+worker.env={A: true}"], ["worker.env.A=True", "quote it"]),
    (["latency.processes=5", "latency.max_processes=4"], ["latency.max_processes=4", "5 or more"]),
    (["latency.confidence=1"], ["latency.confidence=1.0", "between 0 and 1"]),
    (["variants=[fused]"], ["variants=[fused]", "baseline naive"]),
    (["op.baseline=slow"], ["op.baseline=slow", "compiled, fused, naive"]),
    (["latncy.seconds=3"], ["latncy", "did you mean latency?"]),
    (["latency.second=3"], ["latency.second", "did you mean latency.seconds?"]),
    (["+latency.second=3"], ["latency.second", "did you mean latency.seconds?"]),
    (["+typo=3"], ["typo", "no such key"]),
    (["seed=abc"], ["seed", "abc"]),
    (["profile.active=0"], ["profile.active=0", "1 or more"]),
    (["latency.seconds=-1"], ["latency.seconds=-1", "positive"]),
    (["latency.cache=tepid"], ["latency.cache=tepid", "cold, warm"]),
    (["dtype=float32,bfloat16"], ["dtype=float32,bfloat16", "-m"]),
    (["op.variants.naive=3"], ["op.variants.naive=3", "mapping"]),
    (["+op.variants.mine.fnn=a.b"], ["op.variants.mine=fnn", "did you mean fn?"]),
    (["+op.variants.mine.args.block=2"], ["op.variants.mine.fn=None", "dotted path"]),
    (["+op.variants.mine.nki=a.b", "+op.variants.mine.fn=c.d"], ["op.variants.mine.nki=a.b", "fn=c.d", "leave out"]),
    (["+op.variants.mine.nki=3"], ["op.variants.mine.nki=3", "dotted path of an NKI kernel"]),
    (["+op.variants.mine.grid=2"], ["op.variants.mine.fn=None", "nki"]),
    (["+op.variants.fused.grid=2"], ["op.variants.fused.grid=2", "nki in place of fn"]),
    (["+op.variants.mine={nki: a.b, grid: [2, 2]}"], ["op.variants.mine.grid=[2, 2]", "kernel[2]"]),
    (["+op.variants.mine={nki: a.b, grid: 0}"], ["op.variants.mine.grid=0", "kernel[2]"]),
    (["+op.variants.mine={nki: a.b, grid: true}"], ["op.variants.mine.grid=True", "kernel[2]"]),
    (["op.tolerance=1e-3"], ["op.tolerance=0.001", "1 or more"]),
    (["+op.variants.mine={fn: a.b, optional: maybe}"], ["op.variants.mine.optional=maybe", "true or false"]),
    (["--config-dir", "nowhere"], ["--config-dir=nowhere", "no such folder"]),
    (["op=softmax", "op.index_dtype=int16"], ["op.index_dtype=int16", "int32, int64"]),
    (["no equals sign"], ["no equals sign", "key=value"]),
]

AT_FAULT = """
import os, signal

import torch


def none(rows, hidden):
    torch.ones(rows, hidden)


def made(rows, hidden, dtype):
    yield torch.ones(rows, hidden, dtype=dtype)


def few(rows, hidden, dtype):
    return torch.ones(rows, hidden, dtype=dtype)


def dies(rows, hidden):
    os.kill(os.getpid(), signal.SIGSEGV)
"""

MEASURED = [
    (["+op.variants.mine.fn=nowhere.fast"], ["op.variants.mine.fn=nowhere.fast", "no module named nowhere"]),
    (["op.variants.fused.fn=variants.rmsnorm.fsed"], ["op.variants.fused.fn", "did you mean fused?", "naive"]),
    (["op.inputs=variants.rmsnorm.missing"], ["op.inputs=variants.rmsnorm.missing", "inputs"]),
    (["op.inputs=at_fault.none"], ["op.inputs=at_fault.none", "returned nothing; return the input tensors"]),
    (["op.inputs=at_fault.made"], ["op.inputs=at_fault.made", "makes an input of type generator"]),
    (["op.inputs=at_fault.few"], ["op.variants.naive.fn=", "is called with 1 input, of op.inputs: "]),
    (["op.inputs=exits.inputs"], ["op.inputs=exits.inputs: ended its process with exit status 3 when it was"]),
    (
        ["op.work=at_fault.dies"],
        ["op.work=at_fault.dies: ended its process with SIGSEGV when it was imported"],
    ),
    (["+op.variants.mine.fn=exits.fast"], ["op.variants.mine.fn=exits.fast: ended its process with exit status 3"]),
    (
        ["+op.variants.mine={fn: at_fault.few, requires: [at_fault, exits]}"],
        ["op.variants.mine.requires=[at_fault,exits]: ended its process with exit status 3"],
    ),
    (["device=cuda"], ["device=cuda", "here: cpu"]),
    (["device=neuron"], ["device=neuron", "torch_neuronx", "install"]),
    (["~op.dims.rows", "op.probes=null"], ["op.inputs=", "asks for rows", "hidden"]),
    (["+op.dims.heads=2"], ["op.inputs=", "does not take heads"]),
]


@pytest.mark.parametrize(("arguments", "message"), COMPOSED, ids=lambda value: " ".join(value)[:40])
def test_refused_before_anything_runs(tmp_path: Path, arguments: list[str], message: list[str]) -> None:
    refusal = say(arguments, tmp_path).refusal
    for part in message:
        assert part in refusal


@pytest.mark.parametrize(("arguments", "message"), MEASURED, ids=lambda value: " ".join(value)[:40])
def test_refused_by_the_measuring_process(tmp_path: Path, arguments: list[str], message: list[str]) -> None:
    (tmp_path / "at_fault.py").write_text(AT_FAULT)
    (tmp_path / "exits.py").write_text("import os\nos._exit(3)\n")
    ran = in_process(*arguments, *QUICK, cwd=tmp_path)
    assert ran.status == 2
    for part in message:
        assert part in ran.error
    assert not list(tmp_path.glob("outputs/*"))  # a refused run leaves no folder


def refused(cwd: Path, op: str, text: str) -> str:
    """The line that refuses an operation whose file holds `text`."""
    (cwd / "conf" / "op").mkdir(parents=True)
    (cwd / "conf" / "op" / f"{op}.yaml").write_text(text)
    return say(["--config-dir", "conf", f"op={op}"], cwd).refusal


def test_an_operation_with_a_missing_key(tmp_path: Path) -> None:
    message = refused(tmp_path, "mine", "name: mine\ndims: {rows: 2}\nbaseline: a\nvariants: {}\n")
    assert "op.inputs" in message
    assert "missing" in message


def test_a_configuration_that_is_not_yaml(tmp_path: Path) -> None:
    assert "broken.yaml" in refused(tmp_path, "broken", "name: broken\nvariants: {a: [\n")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    assert "/proc/nowhere" in say(["hydra.run.dir=/proc/nowhere"], tmp_path).refusal


def test_a_value_in_quotes_is_taken_as_the_refusal_says(tmp_path: Path) -> None:
    assert say(["worker.env.X='a=b'"], tmp_path).measured == 1


@pytest.mark.parametrize(
    ("written", "meant"),
    [("rmsnrom", "rmsnorm"), ("cup", "cpu"), ("bf16", "bfloat16"), ("msnorm", "rmsnorm"), ("tpu", ""), ("gpu", "")],
)
def test_only_what_is_near_is_suggested(written: str, meant: str) -> None:
    choices = ["rmsnorm", "softmax", "cpu", "cuda", "neuron", "auto", "bfloat16", "float16"]
    assert nearest(written, choices) == (f"did you mean {meant}? " if meant else "")


def test_a_refusal_is_one_line_of_the_program(tmp_path: Path) -> None:
    ran = run("op=rmsnrom", cwd=tmp_path)
    assert ran.status == 2
    assert ran.error.startswith("error: op=rmsnrom: unknown; did you mean rmsnorm?")
    assert not (tmp_path / "outputs").exists()


def test_a_traceback_for_those_who_ask(tmp_path: Path) -> None:
    ran = run("dtype=bogus", cwd=tmp_path, HYDRA_FULL_ERROR="1")
    assert ran.status != 0
    assert "Traceback" in ran.err


@pytest.mark.parametrize(
    "door", ["list", "new", "doctor", "judge", "diff", "report", "problems", "history", "bisect", "model"]
)
def test_each_help_shows_examples_and_exit_statuses(door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = in_process("--help", cwd=tmp_path, module=f"harness.{door}")
    assert ran.status == 0
    help, _, epilog = ran.out.partition("examples:\n")
    assert f"  python -m harness.{door}" in epilog
    assert "exit status: 0" in epilog
    assert max(map(len, help.splitlines()[1:])) <= 80


def test_help_and_configuration_without_torch(tmp_path: Path) -> None:
    for name in ("torch", "hydra", "omegaconf"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} was imported')\n")
    shown = run("--help", cwd=tmp_path)
    assert (shown.status, shown.err) == (0, "")
    for name in ("hydra", "omegaconf"):  # which the help alone does without
        (tmp_path / f"{name}.py").unlink()
    assert shown.out.count("python -m harness ") >= 3
    assert "transformer_block" in shown.out
    composed = run("--cfg", "job", "op=softmax", cwd=tmp_path)
    assert composed.status == 0
    assert "variants.softmax.inputs" in composed.out
    assert run("--info", "defaults", cwd=tmp_path).status == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("harness", ["--help"]),
        pytest.param("harness", ["device=cpu", "variants=[naive]", *QUICK], marks=pytest.mark.slow),
        pytest.param("harness.list", ["device=cpu"], marks=pytest.mark.slow),
        pytest.param("harness.doctor", ["device=cpu"], marks=pytest.mark.slow),
    ],
    ids=["help", "run", "list", "doctor"],
)
def test_a_full_stdout_is_reported(tmp_path: Path, module: str, arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        ran = run(*arguments, cwd=tmp_path, module=module, stdout=full)
    assert ran.status == 1
    assert ran.err.splitlines()[-1] == "error: stdout: No space left on device"
    assert "Traceback" not in ran.err
    assert len(list(tmp_path.glob("outputs/**/results.json"))) == ("variants=[naive]" in arguments)
