"""The doctor: which devices are here, and whether one is fit to be measured; `python -m harness.doctor device=neuron`.

It exits 0 where the device is fit, 1 where it is not, 2 where the command is at fault. What costs nothing to know a run
checks as well (harness.devices.preflight), and refuses; what has to be tried is tried here alone.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.configuration.command_line import exit_status
from harness.configuration.errors import UsageError, one_line, unknown
from harness.configuration.schema import DEVICES
from harness.configuration.settings import NeuronSettings, ProfileSettings
from harness.devices import neuron_artefacts as capture
from harness.devices import neuron_explorer as explorer
from harness.devices import preflight as fitness
from harness.execution.environment import applied, worker_environment

if TYPE_CHECKING:
    from harness.devices.base import Device

USAGE = f"usage: python -m harness.doctor [device={'|'.join(DEVICES)}]"
OK, NONE, WARN, UNFIT = "ok", "-", "warn", "UNFIT"
Line = tuple[str, str]  # a mark, and what was seen: its likely cause; what to do

TOOLS = {
    "neuron-ls": "which cores there are, and who holds them, cannot be listed",
    explorer.PROGRAM: "engine activity stays out of the tables, and captures cannot be viewed here",
}


@exit_status
def main(arguments: Sequence[str]) -> int:
    """Prints a line for each device and each finding; returns the exit status."""
    if {"-h", "--help"} & set(arguments):
        print(USAGE)
        return 0
    asked = _asked(arguments)
    shell = dict(os.environ)
    # So that torch is imported as a measuring process imports it
    os.environ.update(applied(worker_environment({}, asked), {}))
    fit = True
    for mark, text in examine(asked, shell):
        print(f"{mark:<7}{text}", flush=True)
        fit = fit and mark != UNFIT
    print(f"device={asked} is {'fit' if fit else 'not fit'} to be measured")
    return int(not fit)


def examine(asked: str, shell: Mapping[str, str]) -> Iterator[Line]:
    """What is found about the device asked for; `shell` is the user's own environment."""
    try:
        import torch
    except Exception as error:
        fault = fitness.unloadable(error)
        yield UNFIT, fault.line if fault else f"torch does not import: {one_line(error)}; install it anew"
        yield from _marked(fitness.variables(asked, shell))
        yield from _programs(asked)
        return
    from harness import devices

    yield OK, f"Python {sys.version.split()[0]}, torch {torch.__version__}"
    absences = {name: devices.device(name).absence() for name in devices.ORDER}
    chosen = asked if asked != "auto" else next(name for name in devices.ORDER if absences[name] is None)
    for name, absence in absences.items():
        if absence is None:
            yield OK, f"{name} is here{', and device=auto takes it' if asked == 'auto' and name == chosen else ''}"
        else:
            mismatched = name == "neuron" and importlib.util.find_spec("torch_neuronx") is not None
            yield UNFIT if name == chosen else WARN if mismatched else NONE, f"{name} is not here: {absence}"
    if absences[chosen] is None:
        yield from _marked(fitness.findings(chosen, shell))
        yield from _tried(devices.device(chosen))
    else:
        yield from _marked(fitness.variables(chosen, shell))
    yield from _programs(chosen)


def _marked(findings: Sequence[fitness.Finding]) -> Iterator[Line]:
    for finding in findings:
        yield UNFIT if finding.unfit else WARN, finding.line


def _tried(device: Device) -> Iterator[Line]:
    """Opens the device and profiles one addition on it."""
    try:
        device.open()
    except UsageError as error:
        yield UNFIT, str(error)
        return
    facts = ", ".join(f"{key} {value}" for key, value in device.describe().items() if value is not None)
    yield OK, f"{device.name} opens: {facts}"
    try:
        yield from _profiled(device)
    except Exception as error:
        what = f"{type(error).__name__}: {one_line(error)}"
        yield UNFIT, f"profiling one addition failed: {what}; see that no other profiler runs and that memory is free"
    yield from ((WARN, limit) for limit in device.limits())


def _profiled(device: Device) -> Iterator[Line]:
    import torch

    from harness.measure.profile import record

    tensor = torch.ones(1024, device=device.torch_device())
    settings, neuron = ProfileSettings(wait=0, warmup=1, active=1), NeuronSettings()
    with tempfile.TemporaryDirectory() as scratch, _without_kineto_lines():
        folder = Path(scratch) / "traces"
        folder.mkdir()
        _ = tensor + tensor  # the first execution compiles and loads
        device.synchronize()
        profile = record(lambda: tensor + tensor, device, settings, neuron, folder, 1, grad=False)
        found = capture.inventory(folder, folder.parent, neuron.modes, "doctor")
    if profile.device_time_us is not None:
        yield OK, f"the profiler tells device time: {profile.device_time_us:.4g} µs for one addition"
    elif not device.accelerator:
        yield OK, f"the profiler tells operators: {profile.self_cpu_us:.4g} µs of the CPU for one addition"
    else:
        yield UNFIT, f"the profile of one addition has no device time: {device.missing_time()}"
    if device.name == "neuron":
        yield from ((UNFIT if found.empty else WARN, trouble) for trouble in found.troubles)


def _programs(device: str) -> Iterator[Line]:
    compiler = os.environ.get("CXX", "g++")
    if _runs(compiler):
        yield OK, f"a C++ compiler is here: {compiler}"
    else:
        yield (
            WARN,
            (
                f"no C++ compiler: {compiler} does not run, and on cpu and cuda a compiled variant fails without one; "
                "install g++, or name another by CXX"
            ),
        )
    for program, loss in TOOLS.items() if device == "neuron" else ():
        if shutil.which(program):
            yield OK, f"{program} is here"
        else:
            remedy = "install aws-neuronx-tools, and put /opt/aws/neuron/bin on the PATH"
            yield WARN, f"{program} is not on the PATH: {loss}; {remedy}"


def _asked(arguments: Sequence[str]) -> str:
    asked = "auto"
    for argument in arguments:
        key, _, asked = argument.partition("=")
        if key != "device":
            raise UsageError(f"{argument}: not an argument of the doctor; {USAGE}")
        if asked not in DEVICES:
            raise unknown("device", asked, DEVICES)
    return asked


def _runs(program: str) -> bool:
    try:
        done = subprocess.run([*program.split(), "--version"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@contextlib.contextmanager
def _without_kineto_lines() -> Iterator[None]:
    """Keeps what Kineto prints at each profile, past Python's own stderr, out of the report."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
