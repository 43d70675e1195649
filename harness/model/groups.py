"""Groups: a step's calls that are alike, at the level where a replacement makes sense; the rows of hotspots.csv.

Levels contain one another: a layer its attention, that its projections. Going down from the model, a group stops where
it calls no other module, or where much of its time is its own code's, which no replacement of what it calls would
change; unless it is most of the model. Its functions of torch are groups of their own if they cost something. Calls
whose sizes follow from the data are one group, with a range of shapes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from harness.model import plain
from harness.model.names import of_call, pattern, short, unique
from harness.model.step import FUNCTION, MODULE, Call, Step

OWN_CODE = 0.3  # of a module's time: a module with more of its own is not taken further apart
MOST = 0.5  # of the step: a module with more is taken apart in any case
DEVICE_BOUND = 0.5  # of the step: a device that is busy for less is not what limits it
LAYER = 0.1  # of the step: a repeated module with more is measured as a whole as well as its parts
NOTABLE = 0.01  # of the step: a function with less is counted to the module that calls it

PYTHON, GAPS = "(Python outside of modules)", "(gaps of the device)"
AUTOGRAD, OPTIMIZER = "(autograd's engine)", "(optimizer)"
UNATTRIBUTED = (PYTHON, GAPS, OPTIMIZER)
OWN = "own code"


@dataclass(frozen=True)
class Group:
    """Calls that are alike; their times include what they call, and are sums over the step, in microseconds."""

    name: str
    calls: tuple[int, ...]  # positions in the step
    first: Call  # of them, of the shape that its case has
    signature: Any  # of that one
    span: Any  # of all of them: its sizes are ranges if shapes differ
    shapes: int  # different ones
    like_first: float  # calls as its case makes them that take as long as all of them
    host_us: float
    own_share: float  # of what is shared of it: its own code's, and of the functions of torch that it calls
    self_cpu_us: float
    device_time_us: float | None
    share: float  # of the step
    paths: tuple[str, ...]
    has_modules: bool  # calls other modules

    @property
    def count(self) -> int:
        """Calls in a step."""
        return len(self.calls)

    @property
    def where(self) -> str:
        """`model.layers.*.mlp`."""
        return pattern(self.paths)


@dataclass(frozen=True)
class Row:
    """A row of the hot spots: a group, or what belongs to none. Times are sums over the step, in microseconds."""

    group: str
    module: str
    function: str
    shapes: str
    dtype: str
    count: int
    self_cpu_us: float | None
    device_time_us: float | None
    share: float
    host_us: float
    is_group: bool


class HotSpots:
    """A step's groups, at all levels, and the rows that share it among them.

    Shares are those of device time, unless the device is idle most of the step: then the host is the limit, and it is
    its time that is shared.
    """

    def __init__(self, step: Step):
        self.step = step
        self.by_device = step.busy_us is not None and step.busy_us >= DEVICE_BOUND * step.host_us
        self.children: dict[int, list[int]] = defaultdict(list)
        for position, called in enumerate(step.calls):
            self.children[called.parent].append(position)
        self._inclusive = self._sums()

    @cached_property
    def groups(self) -> dict[str, Group]:
        """Every group by its name, at all levels, the costliest first.

        Names do not depend on what was measured: those that are the same are numbered in the order of their first call.
        """
        alike: dict[tuple[str, str, str], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for position, called in enumerate(self.step.calls):
            alike[called.kind, called.function, called.config][called.signature].append(position)
        parts = [
            sorted(position for signature in one for position in positions[signature])
            for positions in alike.values()
            for one in plain.together({signature: self.step.signatures[signature] for signature in positions})
        ]
        found = [self._group(positions) for positions in sorted(parts)]
        names = unique([of_call(group.first.function, group.span) for group in found])
        named = [replace(group, name=name) for group, name in zip(found, names, strict=True)]
        return {group.name: group for group in sorted(named, key=self.cost, reverse=True)}

    def cost(self, part: Group | Row) -> float:
        """What is shared of a group or row, in microseconds: its time on the device, or on the host."""
        return (part.device_time_us or 0.0) if self.by_device else part.host_us

    @cached_property
    def of_call(self) -> dict[int, Group]:
        """The group of each call."""
        return {position: group for group in self.groups.values() for position in group.calls}

    @cached_property
    def shown(self) -> list[Group]:
        """The groups at the levels where a replacement makes sense, the costliest first; none contains another."""
        taken: dict[str, list[int]] = defaultdict(list)
        for position in self._cut:
            taken[self.of_call[position].name].append(position)
        groups = [
            replace(self._group(sorted(positions), self.groups[name].first), name=name)
            for name, positions in taken.items()
        ]
        return sorted(groups, key=self.cost, reverse=True)

    @cached_property
    def layers(self) -> list[Group]:
        """Modules that are called several times and are taken apart: what a model repeats, worth a look as a whole."""
        groups = [group for group in self.groups.values() if group.has_modules and group.count > 1]
        return [group for group in groups if group.share >= LAYER]

    @cached_property
    def compile(self) -> dict[str, Any]:
        """Arguments of torch.compile: where sizes follow from the data, torch decides whether a kernel is dynamic."""
        return {"dynamic": None} if any(group.shapes > 1 for group in self.groups.values()) else {}

    def covered(self, names: Container[str]) -> float:
        """The share of the step in groups of these names, which may contain one another."""
        share = 0.0
        pending = list(self.children[-1])
        while pending:
            position = pending.pop()
            if self.of_call[position].name in names:
                share += self._inclusive[position][2 if self.by_device else 0] / self.step.host_us
            else:
                pending += self.children[position]
        return share

    @cached_property
    def rows(self) -> list[Row]:
        """The rows that share the step among them, the costliest first."""
        rows = [self.row(group) for group in self.shown]
        rows += [self._own_code(function, positions) for function, positions in self._rest.items()]
        rows = [row for row in rows if row.share > 0]
        rows += self._outside()
        return sorted(rows, key=lambda row: row.share, reverse=True)

    @property
    def attributed(self) -> float:
        """The share of the step that is that of groups, of the model's own code, and of autograd."""
        return sum(row.share for row in self.rows if row.group not in UNATTRIBUTED)

    # Levels

    def stops(self, group: Group) -> bool:
        """Whether a group is taken no further apart."""
        if not group.has_modules:
            return True
        return group.share <= MOST and group.own_share > OWN_CODE

    @cached_property
    def _cut(self) -> list[int]:
        """The calls whose groups are shown."""
        return self._walked[0]

    @cached_property
    def _rest(self) -> dict[str, list[int]]:
        """The calls that are taken apart, by their class: their own code is a row, small functions are in it."""
        return self._walked[1]

    @cached_property
    def _walked(self) -> tuple[list[int], dict[str, list[int]]]:
        cut: list[int] = []
        rest: dict[str, list[int]] = defaultdict(list)
        pending = list(self.children[-1])
        while pending:
            position = pending.pop()
            called = self.step.calls[position]
            group = self.of_call[position]
            if called.kind == FUNCTION:
                if group.share >= NOTABLE:
                    cut.append(position)
                else:
                    rest[self.step.calls[called.parent].function].append(position)
            elif self.stops(group):
                cut.append(position)
            else:
                rest[called.function].append(position)
                pending += self.children[position]
        return cut, rest

    def _sums(self) -> list[tuple[float, float, float]]:
        """Host, Self CPU and device time of each call with all that it calls."""
        sums = [[call.host_us, call.self_cpu_us, call.device_us or 0.0] for call in self.step.calls]
        for position in reversed(range(len(sums))):
            parent = self.step.calls[position].parent
            if parent >= 0:
                for index, part in enumerate(sums[position]):
                    sums[parent][index] += part
        return [(a, b, c) for a, b, c in sums]

    def _group(self, positions: Sequence[int], first: Call | None = None) -> Group:
        """The group of these calls; its case has the shape of `first`, or else the middle one of the most frequent."""
        counts = Counter(self.step.calls[position].signature for position in positions)
        if first is None:
            chosen = plain.middle({s: self.step.signatures[s] for s in counts if counts[s] == max(counts.values())})
            first = next(call for position in positions if (call := self.step.calls[position]).signature == chosen)
        host, cpu, device = (sum(self._inclusive[position][index] for position in positions) for index in range(3))
        inner = [child for position in positions for child in self.children[position]]
        modules = [child for child in inner if self.step.calls[child].kind == MODULE]
        index = 2 if self.by_device else 0
        cost = (host, cpu, device)[index]
        within = sum(self._inclusive[child][index] for child in modules)
        alike = self._alike([p for p in positions if self.step.calls[p].signature == first.signature], index)
        return Group(
            name="",
            calls=tuple(positions),
            first=first,
            signature=self.step.signatures[first.signature],
            span=plain.span([self.step.signatures[signature] for signature in counts]),
            shapes=len(counts),
            like_first=cost / alike if alike else len(positions),
            host_us=host,
            own_share=1 - within / cost if cost else 0.0,
            self_cpu_us=cpu,
            device_time_us=device if self.step.busy_us is not None else None,
            share=cost / self.step.host_us if self.step.host_us else 0.0,
            paths=tuple(dict.fromkeys(self.step.calls[position].path for position in positions)),
            has_modules=bool(modules),
        )

    def _alike(self, positions: Sequence[int], index: int) -> float:
        """What one of these calls costs; of those that a checkpoint makes a second time, or those before, the costlier.

        The others do without the backward pass, which their case has.
        """
        costs: dict[bool, list[float]] = defaultdict(list)
        for position in positions:
            costs[self._again[position]].append(self._inclusive[position][index])
        return max(map(fmean, costs.values()), default=0.0)

    @cached_property
    def _again(self) -> list[bool]:
        """Whether each call is made when the model's own has ended, as in a checkpoint's backward pass."""
        again: list[bool] = []
        for called in self.step.calls:
            again.append(again[called.parent] if called.parent >= 0 else bool(called.path))
        return again

    # Rows

    def row(self, group: Group) -> Row:
        """A group as a row."""
        shapes, dtypes = plain.shapes(group.span), plain.dtypes(group.signature, self.step.dtype)
        return Row(
            group.name, group.where, group.first.function, shapes, dtypes, group.count,
            group.self_cpu_us, group.device_time_us, group.share, group.host_us, True,
        )  # fmt: skip

    def _own_code(self, function: str, positions: Sequence[int]) -> Row:
        calls = [self.step.calls[position] for position in positions]
        host = sum(call.host_us for call in calls)
        device = sum(call.device_us or 0.0 for call in calls) if self.step.busy_us is not None else None
        share = ((device or 0.0) if self.by_device else host) / self.step.host_us
        modules = [call for call in calls if call.kind == MODULE]
        where = pattern(tuple(dict.fromkeys(call.path for call in calls)))
        cpu = sum(call.self_cpu_us for call in calls)
        return Row(f"{short(function)}, {OWN}", where, function, "", "", len(modules), cpu, device, share, host, False)

    def _outside(self) -> list[Row]:
        step = self.step
        if self.by_device:
            parts = {GAPS: step.host_us - (step.busy_us or 0.0)}
        else:
            parts = {PYTHON: step.outside_us, AUTOGRAD: step.autograd_us, OPTIMIZER: step.optimizer_us}
        return [
            Row(name, "", "", "", "", 1, None, None, us / step.host_us, us, False)
            for name, us in parts.items()
            if us > 0
        ]
