"""A measuring process's work, done within the tests' own process: what it finds of each variant, and its warnings."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

from cli import PEAKS

from harness.configuration.schema import parse
from harness.execution.collected import record
from harness.execution.processes.messages import Finish, Measure, Message, Warnings
from harness.execution.task import Task
from harness.results.measurement import Measurement

HEAVY = ("attention", "mlp", "swiglu", "transformer_block")  # operations that take the longest
# Timed for a moment: for tests that look at correctness
SHORT = (
    "latency.processes=1", "latency.max_processes=1", "latency.seconds=0.001", "profile.active=1", "worker.threads=1",
    *PEAKS,
)  # fmt: skip


def measured(plain: Mapping[str, Any]) -> tuple[list[Measurement], list[str]]:
    """Measures the case of a configuration, as `compose.composed` gives one with SHORT among its overrides."""
    import torch  # not above: on the simulated core it must come with the core's variables

    from harness.execution.worker import main

    case, chosen = parse(plain)
    rows = {variant.name: Measurement(variant.name) for variant in case.operation.variants}
    warnings: list[str] = []

    def take(message: Message) -> None:
        record(rows, message)
        if isinstance(message, Warnings):
            warnings.extend(message.lines)

    told = iter([Measure(0.001), Finish(hidden_seed=7)])
    torch._dynamo.reset()
    with tempfile.TemporaryDirectory() as traces:
        task = Task(case, chosen, tuple(rows), 0, True, 0.0, traces)
        main.run(task, take, lambda name: None, lambda: next(told))
    return list(rows.values()), warnings
