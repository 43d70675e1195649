"""The schema of a run, and its validation into a Case and Settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.configuration.devices import AUTO, LIBRARY, device_configs, section
from harness.configuration.errors import UsageError, unknown, unknown_key
from harness.configuration.operation import DTYPES, MODES, RESERVED_DIMS, Case, Operation, Variant
from harness.configuration.settings import (
    LatencySettings,
    ProfileSettings,
    ReportSettings,
    RooflineSettings,
    Settings,
    WorkerSettings,
)

CACHES = ("warm", "cold")
DOCTOR = ("refuse", "warn")
LOCK = ("wait", "fail", "none")
VARIANT_KEYS = ("fn", "args", "compile", "requires", "devices")


@dataclass
class OpSettings:
    """An operation's declaration, as conf/op/*.yaml gives it."""

    name: str = MISSING
    dims: dict[str, Any] = MISSING
    inputs: str = MISSING
    reference: str = MISSING
    work: str | None = None
    baseline: str = MISSING
    variants: dict[str, Any] = MISSING  # not Dict[str, Variant]: that refuses +op.variants.mine.fn=…
    dtypes: list[str] = field(default_factory=lambda: list(DTYPES))
    modes: list[str] = field(default_factory=lambda: list(MODES))
    tolerance: float = 1.0


@dataclass
class RunSettings:
    """Everything that a run is told; the top level of the configuration."""

    op: OpSettings = MISSING
    dtype: str = "bfloat16"
    device: str = "auto"
    mode: str = "forward"
    seed: int = 0
    variants: Any = None  # a list of names to measure; null: all
    resume: str | None = None  # the folder of a sweep to continue, or last
    lock: str = "wait"  # what to do while another run measures on the device
    doctor: str = "refuse"  # what to do where harness.doctor calls the device unfit
    profile: ProfileSettings = field(default_factory=ProfileSettings)
    latency: LatencySettings = field(default_factory=LatencySettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    devices: dict[str, str] = field(default_factory=lambda: dict(LIBRARY))  # each has a section of its own by its name
    roofline: RooflineSettings = field(default_factory=RooflineSettings)
    report: ReportSettings = field(default_factory=ReportSettings)


def _schema() -> DictConfig:
    schema = OmegaConf.structured(RunSettings)
    OmegaConf.set_struct(schema.worker.env, False)  # so that worker.env.NAME=VALUE needs no +
    OmegaConf.set_struct(schema, False)  # so that a device's file can bring a section; Hydra closes it
    for name, path in LIBRARY.items():
        settings = section(name, path)
        if fields(settings):
            schema[name] = OmegaConf.structured(settings)
    return schema


ConfigStore.instance().store(name="schema", node=_schema())


def directory() -> Path:
    """The folder of the configuration: inside the package when installed, beside it in a checkout."""
    installed = Path(__file__).parent / "conf"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "conf"


def resolved(config: DictConfig) -> dict[str, Any]:
    """The composed configuration as plain Python values; raises UsageError for one that is incomplete."""
    try:
        return OmegaConf.to_container(config, resolve=True, throw_on_missing=True)  # type: ignore[return-value]
    except OmegaConfBaseException as error:
        key = error.full_key or "configuration"
        where = f" (conf/op: {config.op.get('name')})" if key.startswith("op.") else ""
        raise UsageError(f"{key}: missing{where}; give it in the operation's YAML file or as {key}=…") from error


def parse(plain: Mapping[str, Any]) -> tuple[Case, Settings]:
    """The case to measure and the settings to measure it with, from plain configuration values.

    Raises UsageError, which names the key, for anything that cannot be measured as asked.
    """
    _no_stray_keys(plain)
    op = plain["op"]
    _among("lock", plain["lock"], LOCK)
    settings = _settings(plain)
    dtype = _among("dtype", plain["dtype"], DTYPES)
    if dtype not in op["dtypes"]:
        raise unknown("dtype", dtype, op["dtypes"], f"dtypes of {op['name']}")
    mode = _among("mode", plain["mode"], MODES)
    if mode not in op["modes"]:
        raise unknown("mode", mode, op["modes"], f"modes of {op['name']}")
    case = Case(
        operation=_operation(op, plain["variants"], tuple(settings.devices)),
        dtype=dtype,
        device=_among("device", plain["device"], (AUTO, *settings.devices)),
        mode=mode,
        seed=plain["seed"],
    )
    return case, settings


def _no_stray_keys(plain: Mapping[str, Any]) -> None:
    """`+key=value` gets past Hydra for any key."""
    sections = {"": RunSettings, "op": OpSettings, "profile": ProfileSettings, "latency": LatencySettings}
    sections |= {"worker": WorkerSettings, "roofline": RooflineSettings, "report": ReportSettings}
    for prefix, schema in sections.items():
        names = [known.name for known in fields(schema)] + (
            [] if prefix else [name for name in plain["devices"] if name in plain]
        )
        for key in plain[prefix] if prefix else plain:
            if key not in names:
                raise unknown_key(prefix, key, names)


def _operation(op: Mapping[str, Any], selected: Any, devices: tuple[str, ...]) -> Operation:
    if not op["variants"]:
        raise UsageError(f"op.variants: {op['name']} has none")
    variants = tuple(_variant(str(name), value, devices) for name, value in op["variants"].items())
    names = [variant.name for variant in variants]
    if op["baseline"] not in names:
        raise unknown("op.baseline", op["baseline"], names, f"variants of {op['name']}")
    if selected is not None:
        chosen = _selection(selected, names, op["baseline"])
        variants = tuple(variant for variant in variants if variant.name in chosen)
    tolerance = float(op["tolerance"])
    if not tolerance > 0:
        raise UsageError(f"op.tolerance={tolerance}: expected a positive number")
    return Operation(
        name=op["name"],
        dims={name: _dim(name, size) for name, size in op["dims"].items()},
        inputs=op["inputs"],
        reference=op["reference"],
        work=op["work"],
        baseline=op["baseline"],
        variants=variants,
        tolerance=tolerance,
    )


def _dim(name: Any, size: Any) -> int:
    key = f"op.dims.{name}"
    if not isinstance(name, str) or not name.isidentifier() or name in RESERVED_DIMS:
        raise UsageError(f"{key}: a dim's name must be an identifier other than {', '.join(RESERVED_DIMS)}")
    if isinstance(size, bool) or not isinstance(size, int):
        raise UsageError(f"{key}={size}: expected a whole number, got {_kind(size)}")
    if size <= 0:
        raise UsageError(f"{key}={size}: expected a positive number")
    return size


def _selection(selected: Any, names: list[str], baseline: str) -> list[str]:
    if not isinstance(selected, list):
        raise UsageError(f"variants={selected}: expected a list, such as variants=[{selected}]")
    for name in selected:
        if name not in names:
            raise unknown("variants", name, names, "variants")
    if baseline not in selected:
        listed = ",".join(map(str, selected))
        raise UsageError(
            f"variants=[{listed}]: leaves out the baseline {baseline}; add it, or choose another by op.baseline=…"
        )
    return selected


def _variant(name: str, value: Any, devices: tuple[str, ...]) -> Variant:
    key = f"op.variants.{name}"
    if not isinstance(value, Mapping):
        raise UsageError(f"{key}={value}: expected a mapping, such as {{fn: package.module.function}}")
    for part in value:
        if part not in VARIANT_KEYS:
            raise unknown(key, part, VARIANT_KEYS, "keys of a variant")
    fn = value.get("fn")
    if not fn or not (isinstance(fn, str) or callable(fn)):
        raise UsageError(f"{key}.fn={fn}: expected the dotted path of a function")
    args = value.get("args") or {}
    if not isinstance(args, Mapping):
        raise UsageError(f"{key}.args={args}: expected a mapping of keyword arguments")
    return Variant(
        name=name,
        fn=fn,
        args=dict(args),
        compile=_compile(f"{key}.compile", value.get("compile")),
        requires=_names(f"{key}.requires", value.get("requires")),
        devices=tuple(_among(f"{key}.devices", device, devices) for device in _names(key, value.get("devices"))),
    )


def _compile(key: str, value: Any) -> Mapping[str, Any] | None:
    if value is None or value is False:
        return None
    if value is True:
        return {}
    if not isinstance(value, Mapping):
        raise UsageError(f"{key}={value}: expected what torch.compile takes, such as {{fullgraph: true}}")
    return dict(value)


def _names(key: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, list):
        raise UsageError(f"{key}={value}: expected a list of names")
    return tuple(str(name) for name in value)


def _settings(plain: Mapping[str, Any]) -> Settings:
    settings = Settings(
        profile=ProfileSettings(**plain["profile"]),
        latency=LatencySettings(**plain["latency"]),
        worker=WorkerSettings(**plain["worker"]),
        devices=device_configs(plain),
        roofline=RooflineSettings(**plain["roofline"]),
        report=ReportSettings(**plain["report"]),
        doctor=_among("doctor", plain["doctor"], DOCTOR),
    )
    profile, latency, worker = settings.profile, settings.latency, settings.worker
    for key, value, least in (
        ("profile.wait", profile.wait, 0),
        ("profile.warmup", profile.warmup, 0),
        ("profile.active", profile.active, 1),
        ("profile.max_events", profile.max_events, 1),
        ("latency.processes", latency.processes, 1),
        ("latency.max_processes", latency.max_processes, latency.processes),
        ("worker.threads", 1 if worker.threads is None else worker.threads, 1),
    ):
        if value < least:
            raise UsageError(f"{key}={value}: expected {least} or more")
    for key, number in (
        ("latency.seconds", latency.seconds),
        ("latency.precision", latency.precision),
        ("worker.timeout_s", worker.timeout_s),
    ):
        if not number > 0:
            raise UsageError(f"{key}={number}: expected a positive number")
    if not 0 < latency.confidence < 1:
        raise UsageError(f"latency.confidence={latency.confidence}: expected a number between 0 and 1")
    if not latency.min_effect >= 0:
        raise UsageError(f"latency.min_effect={latency.min_effect}: expected 0 or more")
    _check_roofline(settings.roofline)
    _among("latency.cache", latency.cache, CACHES)
    for name, value in worker.env.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", str(name)):
            raise UsageError(f"worker.env.{name}: not the name of an environment variable")
        if isinstance(value, (dict, list)):
            raise UsageError(f"worker.env.{name}={value}: expected a single value")
    return settings


def _among(key: str, value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise unknown(key, value, choices)
    return str(value)


def _kind(value: Any) -> str:
    kinds = {str: "text", float: "a number with a point", list: "a list", bool: "true or false"}
    return kinds.get(type(value), type(value).__name__)


def _check_roofline(settings: RooflineSettings) -> None:
    """Raises UsageError for peaks that cannot be."""
    if settings.chip is not None and settings.chip not in settings.chips:
        raise unknown("roofline.chip", settings.chip, settings.chips, "chips of this device")
    for key, value in (("flops_per_s", settings.flops_per_s), ("bytes_per_s", settings.bytes_per_s)):
        if value is not None and not value > 0:
            raise UsageError(f"roofline.{key}={value}: expected a positive number")
