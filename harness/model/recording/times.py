"""Times: a step's profile, each moment and each operator given to the innermost call that it is part of.

A moment on the host belongs to the call whose own code runs then. A node of the backward pass belongs to the call
whose operator made it, by autograd's sequence number. Device work belongs to the call of the operator that launched it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from harness.measure import trace
from harness.measure.attribution import busy_ns, nesting
from harness.measure.torch_private import ENGINE
from harness.measure.trace import Event

OUTSIDE = -1  # of every call
OPTIMIZER = -2
WATCHED = -3  # is no part of the step
AUTOGRAD = -4  # its engine's own: before the first node of a backward pass, and after the last
MODULE_SPAN = "module "  # how the span of a module's call begins: `module layers.0.mlp (MLP)`
FUNCTION_SPAN = "function "
OPTIMIZER_SPAN = "Optimizer.step#"  # how torch annotates it
WATCHING = "harness.watching"  # the annotation around what is done to see, which is no part of the step
OWN_SPANS = (MODULE_SPAN, FUNCTION_SPAN, WATCHING)


@dataclass
class Times:
    """The own times of calls by their position, in nanoseconds; OUTSIDE, OPTIMIZER and AUTOGRAD have positions too."""

    host: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    self_cpu: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    device: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    operators: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # outermost ones


@dataclass(frozen=True)
class Span:
    """A stretch of time on one thread that belongs to a call."""

    start: int
    end: int
    lane: Any
    owner: int


class Profile:
    """The events of one step in a profile, which waits for the device at its end; `until` is the start of the next."""

    def __init__(self, events: Sequence[Event], window: Event, until: float):
        self.window = window
        self.device = [event for event in events if event.kind == trace.DEVICE and window.start <= event.start < until]
        self.host = [
            event
            for event in events
            if event.kind in (trace.OPERATOR, trace.ANNOTATION)
            and window.start <= event.start < window.end
            and event is not window
        ]
        for event in self.host:
            if event.name.startswith(OWN_SPANS):  # a cheap annotation is recorded as an operator
                event.kind = trace.ANNOTATION
        # a module that is called by an operator, as what a checkpoint computes again is, has outermost ones of its own
        self.self_ns, self.outermost = nesting(self.host, (MODULE_SPAN,))

    @classmethod
    def of(cls, events: Sequence[Event]) -> list[Profile]:
        """Each of the steps in a profile."""
        windows = [event for event in events if event.name == trace.CALL]
        ends = [*(float(window.start) for window in windows[1:]), math.inf]
        return [cls(events, window, until) for window, until in zip(windows, ends, strict=True)]

    def annotations(self, prefix: str) -> list[Event]:
        """The annotations whose names begin so, in the order of their start."""
        return [event for event in self._annotations if event.name.startswith(prefix)]

    @cached_property
    def _annotations(self) -> list[Event]:
        return [event for event in self.host if event.kind == trace.ANNOTATION]

    @cached_property
    def operators(self) -> list[Event]:
        """The operators of the step, in the order of their start, without those that serve to watch it."""
        owners = _owners(self.host, self.watching)
        return [
            event for event, owner in zip(self.host, owners, strict=True)
            if event.kind == trace.OPERATOR and owner == OUTSIDE
        ]  # fmt: skip

    @cached_property
    def watching(self) -> list[Span]:
        """The spans in which the step is watched."""
        return [Span(e.start, e.end, e.lane, WATCHED) for e in self.annotations(WATCHING)]

    def times(self, spans: Sequence[Span]) -> tuple[Times, list[int]]:
        """Each call's own times, for the spans of calls; and the owner of each of `host`."""
        forward = list(_owners(self.host, spans))
        backward = list(self._backward(forward))
        optimizer = [Span(e.start, e.end, e.lane, OPTIMIZER) for e in self.annotations(OPTIMIZER_SPAN)]
        everything = [*spans, *backward, *optimizer]
        owners = list(_owners(self.host, everything)) if backward or optimizer else forward
        times = Times()
        for span, own in _own(everything):
            times.host[span.owner] += own
        times.host[AUTOGRAD] += self._autograd_ns(spans, backward)
        by_id = {}
        for event, owner, own, outermost in zip(self.host, owners, self.self_ns, self.outermost, strict=True):
            if event.kind == trace.OPERATOR:
                by_id[event.id] = owner
                times.self_cpu[owner] += own
                times.operators[owner] += outermost
        for event in self.device:
            times.device[by_id.get(event.link, OUTSIDE)] += event.duration
        return times, owners

    @property
    def busy_ns(self) -> int:
        """Time in which a device runs something; with several devices their times are added up."""
        lanes: dict[Any, list[Event]] = defaultdict(list)
        for event in self.device:
            lanes[event.lane[0]].append(event)
        return sum(busy_ns(events) for events in lanes.values())

    @property
    def span_ns(self) -> int:
        """The time from its start on the host until its work is done, there or on a device."""
        return max([self.window.end, *(event.end for event in self.device)]) - self.window.start

    def outside_ns(self, times: Times) -> int:
        """The time from its start to its end in which no call's own code runs, nor an optimizer."""
        return self.span_ns - sum(own for owner, own in times.host.items() if owner != OUTSIDE)

    def _autograd_ns(self, calls: Sequence[Span], nodes: Sequence[Span]) -> int:
        """The time from the end of the forward pass in which no node runs."""
        if not nodes:
            return 0
        begin = reached = max((span.end for span in calls if span.end <= nodes[0].start), default=self.window.start)
        covered = 0
        for span in sorted([*calls, *nodes], key=lambda span: span.start):
            covered += max(0, span.end - max(span.start, reached))
            reached = max(reached, span.end)
        return self.window.end - begin - covered

    def _backward(self, forward: Sequence[int]) -> Iterator[Span]:
        """The spans of autograd's nodes, each owned by the call that made it: the last operator of its number did."""
        made = {
            event.sequence: owner
            for event, owner in zip(self.host, forward, strict=True)
            if event.sequence >= 0 and not event.name.startswith(ENGINE)
            if owner != OUTSIDE
        }
        nodes = [event for event in self.host if event.name.startswith(ENGINE)]
        before = AUTOGRAD
        for node, end in zip(nodes, _until_next(nodes), strict=True):
            # a parameter's gradient is accumulated right after the node that gave it, and has no number of its own
            owner = before if node.sequence < 0 else made.get(node.sequence, AUTOGRAD)
            yield Span(node.start, end, node.lane, owner)
            before = owner


def _until_next(nodes: Sequence[Event]) -> list[int]:
    """The end of each node with what the engine does after it, which is until the next one on its thread starts."""
    ends = [node.end for node in nodes]
    last: dict[Any, int] = {}
    for position, node in enumerate(nodes):
        before = last.get(node.lane)
        if before is not None and ends[before] > node.start:
            continue  # within another
        if before is not None:
            ends[before] = node.start
        last[node.lane] = position
    return ends


class Watched:
    """The profile of a step that shows its modules and its functions, for others of the same step."""

    def __init__(self, profile: Profile, modules: Sequence[Span], functions: Sequence[Span]):
        self._dispatched = _dispatched(profile, modules)
        self._functions = dict(zip(map(id, profile.host), _owners(profile.host, functions), strict=True))

    def functions(self, plain: Profile, modules: Sequence[Span]) -> list[Span]:
        """The spans of functions in a plain profile, whose `modules` are annotated, the same ones, and no functions.

        A module's own code dispatches the same operators in either, so that a function's span is from its first to its
        last; where it does not, its functions have none.
        """
        found = []
        for owner, events in _dispatched(plain, modules).items():
            others = self._dispatched.get(owner, [])
            if [event.name for event in events] != [event.name for event in others]:
                continue
            within: dict[int, list[Event]] = defaultdict(list)
            for event, other in zip(events, others, strict=True):
                within[self._functions[id(other)]].append(event)
            within.pop(OUTSIDE, None)
            found += [Span(first[0].start, max(e.end for e in first), first[0].lane, f) for f, first in within.items()]
        return found


def _dispatched(profile: Profile, modules: Sequence[Span]) -> dict[int, list[Event]]:
    """The outermost operators that each module's own code dispatches, in their order."""
    found: dict[int, list[Event]] = defaultdict(list)
    for event, owner, outermost in zip(
        profile.host, _owners(profile.host, [*modules, *profile.watching]), profile.outermost, strict=True
    ):
        if outermost and owner >= 0:
            found[owner].append(event)
    return found


def _owners(events: Sequence[Event], spans: Sequence[Span]) -> Iterator[int]:
    """The owner of the innermost span around each event, which are ordered by start."""
    ordered = sorted(spans, key=lambda span: (span.start, -span.end))
    open_: dict[Any, list[Span]] = defaultdict(list)
    position = 0
    for event in events:
        while position < len(ordered) and ordered[position].start <= event.start:
            span = ordered[position]
            stack = open_[span.lane]
            while stack and stack[-1].end <= span.start:
                stack.pop()
            stack.append(span)
            position += 1
        stack = open_[event.lane]
        while stack and stack[-1].end <= event.start:
            stack.pop()
        yield stack[-1].owner if stack else OUTSIDE


def _own(spans: Sequence[Span]) -> Iterator[tuple[Span, int]]:
    """Each span's own nanoseconds, without the spans inside it."""
    ordered = sorted(spans, key=lambda span: (span.start, -span.end))
    own = [span.end - span.start for span in ordered]
    open_: dict[Any, list[int]] = defaultdict(list)
    for position, span in enumerate(ordered):
        stack = open_[span.lane]
        while stack and ordered[stack[-1]].end <= span.start:
            stack.pop()
        if stack:
            own[stack[-1]] -= min(span.end, ordered[stack[-1]].end) - span.start
        stack.append(position)
    yield from zip(ordered, own, strict=True)
