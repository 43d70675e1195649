"""What the simulated NeuronCore does to device time where it is told to, and how its executions come about."""

from __future__ import annotations

import itertools
import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import Shared
from core_process import on_simulation

NAIVE = [388.1, 412.6, 391.4, 386.3, 388.2, 388.2]
KERNELS = ["aten::mul", "aten::mean", "aten::add", "aten::rsqrt", "aten::mul", "aten::mul"]

SCRIPT = """
switches = torch_neuronx._core.switches
x, weight = inputs()
defaults = {name: getattr(switches, name) for name in ("jitter", "dispatch", "throttle", "first_execution", "join")}

def ran(function, active=1, **values):
    for name, value in (defaults | values).items():
        setattr(switches, name, value)
    function()
    torch.neuron.synchronize()
    rows = profiled(function, active)
    captured = torch_neuronx._core.captured()
    return {
        "rows": rows["cpu"],
        "own": rows["core"],
        "kernels": [run["kernel"] for run in captured],
        "us": [(run["end"] - run["start"]) / 1e3 for run in captured],
        "starts": [run["start"] / 1e3 for run in captured],
        "throttled": [run["throttled"] for run in captured],
        "flows": [run["flow"] for run in captured],
    }

def kernel(x):
    return x + x * x

tensors = {size: torch.ones(size, device="neuron") for size in (1, 5)}
sizes = iter([1, 1, 1, 1, 5, 5])

seen = {
    "exact": ran(lambda: naive(x, weight)),
    "jitter": ran(lambda: fused(x, weight), active=200, jitter=0.05),
    "throttled": ran(lambda: naive(x, weight), throttle=2.0),
    "dispatch": ran(lambda: naive(x, weight), dispatch=2000.0),
    "joined": ran(lambda: naive(x, weight), join=4),
    "first": ran(lambda: tensors[next(sizes)].rsqrt(), active=2, first_execution=1000.0),
    "python": ran(lambda: torch_neuronx._core.execute("nki::kernel", kernel, x)),
    "in graph": ran(lambda: compiled(x, weight)),
}
out = torch_neuronx._core.execute("nki::kernel", kernel, x)
answer(**seen, right=bool(torch.equal(out.cpu(), kernel(x.cpu()))))
"""


@pytest.fixture(scope="module")
def seen(shared: Shared) -> dict[str, Any]:
    """One process, in which each switch is set in turn."""
    return shared("times", lambda folder: on_simulation(SCRIPT, folder, costs={"nki::kernel": 77}, seed=1))


def test_without_switches_a_call_takes_what_the_table_says(seen: dict[str, Any]) -> None:
    assert seen["exact"]["kernels"] == KERNELS
    assert sorted(seen["exact"]["us"]) == pytest.approx(sorted(NAIVE))
    assert not any(seen["exact"]["throttled"])
    assert len(set(seen["exact"]["flows"])) == 6


def test_jitter_is_normal_about_the_cost(seen: dict[str, Any]) -> None:
    times = seen["jitter"]["us"]
    assert len(set(times)) > 190
    assert statistics.mean(times) == pytest.approx(403.3, rel=0.02)
    assert statistics.stdev(times) / 403.3 == pytest.approx(0.05, rel=0.3)


def test_a_core_that_stood_idle_is_throttled(seen: dict[str, Any]) -> None:
    """The first execution after the host has waited; the others queue up behind it."""
    throttled = seen["throttled"]
    assert throttled["throttled"][0]
    for kernel, time, slow in zip(throttled["kernels"], throttled["us"], throttled["throttled"], strict=True):
        costs = [cost for name, cost in zip(KERNELS, NAIVE, strict=True) if name == kernel]
        assert any(time == pytest.approx(cost * (2 if slow else 1)) for cost in costs)


def test_dispatch_is_time_of_the_host_and_none_of_the_device(seen: dict[str, Any]) -> None:
    starts = seen["dispatch"]["starts"]
    assert sum(seen["dispatch"]["us"]) == pytest.approx(sum(NAIVE), abs=0.5)
    assert all(after - before >= 2000 for before, after in itertools.pairwise(starts))


def test_operators_are_joined_into_one_execution_that_belongs_to_the_last(seen: dict[str, Any]) -> None:
    assert seen["joined"]["kernels"] == [" + ".join(KERNELS[:4]), " + ".join(KERNELS[4:])]
    assert seen["joined"]["us"][0] == pytest.approx(412.6)
    timed = {name: row[0] for name, row in seen["joined"]["rows"].items() if row[1]}
    assert timed == {"aten::mul": 3, "aten::rsqrt": 1}


def test_the_first_execution_of_each_shape_takes_longer(seen: dict[str, Any]) -> None:
    assert seen["first"]["us"] == pytest.approx([1386.3, 386.3])


def test_a_kernel_in_python_is_one_execution_of_its_cost(seen: dict[str, Any]) -> None:
    assert seen["python"]["rows"]["nki::kernel"] == [1, 77]
    assert seen["python"]["own"] == {"nc_exec_running: nki::kernel": [1, 77]}
    assert seen["right"]


@pytest.mark.slow
@pytest.mark.parametrize("flow_ids", [True, False])
def test_two_physical_cores_show_each_submission_twice(core: Any, tmp_path: Path, flow_ids: bool) -> None:
    rows = core(
        """
x, weight = inputs()
answer(rows=profiled(lambda: naive(x, weight)), submitted=len(torch_neuronx._core.captured()))
""",
        variables={"NEURON_LOGICAL_NC_CONFIG": "2"},
        flow_ids=flow_ids,
    )
    assert rows["submitted"] == 6
    (trace,) = tmp_path.rglob("trace.json")
    events = json.loads(trace.read_text())["traceEvents"]
    ran = [event for event in events if event.get("name", "").startswith("nc_exec_running")]
    assert len(ran) == 12
    lanes = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"neuron_hw/NC0:0", "neuron_hw/NC0:1"} <= lanes
    submissions = Counter(event["args"].get("flow_id") for event in ran)
    assert sorted(submissions.values()) == ([2] * 6 if flow_ids else [12])
    assert {event["args"]["pcore_idx"] for event in ran} == {"0", "1"}
