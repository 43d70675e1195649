"""Sampling: fresh processes measure a case's variants, until the ratios are known well enough or time is up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.configuration.errors import CaseError, UsageError
from harness.configuration.operation import Case, describe
from harness.configuration.settings import LatencySettings, Settings, WorkerSettings
from harness.devices import candidates, device
from harness.execution.environment import applied, compiling
from harness.execution.messages import (
    Broken,
    Checked,
    Compiled,
    DeviceOpened,
    DeviceTimes,
    Died,
    Done,
    Environment,
    LeftOut,
    Message,
    Note,
    Peak,
    Probed,
    Profiled,
    Recompiled,
    Samples,
    Slow,
    Spoilt,
    Status,
    Step,
    Task,
    Usage,
    Warnings,
    Work,
)  # fmt: skip
from harness.execution.process import Process
from harness.results import samples
from harness.results.measurement import CONTROL, FAILED, SKIPPED, Measurement
from harness.results.statistics import Groups, StoppingRule

SLOW_PROCESSES = 3  # are enough if calls are so slow that latency.processes of them do not fit latency.seconds

Progress = Callable[[str], None]


class Sampling:
    """A case's measuring processes, one after the other, and all that they send."""

    def __init__(self, case: Case, settings: Settings, folder: Path, progress: Progress):
        self._case = case
        self._settings = settings
        self._folder = folder
        self._progress = progress
        self.rows = {variant.name: Measurement(variant.name) for variant in case.operation.variants}
        self.samples: list[list[Any]] = []  # variant, process, round, calls, seconds per call
        self.device_samples: list[list[Any]] = []  # variant, process, call, seconds on the device
        self.device: dict[str, Any] = {}
        self.environment: dict[str, Any] = {}
        self.work: dict[str, float] | None = None
        self.warnings: list[str] = []
        self._slow: Slow | None = None
        self._started = 0  # processes

    def run(self) -> str:
        """Starts processes until there is no need for another; says why it stopped.

        Raises UsageError for what is the command's or the operation's fault, CaseError if no process can measure.
        """
        with compiling(self._settings.worker, candidates(self._case.device, self._settings.devices)) as worker:
            return self._sample(worker)

    def _sample(self, worker: WorkerSettings) -> str:
        latency = self._settings.latency
        rule = StoppingRule.of(latency)
        complete = 0
        since = time.monotonic()
        while True:
            names = [name for name, row in self.rows.items() if row.status not in (FAILED, SKIPPED)]
            if not names:
                return "nothing left to time"
            full_pass = complete == 0
            complete += self._measure(names, full_pass, worker)
            if full_pass:
                since = time.monotonic()  # the rest of the first process is not sampling
            elapsed = time.monotonic() - since
            reason = rule.reason(self.ratios(), complete, elapsed)
            if reason is None and self._slow is not None and complete >= SLOW_PROCESSES and elapsed >= latency.seconds:
                reason = f"latency.seconds={latency.seconds:g} are spent by {complete} processes of slow calls"
            if reason is not None:
                if self._slow is not None:
                    self.warnings.append(_slow(self._slow, complete, latency))
                return reason

    def seconds(self) -> dict[str, list[Any]]:
        """Each variant's latencies by process, without the noisy rounds."""
        return samples.without_noisy_rounds(self._by_process(self.samples), CONTROL)

    def ratios(self) -> list[list[Groups]]:
        """The ratios, by process, of the latencies and of the device times of every variant that can be ranked.

        No other variant says how long to sample.
        """
        baseline = self._case.baseline.name
        ranked = [name for name, row in self.rows.items() if name != baseline and row.ranked]
        clocks = (self.seconds(), self._by_process(self.device_samples))
        return [[samples.paired(seconds[baseline], seconds[name]) for name in ranked] for seconds in clocks]

    def _by_process(self, rows: list[list[Any]]) -> dict[str, list[Any]]:
        return samples.by_process(rows, [*self.rows, CONTROL])

    def _measure(self, names: list[str], full_pass: bool, worker: WorkerSettings) -> bool:
        """Runs one process; False if it ended early and its variants have to be measured by another."""
        latency = self._settings.latency
        task = Task(
            case=self._case,
            settings=self._settings,
            variants=tuple(names),
            replicate=self._started,
            full_pass=full_pass,
            seconds=latency.seconds / latency.max_processes,
            traces=self._folder / "traces",
            call_seconds=self._call_seconds(),
            device_timed=tuple(dict.fromkeys(name for name, *_ in self.device_samples)),
        )
        process = Process(
            "harness.execution.worker:run",
            task,
            [*names, CONTROL, *self._case.operation.imported],
            candidates(self._case.device, self._settings.devices),
            worker,
            self._folder / "worker.log",
            self._preload(),
        )
        self._started += 1
        try:
            for message in process.messages():
                self._take(message)
        finally:
            process.end()
        return isinstance(message, Done)

    def _call_seconds(self) -> dict[str, float]:
        fastest: dict[str, float] = {}
        for name, _, _, _, seconds in self.samples:
            fastest[name] = min(seconds, fastest.get(name, seconds))
        return fastest

    def _preload(self) -> list[str]:
        """Modules that the fork server imports; those for compiling take longest, and only if a variant compiles."""
        compiles = any(variant.compile is not None for variant in self._case.operation.variants)
        own = ["harness.execution.worker", *(["harness.execution.preload"] if compiles else [])]
        return [*own, *self._settings.worker.preload]

    def _take(self, message: Message) -> None:
        match message:
            case Step(variant, name):
                self._progress(f"{variant}: {name}")
            case DeviceOpened(description):
                if not self.device:
                    self._admit(description["device"])
                    self.device = description
            case Environment(description):
                self.environment = self.environment or description
            case Work(declared):
                self.work = declared
            case Samples(rows):
                self.samples += [[name, self._started - 1, *rest] for name, *rest in rows]
            case DeviceTimes(variant, times):
                process = self._started - 1
                self.device_samples += [[variant, process, call, seconds] for call, seconds in enumerate(times)]
            case Slow(variant, seconds, _):
                self._progress(f"one call of {variant} takes {seconds:.2g} s")
                self._slow = message if self._slow is None or message.seconds > self._slow.seconds else self._slow
            case Warnings(lines):
                self.warnings += lines
            case Usage(line):
                raise UsageError(line)
            case Broken(line):
                raise CaseError(f"{line}; see {self._folder / 'worker.log'}")
            case Died(None, how):
                raise CaseError(f"the measuring process {how}; see {self._folder / 'worker.log'}")
            case Died(str(key), how) if key not in (*self.rows, CONTROL):
                at_fault = self._case.operation.imported[key]
                text = describe(at_fault) if callable(at_fault) else at_fault
                raise UsageError(f"{key}={text}: {how} when it was imported or called")
            case Died(str(name), how):
                self.rows[self._case.baseline.name if name == CONTROL else name].escalate(FAILED, how)
            case Done() | Spoilt():
                pass
            case _:
                record(self.rows, message)

    def _admit(self, name: str) -> None:
        """Refuses a device that preflight checks find unfit, unless doctor=warn; other findings become warnings."""
        environment = applied(self._settings.worker.env, os.environ)
        opened = device(name, self._settings.devices)
        for finding in opened.preflight(environment, self._case.operation.variants):
            if finding.unfit and self._settings.doctor == "refuse":
                raise UsageError(f"device={name}: {finding.line}; doctor=warn measures all the same")
            self.warnings.append(finding.line)


def record(rows: dict[str, Measurement], message: Message) -> None:
    """Writes a message about one variant into its row; any other message changes nothing."""
    match message:
        case Status(variant, status, reason):
            rows[variant].escalate(status, reason)
        case LeftOut(variant):
            rows.pop(variant, None)
        case Compiled(variant, cost):
            rows[variant].compiles.append(cost)
            if cost.graph_breaks:
                rows[variant].note(
                    f"graph breaks ({cost.graph_breaks}) split it into {cost.graphs} graphs: "
                    f"{'; '.join(cost.break_reasons)}; compile.fullgraph=true refuses what breaks"
                )
        case Checked(variant, finding):
            row = rows[variant]
            row.error = finding.error
            row.comparable = finding.not_comparable is None
            row.no_op = finding.no_op
            if finding.not_comparable is not None:
                row.reason = f"not comparable: {finding.not_comparable}"
            for note in finding.notes:
                row.note(note)
        case Recompiled(variant, count):
            rows[variant].recompiles = max(rows[variant].recompiles or 0, count)
        case Peak(variant, size):
            rows[variant].peak_memory_bytes = size
        case Profiled(variant, profile, timeline):
            row = rows[variant]
            row.profile = profile
            row.timeline = timeline
            row.no_op = row.no_op or profile.operator_calls == 0
            for note in profile.notes:
                row.note(note)
        case Probed(variant, values):
            rows[variant].probed.update(values)
        case Note(variant, text):
            rows[variant].note(text)


def _slow(slow: Slow, processes: int, latency: LatencySettings) -> str:
    """A warning about calls that are so slow that fewer were measured."""
    count = f"{processes} process{'es' if processes > 1 else ''} of {slow.rounds} round{'s' if slow.rounds > 1 else ''}"
    return (
        f"one call of {slow.variant} takes {slow.seconds:.2g} s: {count} were measured, in view of "
        f"latency.seconds={latency.seconds:g}; raise it for narrower intervals"
    )
