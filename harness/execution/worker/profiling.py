"""Profiling: what a measuring process records of a variant under the profiler, and sends."""

from __future__ import annotations

import contextlib
import pkgutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from harness.configuration.errors import one_line
from harness.configuration.settings import ProfileSettings
from harness.devices.base import Device
from harness.execution.processes.messages import DeviceTimes, Note, Peak, Probed, Profiled, Send, Status
from harness.measure import trace
from harness.measure.compiling import Watch
from harness.measure.kinds import PROFILER
from harness.measure.profile import OwnProfilerError, Recorded, peak_memory, probe, record, shortened
from harness.results import columns
from harness.results.measurement import DEGRADED

Call = Callable[[], Any]


class Profiling:
    """Profiles variants on a device; `grad` is the grad mode of their calls, `watch` counts what is compiled."""

    def __init__(self, device: Device, settings: ProfileSettings, grad: bool, watch: Watch, send: Send):
        self._device = device
        self._settings = settings
        self._grad = grad
        self._watch = watch
        self._send = send

    def whole(self, name: str, call: Call, call_s: float, traces: Path) -> None:
        """Sends all that a profile tells of a variant, one call of which takes `call_s` seconds as far as is known.

        Its trace is kept in a folder of its own below `traces`.
        """
        folder = traces / trace.folder_name(name)
        folder.mkdir(parents=True, exist_ok=True)
        settings, note = shortened(self._settings, call_s)
        if note:
            self._send(Note(name, note))
        self._device.clear_fallbacks()  # from here to the end of the profile only this variant's own calls run
        try:
            with torch.set_grad_enabled(self._grad):
                probed = probe(call, self._device)
                peak = peak_memory(call, self._device) if self._device.accelerator else probed.peak_bytes
            self._send(Peak(name, peak))
            recorded = self._record(call, settings, folder, probed.events)
            if recorded.profile.operator_calls == 0 and not self._device.accelerator:  # its threads may have worked
                recorded = self._record(call, settings, folder, probed.events, threads=True)
            self._send(Profiled(name, recorded.profile, recorded.timeline))
            self._send_times(name, recorded)
            eager = self._device.ran_eagerly(recorded.eager_operators)
            if eager:
                self._send(Status(name, DEGRADED, eager))
        except OwnProfilerError as error:
            self._send(Note(name, str(error), PROFILER))
        fallbacks = self._device.fallbacks()
        self._send_columns(name, call)
        if fallbacks:
            self._send(Status(name, DEGRADED, f"fell back to the CPU: {', '.join(fallbacks)}"))

    def device_time(self, name: str, call: Call, call_s: float) -> None:
        """Sends samples of a variant's device time, and keeps no trace."""
        settings, _ = shortened(self._settings, call_s)
        self._device.clear_fallbacks()
        with contextlib.suppress(OwnProfilerError), tempfile.TemporaryDirectory(prefix="harness-") as folder:
            with torch.set_grad_enabled(self._grad):
                events = probe(call, self._device).events
            self._send_times(name, self._record(call, settings, Path(folder), events))

    def _record(
        self, call: Call, settings: ProfileSettings, folder: Path, events: int, threads: bool = False
    ) -> Recorded:
        return record(call, self._device, settings, folder, events, self._grad, self._seen, threads)

    def _seen(self) -> tuple[int, int | None, frozenset[str]]:
        """What has been compiled, what the device's own compiler has built, and what the device has executed."""
        return self._watch.compiles(), self._device.built(), self._device.executed()

    def _send_times(self, name: str, recorded: Recorded) -> None:
        if recorded.device_seconds:
            self._send(DeviceTimes(name, recorded.device_seconds))

    def _send_columns(self, name: str, call: Call) -> None:
        """Sends what the probes of further columns return for a variant, with a note on each that failed."""
        values: dict[str, Any] = {}
        for column in columns.MEASURED:
            if column.probe is None:
                continue
            try:
                with torch.set_grad_enabled(self._grad):
                    value = pkgutil.resolve_name(column.probe)(call, self._device)
            except (Exception, SystemExit) as error:
                why = f"{column.probe} raised {type(error).__name__}: {one_line(error)}"
            else:
                if column.accepts(value):
                    values[column.name] = value
                    continue
                wanted = f"expected {column.kind.__name__} or None"
                why = f"{column.probe} returned {one_line(repr(value))}; {wanted}"
            self._send(Note(name, f"{column.name} was not measured: {why}"))
        self._send(Probed(name, values))
