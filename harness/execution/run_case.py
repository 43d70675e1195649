"""Runs a case: holds its device, measures it in processes of its own, and leaves its results."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.configuration.operation import Case
from harness.configuration.settings import Settings
from harness.devices import neuron_artefacts, neuron_explorer
from harness.execution import lock, peaks
from harness.execution.sampling import Progress, Sampling
from harness.measure.trace import folder_name
from harness.results import folder as results
from harness.results import roofline, statistics
from harness.results.folder import Document
from harness.results.measurement import DEGRADED, FAILED, OK, Outcome


def run_case(
    case: Case,
    settings: Settings,
    config: Mapping[str, Any],
    command: str,
    folder: Path,
    progress: AbstractContextManager[Progress],
    write_report: Callable[[Path, Document], None],
    report_modules: Sequence[str] = (),
) -> Document:
    """Measures a case while nothing else uses its device, and keeps its results; returns what is in results.json.

    `config` is the resolved configuration in plain values, as the results hold it, and `command` what makes them again.
    `write_report` writes the files that people read into `folder`; the modules that it needs are imported on another
    core while the first measuring process starts. Raises UsageError and CaseError as `measure` does, and OSError where
    a file cannot be written.
    """
    threading.Thread(target=_import, args=(["scipy.stats", *report_modules],), daemon=True).start()
    with lock.hold(case.device, config["lock"], str(folder)):
        with progress as show:
            outcome = measure(case, settings, folder, show)
        document = results.document(case, config, command, outcome)
        try:
            write_report(folder, document)  # within the lock: drawing would disturb the next run
        finally:
            results.write(folder, document)  # whatever happened to the charts, what was measured is kept
    return document


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)


def measure(case: Case, settings: Settings, folder: Path, progress: Progress) -> Outcome:
    """Measures all variants of a case in processes of their own; traces and the log go into `folder`.

    Raises UsageError for what is the command's or the operation's fault, CaseError where no process can measure.
    """
    sampling = Sampling(case, settings, folder, progress)
    stopped = sampling.run()
    if sampling.device.get("device") == "neuron":
        _summarize_artefacts(case, settings, folder, progress, sampling)
    if sampling.work is not None:
        _compare_with_peaks(case, settings, folder, progress, sampling)
    return Outcome(
        measurements=list(sampling.rows.values()),
        samples=sampling.samples,
        device=sampling.device,
        environment=sampling.environment,
        work=sampling.work,
        stopped=stopped,
        warnings=list(dict.fromkeys(sampling.warnings)),
    )


def _compare_with_peaks(case: Case, settings: Settings, folder: Path, progress: Progress, sampling: Sampling) -> None:
    """Adds the device's peaks to its description, and warns of what is faster than they allow."""
    device, work, cpu = sampling.device, sampling.work or {}, sampling.device["device"] == "cpu"
    known = roofline.documented(settings.roofline, device, case.dtype)
    found = roofline.given(settings.roofline, known)
    if found is None and cpu:
        progress("peaks of the processor")
        log = folder / "worker.log"
        known = peaks.measured(case.dtype, sampling.environment, settings.worker, log, settings.roofline.measure)
        found = roofline.given(settings.roofline, known)
    if found is None:
        return
    device["peaks"] = found
    bound = roofline.bound(work, found)
    cached = cpu and settings.latency.cache == "warm"
    seconds = sampling.seconds()
    for name, row in sampling.rows.items():
        groups = [group for group in seconds[name] if len(group)]
        if row.status not in (OK, DEGRADED) or row.no_op or not groups:
            continue
        share = bound.seconds / statistics.interval(groups, settings.latency.confidence).value
        if share > 1:
            sampling.warnings.append(roofline.doubt(name, share, bound, cached))


def _summarize_artefacts(case: Case, settings: Settings, folder: Path, progress: Progress, sampling: Sampling) -> None:
    """Lists what Neuron's profiler left of each variant, and has neuron-explorer summarize it."""
    neuron, explore = settings.neuron, True
    title = f"{case.operation.name}-{folder.name}"  # Neuron Explorer takes a name once
    for name, row in sampling.rows.items():
        if row.profile is None:
            continue
        progress(f"{name}: neuron-explorer")
        traces = folder / "traces" / folder_name(name)
        found = neuron_artefacts.inventory(traces, folder, neuron.modes, f"{title}-{name}")
        row.capture = asdict(found)
        if found.empty:
            row.escalate(FAILED, found.troubles[0])
            continue
        for trouble in found.troubles:
            row.note(trouble)
        if explore and found.decodable:
            summary = neuron_explorer.summarize(traces, neuron.explorer_timeout_s)
            row.engines, explore = summary.metrics or None, not summary.timed_out
            if summary.trouble is not None:
                sampling.warnings.append(f"engine activity is not known: {summary.trouble}")
