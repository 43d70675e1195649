"""Operators: those of a step by their shapes, strides, dtypes and arguments, and by whose code calls them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from harness.measure import trace
from harness.measure.torch_private import ENGINE
from harness.model.recording.times import AUTOGRAD, OPTIMIZER, OUTSIDE, Profile
from harness.model.step import Operator

Texts = tuple[str, str, str, str]
NOTHING: Texts = ("", "", "", "")
OWN_ROWS = {OUTSIDE: "", AUTOGRAD: "autograd", OPTIMIZER: "optimizer"}


class Arguments:
    """Shapes, strides, dtypes and other arguments of each operator by its id, as the profiler writes them."""

    def __init__(self) -> None:
        self._texts: dict[int, Texts] = {}

    def see(self, operator: int, given: Mapping[str, Any]) -> None:
        """Takes what a trace says of an operator."""
        texts = [_listed(given.get(key)) for key in ("Input Dims", "Input Strides", "Input type")]
        plain = _listed([value for value in given.get("Concrete Inputs", ()) if value != ""])
        self._texts[operator] = (texts[0], texts[1], texts[2], plain)

    def of(self, watched: Profile, plain: Profile) -> dict[int, Texts]:
        """Those of the operators of a plain profile by its ids; none if the watched one, theirs, had others."""
        theirs, others = watched.operators, plain.operators
        if [event.name for event in theirs] != [event.name for event in others]:
            return {}
        return {other.id: self._texts[event.id] for event, other in zip(theirs, others, strict=True)}


def operators(
    profile: Profile, arguments: Mapping[int, Texts], owners: Sequence[int], callers: Sequence[str], timed: bool
) -> list[Operator]:
    """The operators of a step's profile with their arguments, the costliest first.

    `owners` are the calls that own the profile's host events, `callers` the classes and functions of these calls;
    `timed`: device times are known.
    """
    launched: dict[int, int] = defaultdict(int)
    for event in profile.device:
        launched[event.link] += event.duration
    sums: dict[tuple[str, str, str, str, str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for event, owner, own in zip(profile.host, owners, profile.self_ns, strict=True):
        if event.kind == trace.OPERATOR and not event.name.startswith(ENGINE):
            caller = callers[owner] if owner >= 0 else OWN_ROWS[owner]
            total = sums[(event.name, caller, *arguments.get(event.id, NOTHING))]
            total[0] += 1
            total[1] += own
            total[2] += launched.get(event.id, 0)
    rows = [
        Operator(*key, calls, own / 1e3, device / 1e3 if timed else None) for key, (calls, own, device) in sums.items()
    ]
    return sorted(rows, key=lambda row: (row.device_us or 0.0, row.self_cpu_us), reverse=True)


def _listed(value: Any) -> str:
    return ", ".join(map(str, value or ()))
