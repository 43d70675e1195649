"""What is declared of an operation and of its variants, checked: an Operation and its Variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.configuration import environments
from harness.configuration.environments import MARK, Environment
from harness.configuration.errors import UsageError, unknown
from harness.configuration.operation import CONTROLS, RESERVED_DIMS, Function, Operation, Partial, Variant
from harness.configuration.probes import probes

if TYPE_CHECKING:
    from harness.configuration.schema import OpSettings

VARIANT_KEYS = ("fn", "nki", "grid", "solution", "args", "compile", "requires", "devices", "optional")
SMALL = 16  # a size that is shrunk no further
NKI_REQUIRES, NKI_DEVICES = ("nki",), ("neuron",)  # of an NKI kernel that does not name its devices itself


def operation(op: OpSettings, selected: Any, further: Sequence[Environment], devices: tuple[str, ...]) -> Operation:
    """The operation that is declared, with the variants that are selected; None: all of them.

    In each of `further` environments there is another of each, as `fused@one_thread`.

    Raises UsageError, which names the key, for what cannot be.
    """
    if op.shrink > 1 and op.solution is None:
        raise UsageError(f"op.shrink={op.shrink}: divides the sizes of a problem's file; set op.dims.NAME of {op.name}")
    if not op.variants:
        raise UsageError(f"op.variants: {op.name} has none")
    names = [str(name) for name in op.variants]
    for name in names:
        if not name.strip() or name in CONTROLS:
            raise UsageError(f'op.variants: a variant cannot be called "{name}"; give it another name')
        if names.count(name) > 1:
            raise UsageError(f"op.variants.{name}: two variants have this name; give one of them another")
    made_of = None if op.solution is None else _function("op.solution", op.solution)
    variants = tuple(
        _variant(name, _solved(f"op.variants.{name}", value, made_of, op.name), devices)
        for name, value in zip(names, op.variants.values(), strict=True)
    )
    if op.baseline not in names:
        raise unknown("op.baseline", op.baseline, names, f"variants of {op.name}")
    variants = tuple(replace(each, optional=each.optional and each.name != op.baseline) for each in variants)
    if selected is not None:
        chosen = _selection(selected, names, op.baseline)
        variants = tuple(replace(variant, optional=False) for variant in variants if variant.name in chosen)
    dims = {name: _dim(name, size) for name, size in op.dims.items()}
    for name in op.vary or ():
        if name not in dims:
            raise unknown("op.vary", name, dims, "dims")
    made = Operation(
        name=op.name,
        dims=dims,
        inputs=_function("op.inputs", op.inputs),
        reference=op.reference,
        work=op.work,
        baseline=op.baseline,
        variants=_multiplied(variants, further),
        tolerance=op.tolerance,
        index_dtype=op.index_dtype,
        probes=probes(op.probes, dims),
        vary=tuple(dims if op.vary is None else op.vary),
        signs=op.signs,
    )
    _check_importable(made)
    return made


def shrunk(size: int, by: int) -> int:
    """A size divided by `by`, if it is large: small ones are strides, kernels and numbers of channels."""
    return max(size // max(by, 1), SMALL) if size > SMALL else size


def _multiplied(variants: tuple[Variant, ...], further: Sequence[Environment]) -> tuple[Variant, ...]:
    copies = [
        replace(variant, name=f"{variant.name}{MARK}{other.name}", environment=variant.environment.within(other))
        for other in further
        for variant in variants
    ]
    taken = {variant.name for variant in variants}
    for copy in copies:
        if copy.name in taken:
            raise UsageError(
                f"environments.{copy.environment.name}: there is a variant {copy.name}; rename one of them"
            )
    return (*variants, *copies)


def _check_importable(operation: Operation) -> None:
    """Raises UsageError if another interpreter is to run functions that it cannot import."""
    python = next((each.environment.python for each in operation.variants if each.environment.python), None)
    if python is None:
        return
    for key, function in operation.imported.items():
        if callable(function):
            raise UsageError(
                f"python={python}: {key} is a function without a path; put it into a module, and name that"
            )


def _function(key: str, value: Any) -> Function:
    if isinstance(value, str) or callable(value):
        return value
    if not isinstance(value, Mapping) or not isinstance(value.get("fn"), str):
        raise UsageError(f"{key}={value}: expected the dotted path of a function, or {{fn: …, args: {{…}}}}")
    for part in value:
        if part not in ("fn", "args"):
            raise unknown(key, part, ("fn", "args"), "keys of a function")
    return Partial(value["fn"], _arguments(f"{key}.args", value.get("args")))


def _solved(key: str, value: Any, made_of: Function | None, op: str) -> Any:
    """A variant that a file holds, as one whose function makes it of the file; any other as it is."""
    if not isinstance(value, Mapping) or value.get("solution") is None:
        return value
    key, file = f"{key}.solution", value["solution"]
    if not isinstance(made_of, Partial):
        raise UsageError(
            f"{key}={file}: {op} is no problem of a file, whose solutions are files; name a function by fn"
        )
    for other in ("fn", "nki", "args"):  # its file has all that it takes
        if value.get(other) is not None:
            raise UsageError(f"{key}={file}: {other}={value[other]} is given as well; leave out one of the two")
    if not Path(str(file)).is_file():
        raise UsageError(f"{key}={file}: no such file")
    return {**value, "fn": made_of.fn, "args": {**made_of.args, "file": str(Path(str(file)).resolve())}}


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
        if part not in (*VARIANT_KEYS, *environments.KEYS):
            raise unknown(key, part, (*VARIANT_KEYS, *environments.KEYS), "keys of a variant")
    fn, kernel = value.get("fn"), value.get("nki")
    if fn is not None and kernel is not None:
        raise UsageError(f"{key}.nki={kernel}: fn={fn} is given as well; leave out one of the two")
    if kernel is not None and not _names_function(kernel):
        raise UsageError(f"{key}.nki={kernel}: expected the dotted path of an NKI kernel")
    if kernel is None and not _names_function(fn):
        raise UsageError(f"{key}.fn={fn}: expected the dotted path of a function, or nki, that of an NKI kernel")
    named = tuple(among(f"{key}.devices", device, devices) for device in _names(key, value.get("devices")))
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
        environment=environments.parse(key, value),
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


def among(key: str, value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise unknown(key, value, choices)
    return str(value)


def _kind(value: Any) -> str:
    kinds = {str: "text", float: "a number with a point", list: "a list", bool: "true or false"}
    return kinds.get(type(value), type(value).__name__)
