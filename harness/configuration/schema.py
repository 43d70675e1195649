"""The schema of the configuration, and what makes a Case and Settings of a composed one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, get_type_hints

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from harness.configuration import environments
from harness.configuration.declared import among, operation, shrunk
from harness.configuration.devices import AUTO, LIBRARY, device_configs, section
from harness.configuration.errors import UsageError, one_line, unknown, unknown_key
from harness.configuration.operation import DTYPES, INDEX_DTYPES, MODES, Case
from harness.configuration.settings import Settings, check, setting, valid


@dataclass
class OpSettings:
    """An operation's declaration, as conf/op/*.yaml gives it."""

    name: str = MISSING
    dims: dict[str, Any] = MISSING
    inputs: Any = MISSING  # a function, or {fn: …, args: {…}}
    reference: str | None = MISSING  # null: the baseline's function
    work: str | None = None
    baseline: str = MISSING
    variants: dict[str, Any] = MISSING  # not Dict[str, Variant]: that refuses +op.variants.mine.fn=…
    dtypes: list[str] = field(default_factory=lambda: list(DTYPES), metadata=valid(choices=DTYPES))
    modes: list[str] = field(default_factory=lambda: list(MODES), metadata=valid(choices=MODES))
    tolerance: float = setting(1.0, minimum=1)
    index_dtype: str | None = setting(None, choices=INDEX_DTYPES)
    probes: dict[str, Any] | None = field(default_factory=dict)  # further inputs by which variants are checked
    vary: list[str] | None = None  # the dims that are checked at near sizes too; null: all
    signs: bool = False  # whether variants are checked on inputs of both signs too
    solution: Any = None  # of a problem: the function that makes a variant of a file
    shrink: int = setting(1, minimum=1)  # of a problem: what its larger sizes are divided by


def declaration(**given: Any) -> dict[str, Any]:
    """An operation's declaration as the configuration holds one: OpSettings, with what is not given at its default."""
    settings = OpSettings(**given)
    return {item.name: getattr(settings, item.name) for item in fields(settings)}


@dataclass
class Configuration(Settings):
    """The top level of the configuration: what to measure, and the settings to measure it with."""

    op: OpSettings = MISSING
    dtype: str = setting("bfloat16", choices=DTYPES)
    device: str = AUTO
    devices: dict[str, str] = field(default_factory=lambda: dict(LIBRARY))  # each has a section by its name
    mode: str = setting("forward", choices=MODES)
    seed: int = setting(0, minimum=-(2**63), maximum=2**64 - 1)  # what torch.Generator takes
    variants: Any = None
    environments: dict[str, Any] = field(default_factory=dict)


def _schema() -> DictConfig:
    schema = OmegaConf.structured(Configuration)
    OmegaConf.set_struct(schema.worker.env, False)  # so that worker.env.NAME=VALUE needs no +
    OmegaConf.set_struct(schema.environments, False)
    OmegaConf.set_struct(schema, False)  # so that a device's file can bring a section; Hydra closes it
    for name, path in LIBRARY.items():
        settings = section(name, path)
        if fields(settings):
            schema[name] = OmegaConf.structured(settings)
    return schema


ConfigStore.instance().store(name="schema", node=_schema())
OmegaConf.register_new_resolver("shrunk", shrunk, replace=True)


def resolved(config: DictConfig) -> dict[str, Any]:
    """The composed configuration as plain Python values; raises UsageError for one that is incomplete."""
    try:
        return OmegaConf.to_container(config, resolve=True, throw_on_missing=True)  # type: ignore[return-value]
    except MissingMandatoryValue as error:
        key = error.full_key or "configuration"
        name = OmegaConf.to_container(config)["op"].get("name") if key.startswith("op.") else None  # type: ignore
        where = f" (conf/op: {name})" if name else ""
        raise UsageError(f"{key}: missing{where}; give it in the operation's YAML file or as {key}=…") from error
    except OmegaConfBaseException as error:
        raise UsageError(f"{error.full_key}: {one_line(error)}") from error


def parse(plain: Mapping[str, Any]) -> tuple[Case, Settings]:
    """The case to measure and the settings to measure it with, from plain configuration values.

    Raises UsageError, which names the key, for anything that cannot be measured as asked.
    """
    sections = _sections(plain)
    config: Configuration = _typed(Configuration, {key: plain[key] for key in plain if key not in sections}, "")
    check(config)
    devices = device_configs(plain)
    op = config.op
    for key in ("dtypes", "modes"):
        if not getattr(op, key):
            raise UsageError(f"op.{key}=[]: expected one at least")
    if config.dtype not in op.dtypes:
        raise unknown("dtype", config.dtype, op.dtypes, f"dtypes of {op.name}")
    if config.mode not in op.modes:
        raise unknown("mode", config.mode, op.modes, f"modes of {op.name}")
    case = Case(
        operation=operation(op, config.variants, environments.parse_all(config.environments), tuple(devices)),
        dtype=config.dtype,
        device=among("device", config.device, (AUTO, *devices)),
        mode=config.mode,
        seed=config.seed,
    )
    values = {item.name: getattr(config, item.name) for item in fields(Settings)}
    return case, Settings(**{**values, "devices": devices})


def _sections(plain: Mapping[str, Any]) -> set[str]:
    """The keys at the top that are devices' own sections."""
    if not isinstance(plain.get("devices"), Mapping):
        raise UsageError(f"devices={plain.get('devices')}: expected a mapping of names to classes")
    return {name for name in plain if name in plain["devices"]}


def _typed(schema: Any, plain: Any, prefix: str) -> Any:
    """An instance of a schema's dataclass; raises UsageError for a key that + has added, or ~ deleted."""
    if not isinstance(plain, Mapping):
        raise UsageError(f"{prefix.rstrip('.')}={plain}: expected a mapping")
    kinds = get_type_hints(schema)
    for key in plain:
        if key not in kinds:
            raise unknown_key(prefix.rstrip("."), str(key), kinds)
    values = {}
    for key, kind in kinds.items():
        if key not in plain:
            raise UsageError(f"{prefix}{key}: missing; give it a value, as in {prefix}{key}=…")
        values[key] = _typed(kind, plain[key], f"{prefix}{key}.") if is_dataclass(kind) else plain[key]
    return schema(**values)
