"""An analysis: what is asked of a model, and what came of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from harness import __version__
from harness.configuration.operation import describe
from harness.configuration.overrides import key_of
from harness.model.decide import Decision
from harness.model.groups import Group, HotSpots
from harness.model.predict import bound
from harness.model.replacements import Replacement
from harness.model.step import MODULE
from harness.model.whole import AS_IS, COMPILED, Model, Recording
from harness.report import formatting
from harness.results.comparison import Comparison
from harness.results.measurement import OK, SKIPPED

NUMBER = re.compile(r"\d[\d.,]*")


@dataclass(frozen=True)
class Asked:
    """What is asked for."""

    model: Model
    plain: Mapping[str, Any]  # the configuration
    overrides: Sequence[str]  # of the command line
    replacements: Sequence[Replacement]
    folder: Path
    config_dir: Path | None = None

    @property
    def own_dtype(self) -> bool:
        """Whether the model keeps the dtype that its parameters have."""
        return "dtype" not in map(key_of, self.overrides)


@dataclass(frozen=True)
class Measured:
    """A group's case; or why there is none."""

    group: Group
    comparison: Comparison | None
    problem: str | None = None


@dataclass(frozen=True)
class Way:
    """A way to run the whole model, as it is or compiled, with and without replacements; `base` is without."""

    base: str
    comparison: Comparison
    folder: str  # below the run's


@dataclass
class Analysis:
    """A model's hot spots, and what came of them."""

    asked: Asked
    recording: Recording
    spots: HotSpots
    measured: dict[str, Measured] = field(default_factory=dict)
    ways: list[Way] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)  # of a case, by its name
    failed: bool = False  # a case could not be measured

    @property
    def command(self) -> str:
        """The command that repeats it all."""
        model = self.asked.model
        builder = model.builder if isinstance(model.builder, str) else "…"
        inputs = ["--inputs", model.inputs] if isinstance(model.inputs, str) else []
        further = [] if self.asked.config_dir is None else [f"--config-dir={self.asked.config_dir}"]
        return shlex.join(["python", "-m", "harness.model", builder, *inputs, *further, *self.asked.overrides])

    def warn(self, case: str, text: str) -> None:
        """Adds a warning about a case."""
        self.warnings.append((case, text))

    @property
    def warned(self) -> list[str]:
        """The warnings; those that differ in their case and their numbers only are one."""
        alike: dict[str, list[tuple[str, str]]] = {}
        for case, text in self.warnings:
            alike.setdefault(NUMBER.sub("#", text), []).append((case, text))
        return [
            f"{formatting.some(list(dict.fromkeys(n for n, _ in each)), 1)}: {each[0][1]}" for each in alike.values()
        ]

    @cached_property
    def document(self) -> dict[str, Any]:
        """What model.json holds, without what is derived: the environment, the step, and the configuration."""
        return {
            "harness": __version__,
            "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "command": self.command,
            "model": {"builder": described(self.asked.model.builder), "class": self.recording.step.model},
            "config": described(self.asked.plain),
            "replace": [described(replacement.plain) for replacement in self.asked.replacements],
            "device": self.recording.device,
            "environment": self.recording.environment,
        }

    @property
    def unmeasurable(self) -> str | None:
        """Why nothing of the model can be measured; None if it can."""
        step = self.recording.step
        if step.autocast in ("", step.dtype):
            return None
        return (
            f"it runs under torch.autocast, in {step.autocast}, and its cases would be of {step.dtype}: only its hot "
            f"spots are shown; try dtype={step.autocast}"
        )

    @property
    def measured_share(self) -> float:
        """The share of the step in groups whose cases ran."""
        return self.spots.covered(set(filter(self.has_case, self.measured)))

    def has_case(self, name: str) -> bool:
        """Whether the case of the group of this name ran."""
        return name in self.measured and self.measured[name].comparison is not None

    def bound(self, group: Group) -> float | None:
        """How many times as fast a step would be if a group cost nothing; None if that is not known."""
        measured = self.measured.get(group.name)
        if not self.ways or measured is None or measured.comparison is None:
            return None
        step = self.ways[0].comparison.baseline.latency
        return None if step is None else bound(step, group, measured.comparison, AS_IS)

    @property
    def status(self) -> int:
        """The exit status: 1 if a case was not measured, or the model as it is or what was asked for is not right."""
        chosen = self.asked.plain["variants"]
        asked = {AS_IS, *(replacement.name for replacement in self.asked.replacements)}
        asked |= set(chosen) if isinstance(chosen, list) else set()
        asked |= {COMPILED} if self.recording.step.compiled else set()
        seen = [measured.comparison for measured in self.measured.values()]
        seen += [way.comparison for way in self.ways]
        rows = [row for comparison in seen if comparison is not None for row in comparison.rows]
        wrong = any(row["variant"] in asked and row["status"] not in (OK, SKIPPED) for row in rows)
        return int(self.failed or wrong)

    def groups_of(self, replacement: Replacement) -> list[Group]:
        """The groups whose modules a replacement replaces."""
        paths = set(replacement.at or self.recording.step.targets.get(replacement.name, ()))
        groups = self.spots.groups.values()
        return [group for group in groups if group.first.kind == MODULE and paths.intersection(group.paths)]


def described(value: Any) -> Any:
    """The configuration with each function in it as a text that says where it stands."""
    if isinstance(value, Mapping):
        return {key: described(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [described(inner) for inner in value]
    return describe(value) if callable(value) else value
