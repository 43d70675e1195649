"""The whole model as a case, and the process in which its step is recorded. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.configuration.errors import CaseError, UsageError
from harness.configuration.operation import Function
from harness.configuration.schema import declaration, parse
from harness.devices import candidates
from harness.execution.processes.messages import Broken, DeviceOpened, Died, Differs, Environment, Recorded, Usage
from harness.execution.processes.process import Process
from harness.measure.observations import from_plain
from harness.model.names import short
from harness.model.replacements import Replacement
from harness.model.step import RecordTask, Step

AS_IS, COMPILED = "as_is", "compiled"
MODES = ("forward", "forward_backward")  # of a step: the backward pass alone is none
MODULE, EXAMPLE = "harness.model.replay.module", "harness.model.replay.example"
TRACES, TRACE = "traces", "step"  # the folder of the step's trace


@dataclass(frozen=True)
class Model:
    """A model by its builder, a function or its dotted path; `inputs` makes its inputs if the builder does not."""

    builder: Function
    inputs: Function | None = None

    @property
    def name(self) -> str:
        """A name for people: the builder's path."""
        return self.builder if isinstance(self.builder, str) else short(self.builder) or "model"

    @property
    def args(self) -> dict[str, Any]:
        """The arguments by which the functions of harness.model.replay find it."""
        return {"builder": self.builder} | ({} if self.inputs is None else {"inputs": self.inputs})

    def operation(self, variants: Mapping[str, Any]) -> dict[str, Any]:
        """The whole model as an operation, as the configuration holds one; the first variant is the baseline."""
        return operation(self.name, {"fn": EXAMPLE, "args": self.args}, variants)

    def as_it_is(self, path: str = "") -> dict[str, Any]:
        """The variant that is the model, or its module at a path."""
        return {"fn": MODULE, "args": self.args | ({"path": path} if path else {})}


def operation(name: str, inputs: Mapping[str, Any], variants: Mapping[str, Any]) -> dict[str, Any]:
    """An operation of a model, as the configuration holds one; its reference is its baseline, the first variant."""
    return declaration(
        name=name,
        dims={},
        inputs=dict(inputs),
        reference=None,
        baseline=next(iter(variants)),
        variants=dict(variants),
        modes=list(MODES),
    )


@dataclass(frozen=True)
class Recording:
    """A step, and what it was recorded on: as results describe a device and an environment."""

    step: Step
    device: dict[str, Any]
    environment: dict[str, Any]


def record(
    model: Model, plain: Mapping[str, Any], own_dtype: bool, replacements: Sequence[Replacement], folder: Path
) -> Recording:
    """Records a step of a model in a process of its own; leaves its trace in `folder`.

    `plain` is the configuration; with `own_dtype` the step is in the dtype of the model's parameters. Raises UsageError
    if the model, a replacement or the configuration is at fault, CaseError if the process dies or cannot record.
    """
    case, settings = parse({**plain, "op": model.operation({AS_IS: model.as_it_is()}), "variants": None})
    seen: dict[type, Any] = {}
    differs: dict[str, str | None] = {}
    log = folder / "worker.log"
    asked = {replacement.name: replacement.plain for replacement in replacements}
    task = RecordTask(case, settings, folder / TRACES / TRACE, own_dtype, asked)
    process = _process(task, log)
    try:
        for message in process.messages():
            match message:
                case Usage(line):
                    raise UsageError(line)
                case Differs(replacement, path):
                    differs[replacement] = path
                case Broken() | Died() if Recorded in seen:
                    pass  # a replacement was tried, and ended it: its row will say so
                case Broken(line):
                    raise CaseError(f"{line}; see {log}")
                case Died(_, how):
                    raise CaseError(f"the process that recorded the step {how}; see {log}")
                case _:
                    seen[type(message)] = message
    finally:
        process.end()
    step: Step = from_plain(Step, seen[Recorded].step)
    return Recording(replace(step, differs=differs), seen[DeviceOpened].description, seen[Environment].description)


def _process(task: RecordTask, log: Path) -> Process:
    return Process(
        "harness.model.recording.record:run",
        task,
        [AS_IS],
        candidates(task.case.device, task.settings.devices),
        task.settings.worker,
        log,
        ["harness.execution.worker.main"],
    )
