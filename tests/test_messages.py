"""Messages: what a measuring process sends arrives as it was sent, and is written into the right row."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, get_args

import pytest

from harness.configuration.operation import Case, Operation, Variant
from harness.configuration.settings import Settings
from harness.execution.collected import record
from harness.execution.processes import messages
from harness.execution.processes.encoding import from_json, to_json
from harness.execution.processes.messages import Message
from harness.execution.sampling import Sampling
from harness.measure.observations import CompileCost, Error, Finding, OperatorRow, Profile, Timeline
from harness.results.measurement import CONTROL, Measurement
from harness.results.stopping import StoppingRule

PROFILE = Profile((OperatorRow("aten::mul", 2, 1.5, None),), 10, 40, 1.5, 2, None, None, 9.0, ["a note"])
TIMELINE = Timeline(2.0, None, None, None, None, None, 9.0)
COST = CompileCost(0.5, True, 2, 1, ["print"], None)
SENT: list[Message] = [
    messages.Measure(0.05, ("naive",)),
    messages.Measured(0.05, 12, 0.2, 0.0, 0.01),
    messages.Alone("naive", 0.005),
    messages.TimedAlone(0.004, 0.005),
    messages.Ready(5, 1 << 20),
    messages.Finish(7),
    messages.Finish(7, False, (3e-6, 2e-6, 1e-6)),
    messages.Explained((3e-6, 2e-6, 1e-6)),
    messages.Step("naive", "prepare"),
    messages.Status("naive", "wrong", "differs"),
    messages.LeftOut("elsewhere"),
    messages.Compiled("naive", COST),
    messages.Checked("naive", Finding(None, Error(0.1, 0.2, 0.3, 0.4), no_op=True)),
    messages.Recompiled("naive", 3),
    messages.Peak("naive", None),
    messages.Profiled("naive", PROFILE, TIMELINE),
    messages.DeviceTimes("naive", [1e-4, 2e-4]),
    messages.Probed("naive", {"energy_j": 0.5, "governor": "performance", "unknown": None}),
    messages.Note("naive", "changes the default dtype"),
    messages.Slow("naive", 1.5, 1),
    messages.Samples([("naive", 0, 5, 1e-5, 1.5e-5, 0.0)]),
    messages.Warnings(["one", "two"]),
    messages.DeviceOpened({"device": "cpu", "cores": 2}),
    messages.Environment({"python": "3", "variables": {"OMP_NUM_THREADS": "1"}}),
    messages.Contents([[4.0, 1.0, 0.5]], []),
    messages.Work({"flops": 1.0, "bytes": 2.0}),
    messages.Rate("bytes", 1e9, False),
    messages.Recorded({"groups": []}),
    messages.Differs("faster", "layers.0.norm"),
    messages.Done(),
    messages.Spoilt(),
    messages.Usage("dtype=bogus"),
    messages.Broken("OSError"),
    messages.Died(None, "ended its process with SIGKILL"),
    messages.Tampered(("naive",), "replaces time.perf_counter", "tampering"),
]


def test_every_kind_of_message_arrives_as_it_was_sent() -> None:
    assert {type(message) for message in SENT} == set(get_args(Message))
    for message in SENT:
        received = from_json(to_json(message))
        assert type(received) is type(message)
        assert to_json(received) == to_json(message)
        if not isinstance(message, messages.Samples):  # whose rows are lists by then
            assert received == message


def test_messages_are_written_into_the_row_of_their_variant() -> None:
    rows = {name: Measurement(name) for name in ("naive", "other", "elsewhere")}
    for message in SENT:
        record(rows, from_json(to_json(message)))
    row = rows["naive"]
    assert (row.status, row.reason, row.no_op, row.recompiles) == ("wrong", "differs", True, 3)
    assert (row.profile, row.timeline, row.compiles) == (PROFILE, TIMELINE, [COST])
    assert row.probed == {"energy_j": 0.5, "governor": "performance", "unknown": None}
    assert row.notes[0].startswith("graph breaks (1) split it into 2 graphs: print")
    assert row.notes[1:] == ["a note", "changes the default dtype"]
    assert rows["other"] == Measurement("other")
    assert "elsewhere" not in rows


def test_a_measurement_is_read_back_from_results_as_it_was_written() -> None:
    rows = {"naive": Measurement("naive")}
    for message in SENT:
        record(rows, message)
    assert Measurement.from_json(json.loads(json.dumps(asdict(rows["naive"])))) == rows["naive"]


def sampling(tmp_path: Any, **statuses: Measurement) -> Sampling:
    """A case's sampling of a quiet baseline and a variant, beside others whose ratios are wide."""
    variants = tuple(Variant(name, "fn") for name in ("naive", "fused", *statuses))
    operation = Operation("op", {"n": 1}, "inputs", None, None, "naive", variants)
    case = Case(operation, "float32", "cpu", "forward", 0)
    settings = Settings()
    made = Sampling(case, settings, tmp_path, lambda text: None)
    made.seen.rows.update(statuses)
    for process in range(3):
        for turn in range(10):
            for name in ("naive", "fused", CONTROL):
                made.seen.samples.append([name, process, turn, 5, 1e-5 * (1 + 0.001 * (turn % 3)), 1e-5, 0.0, process])
            made.seen.samples += [
                [name, process, turn, 5, 1e-5 * (1.1 + 0.05 * process), 1e-5, 0.0, process] for name in statuses
            ]
    return made


NOISY = {
    "wrong": Measurement("noisy", status="wrong"),
    "failed": Measurement("noisy", status="failed"),
    "degraded": Measurement("noisy", status="degraded"),
    "random": Measurement("noisy", comparable=False),
    "a no-op": Measurement("noisy", no_op=True),
}


RULE = StoppingRule(3, 12, seconds=2.5, precision=0.03, confidence=0.95)


@pytest.mark.parametrize("kind", NOISY)
def test_a_row_that_cannot_be_ranked_does_not_prolong_the_sampling(tmp_path: Any, kind: str) -> None:
    reason = RULE.reason(sampling(tmp_path, noisy=NOISY[kind]).compared(), 3, 0.0)
    assert reason is not None
    assert reason.startswith("more processes would change no verdict")


def test_ratios_of_device_time_have_to_be_known_as_well(tmp_path: Any) -> None:
    made = sampling(tmp_path)
    assert (RULE.reason(made.compared(), 3, 0.0) or "").startswith("more processes would change no verdict")
    made.seen.device_samples = [
        [name, process, call, 1e-4 * (1 + (name == "fused") * (0.1 + 0.05 * process))]
        for process in range(3)
        for name in ("naive", "fused", CONTROL)
        for call in range(5)
    ]
    assert RULE.reason(made.compared(), 3, 0.0) is None
    assert "the widest interval is" in (RULE.reason(made.compared(), 12, 0.0) or "")


def test_a_noisy_row_that_can_be_ranked_does(tmp_path: Any) -> None:
    compared = sampling(tmp_path, noisy=Measurement("noisy")).compared()
    assert RULE.reason(compared, 3, 0.0) is None
    assert "latency.seconds=2.5 are spent" in (RULE.reason(compared, 3, 2.5) or "")
