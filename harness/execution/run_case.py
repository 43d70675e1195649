"""Runs a case: starts measuring processes, blames what dies, and gathers an Outcome."""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration.errors import CaseError, UsageError
from harness.configuration.operation import Case
from harness.configuration.schema import Settings
from harness.devices import neuron_artefacts as capture
from harness.devices import neuron_explorer as explorer
from harness.devices import preflight as fitness
from harness.execution import lock, peaks
from harness.execution.process import Process, Task
from harness.measure.trace import folder_name
from harness.results import roofline, statistics, storage
from harness.results.comparison import Comparison
from harness.results.measurement import CONTROL, DEGRADED, FAILED, OK, SKIPPED, WRONG, Measurement, Outcome

Progress = Callable[[str], None]


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
    """Measures a case while nothing else uses its device, and keeps its results in results.json.

    `config` is the resolved configuration in plain values, as the results hold it, and `command` what makes them again.
    `write_report` writes the files that people read into `folder`; the modules that it needs are imported on another
    core while the first measuring process starts. Raises UsageError and CaseError as `measure` does, and OSError where
    a file cannot be written.
    """
    threading.Thread(target=_import, args=(["scipy.stats", *report_modules],), daemon=True).start()
    with lock.hold(case.device, config["lock"], str(folder)):
        with progress as tell:
            outcome = measure(case, settings, folder, tell)
        comparison = Comparison(storage.document(case, config, command, outcome))
        try:
            write_report(folder, comparison)  # within the lock: drawing would disturb the next run
        finally:
            storage.write(folder, comparison.document)  # whatever happened to the charts, what was measured is kept
    return comparison


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)


def measure(case: Case, settings: Settings, folder: Path, progress: Progress) -> Outcome:
    """Measures all variants of a case in processes of their own; traces and the log go into `folder`.

    Raises UsageError for what is the command's or the operation's fault, CaseError where no process can measure.
    """
    return _Run(case, settings, folder, progress).outcome()


@dataclass
class _Run:
    case: Case
    settings: Settings
    folder: Path
    progress: Progress
    rows: dict[str, Measurement] = field(default_factory=dict)
    samples: list[list[Any]] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    started: int = 0

    def outcome(self) -> Outcome:
        self.rows = {variant.name: Measurement(variant.name) for variant in self.case.operation.variants}
        stopped = self._sample()
        if self.told.get("device", {}).get("device") == "neuron":
            self._captures()
        if self.told.get("work") is not None:
            self._hold_against_peaks(self.told["device"], self.told["work"])
        return Outcome(
            measurements=list(self.rows.values()),
            samples=self.samples,
            device=self.told.get("device", {}),
            environment=self.told.get("environment", {}),
            work=self.told.get("work"),
            stopped=stopped,
            warnings=list(dict.fromkeys(self.troubles)),
        )

    def _sample(self) -> str:
        """Processes until every ratio is known well enough, or time is up; says why it stopped."""
        latency, complete, begun = self.settings.latency, 0, time.monotonic()
        rule = statistics.StoppingRule(
            latency.processes, latency.max_processes, latency.seconds, latency.precision, latency.confidence
        )
        while True:
            alive = [name for name, row in self.rows.items() if row.status not in (FAILED, SKIPPED)]
            if not alive:
                return "nothing left to time"
            full_pass = complete == 0
            if self._process(alive, full_pass, seconds=latency.seconds / latency.max_processes):
                complete += 1
            if full_pass:
                begun = time.monotonic()  # what the first process does besides is not sampling
            reason = rule.reason(self._ratios(), complete, time.monotonic() - begun)
            if reason is not None:
                return reason

    def _ratios(self) -> list[list[Any]]:
        """The ratios, by process, of every variant that can be ranked."""
        seconds, baseline = self._seconds(), self.case.baseline.name
        ranked = [
            name
            for name, row in self.rows.items()
            if name != baseline and row.status == OK and row.comparable and not row.no_op
        ]
        return [statistics.paired(seconds[baseline], seconds[name]) for name in ranked]

    def _seconds(self) -> dict[str, list[Any]]:
        """Each variant's samples by process, without the disturbed rounds."""
        return statistics.without_noisy_rounds(statistics.by_process(self.samples, [*self.rows, CONTROL]), CONTROL)

    def _process(self, names: list[str], full_pass: bool, seconds: float) -> bool:
        """One process; False where it died and its variants have to be measured by another."""
        worker, log = self.settings.worker, self.folder / "worker.log"
        task = Task(self.case, self.settings, tuple(names), self.started, full_pass, seconds, self.folder / "traces")
        process = Process(
            "harness.execution.worker:run",
            task,
            [*names, CONTROL],
            self.case.device,
            worker.env,
            log,
            worker.timeout_s,
            self._preload(),
        )
        self.started += 1
        try:
            return self._listen(process, names)
        finally:
            process.end()

    def _preload(self) -> list[str]:
        """What a compile needs takes longer to import than all else."""
        compiles = any(variant.compile is not None for variant in self.case.operation.variants)
        return ["harness.execution.worker", "harness.execution.preload"] if compiles else ["harness.execution.worker"]

    def _listen(self, process: Process, names: list[str]) -> bool:
        for kind, variant, payload in process.messages():
            if kind == "done":
                return True
            if kind == "usage":
                raise UsageError(payload)
            if kind == "broken":
                raise CaseError(f"{payload}; see {self.folder / 'worker.log'}")
            if kind == "died":
                self._died(variant, payload)
                return False
            self._take(kind, variant, payload)
        raise AssertionError("a process ends with done or died")

    def _died(self, variant: str, how: str) -> None:
        if not variant:
            raise CaseError(f"the measuring process {how}; see {self.folder / 'worker.log'}")
        name = self.case.baseline.name if variant == CONTROL else variant
        self.rows[name].escalate(FAILED, how)

    def _take(self, kind: str, variant: str, payload: Any) -> None:
        if kind == "device" and kind not in self.told:
            self._admit(payload["device"])
        if kind in ("device", "environment", "work"):
            self.told.setdefault(kind, payload)
        elif kind == "step":
            self.progress(f"{variant}: {payload}" if payload != "prepare" else variant)
        elif kind == "samples":
            self.samples += [[name, self.started - 1, *rest] for name, *rest in payload]
        elif kind == "troubles":
            self.troubles += payload
        else:
            take(self.rows[variant], kind, payload)

    def _admit(self, device: str) -> None:
        """Refuses a device that what is known without trying it makes unfit, unless told to go on."""
        for finding in fitness.findings(device, {**os.environ, **self.settings.worker.env}):
            if finding.unfit and self.settings.doctor == "refuse":
                raise UsageError(f"device={device}: {finding.line}; doctor=warn measures all the same")
            self.troubles.append(finding.line)

    def _hold_against_peaks(self, device: dict[str, Any], work: dict[str, float]) -> None:
        """Finds the device's peaks, and doubts what is faster than they allow."""
        settings, dtype = self.settings.roofline, self.case.dtype
        known = roofline.documented(settings, device, dtype)
        found = roofline.given(settings, known)
        if found is None and device["device"] == "cpu":
            self.progress("peaks of the processor")
            log = self.folder / "worker.log"
            known = peaks.measured(dtype, self.told["environment"], self.settings.worker, log, settings.measure)
            found = roofline.given(settings, known)
        if found is None:
            return
        device["peaks"] = found
        bound, cached = roofline.bound(work, found), device["device"] == "cpu" and self.settings.latency.cache == "warm"
        seconds = self._seconds()
        for name, row in self.rows.items():
            groups = [group for group in seconds[name] if len(group)]
            if row.status not in (OK, DEGRADED) or row.no_op or not groups:
                continue
            share = bound.seconds / statistics.interval(groups, self.settings.latency.confidence).value
            if share > 1:
                self.troubles.append(roofline.doubt(name, share, bound, cached))

    def _captures(self) -> None:
        """Takes stock of what Neuron's profiler left of each variant, and lets neuron-explorer sum it up."""
        neuron, ask = self.settings.neuron, True
        title = f"{self.case.operation.name}-{self.folder.name}"  # Neuron Explorer takes a name once
        for name, row in self.rows.items():
            if row.profile is None:
                continue
            self.progress(f"{name}: neuron-explorer")
            folder = self.folder / "traces" / folder_name(name)
            found = capture.inventory(folder, self.folder, neuron.modes, f"{title}-{name}")
            row.capture = asdict(found)
            if found.empty:
                row.escalate(FAILED, found.troubles[0])
                continue
            for trouble in found.troubles:
                row.note(trouble)
            if ask and found.decodable:
                summary = explorer.summarize(folder, neuron.explorer_timeout_s)
                row.engines, ask = summary.metrics or None, not summary.timed_out
                if summary.trouble is not None:
                    self.troubles.append(f"engine activity is not known: {summary.trouble}")


def take(row: Measurement, kind: str, payload: Any) -> None:
    """Writes one message into a variant's row."""
    if kind == "status":
        row.escalate(*payload)
    elif kind == "again":
        row.escalate(WRONG, payload)
    elif kind == "compile":
        row.compiles.append(payload)
        if payload["graph_breaks"]:
            why = "; ".join(payload["break_reasons"])
            row.note(
                f"graph breaks ({payload['graph_breaks']}) split it into {payload['graphs']} graphs: {why}; "
                "compile.fullgraph=true refuses what breaks"
            )
    elif kind == "recompiles":
        row.recompiles = max(row.recompiles or 0, payload)
    elif kind == "finding":
        row.error, row.comparable, row.no_op = payload["error"], not payload["random"], payload["no_op"]
        if payload["random"]:
            row.reason = "not comparable: it draws random numbers, so its correctness is not known"
    elif kind == "note":
        row.note(payload)
    elif kind == "peak":
        row.peak_memory_bytes = payload
    elif kind == "profile":
        row.profile = payload
        row.no_op = row.no_op or payload["operator_calls"] == 0
        for note in payload["notes"]:
            row.note(note)
    elif kind == "timeline":
        row.timeline = payload
    elif kind == "probed":
        row.probed.update(payload)
    else:
        raise AssertionError(f"no such message: {kind}")
