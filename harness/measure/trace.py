"""The events of a profile, in one form whether they come from Kineto in memory or from a trace file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

CALL = "harness.call"  # the annotation around each call of a variant
GUARDS = "TorchDynamo Cache Lookup"  # no operator: Dynamo's check that compiled code fits its arguments

OPERATOR, ANNOTATION, RUNTIME, DEVICE, MEMORY = "operator", "annotation", "runtime", "device", "memory"

# Kineto's activity names, which are also the categories of its trace files
KINDS = {
    "cpu_op": OPERATOR,
    "user_annotation": ANNOTATION,
    "cuda_runtime": RUNTIME,
    "cuda_driver": RUNTIME,
    "privateuse1_runtime": RUNTIME,
    "privateuse1_driver": RUNTIME,
    "kernel": DEVICE,
    "concurrent_kernel": DEVICE,
    "gpu_memcpy": DEVICE,
    "gpu_memset": DEVICE,
    "cpu_instant_event": MEMORY,
}


@dataclass(slots=True)
class Event:
    """One span of a profile; times in nanoseconds on the profiler's clock."""

    name: str
    kind: str
    start: int
    end: int
    lane: Any  # the thread, or the device's stream
    id: int  # of an operator: what its device work is linked by
    link: int  # of device work and runtime calls: the operator that launched them; 0: not known
    bytes: int = 0

    @property
    def duration(self) -> int:
        return self.end - self.start


def folder_name(variant: str) -> str:
    """The folder of a variant's traces: its name where every file system takes it."""
    safe = "".join(c if (c.isascii() and c.isalnum()) or c in "-_." else "_" for c in variant).strip(".")[:80]
    return safe if safe == variant else f"{safe}-{hashlib.sha256(variant.encode()).hexdigest()[:8]}"


def from_kineto(profile: Any) -> list[Event]:
    """Events of a torch.profiler.profile that has ended, ordered by start, an outer one before those that it holds."""
    found = []
    names: dict[str, str] = {}  # a profile has many events and few names
    for event in profile.profiler.kineto_results.events():
        kind = KINDS.get(event.activity_type())
        if kind is None:
            continue
        start, lane = event.start_ns(), event.start_thread_id()
        if kind == DEVICE:
            lane = (event.device_index(), event.device_resource_id())
        name = event.name()
        found.append(
            Event(
                names.setdefault(name, name), kind, start, start + event.duration_ns(), lane,
                event.correlation_id(), event.linked_correlation_id(), event.nbytes() if kind == MEMORY else 0,
            )
        )  # fmt: skip
    return _ordered(found)


def from_file(path: Path) -> list[Event]:
    """Events of a trace file in Chrome trace format, as Kineto writes it."""
    found = []
    for event in json.loads(path.read_text())["traceEvents"]:
        kind = KINDS.get(event.get("cat", ""))
        if kind is None or event.get("ph") != "X":
            continue
        start = round(event["ts"] * 1000)
        external = int(event.get("args", {}).get("External id", 0))
        launched = kind in (DEVICE, RUNTIME)
        found.append(
            Event(
                event["name"], kind, start, start + round(event.get("dur", 0) * 1000), (event["pid"], event["tid"]),
                0 if launched else external, external if launched else 0,
            )
        )  # fmt: skip
    return _ordered(found)


def calls(events: list[Event]) -> list[Event]:
    """The annotations around the variant's calls, in order."""
    return [event for event in events if event.kind == ANNOTATION and event.name == CALL]


def _ordered(events: list[Event]) -> list[Event]:
    # two stable sorts of events that are almost in order take less than one by a pair
    events.sort(key=attrgetter("end"), reverse=True)
    events.sort(key=attrgetter("start"))
    return events
