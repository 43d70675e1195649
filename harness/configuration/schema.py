"""The schema of the configuration, and what makes a Case and Settings of a composed one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, get_type_hints

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from harness.configuration.devices import AUTO, LIBRARY, device_configs, section
from harness.configuration.errors import UsageError, one_line, unknown, unknown_key
from harness.configuration.operation import (
    CONTROL,
    DTYPES,
    INDEX_DTYPES,
    MODES,
    RESERVED_DIMS,
    Case,
    Function,
    Operation,
    Partial,
    Variant,
)
from harness.configuration.settings import Settings, check, setting, valid

VARIANT_KEYS = ("fn", "nki", "grid", "args", "compile", "requires", "devices", "optional")
NKI_REQUIRES, NKI_DEVICES = ("nki",), ("neuron",)  # of an NKI kernel that does not name its devices itself


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
    tolerance: float = setting(1.0, above=0)
    index_dtype: str | None = setting(None, choices=INDEX_DTYPES)


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


def _schema() -> DictConfig:
    schema = OmegaConf.structured(Configuration)
    OmegaConf.set_struct(schema.worker.env, False)  # so that worker.env.NAME=VALUE needs no +
    OmegaConf.set_struct(schema, False)  # so that a device's file can bring a section; Hydra closes it
    for name, path in LIBRARY.items():
        settings = section(name, path)
        if fields(settings):
            schema[name] = OmegaConf.structured(settings)
    return schema


ConfigStore.instance().store(name="schema", node=_schema())


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
    if config.dtype not in op.dtypes:
        raise unknown("dtype", config.dtype, op.dtypes, f"dtypes of {op.name}")
    if config.mode not in op.modes:
        raise unknown("mode", config.mode, op.modes, f"modes of {op.name}")
    case = Case(
        operation=_operation(op, config.variants, tuple(devices)),
        dtype=config.dtype,
        device=_among("device", config.device, (AUTO, *devices)),
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


def _operation(op: OpSettings, selected: Any, devices: tuple[str, ...]) -> Operation:
    if not op.variants:
        raise UsageError(f"op.variants: {op.name} has none")
    names = [str(name) for name in op.variants]
    for name in names:
        if not name.strip() or name == CONTROL:
            raise UsageError(f'op.variants: a variant cannot be called "{name}"; give it another name')
        if names.count(name) > 1:
            raise UsageError(f"op.variants.{name}: two variants have this name; give one of them another")
    variants = tuple(_variant(name, value, devices) for name, value in zip(names, op.variants.values(), strict=True))
    if op.baseline not in names:
        raise unknown("op.baseline", op.baseline, names, f"variants of {op.name}")
    variants = tuple(replace(each, optional=each.optional and each.name != op.baseline) for each in variants)
    if selected is not None:
        chosen = _selection(selected, names, op.baseline)
        variants = tuple(replace(variant, optional=False) for variant in variants if variant.name in chosen)
    return Operation(
        name=op.name,
        dims={name: _dim(name, size) for name, size in op.dims.items()},
        inputs=_inputs(op.inputs),
        reference=op.reference,
        work=op.work,
        baseline=op.baseline,
        variants=variants,
        tolerance=op.tolerance,
        index_dtype=op.index_dtype,
    )


def _inputs(value: Any) -> Function:
    if isinstance(value, str) or callable(value):
        return value
    if not isinstance(value, Mapping) or not isinstance(value.get("fn"), str):
        raise UsageError(f"op.inputs={value}: expected the dotted path of a function, or {{fn: …, args: {{…}}}}")
    for part in value:
        if part not in ("fn", "args"):
            raise unknown("op.inputs", part, ("fn", "args"), "keys of a function")
    return Partial(value["fn"], _arguments("op.inputs.args", value.get("args")))


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
    selected = [str(name) for name in selected]
    for name in selected:
        if name not in names:
            raise unknown("variants", name, names, "variants")
    if baseline not in selected:
        listed = ",".join(selected)
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
    fn, kernel = value.get("fn"), value.get("nki")
    if fn is not None and kernel is not None:
        raise UsageError(f"{key}.nki={kernel}: fn={fn} is given as well; leave out one of the two")
    if kernel is not None and not _names_function(kernel):
        raise UsageError(f"{key}.nki={kernel}: expected the dotted path of an NKI kernel")
    if kernel is None and not _names_function(fn):
        raise UsageError(f"{key}.fn={fn}: expected the dotted path of a function, or nki, that of an NKI kernel")
    named = tuple(_among(f"{key}.devices", device, devices) for device in _names(key, value.get("devices")))
    requires = _names(f"{key}.requires", value.get("requires"))
    is_kernel = kernel is not None
    function: Any = kernel if is_kernel else fn
    return Variant(
        name=name,
        fn=function,
        args=_arguments(f"{key}.args", value.get("args")),
        compile=_compile(f"{key}.compile", value.get("compile")),
        requires=tuple(dict.fromkeys((*NKI_REQUIRES, *requires))) if is_kernel else requires,
        devices=named or (NKI_DEVICES if is_kernel else ()),
        optional=_flag(f"{key}.optional", value.get("optional")),
        nki=is_kernel,
        grid=_grid(f"{key}.grid", value.get("grid"), is_kernel),
    )


def _names_function(value: Any) -> bool:
    return callable(value) or (isinstance(value, str) and bool(value))


def _flag(key: str, value: Any) -> bool:
    if value not in (None, True, False):
        raise UsageError(f"{key}={value}: expected true or false")
    return bool(value)


def _grid(key: str, value: Any, is_kernel: bool) -> int | None:
    if value is None:
        return None
    if not is_kernel:
        raise UsageError(f"{key}={value}: a function has no grid; name an NKI kernel by nki in place of fn")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{key}={value}: expected how many cores a kernel is launched on, such as 2 for kernel[2]")
    return value


def _arguments(key: str, value: Any) -> Mapping[str, Any]:
    args = value or {}
    if not isinstance(args, Mapping):
        raise UsageError(f"{key}={args}: expected a mapping of keyword arguments")
    for argument in args:
        if not isinstance(argument, str):
            raise UsageError(f"{key}={args}: {argument} is not the name of a keyword argument")
    return dict(args)


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


def _among(key: str, value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise unknown(key, value, choices)
    return str(value)


def _kind(value: Any) -> str:
    kinds = {str: "text", float: "a number with a point", list: "a list", bool: "true or false"}
    return kinds.get(type(value), type(value).__name__)
