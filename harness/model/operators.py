"""Operators: those of a step by their shapes, strides, dtypes and arguments, and by whose code calls them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.measure import trace
from harness.measure.torch_private import ENGINE
from harness.model.step import Operator
from harness.model.times import OPTIMIZER, OUTSIDE, Profile

NOTHING = ("", "", "", "")
OWN_ROWS = {OUTSIDE: "", OPTIMIZER: "optimizer"}


def operators(
    folder: Path, profile: Profile, owners: Sequence[int], callers: Sequence[str], timed: bool
) -> list[Operator]:
    """The operators of a step's profile, whose trace is in `folder`, the costliest first.

    `owners` are the calls that own the profile's host events, `callers` the classes and functions of these calls;
    `timed`: device times are known.
    """
    arguments = _arguments(folder / trace.TRACE)
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


def _arguments(path: Path) -> dict[int, tuple[str, str, str, str]]:
    """Shapes, strides, dtypes and other arguments of each operator by its id, as the profiler writes them."""
    found = {}
    for entry in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]:
        if entry.get("cat") == "cpu_op":
            given = entry.get("args", {})
            texts = [_listed(given.get(key)) for key in ("Input Dims", "Input Strides", "Input type")]
            plain = _listed([value for value in given.get("Concrete Inputs", ()) if value != ""])
            found[int(given.get("External id", 0))] = (texts[0], texts[1], texts[2], plain)
    return found


def _listed(value: Any) -> str:
    return ", ".join(map(str, value or ()))
