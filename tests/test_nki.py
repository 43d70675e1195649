"""NKI kernels as variants: on the simulated core, where each kernel's own source is run; and where there is no NKI."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import neuroncore
import pytest
import torch
from cli import BRIEF, PEAKS, QUICK, ROOT, Ran, in_process, strict_json
from conftest import Shared
from neuron_runner import of_package, on_core

from harness import compare
from harness.configuration.compose import composed
from harness.configuration.devices import library
from harness.configuration.errors import UsageError
from harness.configuration.operation import Variant, make_inputs
from harness.configuration.schema import parse
from harness.devices import device
from harness.measure import nki_kernel
from harness.measure.checks.reference import NotComparableError, expect

KERNEL = "variants.rmsnorm_nki.rms_norm_kernel"


def named(**kernels: str) -> list[str]:
    """Overrides that add variants, each a kernel by its dotted path and further keys."""
    variants = [f"+op.variants.{name}={{nki: {text}}}" for name, text in kernels.items()]
    return [f"variants=[naive,compiled,nki,nki_compiled,{','.join(kernels)}]", *variants]


@pytest.fixture(scope="module")
def forward(shared: Shared) -> Ran:
    """One run of everything that a kernel may be, on a logical core of two physical ones."""
    variants = named(
        kernel=KERNEL,
        on_two=f"{KERNEL}, grid: 2",
        on_three=f"{KERNEL}, grid: 3",
        kernel_compiled=f"{KERNEL}, grid: 2, args: {{eps: 1e-6}}, compile: true",
        unscaled="nki_kernels.unscaled",
        unwritten="nki_kernels.unwritten",
        picky="nki_kernels.picky",
        picky_compiled="nki_kernels.picky, compile: true",
        wordless="nki_kernels.wordless",
        too_large="nki_kernels.too_many_partitions",
        faulty="nki_kernels.faulty",
        faulty_compiled="nki_kernels.faulty, compile: true",
    )
    switches = {"costs": {"nki::rms_norm_kernel": 210.5}, "NEURON_LOGICAL_NC_CONFIG": "2"}
    return shared("nki-forward", lambda folder: on_core(*variants, cwd=folder, **switches))


RIGHT = ("naive", "compiled", "nki", "nki_compiled", "kernel", "on_two", "kernel_compiled")


def test_torch_and_nki_eager_and_compiled_are_rows_of_one_table(forward: Ran) -> None:
    assert {name: forward.rows[name]["status"] for name in RIGHT} == dict.fromkeys(RIGHT, "ok")
    for name in RIGHT[2:]:
        assert forward.rows[name]["verdict"] in ("faster", "same", "slower", "unclear")
        assert f"│ {name} " in forward.out


def test_a_kernel_is_one_execution_of_its_own_cost_and_part_of_a_compiled_graph(forward: Ran) -> None:
    for name in ("nki", "kernel", "on_two"):
        row = forward.rows[name]
        assert (row["operator_calls"], row["device_executions"]) == ("1", "1")
        assert float(row["device_time_us"]) == pytest.approx(210.5, abs=0.001)
        assert float(forward.operators[name]["nki::rms_norm_kernel"]["device_time_us"]) == pytest.approx(210.5)
        ran = [event for event in trace(forward, name) if event["name"].startswith("nc_exec_running")]
        assert {event["name"] for event in ran} == {"nc_exec_running: nki::rms_norm_kernel"}
        assert len({event["tid"] for event in ran}) == 2, "the hardware shows both cores"
    for name in ("compiled", "nki_compiled", "kernel_compiled"):
        row = forward.rows[name]
        assert (row["graphs"], row["graph_breaks"], row["device_executions"]) == ("1", "0", "1")
        assert float(row["device_time_us"]) == pytest.approx(375.5, abs=0.001)


def test_what_a_kernel_does_not_take_skips_its_row_in_its_own_words(forward: Ran) -> None:
    reasons = {
        "picky": "the kernel does not take these inputs: rows must be a multiple of 128, not 4",
        "picky_compiled": "the kernel does not take these inputs: rows must be a multiple of 128, not 4",
        "wordless": "the kernel does not take these inputs: assert x.shape[1] == 513 (nki_kernels.py:",
        "too_large": "the kernel does not take these inputs: partition dimension 129 exceeds",
        "on_three": "the kernel does not take this grid: NKI only supports LNC 1 or 2, but got 3",
    }
    for name, reason in reasons.items():
        row = forward.rows[name]
        assert row["status"] == "skipped"
        assert row["reason"].startswith(reason)
        assert row["latency_us"] == ""


def test_a_kernel_s_fault_fails_its_row_and_wrong_ones_are_wrong(forward: Ran) -> None:
    assert forward.status == 1
    for name in ("faulty", "faulty_compiled"):
        assert forward.rows[name]["status"] == "failed"
        assert "no_such_function" in forward.rows[name]["reason"]
    assert forward.rows["unscaled"]["status"] == forward.rows["unwritten"]["status"] == "wrong"
    assert "NaN" in forward.rows["unwritten"]["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["forward_backward", "backward"])
def test_gradients_are_those_of_register_autograd(tmp_path: Path, mode: str) -> None:
    variants = named(
        kernel=KERNEL,
        kernel_compiled=f"{KERNEL}, compile: true",
        without="nki_kernels.without_gradient",
        without_compiled="nki_kernels.without_gradient, compile: true",
    )
    ran = on_core(*variants, f"mode={mode}", cwd=tmp_path)
    assert ran.status == 0, ran.err
    for name in ("nki", "nki_compiled"):
        assert ran.rows[name]["status"] == "ok", ran.rows[name]["reason"]
    assert (ran.rows["nki_compiled"]["graphs"], ran.rows["nki_compiled"]["recompiles"]) == ("2", "0")
    for name in ("kernel", "kernel_compiled", "without", "without_compiled"):
        assert ran.rows[name]["status"] == "skipped"
        assert f"no gradient, which mode={mode} needs" in ran.rows[name]["reason"]
        assert "register_autograd" in ran.rows[name]["reason"]


def core(**switches: Any) -> dict[str, str]:
    """The variables of the simulated core; skips where it cannot be built."""
    try:
        return neuroncore.environment(**switches)
    except neuroncore.UnavailableError as reason:
        pytest.skip(str(reason))


def trace(ran: Ran, variant: str) -> list[dict[str, Any]]:
    """The complete events of a variant's trace."""
    found = strict_json(ran.folder / "traces" / variant / "trace.json")["traceEvents"]
    return [event for event in found if event.get("ph") == "X"]


# The library's kernels, line by line

LINES = """
import torch, torch_neuronx
from variants import rmsnorm, rmsnorm_nki, softmax, softmax_nki

def near(kernel, reference, *inputs):
    right = reference(*(value.double() for value in inputs))
    on_device = [value.to("neuron") for value in inputs]
    for launched in (kernel, kernel[1], kernel[2]):
        torch.testing.assert_close(launched(*on_device).cpu(), right.to(inputs[0].dtype))

for rows, columns in ((2, 1), (4, 512), (128, 33), (130, 7), (514, 96)):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x, weight = torch.randn(rows, columns).to(dtype), torch.rand(columns).to(dtype)
        near(rmsnorm_nki.rms_norm_kernel, rmsnorm.reference, x, weight)
        near(softmax_nki.softmax_kernel, softmax.reference, x)
        near(softmax_nki.softmax_kernel, softmax.reference, 80 * x)
for kernel, inputs in (
    (rmsnorm_nki.rms_norm_kernel[2], (torch.ones(3, 8), torch.ones(8))),
    (rmsnorm_nki.rms_norm_kernel, (torch.ones(2, 8), torch.ones(9))),
    (rmsnorm_nki.rms_norm_kernel, (torch.ones(2, 8200), torch.ones(8200))),
    (softmax_nki.softmax_kernel[2], (torch.ones(3, 8),)),
    (softmax_nki.softmax_kernel, (torch.ones(2, 8200),)),
):
    try:
        kernel(*(value.to("neuron") for value in inputs))
    except AssertionError as refusal:
        print(refusal)
"""


@pytest.mark.slow
def test_the_library_s_kernels_are_right_line_by_line(tmp_path: Path) -> None:
    """Short and odd tiles, all rows of one or two cores, all dtypes, and the shapes that they refuse."""
    variables = core(default_cost=1)
    path = os.pathsep.join([variables["PYTHONPATH"], str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", LINES], env={**os.environ, **variables, "PYTHONPATH": path}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout.splitlines()
    assert len(said) == 5
    for text, words in zip(said, ("multiple of 2", "weight", "8192", "multiple of 2", "8192"), strict=True):
        assert words in text


# Kernels of one's own


@pytest.mark.slow
def test_a_new_operation_with_a_kernel_runs_as_it_is_written(tmp_path: Path) -> None:
    written = in_process("my_op", "--nki", module="harness.new", cwd=tmp_path)
    assert written.status == 0, written.err
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["my_op.py", "my_op.yaml", "my_op_nki.py"]
    line = shlex.split(written.out.splitlines()[-1].partition("python -m harness ")[2])
    ran = of_package(core(), *line, "device=neuron", "op.dims.rows=130", "op.dims.hidden=32", cwd=tmp_path)
    assert ran.status == 0, ran.err
    names = ("naive", "fused", "compiled", "nki", "nki_compiled")
    assert {name: row["status"] for name, row in ran.rows.items()} == dict.fromkeys(names, "ok")
    assert "nki::silu_kernel" in ran.operators["nki"]


def test_a_kernel_takes_nobody_s_place(tmp_path: Path) -> None:
    (tmp_path / "busy_nki.py").write_text("mine = True\n")
    ran = in_process("busy", "--nki", module="harness.new", cwd=tmp_path)
    assert ran.status == 2
    assert "busy_nki.py is there already" in ran.error
    assert [path.name for path in tmp_path.iterdir()] == ["busy_nki.py"]


def of_function(function: Callable[..., Any], **keys: Any) -> Variant:
    return Variant("mine", function, nki=True, **keys)


def test_what_is_no_kernel_is_refused_in_one_line() -> None:
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    operator = torch.library.custom_op("test_nki::double", mutates_args=())(plain)
    x = torch.ones(2)
    with pytest.raises(UsageError, match=r"^op\.variants\.mine\.nki=.*plain.*: neither a kernel, .*nor an operator"):
        nki_kernel.check(of_function(plain), [x])
    with pytest.raises(UsageError, match=r"^op\.variants\.mine\.grid=2: .* is an operator, which launches its kernel"):
        nki_kernel.check(of_function(operator, grid=2), [x])
    nki_kernel.check(of_function(operator), [x])


def test_torch_s_own_assertions_are_no_refusals() -> None:
    def assertion() -> None:
        torch._assert(False, "of torch")

    with pytest.raises(AssertionError, match="of torch"), nki_kernel.first_call(of_function(assertion), "forward"):
        assertion()
    with (
        pytest.raises(nki_kernel.UnsupportedError, match="of the kernel"),
        nki_kernel.first_call(of_function(assertion), "forward"),
    ):
        try:
            raise AssertionError("of the kernel")
        except AssertionError as error:
            raise RuntimeError("a compiler's") from error


# Where there is no NKI


@pytest.mark.slow
def test_elsewhere_the_library_s_kernels_are_skipped_if_asked_for_and_left_out_if_not(
    main_job: Ran, tmp_path: Path
) -> None:
    assert list(main_job.rows) == main_job.results["case"]["variants"] == ["naive", "fused", "compiled"]
    ran = in_process("device=cpu", "variants=[naive,nki]", *QUICK, cwd=tmp_path)
    assert ran.status == 0, ran.err
    assert (ran.rows["nki"]["status"], ran.rows["nki"]["reason"]) == ("skipped", "only for neuron, not cpu")
    found = compare("rmsnorm", variants={"own": {"nki": "nowhere.kernel"}}, overrides=[*BRIEF, *PEAKS], device="cpu")
    assert dict(found.table.set_index("variant")["status"]) == {
        **dict.fromkeys(("naive", "fused", "compiled"), "ok"), "own": "skipped",
    }  # fmt: skip


def test_a_reference_may_be_of_nki_library_s_form() -> None:
    """In float32, by a dict of one output, with arguments of its own."""

    def rms_norm_torch_ref(hidden: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6, **_: Any) -> Any:
        hidden = hidden.to(torch.float32)
        norm = hidden * (hidden.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
        norm *= gamma
        return {"out": norm}

    found = compare(
        "rmsnorm", reference=rms_norm_torch_ref, dtype="float32",
        overrides=[*BRIEF, *PEAKS, "variants=[naive,fused]"],
    )  # fmt: skip
    assert list(found.table["status"]) == ["ok", "ok"]
    inputs = torch.ones(2, 4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    with pytest.raises(NotComparableError, match=r"float32, which is too coarse to check dtype=float64"):
        expect(rms_norm_torch_ref, inputs, "forward", torch.float64, seed=0, tolerance=1.0)


# Indices


def test_int64_is_slow_and_float64_not_kept_on_neuron_alone() -> None:
    neuron, cpu = device("neuron", library()), device("cpu", library())
    indices, floats = neuron.dtype_warnings({torch.float64, torch.int64, torch.bfloat16})
    assert "gather by int64 was measured 76 to 731 times slower" in indices
    assert "op.index_dtype=int32" in indices
    assert floats.endswith("measure dtype=float32")
    assert neuron.dtype_warnings({torch.int32, torch.bfloat16}) == []
    assert cpu.dtype_warnings({torch.int64, torch.float64}) == []


@pytest.mark.slow  # the test above has the line
def test_a_run_warns_of_them(tmp_path: Path) -> None:
    ran = on_core("op=cross_entropy", "variants=[naive]", "op.dims.vocab=64", cwd=tmp_path)
    assert ran.status == 0, ran.err
    assert ran.err.count("gather by int64") == 1


@pytest.mark.slow
def test_the_dtype_of_indices_is_a_key(tmp_path: Path) -> None:
    ran = in_process(
        "op=cross_entropy", "op.index_dtype=int32", "op.dims.vocab=64", "variants=[naive,fused]", "device=cpu",
        "mode=forward_backward", *QUICK, cwd=tmp_path,
    )  # fmt: skip
    assert ran.status == 0, ran.err
    assert "int64" not in ran.err
    moved = 2 * 64 * 64 * 2 + 64 * 64 * 2 + 64 * torch.int32.itemsize * 2  # logits twice, their gradient, targets twice
    assert ran.results["work"]["bytes"] == pytest.approx(moved, rel=0.01)
    case, _ = parse(composed(["op=rmsnorm", "op.index_dtype=int32"]))
    with pytest.raises(
        UsageError, match=r"^op\.index_dtype=int32: op\.inputs=variants\.rmsnorm\.inputs .*does not take"
    ):
        make_inputs(case.operation, torch.float32, torch.Generator())
