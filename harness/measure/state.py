"""Global state: what one variant changes in torch, Python or the process, and must not leak to the next."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from harness.devices.base import Device
from harness.measure import replacements, torch_private
from harness.measure.global_settings import SETTINGS, SLOW_SETTINGS, Setting, autocast
from harness.measure.replacements import Originals

TORCH_OWN = ("TORCH", "TRITON", "KINETO")  # variables that torch itself sets as it goes

AT_IMPORT = Originals()  # before any code of a variant: even to unpickle a function imports its module


def unmoved(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> bool:
    """Whether nothing was drawn between two states."""
    return all(map(torch.equal, left, right))


class GlobalState:
    """The state at its creation, to be put back after each variant's turn."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._settings = {**SETTINGS, **autocast("cpu"), **autocast(device.torch_device().type)}
        self._all = {**self._settings, **SLOW_SETTINGS}
        self._values = {name: read() for name, (read, _) in self._all.items()}
        self._environment = dict(os.environ)
        self._folder = os.getcwd()
        self._streams = {stream: os.dup(stream) for stream in (1, 2)}
        self._handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        self._filters = list(warnings.filters)
        self._compiler = {name: module.get_config_copy() for name, module in torch_private.configurations().items()}
        self._generators = (device.get_rng_state(), random.getstate(), np.random.get_state())
        self._originals = Originals()
        self._timing = replacements.of_timing()
        self.guard(device)

    def guard(self, guarded: Any) -> None:
        """Watches an object that timing rests on."""
        self._timing.guard(guarded)

    def hold(self, calls: dict[str, Callable[[], Any]], name: str) -> None:
        """Watches a call that is timed."""
        self._timing.hold(calls, name)

    def watch(self, function: Any) -> None:
        """Watches a function of the operation's, such as its baseline, by which all variants are measured."""
        self._originals.add(function)

    def tampered(self, changed: Sequence[str]) -> list[str]:
        """Those of the changes that measuring itself rests on."""
        return self._originals.vital(changed)

    def restore(self) -> list[str]:
        """Puts back what other variants would be timed under or by; returns the names of what had changed.

        Takes some twenty microseconds.
        """
        return self._put_back(self._settings) + self._warnings() + self._timing.restore()

    def restore_all(self) -> list[str]:
        """Restores all global state, which takes a millisecond or two; returns the names of what had changed."""
        changed = self._put_back(self._all) + self._warnings()
        changed += self._timing.restore() + self._originals.restore()
        changed += self._environment_variables() + self._streams_and_folder() + self._signals() + self._configurations()
        return changed

    def reset_generators(self) -> None:
        """Sets random generators back: how far each variant drew is nobody's concern but its own."""
        self._device.set_rng_state(self._generators[0])
        random.setstate(self._generators[1])
        np.random.set_state(self._generators[2])

    def _put_back(self, settings: dict[str, Setting]) -> list[str]:
        changed = []
        for name, (read, write) in settings.items():
            if read() != self._values[name]:
                with contextlib.suppress(OSError, RuntimeError):  # what cannot be put back is named all the same
                    write(self._values[name])
                changed.append(name)
        return changed

    def _warnings(self) -> list[str]:
        """Filters that a library adds as it is imported may stay, but for those that make an error of a warning."""
        if warnings.filters == self._filters:
            return []
        added = [entry for entry in warnings.filters if entry not in self._filters]
        strict = any(entry[0] == "error" for entry in added)
        if strict:
            warnings.filters[:] = self._filters  # type: ignore[index]
        self._filters = list(warnings.filters)
        return ["the filters of warnings (warnings as errors)"] if strict else []

    def _environment_variables(self) -> list[str]:
        now = dict(os.environ)
        if now == self._environment:
            return []
        os.environ.clear()
        os.environ.update(self._environment)
        names = {name for name, _ in now.items() ^ self._environment.items()}
        return sorted(name for name in names if not name.lstrip("_").startswith(TORCH_OWN))

    def _streams_and_folder(self) -> list[str]:
        changed = []
        if _folder() != self._folder:
            os.chdir(self._folder)
            changed.append("the working directory")
        for stream, copy in self._streams.items():
            try:
                os.fstat(stream)
            except OSError:
                os.dup2(copy, stream)
                changed.append(f"file descriptor {stream}")
        return changed

    def _signals(self) -> list[str]:
        changed = []
        for number, handler in self._handlers.items():
            # one that was set by no Python code cannot be set again
            if handler is not None and signal.getsignal(number) is not handler:
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, handler)
                changed.append(f"the handler of {signal.Signals(number).name}")
        return changed

    def _configurations(self) -> list[str]:
        changed = []
        for name, module in torch_private.configurations().items():
            now = module.get_config_copy()
            before = self._compiler.setdefault(name, now)
            for key in now:
                if key in before and now[key] != before[key]:
                    setattr(module, key, before[key])
                    changed.append(f"{name}.{key}")
        return changed


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # a variant removed it
        return None
