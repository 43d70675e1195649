"""The events of a profile, read from its exported trace."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

CALL = "harness.call"  # the annotation around each call of a variant
TRACE = "trace.json"

OPERATOR, ANNOTATION, RUNTIME, DEVICE, MEMORY = "operator", "annotation", "runtime", "device", "memory"

SPANS_AND_INSTANTS = ("X", "i")

START = attrgetter("start")
PER_CORE = "nc_exec_running"  # Neuron's hardware executions, one for each physical core of a logical one

# The categories of Kineto's trace files, which are its activities' names
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
    flow: str = ""  # of device work: the submission that it belongs to, if the trace names it
    sequence: int = -1  # autograd's number: that of a backward node is its forward operator's; -1: none

    @property
    def duration(self) -> int:
        return self.end - self.start


def folder_name(variant: str) -> str:
    """The folder of a variant's traces: its name if every file system takes it."""
    safe = "".join(c if (c.isascii() and c.isalnum()) or c in "-_." else "_" for c in variant).strip(".")[:80]
    return safe if safe == variant else f"{safe}-{hashlib.sha256(variant.encode()).hexdigest()[:8]}"


def from_file(path: Path, see: Callable[[int, Mapping[str, Any]], None] | None = None) -> list[Event]:
    """Events of a trace file in Chrome trace format, as Kineto writes it: by start, an outer one before its inner ones.

    Executions of physical cores are merged. `see` is called with each operator's id and arguments. Raises OSError if
    the file cannot be read, and ValueError or KeyError if it is no such trace.
    """
    names: dict[str, str] = {}  # a trace has many events and few names and lanes
    lanes: dict[tuple[Any, Any], tuple[Any, Any]] = {}

    def converted(entry: dict[str, Any]) -> Any:
        """An Event for each entry that is one; as the file is parsed, so that the dicts never exist all at once."""
        kind = KINDS.get(entry.get("cat", ""))
        if kind is None or entry.get("ph") not in SPANS_AND_INSTANTS:
            return entry if "ph" not in entry else None
        name = entry["name"]
        lane = (entry["pid"], entry["tid"])
        arguments = entry.get("args", {})
        start = round(entry["ts"] * 1000)
        end = start + round(entry.get("dur", 0) * 1000)
        external = int(arguments.get("External id", 0))
        launched = kind in (DEVICE, RUNTIME)
        if see is not None and kind == OPERATOR:
            see(external, arguments)
        return Event(
            names.setdefault(name, name), kind, start, end, lanes.setdefault(lane, lane),
            0 if launched else external, external if launched else 0, int(arguments.get("Bytes", 0)),
            "" if (flow := arguments.get("flow_id")) is None else str(flow),
            int(arguments.get("Sequence number", -1)),
        )  # fmt: skip

    trace = json.loads(path.read_text(encoding="utf-8"), object_hook=converted)
    return _ordered(merged([event for event in trace["traceEvents"] if type(event) is Event]))


def merged(events: Iterable[Event]) -> list[Event]:
    """Events in which what was submitted to a logical core of Neuron is one execution, from first start to last end.

    Its physical cores run their parts side by side, and the hardware reports each. The n-th executions of all cores
    that have one flow, or one operator where the trace names no flow, are one; if the cores ran unequal numbers, which
    belong together is not known, and they stay as they are.
    """
    kept: list[Event] = []
    submitted: dict[Hashable, dict[Any, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        origin = event.flow or event.link
        if event.kind == DEVICE and event.name.startswith(PER_CORE) and origin:
            submitted[origin, event.name][event.lane].append(event)
        else:
            kept.append(event)
    for cores in submitted.values():
        parts = [sorted(core, key=START) for _, core in sorted(cores.items(), key=lambda item: str(item[0]))]
        if len(set(map(len, parts))) == 1:
            kept += map(_united, zip(*parts, strict=True))
        else:
            kept += [event for core in parts for event in core]
    return kept


def _united(parts: tuple[Event, ...]) -> Event:
    """On the lane of the first core."""
    if len(parts) == 1:
        return parts[0]
    return replace(parts[0], start=min(event.start for event in parts), end=max(event.end for event in parts))


def repair(path: Path) -> None:
    """Makes a trace strict JSON: Kineto copies quotes in labels and in the file's own path as they are."""

    def escaped(line: re.Match[str]) -> str:
        return f"{line[1]}{json.dumps(line[2])}{line[3]}"

    text = path.read_text(encoding="utf-8", errors="backslashreplace")
    text = re.sub(r'^(\s*"name": )"(.*)"(,?)$', escaped, text, flags=re.MULTILINE)
    text = re.sub(r'("traceName": )"(.*)"( \})\s*$', escaped, text)
    path.write_text(text, encoding="utf-8")


def of_profile(profile: Any) -> list[Event]:
    """Events of a torch.profiler.profile that has ended."""
    with tempfile.TemporaryDirectory(prefix="harness-") as folder:
        path = Path(folder) / TRACE
        profile.export_chrome_trace(str(path))
        return of_export(path)


def of_export(path: Path, see: Callable[[int, Mapping[str, Any]], None] | None = None) -> list[Event]:
    """Events of a trace that was just written, which is made strict JSON if it is not; `see` as in `from_file`."""
    try:
        return from_file(path, see)
    except ValueError:
        repair(path)
        return from_file(path, see)


def calls(events: list[Event]) -> list[Event]:
    """The annotations around the variant's calls, in order."""
    return [event for event in events if event.kind == ANNOTATION and event.name == CALL]


def _ordered(events: list[Event]) -> list[Event]:
    # two stable sorts of events that are almost in order take less than one by a pair
    events.sort(key=attrgetter("end"), reverse=True)
    events.sort(key=START)
    return events
