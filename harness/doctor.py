"""The doctor: which devices are here, and whether one is fit to be measured; `python -m harness.doctor device=neuron`.

It exits 0 if the device is fit, 1 if it is not, 2 if the command is at fault. Every run makes the checks that cost
nothing (Device.preflight); only the doctor opens the device and profiles an addition.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.configuration import compose
from harness.configuration.command_line import Parser, exit_status
from harness.configuration.devices import AUTO, DeviceConfigs, device_configs
from harness.configuration.errors import UsageError, one_line
from harness.configuration.settings import ProfileSettings
from harness.devices import candidates, device, ordered, preflight
from harness.execution.processes.environment import applied, worker_environment

if TYPE_CHECKING:
    from harness.devices.base import Device

OK, NONE, WARN, UNFIT = "ok", "-", "warn", "UNFIT"
Line = tuple[str, str]  # a mark, and what was seen: its likely cause; what to do

EXAMPLES = """\
examples:
  python -m harness.doctor
  python -m harness.doctor device=neuron

exit status: 0 the device is fit; 1 it is not; 2 the command is at fault
"""


@exit_status
def main(arguments: Sequence[str]) -> int:
    """Prints a line for each device and each finding; returns the exit status."""
    args = _parser().parse_args(arguments)
    plain = compose.composed(args.overrides, args.config_dir)
    configs = device_configs(plain)
    name = str(plain["device"])
    shell = applied(plain["worker"]["env"], os.environ)
    # so that torch is imported as a measuring process imports it
    environment = applied(worker_environment(plain["worker"]["env"], candidates(name, configs)), os.environ)
    os.environ.clear()
    os.environ.update(environment)
    fit = True
    for mark, text in examine(name, configs, shell):
        print(f"{mark:<7}{text}", flush=True)
        fit = fit and mark != UNFIT
    print(f"device={name} is {'fit' if fit else 'not fit'} to be measured")
    return int(not fit)


def examine(name: str, configs: DeviceConfigs, shell: Mapping[str, str]) -> Iterator[Line]:
    """Lines about the device called `name`, or the one that `auto` takes; `shell` holds the variables of the user."""
    try:
        import torch
    except Exception as error:
        fault = preflight.unloadable(error)
        yield UNFIT, fault.line if fault else f"torch does not import: {one_line(error)}; reinstall it"
        first = candidates(name, configs)[0]
        yield from _marked(preflight.variables(first.spoiling, shell))
        yield from _programs(first)
        return
    yield OK, f"Python {sys.version.split()[0]}, torch {torch.__version__}"
    absences = {known.name: known.absence() for known in ordered(configs)}
    automatic = name == AUTO
    chosen = device(next(known for known in absences if absences[known] is None) if automatic else name, configs)
    for known in ordered(configs):
        absence = absences[known.name]
        if absence is None:
            taken = automatic and known.name == chosen.name
            yield OK, f"{known.name} is here{', and device=auto takes it' if taken else ''}"
        elif known.name == chosen.name:
            yield UNFIT, f"{known.name} is not here: {absence}"
        else:
            in_vain = known.package is not None and known.installed()
            yield WARN if in_vain else NONE, f"{known.name} is not here: {absence}"
    if absences[chosen.name] is None:
        yield from _marked(chosen.preflight(shell))
        yield from _tried(chosen)
    else:
        yield from _marked(preflight.variables(chosen.spoiling, shell))
    yield from _programs(chosen)


def _marked(findings: Sequence[preflight.Finding]) -> Iterator[Line]:
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
    settings = ProfileSettings(wait=0, warmup=1, active=1)
    with tempfile.TemporaryDirectory() as scratch, _without_kineto_lines():
        folder = Path(scratch) / "traces"
        folder.mkdir()
        _ = tensor + tensor  # the first execution compiles and loads
        device.synchronize()
        recorded = record(lambda: tensor + tensor, device, settings, folder, 1, grad=False, seen=lambda: None)
        capture = device.artefacts(folder, folder.parent, "doctor")
    profile = recorded.profile
    if profile.device_time_us is not None:
        yield OK, f"the profiler reports device time: {profile.device_time_us:.4g} µs for one addition"
    elif not device.accelerator:
        yield OK, f"the profiler reports operators: {profile.self_cpu_us:.4g} µs of the CPU for one addition"
    else:
        yield UNFIT, f"the profile of one addition has no device time: {device.missing_time()}"
    if capture is not None:
        yield from ((UNFIT if capture.empty else WARN, problem) for problem in capture.problems)


def _programs(device: Device) -> Iterator[Line]:
    for tool in device.tools():
        missing = tool.missing()
        yield (OK, f"{tool.program} is here") if missing is None else (WARN, f"{missing}: {tool.loss}; {tool.remedy}")


def _parser() -> Parser:
    parser = Parser("doctor", "Reports which devices are here, and whether one is fit to be measured.", EXAMPLES)
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="as for a run; most of all device=NAME, whose default is auto: the first that is here",
    )
    parser.add_config_dir()
    return parser


@contextlib.contextmanager
def _without_kineto_lines() -> Iterator[None]:
    """Discards what Kineto prints at each profile, past Python's own stderr."""
    stderr = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
