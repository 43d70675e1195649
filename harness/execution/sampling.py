"""Sampling: fresh processes measure a case's variants, until no verdict can change any more or time is up."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.configuration.operation import Case
from harness.configuration.settings import LatencySettings, Settings
from harness.devices import candidates, device
from harness.devices.cpu import cores
from harness.execution import beside
from harness.execution.collected import Collected, Progress, SuspectsError
from harness.execution.processes.environment import applied
from harness.execution.processes.messages import Slow
from harness.execution.processes.pool import Place, Pool
from harness.execution.processes.process import Process
from harness.execution.speed import Speed
from harness.execution.task import Side, Task, sides
from harness.results import statistics
from harness.results.machine import Machine, fastest
from harness.results.measurement import ACROSS, CONTROL, CONTROLS, FAILED, WRONG
from harness.results.samples import QUIET, STARVED, Samples
from harness.results.stopping import Compared, StoppingRule

SETTLING = 0.25  # of a process's time: a compiled call gets a tenth faster over its first thousand calls
SLOW_PROCESSES = 3  # are enough if calls are so slow that latency.processes of them do not fit latency.seconds
RESTLESS_CORES = 0.05  # that processes may use while another one measures


class Sampling:
    """A case's measuring processes; `seen` is all that they send."""

    def __init__(self, case: Case, settings: Settings, folder: Path, progress: Progress):
        self._case = case
        self._settings = settings
        self._folder = folder
        self._progress = progress
        self._sides = sides(case)
        self.seen = self._collected(self._sides)
        self._share_s = settings.latency.seconds / settings.latency.max_processes  # of a set, warm-up included
        shares = [side.share for side in self._sides]
        controls = [side.number for side in self._sides if side.control]
        self._pool = Pool(self._start, self.seen.take, (1 - SETTLING) * self._share_s, shares, controls)
        self._speed = Speed()

    def run(self) -> str:
        """Starts processes and lets them measure until there is no need for more; says why it stopped.

        Raises UsageError for what is the command's or the operation's fault, CaseError if no process can measure.
        """
        try:
            reason = self._run()
        finally:
            self._pool.end()
        if self.seen.slow is not None:
            self.seen.warnings.append(_slow(self.seen.slow, self._pool.complete, self._settings.latency))
        if self._pool.restless > RESTLESS_CORES:
            self.seen.warnings.append(_restless(self._pool.restless))
        self._speed.remember(self.machine)
        return reason

    @property
    def machine(self) -> Machine:
        """What is known of the machine so far."""
        return Machine(self._speed.remembered_s, fastest(self.seen.samples), self._pool.others_cores)

    def latencies(self) -> Samples:
        """The samples of latency so far."""
        return Samples.of_latencies(self.seen.samples, [*self.seen.rows, *CONTROLS], self.machine)

    def _run(self) -> str:
        pool = self._pool
        reason: str | None = None
        deadline = 0.0  # of waiting for a quiet machine
        while self.seen.standing():
            self._prepare(reason)
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
                self._look_beside()
                pool.finish(self._clocked())
                self._drop_failed()
                if pool.full_pass:  # a process that made it may die even at its end
                    return reason
        return "nothing left to time"

    def _prepare(self, reason: str | None) -> None:
        """Starts the processes that are wanted; with a `reason` to stop only those that make a full pass."""
        pool = self._pool
        if not self._shared:
            self._drop_failed()
            wanted = pool.incomplete if reason is not None else [pool.next] if pool.sides else []
            pool.prepare(wanted[:1])
            return
        while pool.incomplete:
            pool.prepare(pool.incomplete[:1])
            self._drop_failed()
            if not self._shared:  # as is known once a process has opened it
                return
        if reason is None:
            self._prepare_others()

    def _prepare_others(self) -> None:
        """Starts the processes that are wanted besides those that are there, as far as memory has room for them."""
        pool = self._pool
        latency = self._settings.latency
        minimum = min(latency.processes, SLOW_PROCESSES) if self.seen.slow is not None else latency.processes
        wanted = minimum - pool.total if pool.total < minimum else min(cores() or 1, latency.max_processes - pool.total)
        if wanted < 1:
            return
        if pool.room < wanted:
            self.seen.warnings.append(_memory(pool.room, pool.bytes))
        if pool.room < 1 and pool.waiting:
            return  # the first measure alone
        if pool.room < 1:
            pool.finish(self._clocked())
        if pool.full_pass:
            pool.prepare(pool.lacking(pool.total + max(min(wanted, pool.room), 1)))
            self._drop_failed()

    def _clocked(self) -> list[str]:
        """Those whose calls another clock can time: on a device of one's own the first after a pause take longer."""
        return self.seen.standing() if self._shared else []

    @property
    def _shared(self) -> bool:
        """Whether several processes may hold the device that measures at the same time."""
        return not self.seen.device.get("accelerator", False)

    def _drop_failed(self) -> None:
        """Ends the processes of environments of which nothing is left to be timed."""
        for number in self._pool.sides:
            if not self.seen.standing(self._sides[number].variants):
                self._pool.drop(number)

    def _left_out(self) -> list[str]:
        """The names that must not be timed any more."""
        failed = [name for name, row in self.seen.rows.items() if row.status == FAILED]
        return [*failed, *CONTROLS] if self._case.baseline.name in failed else failed

    def compared(self) -> list[Compared]:
        """The ratios, by process, of the latencies and of the device times of every variant that can be ranked.

        No other variant says how long to sample, nor does one that lacked cores: more of the same tells no more.
        """
        baseline = self._case.baseline.name
        ranked = {name: row for name, row in self.seen.rows.items() if name != baseline and row.ranked}
        names = [*self.seen.rows, *CONTROLS]
        compared = []
        for samples in (self.latencies(), Samples.of_device_times(self.seen.device_samples, names)):
            known = [name for name in ranked if samples.condition(baseline, name) != STARVED]
            floors = [
                statistics.noise_floor(samples.paired(baseline, control), self._settings.latency.min_effect)
                for control in CONTROLS
            ]
            floor_of = [floors[ranked[name].environment > 0] for name in known]
            compared.append(Compared([samples.paired(baseline, name) for name in known], floor_of))
        return compared

    def _quiet(self) -> bool:
        """Whether every variant has been timed often enough while the machine was quiet."""
        samples = self.latencies()
        baseline = self._case.baseline.name
        rows = self.seen.rows.items()
        return all(samples.condition(baseline, name) == QUIET for name, row in rows if row.ranked)

    def _reason(self) -> str | None:
        """Why to stop; None if to go on."""
        latency = self._settings.latency
        complete, elapsed = self._pool.complete, self._pool.seconds
        reason = StoppingRule.of(latency).reason(self.compared(), complete, elapsed)
        if reason is None and self.seen.slow is not None and complete >= SLOW_PROCESSES and elapsed >= latency.seconds:
            reason = f"latency.seconds={latency.seconds:g} are spent by {complete} processes of slow calls"
        return reason

    def _collected(self, sides: Sequence[Side]) -> Collected:
        log = self._folder / "worker.log"
        return Collected(self._case, sides, log, self._progress, self._refusal, self._baseline_is_at_fault)

    def _baseline_is_at_fault(self) -> bool:
        """Whether it is so in a process that measures nothing else; on a device of one's own there is room for none.

        Raises what such a process raises.
        """
        if not self._shared:
            return True
        seen, pool = self._of_baseline()
        try:
            pool.prepare(pool.sides)
            pool.finish()
        finally:
            pool.end()
        return seen.rows[self._case.baseline.name].status in (WRONG, FAILED)

    def _look_beside(self) -> None:
        """Looks whether variants slow the baseline, if a sandbox says that none is trusted.

        Raises SuspectsError if they do.
        """
        baseline = self._case.baseline.name
        suspects = [name for name in self.seen.standing(self._sides[0].variants) if name != baseline]
        if not self._settings.worker.sandbox or not self._shared or not suspects:
            return
        alone = self._of_baseline(timed_only=[0])
        try:
            alone[1].prepare([0])
            slowed = beside.slowed(baseline, (self.seen, self._pool), alone)
        finally:
            alone[1].end()
        if slowed is not None:
            reason = f"{baseline} takes {slowed:.2g} times as long beside them as in a process of its own"
            raise SuspectsError(suspects, reason)

    def _of_baseline(self, timed_only: Sequence[int] = ()) -> tuple[Collected, Pool]:
        """Processes that measure nothing but the baseline, and what they send."""
        baseline = self._case.baseline
        side = Side(0, baseline.environment, (baseline.name,))
        seen = self._collected([side])
        return seen, Pool(partial(self._start, side=side), seen.take, 0.0, timed_only=timed_only)

    def _start(self, place: Place, side: Side | None = None) -> Process:
        side = side or self._sides[place.side]
        worker = replace(self._settings.worker, **side.environment.applied(self._settings.worker))
        names = self.seen.standing(side.variants)
        device_timed = dict.fromkeys(name for name, *_ in self.seen.device_samples)
        task = Task(
            case=self._case,
            settings=replace(self._settings, worker=worker),
            variants=tuple(names),
            replicate=place.number,
            full_pass=place.full_pass,
            settling_s=SETTLING * self._share_s * side.share,
            traces=str(self._folder / "traces"),
            call_seconds=self.seen.fastest,
            device_timed=(*device_timed, ACROSS) if CONTROL in device_timed else tuple(device_timed),
            share=side.share,
            control=side.control,
            several=len(self._sides) > 1,
        )
        return Process(
            "harness.execution.worker.main:run",
            task,
            [*names, *CONTROLS, *self._case.operation.imported],
            candidates(self._case.device, self._settings.devices),
            worker,
            self._folder / "worker.log",
            python=side.environment.python,
        )

    def _refusal(self, side: Side, name: str) -> str | None:
        """Why preflight checks find an environment unfit, unless doctor=warn; what else they find is a warning."""
        settings = self._settings
        environment = applied(side.environment.applied(settings.worker)["env"], os.environ)
        variants = [self._case.operation.variant(name) for name in side.variants]
        for finding in device(name, settings.devices).preflight(environment, variants):
            if finding.unfit and settings.doctor == "refuse":
                return f"device={name}: {finding.line}; doctor=warn measures all the same"
            self.seen.warnings.append(finding.line)
        return None


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
