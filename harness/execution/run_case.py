"""Runs a case: holds its device, measures it in processes of its own, and leaves its results."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness import devices
from harness.configuration.operation import Case
from harness.configuration.settings import Settings
from harness.devices.base import Device
from harness.execution import lock, peaks
from harness.execution.sampling import Progress, Sampling
from harness.measure.trace import folder_name
from harness.results import roofline, statistics, storage
from harness.results.comparison import Comparison
from harness.results.measurement import DEGRADED, FAILED, OK, Outcome


def run_case(
    case: Case,
    settings: Settings,
    config: Mapping[str, Any],
    command: str,
    folder: Path,
    progress: AbstractContextManager[Progress],
    write_report: Callable[[Path, Comparison], None],
    report_modules: Sequence[str] = (),
) -> Comparison:
    """Measures a case while nothing else uses its device, writes its results, and returns the comparison.

    `config` is the resolved configuration in plain values, as the results hold it, and `command` the command that
    repeats the run. `write_report` writes the files that people read into `folder`; the modules that it needs,
    `report_modules`, are imported on another core while the first measuring process starts. Raises UsageError and
    CaseError as `measure` does, and OSError if a file cannot be written.
    """
    threading.Thread(target=_import, args=(["scipy.stats", *report_modules],), daemon=True).start()
    candidates = devices.candidates(case.device, settings.devices)
    scopes = {scope for device in candidates for scope in device.scopes()}
    why = next((device.alone for device in candidates if device.alone), "")
    with lock.hold(scopes, settings.lock, f"device={case.device}, {folder}", why):
        with progress as show:
            outcome = measure(case, settings, folder, show)
        comparison = Comparison(storage.document(case, config, command, outcome))
        try:
            write_report(folder, comparison)  # within the lock: drawing would slow the next run
        finally:
            storage.write(folder, comparison.document)  # even if the report fails, the results are kept
    return comparison


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)


def measure(case: Case, settings: Settings, folder: Path, progress: Progress) -> Outcome:
    """Measures all variants of a case in processes of their own; traces and the log go into `folder`.

    Raises UsageError for what is the command's or the operation's fault, CaseError if no process can measure.
    """
    sampling = Sampling(case, settings, folder, progress)
    stopped = sampling.run()
    if sampling.device:
        device = devices.device(sampling.device["device"], settings.devices)
        _list_artefacts(case, device, folder, progress, sampling)
        if sampling.work is not None:
            _compare_with_peaks(case, device, settings, folder, progress, sampling)
    return Outcome(
        measurements=list(sampling.rows.values()),
        samples=sampling.samples,
        device=sampling.device,
        environment=sampling.environment,
        device_samples=sampling.device_samples,
        work=sampling.work,
        stopped=stopped,
        warnings=list(dict.fromkeys(sampling.warnings)),
    )


def _compare_with_peaks(
    case: Case, device: Device, settings: Settings, folder: Path, progress: Progress, sampling: Sampling
) -> None:
    """Adds the device's peaks to its description, and warns of variants that are faster than they allow."""
    documented = device.documented_peaks(settings.roofline, sampling.device, case.dtype)
    limits = roofline.combined(settings.roofline, documented)
    if limits is None and device.measures_peaks:
        progress(f"peaks of {device.name}")
        log = folder / "worker.log"
        remeasure = settings.roofline.measure
        measured = peaks.measured(device, case.dtype, sampling.environment, settings.worker, log, remeasure)
        limits = roofline.combined(settings.roofline, measured)
    if limits is None:
        return
    sampling.device["peaks"] = limits
    bound = roofline.bound(sampling.work or {}, limits)
    cached = not device.accelerator and settings.latency.cache == "warm"
    seconds = sampling.seconds()
    for name, row in sampling.rows.items():
        groups = [group for group in seconds[name] if len(group)]
        if row.status not in (OK, DEGRADED) or row.no_op or not groups:
            continue
        share = bound.seconds / statistics.interval(groups, settings.latency.confidence).value
        if share > 1:
            sampling.warnings.append(roofline.faster_than_bound(name, share, bound, cached))


def _list_artefacts(case: Case, device: Device, folder: Path, progress: Progress, sampling: Sampling) -> None:
    """Lists the files of the device's profiler for each variant, and has the device's tools summarize them."""
    title = f"{case.operation.name}-{folder.name}"  # Neuron Explorer takes a name once
    for name, row in sampling.rows.items():
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
            sampling.warnings += summary.problems
            for note in summary.notes:
                row.note(note)
