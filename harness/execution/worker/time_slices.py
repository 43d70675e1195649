"""Time slices: what a measuring process times when it is told to, while all others rest."""

from __future__ import annotations

from dataclasses import astuple
from time import perf_counter  # bound here: a variant may replace the module's

from harness.execution.processes.messages import Alone, Measure, Measured, Samples, Send, Slow, TimedAlone, Warnings
from harness.measure.interference import Interference, Rest
from harness.measure.latency import LONG_S, MIN_ROUNDS, Hold, Sampler
from harness.results.measurement import CONTROLS


class TimeSlices:
    """Has a sampler measure, and sends its samples, with what the machine and this process did meanwhile and before."""

    def __init__(self, sampler: Sampler, send: Send):
        self._sampler = sampler
        self._send = send
        self._interference = Interference()
        self._rest = Rest()

    def warm(self, limit_s: float, settling_s: float, hold: Hold) -> int:
        """Calls everything until it can be timed, which is told to `hold`, and for so many seconds besides.

        Returns how many rounds have to be timed at least, in view of the `limit_s` of a process.
        """
        self._sampler.warm(hold)
        minimum = self._sampler.min_rounds(limit_s)
        call_s = {name: block.call_s for name, block in self._sampler.blocks.items() if name not in CONTROLS}
        slowest = max(call_s, key=call_s.__getitem__, default=None)
        if slowest is not None and minimum < MIN_ROUNDS and call_s[slowest] >= LONG_S:
            self._send(Slow(slowest, call_s[slowest], minimum))
        self._sampler.settle(settling_s)
        self._rest = Rest()
        return minimum

    def measure(self, message: Measure) -> None:
        """Times everything for a time slice."""
        rested_s, rested_cpu_s = self._rest.spent()
        others_cpu_s = self._interference.others_cpu_s
        start = perf_counter()
        with self._interference.watched():
            samples = self._sampler.measure(message.seconds, message.left_out)
        seconds = perf_counter() - start
        others_cpu_s = self._interference.others_cpu_s - others_cpu_s
        self._send(Samples([astuple(sample) for sample in samples]))
        self._send(Measured(seconds, self._sampler.done, rested_s, rested_cpu_s, others_cpu_s))
        self._rest = Rest()

    def alone(self, message: Alone) -> None:
        """Times one variant for a moment, while its parent does so too."""
        self._sampler.alone(message.variant, message.seconds, lambda *seconds: self._send(TimedAlone(*seconds)))
        self._send(Measured(0.0, self._sampler.done, 0.0, 0.0, 0.0))
        self._rest = Rest()

    def end(self) -> dict[str, float]:
        """Sends what interfered; returns seconds per call of the fastest block of each, as far as is known."""
        self._send(Warnings(self._interference.warnings()))
        return self._sampler.call_seconds
