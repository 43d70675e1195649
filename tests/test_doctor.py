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
from harness.devices import preflight as fitness


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
    assert "the profiler tells device time: 391.4 µs for one addition" in good
    assert "neuron-explorer is here" in good
    assert lines(ran, "UNFIT") == []
    assert "USDT" not in ran.err


def test_a_profiler_without_its_plug_in_is_found_by_trying_it(tmp_path: Path) -> None:
    ran = checked(on_core(cwd=tmp_path, module="harness.doctor", profiler=False), 1)
    (finding,) = lines(ran, "UNFIT")
    assert "no device time: the profiler plug-in is not registered" in finding


def test_a_capture_that_fails_is_found_by_trying_it(tmp_path: Path) -> None:
    ran = checked(on_core(cwd=tmp_path, module="harness.doctor", capture="empty_folder"), 1)
    assert lines(ran, "UNFIT")[0].startswith("empty capture: ")


def test_a_core_that_is_held_is_told_from_a_package_that_fails(tmp_path: Path) -> None:
    (held,) = lines(checked(on_core(cwd=tmp_path, module="harness.doctor", busy=True), 1), "UNFIT")
    assert "in use by another process" in held
    assert "neuron-ls shows which process holds a core" in held
    (fails,) = lines(checked(on_core(cwd=tmp_path, module="harness.doctor", broken=True), 1), "UNFIT")
    assert "torch_neuronx does not load, and torch with it: libnrt.so.1" in fails


def test_what_spoils_a_measurement_is_named(tmp_path: Path) -> None:
    """Another torch-neuronx than torch's own, two variables, and a compiler that does not run."""
    wrong = tmp_path / "wrong" / "torch_neuronx-2.14.3.0.dist-info"
    shutil.copytree(neuroncore.SITE / "torch_neuronx-2.13.3.0+sim.dist-info", wrong)
    (wrong / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-neuronx\nVersion: 2.14.3.0\n")
    try:
        path = neuroncore.environment()["PYTHONPATH"]
    except neuroncore.UnavailableError as reason:
        pytest.skip(str(reason))
    spoilt = {"NEURON_RT_INSPECT_ENABLE": "1", "NEURON_LAUNCH_BLOCKING": "1", "CXX": "/bin/false"}
    spoilt["PYTHONPATH"] = os.pathsep.join([str(wrong.parent), path])
    ran = checked(on_core(cwd=tmp_path, module="harness.doctor", **spoilt), 1)
    found = lines(ran, "UNFIT")
    assert [line.split(":")[0] for line in found] == [
        "NEURON_RT_INSPECT_ENABLE=1",
        "NEURON_LAUNCH_BLOCKING=1",
        "torch-neuronx 2.14.3.0 beside torch " + found[2].partition("beside torch ")[2].partition(":")[0],
    ]
    assert "/bin/false does not run" in "\n".join(lines(ran, "warn"))


def test_the_stub_is_named_even_where_another_device_is_taken(tmp_path: Path) -> None:
    stub = neuroncore.stub_environment()
    ran = checked(of_package(stub, cwd=tmp_path, module="harness.doctor"), 0)
    assert "cpu is here, and device=auto takes it" in lines(ran, "ok")
    assert any("torch-neuronx 1.0 from PyPI is a stub (WRONG PACKAGE)" in line for line in lines(ran, "warn"))
    ran = checked(of_package(stub, "device=neuron", cwd=tmp_path, module="harness.doctor"), 1)
    assert "WRONG PACKAGE" in lines(ran, "UNFIT")[0]


def test_the_older_package_is_told_from_the_stub(tmp_path: Path) -> None:
    ran = checked(of_package(neuroncore.xla_environment(), "device=neuron", cwd=tmp_path, module="harness.doctor"), 1)
    (finding,) = lines(ran, "UNFIT")
    assert "torch-neuronx 2.9.0.2.11.0 is the older XLA package" in finding
    assert "install torch-neuronx 2.13 or later from AWS's own package index" in finding


def test_the_cpu_and_a_compiler_that_is_switched_off(tmp_path: Path) -> None:
    ran = checked(run("device=cpu", cwd=tmp_path, module="harness.doctor", TORCH_COMPILE_DISABLE="1"), 1)
    assert [line.split(":")[0] for line in lines(ran, "UNFIT")] == ["TORCH_COMPILE_DISABLE=1"]
    assert any("the profiler tells operators" in line for line in lines(ran, "ok"))
    assert any(line.startswith("neuron is not here: no package torch_neuronx") for line in lines(ran, "-"))


@pytest.mark.parametrize("argument", ["device=tpu", "devise=cpu", "cpu"])
def test_a_wrong_argument_is_told_in_one_line(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main([argument]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert argument in line
    assert "neuron" in line


def test_help_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--help"]) == 0
    assert "device=auto|neuron|cuda|cpu" in capsys.readouterr().out


def test_variables_count_where_they_are_on_and_their_device_is_measured() -> None:
    shell = {"CUDA_LAUNCH_BLOCKING": "1", "NEURON_LAUNCH_BLOCKING": "0", "TORCHDYNAMO_DISABLE": "false"}
    assert [finding.seen for finding in fitness.variables("cuda", shell)] == ["CUDA_LAUNCH_BLOCKING=1"]
    assert fitness.variables("cpu", shell) == fitness.variables("neuron", shell) == []
    (unloaded,) = fitness.variables("neuron", {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert not unloaded.unfit


def test_only_a_back_end_is_whose_turn_for_a_torch_that_does_not_import() -> None:
    assert fitness.unloadable(RuntimeError("out of memory")) is None
    try:
        raise RuntimeError("Failed to load the backend extension: torch_neuronx. You can disable") from ImportError(
            "x.so"
        )
    except RuntimeError as error:
        found = fitness.unloadable(error)
    assert found is not None
    assert found.line.startswith("torch_neuronx does not load, and torch with it: x.so; ")
