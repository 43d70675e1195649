"""Settings: how a case is measured, apart from what is measured; each key with its type, default and valid values.

A new key is a field here and a line with a comment in conf/. conf/ repeats the defaults; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from harness.configuration.errors import UsageError, unknown

LOCKS = ("wait", "fail", "none")
DOCTOR = ("refuse", "warn")
CACHES = ("warm", "cold")

PATIENCE = 4  # times as long as sampling takes

VALID = "valid"  # the key in a field's metadata that holds its Valid


@dataclass(frozen=True)
class Valid:
    """The valid values of a field; None is valid if the type allows it.

    A bound or the choices may also be the name of another field of the same section.
    """

    minimum: float | str | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    choices: Iterable[str] | str | None = None  # of the value, or of each element of a list
    what: str = "choices"
    rule: Callable[[str, Any], None] | None = None  # called with key and value; raises UsageError


def setting(default: Any, **rules: Any) -> Any:
    """A dataclass field with a default; `rules` are the arguments of `Valid`."""
    return field(default=default, metadata=valid(**rules))


def valid(**rules: Any) -> dict[str, Valid]:
    """The metadata of a field; `rules` are the arguments of `Valid`."""
    return {VALID: Valid(**rules)}


def check(section: Any, prefix: str = "") -> None:
    """Checks a settings object, and all sections in it, by what its fields declare.

    Raises UsageError with the key, the value and what would be valid.
    """
    for item in fields(section):
        key = f"{prefix}{item.name}"
        value = getattr(section, item.name)
        if is_dataclass(value):
            check(value, f"{key}.")
        elif VALID in item.metadata and value is not None:
            _check(key, value, item.metadata[VALID], section)


def _check(key: str, value: Any, rules: Valid, section: Any) -> None:
    minimum = getattr(section, rules.minimum) if isinstance(rules.minimum, str) else rules.minimum
    choices = getattr(section, rules.choices) if isinstance(rules.choices, str) else rules.choices
    if choices is not None:
        for element in value if isinstance(value, list) else [value]:
            if element not in choices:
                raise unknown(key, element, choices, rules.what)
    if rules.rule is not None:
        rules.rule(key, value)
    fits = (
        (minimum is None or value >= minimum)
        and (rules.maximum is None or value <= rules.maximum)
        and (rules.above is None or value > rules.above)
        and (rules.below is None or value < rules.below)
    )
    if not fits:  # a value that is no number fits none of them
        raise UsageError(f"{key}={value}: expected {_range(minimum, rules)}")


def _range(minimum: float | None, rules: Valid) -> str:
    if rules.above is not None and rules.below is not None:
        return f"a number between {rules.above:g} and {rules.below:g}"
    if minimum is not None and rules.maximum is not None:
        return f"{minimum} to {rules.maximum}"
    return "a positive number" if minimum is None else f"{minimum} or more"


def variables(key: str, values: Mapping[Any, Any]) -> None:
    """Raises UsageError for what cannot be environment variables; None unsets one."""
    for name, value in values.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", str(name), re.ASCII):
            raise UsageError(f"{key}.{name}: not the name of an environment variable")
        if isinstance(value, (dict, list)):
            raise UsageError(f"{key}.{name}={value}: expected a single value")
        if isinstance(value, (bool, float)):  # true or yes or on, 1e5 or 100000.0: YAML does not keep which was written
            raise UsageError(f"{key}.{name}={value}: quote it in YAML, so that it is passed on as it is written")
        if "\0" in str(value):
            raise UsageError(f"{key}.{name}: holds a zero byte, which no environment variable can")


def _chips(key: str, values: Mapping[Any, Any]) -> None:
    for name, chip in values.items():
        for part in ("cores", "logical_core", "bytes_per_s"):
            value = chip.get(part) if isinstance(chip, Mapping) else None
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise UsageError(f"{key}.{name}.{part}={value}: expected a positive number")
        flops = chip.get("flops_per_s")
        if not isinstance(flops, Mapping):
            raise UsageError(f"{key}.{name}.flops_per_s={flops}: expected FLOP/s by dtype")
        for dtype, value in flops.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise UsageError(f"{key}.{name}.flops_per_s.{dtype}={value}: expected a positive number")


@dataclass
class ProfileSettings:
    """How each variant is profiled; the schedule is torch.profiler's."""

    wait: int = setting(2, minimum=0)
    warmup: int = setting(1, minimum=0)
    active: int = setting(10, minimum=1)
    record_shapes: bool = False
    with_stack: bool = False
    max_events: int = setting(100_000, minimum=1)


@dataclass
class LatencySettings:
    """How long latency is sampled, and which differences are claimed."""

    processes: int = setting(5, minimum=1)
    max_processes: int = setting(12, minimum="processes")
    seconds: float = setting(2.5, above=0)
    precision: float = setting(0.03, above=0)
    confidence: float = setting(0.95, above=0, below=1)
    min_effect: float = setting(0.02, minimum=0)
    cache: str = setting("warm", choices=CACHES)
    wait: float | None = setting(None, minimum=0)

    @property
    def patience_s(self) -> float:
        """Seconds beyond `seconds` that sampling may go on until the machine has been quiet for long enough."""
        return PATIENCE * self.seconds if self.wait is None else self.wait


@dataclass
class WorkerSettings:
    """The processes in which a case is measured."""

    env: dict[str, Any] = field(default_factory=dict, metadata=valid(rule=variables))
    threads: int | None = setting(None, minimum=1)
    compile_cache: str = setting("warm", choices=CACHES)
    preload: list[str] = field(default_factory=list)
    timeout_s: float = setting(600.0, above=0)
    sandbox: bool = False


@dataclass
class RooflineSettings:
    """The device's peaks; those not given here are measured on the CPU, and unknown elsewhere."""

    flops_per_s: float | None = setting(None, above=0)
    bytes_per_s: float | None = setting(None, above=0)
    chips: dict[str, Any] = field(default_factory=dict, metadata=valid(rule=_chips))
    chip: str | None = setting(None, choices="chips", what="chips of this device")
    source: str = ""
    measure: bool = False


@dataclass
class ReportSettings:
    """The report of the results."""

    charts: list[str] | None = None


@dataclass
class Settings:
    """How a case is measured, apart from what is measured: one object from the command line to the worker."""

    doctor: str = setting("refuse", choices=DOCTOR)
    resume: str | None = None
    lock: str = setting("wait", choices=LOCKS)
    profile: ProfileSettings = field(default_factory=ProfileSettings)
    latency: LatencySettings = field(default_factory=LatencySettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    devices: Mapping[str, Any] = field(default_factory=dict)  # DeviceConfig by name: those that a run can name
    roofline: RooflineSettings = field(default_factory=RooflineSettings)
    report: ReportSettings = field(default_factory=ReportSettings)
