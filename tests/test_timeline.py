"""The life of a call, read from recorded traces: one of the simulated NeuronCore, one in Kineto's form for CUDA."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.measure import trace
from harness.measure.attribution import Calls, timeline
from harness.measure.observations import Timeline
from harness.measure.trace import Event

TRACES = Path(__file__).parent / "traces"
CALLS = 3  # in neuroncore.json: naive RMSNorm, six operators of 5 µs on the device


@pytest.fixture(scope="module")
def neuron() -> list[Event]:
    return trace.from_file(TRACES / "neuroncore.json")


@pytest.fixture(scope="module")
def cuda() -> list[Event]:
    return trace.from_file(TRACES / "cuda.json")


def analysed(events: list[Event]) -> Timeline:
    found = timeline(Calls(events))
    assert found is not None
    return found


def kernel(start: int, end: int, stream: int = 0, device: int = 0, link: int = 0) -> Event:
    return Event("kernel", trace.DEVICE, start, end, (device, stream), 0, link)


def call(start: int, end: int) -> Event:
    return Event(trace.CALL, trace.ANNOTATION, start, end, (9, 9), 0, 0)


def test_every_lane_of_the_simulated_core_is_counted_per_call(neuron: list[Event]) -> None:
    found = analysed(neuron)
    assert (found.host_dispatches, found.runtime_schedules, found.device_executions) == (6, 6, 6)
    assert found.device_busy_us == pytest.approx(30, abs=0.01)


def test_span_and_gaps_of_the_simulated_core(neuron: list[Event]) -> None:
    """Its executions never overlap, so that the gaps are what lies between one's end and the next one's start."""
    ran = [event for event in neuron if event.kind == trace.DEVICE]
    calls = [ran[6 * index : 6 * index + 6] for index in range(CALLS)]
    gaps = sum(after.start - before.end for group in calls for before, after in itertools.pairwise(group))
    found = analysed(neuron)
    assert found.device_gap_us == pytest.approx(gaps / CALLS / 1e3, abs=0.01)
    assert found.device_gap_us > 1
    assert found.device_span_us == pytest.approx(found.device_busy_us + found.device_gap_us, abs=0.001)


def test_kineto_writes_cuda_in_the_same_form(cuda: list[Event]) -> None:
    """By hand, first call: streams 7 and 8 of device 0 overlap (1130 to 1180, 1160 to 1190), and a kernel of the call
    runs only after the next one began (1320 to 1340): busy 80, span 210. Second call: 20 on device 0; on device 1 one
    from 1350 to 1390, which another overlaps and outlives, and one of no known operator (1395 to 1405): busy 50, span
    55.
    """
    found = analysed(cuda)
    assert found.host_dispatches == 2  # addmm is linear's own
    assert found.runtime_schedules == 2.5  # without the two synchronizations
    assert found.device_executions == 3.5
    assert found.device_busy_us == pytest.approx((80 + 20 + 50) / 2)
    assert found.device_span_us == pytest.approx((210 + 20 + 55) / 2)
    assert found.device_gap_us == pytest.approx((130 + 0 + 5) / 2)
    assert found.host_us == pytest.approx(100)


def test_the_last_to_start_need_not_be_the_last_to_end() -> None:
    found = analysed([call(0, 10_000), kernel(1_000, 9_000), kernel(2_000, 3_000, stream=1)])
    assert (found.device_busy_us, found.device_span_us, found.device_gap_us) == (8, 8, 0)


def test_a_device_whose_clock_is_behind_is_as_busy(neuron: list[Event]) -> None:
    """By so much that its executions start before the profile's zero: they belong to who launched them all the same."""
    behind = [
        replace(event, start=event.start - 10**12, end=event.end - 10**12) if event.kind == trace.DEVICE else event
        for event in neuron
    ]
    found, usual = analysed(sorted(behind, key=trace.START)), analysed(neuron)
    assert found.device_executions == 6
    assert (found.device_busy_us, found.device_gap_us) == (usual.device_busy_us, usual.device_gap_us)


def test_work_after_the_call_belongs_to_it_and_work_before_the_first_to_none() -> None:
    found = analysed(
        [kernel(0, 500), call(1_000, 2_000), kernel(5_000, 6_000), call(7_000, 8_000), kernel(9_000, 9_500)]
    )
    assert found.device_executions == 1
    assert (found.device_busy_us, found.device_gap_us) == (0.75, 0)


def test_the_host_is_the_cause_of_a_gap_until_it_has_given_the_next_execution() -> None:
    """Gaps of 2, 3 and 1 µs: given before the gap began, 1 µs before it ended, and by a launch that is not traced."""

    def launch(start: int, link: int) -> Event:
        return Event("cudaLaunchKernel", trace.RUNTIME, start, start + 10, (9, 9), 0, link)

    launches = [launch(100, 1), launch(200, 2), launch(8_000, 2)]
    kernels = [
        kernel(1_000, 2_000, link=1),
        kernel(4_000, 6_000, link=2),
        kernel(9_000, 10_000, link=2),
        kernel(11_000, 12_000),
    ]
    found = analysed([call(0, 9_500), *launches, *kernels])
    assert (found.device_gap_us, found.device_wait_us) == (6, 2)
    assert analysed([call(0, 9_500), *kernels]).device_wait_us is None, "without the runtime nothing is known"


def test_devices_side_by_side_are_each_busy() -> None:
    found = analysed(
        [call(0, 9_000), kernel(1_000, 2_000), kernel(1_000, 2_000, device=1), kernel(4_000, 5_000, device=1)]
    )
    assert (found.device_busy_us, found.device_span_us, found.device_gap_us) == (3, 5, 2)


def physical(core: int, start: int, end: int, flow: str = "", link: int = 7) -> Event:
    """What Neuron's hardware reports of one physical core."""
    return Event(f"{trace.PER_CORE}: graph", trace.DEVICE, start, end, (0, core), 0, link, flow=flow)


def spans(events: list[Event]) -> list[tuple[int, int]]:
    """Starts and ends of the executions after those of physical cores were merged."""
    return sorted((event.start, event.end) for event in trace.merged(events))


@pytest.mark.parametrize("flows", [("1", "2"), ("1", "1"), ("", "")], ids=["own flow", "one flow", "no flow"])
def test_executions_of_physical_cores_are_one_for_each_submission(flows: tuple[str, str]) -> None:
    """Two submissions of one operator, whose parts on the second core start later and end earlier or later."""
    first, second = flows
    ran = [
        physical(0, 100, 200, first),
        physical(1, 110, 190, first),
        physical(0, 300, 400, second),
        physical(1, 305, 410, second),
    ]
    for order in itertools.permutations(ran):
        assert spans(list(order)) == [(100, 200), (300, 410)]
    assert {event.lane for event in trace.merged(ran)} == {(0, 0)}, "and stay on one lane"


def test_executions_that_cannot_be_matched_stay_as_they_are() -> None:
    ran = [physical(0, 100, 200), physical(1, 110, 190), physical(0, 300, 400)]
    assert len(trace.merged(ran)) == 3
    assert len(trace.merged([physical(0, 1, 2, link=0), physical(1, 1, 2, link=0)])) == 2, "of no known operator"
    assert len(trace.merged([physical(0, 1, 2, link=1), physical(1, 1, 2, link=2)])) == 2, "of two operators"


def test_a_flow_that_is_null_is_none(tmp_path: Path) -> None:
    """Two submissions, each on a core of its own: what they have in common is that their flow is not known."""
    place = {"ph": "X", "cat": "kernel", "name": f"{trace.PER_CORE}: graph", "pid": 0, "dur": 1.0}
    events = [place | {"tid": n, "ts": 5.0 * n, "args": {"External id": n, "flow_id": None}} for n in (1, 2)]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    assert len(trace.from_file(tmp_path / "trace.json")) == 2


def test_kernels_that_overlap_on_two_streams_are_two(cuda: list[Event]) -> None:
    assert trace.merged(cuda) == cuda
    assert len(trace.merged([kernel(0, 5, link=3), kernel(0, 5, stream=1, link=3)])) == 2


def test_what_a_trace_does_not_tell_is_not_zero(neuron: list[Event]) -> None:
    host = [event for event in neuron if event.kind not in (trace.DEVICE, trace.RUNTIME)]
    found = analysed(host)
    assert found.host_dispatches == 6
    unknown = (found.runtime_schedules, found.device_executions, found.device_busy_us)
    assert (*unknown, found.device_span_us, found.device_gap_us) == (None,) * 5
    assert timeline(Calls([event for event in neuron if event.kind == trace.DEVICE])) is None
