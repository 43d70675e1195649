"""Sampling: fresh processes measure a case's variants, until no verdict can change any more or time is up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.configuration.errors import CaseError, UsageError
from harness.configuration.operation import Case, describe
from harness.configuration.settings import LatencySettings, Settings
from harness.devices import candidates, device
from harness.devices.cpu import cores
from harness.execution import messages
from harness.execution.environment import applied
from harness.execution.messages import (
    Broken,
    DeviceOpened,
    DeviceTimes,
    Died,
    Done,
    Environment,
    Measured,
    Message,
    Ready,
    Slow,
    Spoilt,
    Step,
    Task,
    Usage,
    Warnings,
    Work,
)  # fmt: skip
from harness.execution.pool import Pool
from harness.execution.process import Process
from harness.execution.record import record
from harness.execution.speed import Speed
from harness.results import statistics
from harness.results.machine import Machine, fastest
from harness.results.measurement import CONTROL, FAILED, SKIPPED, Measurement
from harness.results.samples import QUIET, STARVED, Samples
from harness.results.stopping import Compared, StoppingRule

SETTLING = 0.25  # of a process's time: a compiled call gets a tenth faster over its first thousand calls
SLOW_PROCESSES = 3  # are enough if calls are so slow that latency.processes of them do not fit latency.seconds
RESTLESS_CORES = 0.05  # that processes may use while another one measures

Progress = Callable[[str], None]


class Sampling:
    """A case's measuring processes, and all that they send."""

    def __init__(self, case: Case, settings: Settings, folder: Path, progress: Progress):
        self._case = case
        self._settings = settings
        self._folder = folder
        self._progress = progress
        self.rows = {variant.name: Measurement(variant.name) for variant in case.operation.variants}
        self.samples: list[list[Any]] = []  # variant, process, and the rest of a measure.latency.Sample
        self.device_samples: list[list[Any]] = []  # variant, process, call, seconds on the device
        self.device: dict[str, Any] = {}
        self.environment: dict[str, Any] = {}
        self.work: dict[str, float] | None = None
        self.warnings: list[str] = []
        self._slow: Slow | None = None
        self._share_s = settings.latency.seconds / settings.latency.max_processes  # of a process, warm-up included
        self._pool = Pool(self._start, self._take, (1 - SETTLING) * self._share_s)
        self._speed = Speed()

    def run(self) -> str:
        """Starts processes and lets them measure until there is no need for more; says why it stopped.

        Raises UsageError for what is the command's or the operation's fault, CaseError if no process can measure.
        """
        try:
            reason = self._run()
        finally:
            self._pool.end()
        if self._slow is not None:
            self.warnings.append(_slow(self._slow, self._pool.complete, self._settings.latency))
        if self._pool.restless > RESTLESS_CORES:
            self.warnings.append(_restless(self._pool.restless))
        self._speed.remember(self.machine)
        return reason

    @property
    def machine(self) -> Machine:
        """What is known of the machine so far."""
        return Machine(self._speed.remembered_s, fastest(self.samples), self._pool.others_cores)

    def latencies(self) -> Samples:
        """The samples of latency so far."""
        return Samples.of_latencies(self.samples, [*self.rows, CONTROL], self.machine)

    def _run(self) -> str:
        pool = self._pool
        reason: str | None = None
        deadline = 0.0  # of waiting for a quiet machine
        while self._standing():
            if not pool.full_pass:
                pool.prepare(1)
            if reason is None and pool.full_pass:
                self._prepare_others()
            pool.measure(self._left_out)
            if not self._shared:
                pool.finish()
            reason = self._reason()
            if reason is not None and len(pool) and not self._quiet():
                deadline = deadline or time.monotonic() + self._settings.latency.patience_s
                if time.monotonic() < deadline:
                    self._progress("waiting for a quiet machine")
                    pool.extend()
                    continue
            if reason is not None:
                pool.finish()
                if pool.full_pass:  # the process that made it may die even at its end
                    return reason
        return "nothing left to time"

    def _prepare_others(self) -> None:
        """Starts the processes that are wanted besides those that are there, as far as memory has room for them."""
        pool = self._pool
        latency = self._settings.latency
        if not self._shared:
            if not len(pool):
                pool.prepare(1)
            return
        minimum = SLOW_PROCESSES if self._slow is not None else latency.processes
        wanted = minimum - pool.total if pool.total < minimum else min(cores() or 1, latency.max_processes - pool.total)
        if wanted < 1:
            return
        if pool.room < wanted:
            self.warnings.append(_memory(pool.room, pool.bytes))
        if pool.room < 1 and pool.complete < pool.total:
            return  # the first measures alone
        if pool.room < 1:
            pool.finish()
        if pool.full_pass:
            pool.prepare(max(min(wanted, pool.room), 1))

    @property
    def _shared(self) -> bool:
        """Whether several processes may hold the device that measures at the same time."""
        return not self.device.get("accelerator", False)

    def _standing(self) -> list[str]:
        """The variants that can be measured, as far as is known."""
        return [name for name, row in self.rows.items() if row.status not in (FAILED, SKIPPED)]

    def _left_out(self) -> list[str]:
        """The names that must not be timed any more."""
        failed = [name for name, row in self.rows.items() if row.status == FAILED]
        return [*failed, CONTROL] if self._case.baseline.name in failed else failed

    def compared(self) -> list[Compared]:
        """The ratios, by process, of the latencies and of the device times of every variant that can be ranked.

        No other variant says how long to sample, nor does one that lacked cores: more of the same tells no more.
        """
        baseline = self._case.baseline.name
        ranked = [name for name, row in self.rows.items() if name != baseline and row.ranked]
        compared = []
        for samples in (self.latencies(), Samples.of_device_times(self.device_samples, [*self.rows, CONTROL])):
            known = [name for name in ranked if samples.condition(baseline, name) != STARVED]
            floor = statistics.noise_floor(samples.paired(baseline, CONTROL), self._settings.latency.min_effect)
            compared.append(Compared([samples.paired(baseline, name) for name in known], floor))
        return compared

    def _quiet(self) -> bool:
        """Whether every variant has been timed often enough while the machine was quiet."""
        samples = self.latencies()
        baseline = self._case.baseline.name
        return all(samples.condition(baseline, name) == QUIET for name, row in self.rows.items() if row.ranked)

    def _reason(self) -> str | None:
        """Why to stop; None if to go on."""
        latency = self._settings.latency
        complete, elapsed = self._pool.complete, self._pool.seconds
        reason = StoppingRule.of(latency).reason(self.compared(), complete, elapsed)
        if reason is None and self._slow is not None and complete >= SLOW_PROCESSES and elapsed >= latency.seconds:
            reason = f"latency.seconds={latency.seconds:g} are spent by {complete} processes of slow calls"
        return reason

    def _start(self, number: int, full_pass: bool) -> Process:
        names = self._standing()
        task = Task(
            case=self._case,
            settings=self._settings,
            variants=tuple(names),
            replicate=number,
            full_pass=full_pass,
            settling_s=SETTLING * self._share_s,
            traces=self._folder / "traces",
            call_seconds=self._call_seconds(),
            device_timed=tuple(dict.fromkeys(name for name, *_ in self.device_samples)),
        )
        return Process(
            "harness.execution.worker:run",
            task,
            [*names, CONTROL, *self._case.operation.imported],
            candidates(self._case.device, self._settings.devices),
            self._settings.worker,
            self._folder / "worker.log",
        )

    def _call_seconds(self) -> dict[str, float]:
        fastest: dict[str, float] = {}
        for name, _, _, _, seconds, *_ in self.samples:
            fastest[name] = min(seconds, fastest.get(name, seconds))
        return fastest

    def _take(self, number: int, message: Message) -> None:
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
            case messages.Samples(rows):
                self.samples += [[name, number, *rest] for name, *rest in rows]
            case DeviceTimes(variant, times):
                self.device_samples += [[variant, number, call, seconds] for call, seconds in enumerate(times)]
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
            case Ready() | Measured() | Done() | Spoilt():
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


def _slow(slow: Slow, processes: int, latency: LatencySettings) -> str:
    """A warning about calls that are so slow that fewer were measured."""
    count = f"{processes} process{'es' if processes > 1 else ''} of {slow.rounds} round{'s' if slow.rounds > 1 else ''}"
    return (
        f"one call of {slow.variant} takes {slow.seconds:.2g} s: {count} were measured, in view of "
        f"latency.seconds={latency.seconds:g}; raise it for narrower intervals"
    )


def _restless(used: float) -> str:
    """A warning about processes that ran while they should have rested."""
    return (
        f"variants used {used:.2g} cores while another process was measuring: threads that they started go on after "
        "their calls; end them, or let them wait without running"
    )


def _memory(room: int, size: int) -> str:
    """A warning about memory that has no room for all processes at a time."""
    return (
        f"a process takes {size / 2**30:.1f} GiB, and memory has room for {1 + room} at a time: processes that measure "
        "after one another see other phases of the machine's load"
    )
