"""`python -m harness.doctor`: what it finds out about a device, and its exit status."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import neuroncore
import pytest
from cli import Ran, run
from neuron_runner import of_package, on_core

from harness import doctor
from harness.configuration.devices import library
from harness.configuration.operation import Variant
from harness.devices import device, preflight


def lines(ran: Ran, mark: str) -> list[str]:
    """The findings with this mark."""
    return [line[7:] for line in ran.out.splitlines() if line[:7].rstrip() == mark]


def checked(ran: Ran, status: int) -> Ran:
    """The doctor's report, with the status that is expected and without a traceback."""
    assert ran.status == status, ran.out + ran.err
    assert "Traceback" not in ran.err
    assert ran.out.splitlines()[-1].endswith("is fit to be measured" if status == 0 else "is not fit to be measured")
    assert all("; " in line for mark in ("warn", "UNFIT") for line in lines(ran, mark)), "each ends with a remedy"
    return ran


def test_a_healthy_core_is_opened_and_profiled(tmp_path: Path) -> None:
    ran = checked(on_core(cwd=tmp_path, module="harness.doctor", explorer="flat"), 0)
    good = "\n".join(lines(ran, "ok"))
    assert "neuron is here\n" in good
    assert "neuron opens: name Trainium2 (simulated)" in good
    assert "the profiler reports device time: 391.4 µs for one addition" in good
    assert "neuron-ls is here\nneuron-explorer is here" in good
    assert lines(ran, "UNFIT") == []
    assert "USDT" not in ran.err


@pytest.mark.slow
def test_a_profiler_without_its_plug_in_is_found_by_trying_it(tmp_path: Path) -> None:
    ran = checked(on_core(cwd=tmp_path, module="harness.doctor", profiler=False), 1)
    (finding,) = lines(ran, "UNFIT")
    assert "no device time: the profiler plug-in is not registered" in finding


@pytest.mark.slow
def test_a_capture_that_fails_is_found_by_trying_it(tmp_path: Path) -> None:
    ran = checked(on_core(cwd=tmp_path, module="harness.doctor", capture="empty_folder"), 1)
    assert lines(ran, "UNFIT")[0].startswith("empty capture: ")


@pytest.mark.slow
def test_a_held_core_is_distinguished_from_a_package_that_fails(tmp_path: Path) -> None:
    (held,) = lines(checked(on_core(cwd=tmp_path, module="harness.doctor", busy=True), 1), "UNFIT")
    assert "in use by another process" in held
    assert "neuron-ls shows which process holds a core: end the process that holds it" in held
    (fails,) = lines(checked(on_core(cwd=tmp_path, module="harness.doctor", broken=True), 1), "UNFIT")
    assert "torch_neuronx does not load, and torch with it: libnrt.so.1" in fails


@pytest.mark.slow
def test_what_spoils_a_measurement_is_named(tmp_path: Path) -> None:
    """Another torch-neuronx than torch's own, two variables, and tools that are not there."""
    wrong = tmp_path / "wrong" / "torch_neuronx-2.14.3.0.dist-info"
    shutil.copytree(neuroncore.SITE / "torch_neuronx-2.13.3.0+sim.dist-info", wrong)
    (wrong / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-neuronx\nVersion: 2.14.3.0\n")
    try:
        path = neuroncore.environment()["PYTHONPATH"]
    except neuroncore.UnavailableError as reason:
        pytest.skip(str(reason))
    spoilt = {"NEURON_RT_INSPECT_ENABLE": "1", "NEURON_LAUNCH_BLOCKING": "1"}
    spoilt["PYTHONPATH"] = os.pathsep.join([str(wrong.parent), path])
    ran = checked(on_core(cwd=tmp_path, module="harness.doctor", **spoilt), 1)
    found = lines(ran, "UNFIT")
    assert [line.split(":")[0] for line in found] == [
        "NEURON_RT_INSPECT_ENABLE=1",
        "NEURON_LAUNCH_BLOCKING=1",
        "torch-neuronx 2.14.3.0 beside torch " + found[2].partition("beside torch ")[2].partition(":")[0],
    ]
    assert [line.split(" ")[0] for line in lines(ran, "warn")] == ["neuron-ls", "neuron-explorer"]


@pytest.mark.slow
def test_the_stub_is_named_even_if_another_device_is_taken(tmp_path: Path) -> None:
    stub = neuroncore.stub_environment()
    ran = checked(of_package(stub, cwd=tmp_path, module="harness.doctor"), 0)
    assert "cpu is here, and device=auto takes it" in lines(ran, "ok")
    assert any("torch-neuronx 1.0 from PyPI is a stub (WRONG PACKAGE)" in line for line in lines(ran, "warn"))
    ran = checked(of_package(stub, "device=neuron", cwd=tmp_path, module="harness.doctor"), 1)
    assert "WRONG PACKAGE" in lines(ran, "UNFIT")[0]


@pytest.mark.slow
def test_the_older_package_is_distinguished_from_the_stub(tmp_path: Path) -> None:
    ran = checked(of_package(neuroncore.xla_environment(), "device=neuron", cwd=tmp_path, module="harness.doctor"), 1)
    (finding,) = lines(ran, "UNFIT")
    assert "torch-neuronx 2.9.0.2.11.0 is the older XLA package" in finding
    assert "install torch-neuronx 2.13 or later from AWS's own package index" in finding


@pytest.mark.slow
def test_the_cpu_and_a_compiler_that_is_switched_off(tmp_path: Path) -> None:
    spoilt = {"TORCH_COMPILE_DISABLE": "1", "CXX": "/bin/false"}
    ran = checked(run("device=cpu", cwd=tmp_path, module="harness.doctor", **spoilt), 1)
    assert [line.split(":")[0] for line in lines(ran, "UNFIT")] == ["TORCH_COMPILE_DISABLE=1"]
    assert any("the profiler reports operators" in line for line in lines(ran, "ok"))
    assert any(line.startswith("neuron is not here: no package torch_neuronx") for line in lines(ran, "-"))
    (missing,) = lines(ran, "warn")
    assert missing.startswith("/bin/false does not run: a compiled variant fails without a C++ compiler; ")


@pytest.mark.parametrize(
    ("argument", "key", "valid"),
    [
        ("device=tpu", "device=tpu", "auto, cpu, cuda, neuron"),
        ("devise=cpu", "devise", "device"),
        ("neuron.modes=[X]", "neuron.modes=X", "DEVICE"),
        ("cpu", "cpu", "key=value"),
        ("--device=cpu", "--device=cpu", "--help"),
    ],
)
def test_a_wrong_argument_is_reported_in_one_line(
    argument: str, key: str, valid: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor.main([argument]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert key in line
    assert valid in line


def test_help_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        doctor.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "device=NAME" in shown
    assert "--config-dir" in shown


def test_variables_count_where_they_are_on_and_their_device_is_measured() -> None:
    cpu, cuda, neuron = (device(name, library()) for name in ("cpu", "cuda", "neuron"))
    shell = {"CUDA_LAUNCH_BLOCKING": "1", "NEURON_LAUNCH_BLOCKING": "0", "TORCHDYNAMO_DISABLE": "false"}
    assert [finding.seen for finding in cuda.preflight(shell)] == ["CUDA_LAUNCH_BLOCKING=1"]
    assert cpu.preflight(shell) == neuron.preflight(shell) == []
    (unloaded,) = neuron.preflight({"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert not unloaded.unfit


def test_a_graph_that_may_run_eagerly_on_neuron_is_refused() -> None:
    """By the variable, and by the option of torch.compile that overrides it: neither leaves a trace."""
    neuron = device("neuron", library())
    (switched,) = neuron.preflight({"TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION": "0"})
    assert switched.unfit
    assert "run eagerly under the compiled name" in switched.line
    assert neuron.preflight({"TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION": "1"}) == []
    options = {"plain": None, "default": {}, "off": {"options": {"fallback_execution": False}}}
    options["on"] = {"options": {"fallback_execution": True}}
    variants = [Variant(name, "variants.rmsnorm.naive", compile=given) for name, given in options.items()]
    (finding,) = neuron.preflight({}, variants)
    assert finding.unfit
    assert finding.seen == "op.variants.on.compile.options.fallback_execution=True"


def test_only_a_back_end_is_named_for_a_torch_that_does_not_import() -> None:
    assert preflight.unloadable(RuntimeError("out of memory")) is None
    try:
        raise RuntimeError("Failed to load the backend extension: torch_neuronx. You can disable") from ImportError(
            "x.so"
        )
    except RuntimeError as error:
        found = preflight.unloadable(error)
    assert found is not None
    assert found.line.startswith("torch_neuronx does not load, and torch with it: x.so; ")
