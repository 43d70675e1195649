"""Measuring: everything that is measured of a case, and what follows from it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from harness import devices
from harness.configuration.operation import Case
from harness.configuration.settings import Settings
from harness.devices.base import Device
from harness.execution import peaks
from harness.execution.collected import Progress, SuspectsError
from harness.execution.sampling import Sampling
from harness.measure.trace import folder_name
from harness.results import roofline, statistics
from harness.results.measurement import DEGRADED, FAILED, OK, Outcome


def measure(case: Case, settings: Settings, folder: Path, progress: Progress) -> Outcome:
    """Measures all variants of a case in processes of their own; traces and the log go into `folder`.

    `settings` hold the settings of its processes as `environment.compiling` gives them. Raises UsageError for what is
    the command's or the operation's fault, CaseError if no process can measure.
    """
    sampling, stopped = _sampled(case, settings, folder, progress)
    if sampling.seen.device:
        device = devices.device(sampling.seen.device["device"], settings.devices)
        _list_artefacts(case, device, folder, progress, sampling)
        if sampling.seen.work is not None:
            _compare_with_peaks(case, device, settings, folder, progress, sampling)
    return Outcome(
        measurements=list(sampling.seen.rows.values()),
        samples=sampling.seen.samples,
        device=sampling.seen.device,
        environment=sampling.seen.environments.get(0, {}),
        environments=sampling.seen.described(),
        device_samples=sampling.seen.device_samples,
        machine=asdict(sampling.machine),
        work=sampling.seen.work,
        stopped=stopped,
        warnings=list(dict.fromkeys(sampling.seen.warnings)),
    )


def _sampled(case: Case, settings: Settings, folder: Path, progress: Progress) -> tuple[Sampling, str]:
    """A case's sampling, and why it stopped.

    If a variant has harmed others of its process it is done again, with those that it may have been apart: each can
    then harm but itself, and shows it.
    """
    warnings: list[str] = []
    while True:
        sampling = Sampling(case, settings, folder, progress)
        sampling.seen.warnings += warnings
        try:
            return sampling, sampling.run()
        except SuspectsError as error:
            again = f"measured again, with {', '.join(error.names)} in processes that they share with nobody"
            progress(again)
            warnings.append(f"{again}: {error}")
            case = case.apart(error.names)


def _compare_with_peaks(
    case: Case, device: Device, settings: Settings, folder: Path, progress: Progress, sampling: Sampling
) -> None:
    """Adds the device's peaks to its description, and warns of variants that are faster than they allow."""
    documented = device.documented_peaks(settings.roofline, sampling.seen.device, case.dtype)
    limits = roofline.combined(settings.roofline, documented)
    if limits is None and device.measures_peaks:
        progress(f"peaks of {device.name}")
        log = folder / "worker.log"
        remeasure = settings.roofline.measure
        measured = peaks.measured(
            device, case.dtype, sampling.seen.environments.get(0, {}), settings.worker, log, remeasure
        )
        limits = roofline.combined(settings.roofline, measured)
    if limits is None:
        return
    sampling.seen.device["peaks"] = limits
    bound = roofline.bound(sampling.seen.work or {}, limits)
    cached = not device.accelerator and settings.latency.cache == "warm"
    samples = sampling.latencies()
    for name, row in sampling.seen.rows.items():
        groups = [group for group in samples.of(name) if len(group)]
        if row.status not in (OK, DEGRADED) or row.no_op or not groups:
            continue
        share = bound.seconds / statistics.interval(groups, settings.latency.confidence).value
        if share > 1:
            sampling.seen.warnings.append(roofline.faster_than_bound(name, share, bound, cached))


def _list_artefacts(case: Case, device: Device, folder: Path, progress: Progress, sampling: Sampling) -> None:
    """Lists the files of the device's profiler for each variant, and has the device's tools summarize them."""
    title = f"{case.operation.name}-{folder.name}"  # Neuron Explorer takes a name once
    for name, row in sampling.seen.rows.items():
        if row.profile is None:
            continue
        traces = folder / "traces" / folder_name(name)
        capture = device.artefacts(traces, folder, f"{title}-{name}")
        if capture is None:
            continue
        row.capture = asdict(capture)
        if capture.empty:
            row.escalate(FAILED, capture.problems[0])
            continue
        for problem in capture.problems:
            row.note(problem)
        if capture.decodable:
            progress(f"{name}: what the profiler left")
            summary = device.summarize(traces)
            row.engines = summary.metrics or None
            sampling.seen.warnings += summary.problems
            for note in summary.notes:
                row.note(note)
