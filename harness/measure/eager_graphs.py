"""Compiled graphs that ran eagerly: on a device whose graphs are one execution, nothing else in a trace tells."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from harness.measure import trace
from harness.measure.attribution import Calls
from harness.measure.torch_private import COMPILED_FUNCTION, COMPILED_REGION
from harness.measure.trace import Event


def eager_operators(calls: Calls) -> list[str]:
    """Names of the operators that launched work within a compiled region which launched none itself, in order."""
    launching: dict[int, list[str]] = defaultdict(list)  # by the position of the region
    open_: dict[Any, list[tuple[Event, int]]] = defaultdict(list)  # regions by thread, with their positions
    for position, event in enumerate(calls.host):
        if event.kind != trace.OPERATOR:
            continue
        regions = open_[event.lane]
        while regions and regions[-1][0].end <= event.start:
            regions.pop()
        if event.name.startswith((COMPILED_REGION, COMPILED_FUNCTION)):
            regions.append((event, position))
        elif regions and calls.launched.get(event.id):
            launching[regions[-1][1]].append(event.name)
    eager = [names for position, names in launching.items() if not calls.launched.get(calls.host[position].id)]
    return list(dict.fromkeys(name for names in eager for name in names))
