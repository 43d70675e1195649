"""Turns: whose code runs now, and what it raised, changed or compiled meanwhile."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from time import monotonic  # bound here: a variant may replace the module's

import torch

from harness.configuration.errors import UsageError, one_line
from harness.devices.base import Device
from harness.execution.processes.messages import Note, Send, SetTurn, Status, Step, Tampered, Warnings
from harness.measure import torch_private
from harness.measure.compiling import Watch
from harness.measure.kinds import ENVIRONMENT, EXIT, REPLACEMENT, TAMPERING
from harness.measure.latency import Turn
from harness.measure.nki_kernel import UnsupportedError
from harness.measure.outputs import few
from harness.measure.replacements import replaces
from harness.measure.state import GlobalState
from harness.results.measurement import CONTROLS, FAILED, SKIPPED, WRONG

PREPARE, LATENCY, PROFILE, CHECK = "prepare", "latency", "profile", "check"
WHEN = {
    PREPARE: "in its first calls",
    LATENCY: "while it was timed",
    PROFILE: "while it was profiled",
    CHECK: "when called again",
}
FULL_S = 0.05  # between full checks of global state while variants are timed: each takes a millisecond or two
FAILED_COMPILE = "a compile that failed is cached: once its cause is mended, measure with worker.compile_cache=cold"


class SpoiltError(Exception):
    """A variant has failed, and nothing more can be measured in this process."""


class ProbeError(Exception):
    """A variant raised on a declared probe; the message says what and where."""


class Turns:
    """The turns that the variants of one process take, and what each left behind."""

    def __init__(self, send: Send, set_turn: SetTurn, baseline: str, device: Device):
        self._send = send
        self._set_turn = set_turn
        self._baseline = baseline
        self.watch = Watch(device.built)
        self.state = GlobalState(device)
        self._device = device
        self._failed_compiles_cached = device.failed_compiles_cached
        self._process = os.getpid()
        self._changes: dict[str, set[str]] = {}
        self._looked = monotonic()  # at all global state
        self._tampering: dict[str, dict[str, None]] = {}  # in whose turns the same was done
        self._unexplained: list[str] = []  # what somebody left changed, nobody knows who
        self.failed: set[str] = set()
        self.compiles: Counter[str] = Counter()  # in each variant's turns since the last `forget_compiles`
        self.limits: dict[str, str] = {}  # who reached Dynamo's recompile limit

    @contextlib.contextmanager
    def key(self, key: str) -> Iterator[None]:
        """A context in which what a key names is imported or called: if that ends the process, the key is at fault."""
        self._set_turn(key)
        yield
        self._set_turn(None)

    @contextlib.contextmanager
    def step(self, variant: str, name: str) -> Iterator[None]:
        """A step of its own: announced, with gradients, and with all global state put back at its end."""
        self._send(Step(variant, name))
        with self.turn(variant, name, grad=True):
            yield
        self.put_back(variant)
        self.state.reset_generators()

    def put_back(self, variant: str) -> None:
        """Puts back all global state that the variant has changed, but for random generators, and remembers it."""
        self._restore(variant, self.state.restore_all())

    @contextlib.contextmanager
    def turn(self, variant: str, step: str, grad: bool) -> Iterator[Turn]:
        """A context in which the variant's own code runs: whatever it raises is its failure, and ends there.

        Raises SpoiltError where that failure may show in what runs next.
        """
        turn = Turn()
        spoilt = False
        self._set_turn(variant)
        try:
            with torch.set_grad_enabled(grad):
                yield turn
            self._count(variant, turn)
        except UsageError:
            raise
        except SpoiltError:
            spoilt = True
            raise
        except BaseException as error:  # Ctrl-C does not reach this process: even a KeyboardInterrupt is the variant's
            turn.failed = True
            self._fail(variant, step, error)
            spoilt = not isinstance(error, UnsupportedError) and self._device.failures_linger()
            if spoilt:
                raise SpoiltError from error
            self._count(variant, turn)
        finally:
            if os.getpid() != self._process:  # a copy of this process that a variant made by fork, and did not end
                os._exit(0)
            if not spoilt:  # else nothing more runs here
                self._look(variant)
            self._set_turn(None)

    def _count(self, variant: str, turn: Turn) -> None:
        turn.compiles, limit = self.watch.news()
        self.compiles[variant] += turn.compiles
        if limit:
            self.limits[variant] = limit

    def forget_compiles(self) -> None:
        """Resets the counts after the warm-up."""
        self.watch.restart()
        self.compiles.clear()

    def close(self) -> None:
        """Sends what each variant has changed, and stops watching."""
        for variant, changes in self._changes.items():
            kind = REPLACEMENT if any(map(replaces, changes)) else ENVIRONMENT
            self._send(Note(variant, left_changed(sorted(changes)), kind))
        unexplained = sorted(set(self._unexplained).difference(*self._changes.values()))
        if unexplained:
            self._send(Warnings([f"a variant, while it was timed, {left_changed(unexplained)}"]))
        self.watch.close()

    def _look(self, variant: str) -> None:
        """Looks after a turn at what others are timed under, and now and then at all else.

        Once something was left changed, at all of it after each turn, so as to see whose doing it is.
        """
        if self._changes or self._unexplained:
            self._restore(variant, self.state.restore_all())
            return
        self._restore(variant, self.state.restore())
        if monotonic() - self._looked > FULL_S:
            self._unexplained = self.state.restore_all()
            self._looked = monotonic()
            if tampered := self.state.tampered(self._unexplained):
                self._send(Tampered((), f"tampers with what measures it: replaces {few(sorted(tampered))}", TAMPERING))

    def _restore(self, variant: str, changed: list[str]) -> None:
        known = self._changes.setdefault(self._row(variant), set()) if changed else set()
        tampered = sorted(set(self.state.tampered(changed)) - known)
        if tampered:
            self._tell(self._row(variant), f"tampers with what measures it: replaces {few(tampered)}")
        known.update(changed)

    def _tell(self, row: str, reason: str) -> None:
        """Says whose turn it was; of who did it that says nothing if it is the baseline's, or not the only one."""
        others = self._tampering.setdefault(reason, {row: None})
        others[row] = None
        own = len(others) == 1 and row != self._baseline
        self._send(Status(row, WRONG, reason, TAMPERING) if own else Tampered(tuple(others), reason, TAMPERING))

    def _fail(self, variant: str, step: str, error: BaseException) -> None:
        self.failed.add(self._row(variant))
        if isinstance(error, UnsupportedError):
            self._send(Status(self._row(variant), SKIPPED, str(error)))
            return
        with contextlib.suppress(Exception):  # a variant may have closed stderr, or raise where it is printed
            traceback.print_exception(error, file=sys.stderr)
        kind = EXIT if isinstance(error, SystemExit) else None
        self._send(Status(self._row(variant), FAILED, failure(step, error), kind))
        if self._failed_compiles_cached and torch_private.compile_failed(error):
            self._send(Note(self._row(variant), FAILED_COMPILE))

    def _row(self, variant: str) -> str:
        return self._baseline if variant in CONTROLS else variant


def failure(step: str, error: BaseException) -> str:
    """The reason in a row for an exception: its kind, its first line, and the step in which it was raised."""
    if isinstance(error, ProbeError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"called sys.exit({error.code!r}) ({WHEN[step]})"
    return f"{type(error).__name__}: {informative_line(error)} ({WHEN[step]})"


def informative_line(error: BaseException) -> str:
    """The line of a message that says what happened; a compiler's failure buries it."""
    with contextlib.suppress(Exception):
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        for line in lines:
            if "No working C++ compiler" in line or "Invalid C++ compiler" in line or "Explanation:" in line:
                return one_line(line.removeprefix("Explanation: "))
        if lines[0].endswith(":"):  # backend='neuron' raised:
            return one_line(" ".join(lines[:2]))
    return one_line(error)


def left_changed(what: list[str]) -> str:
    """The rest of a warning that starts with a name: the global state that it has changed."""
    return (
        f"leaves changes of {', '.join(what)} behind: other variants would be measured under them; "
        "they were undone after each of its turns; let the variant undo them itself"
    )
