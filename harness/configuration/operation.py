"""Operation, Variant and Case: what is measured, named before anything runs."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import pkgutil
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harness.configuration import library
from harness.configuration.environments import OWN, Environment
from harness.configuration.errors import MOST_NAMES, UsageError, nearest, one_line, some, with_article

if TYPE_CHECKING:
    import torch

    from harness.configuration.probes import Probe

DTYPES = ("float32", "bfloat16", "float16", "float64")
INDEX_DTYPES = ("int32", "int64")
MODES = ("forward", "backward", "forward_backward")
RESERVED_DIMS = ("dtype", "index_dtype", "generator", "mode")
CONTROL = "(control)"  # the hidden second name of the baseline, which no variant can have
ACROSS = "(control, other process)"  # the same, of another process of its environment
CONTROLS = (CONTROL, ACROSS)
SEEDS = 2**64  # torch.Generator takes as many


@dataclass(frozen=True)
class Partial:
    """A function by its dotted path, and keyword arguments for it, as {fn: …, args: {…}} gives it."""

    fn: str
    args: Mapping[str, Any]


Function = str | Callable[..., Any] | Partial
Inputs = tuple[Any, ...] | list[Any] | dict[str, Any]  # a dict: keyword arguments


@dataclass(frozen=True)
class Variant:
    """A function, or an NKI kernel, and how it is executed."""

    name: str
    fn: Function
    args: Mapping[str, Any] = field(default_factory=dict)
    compile: Mapping[str, Any] | None = None  # what torch.compile takes; None: run eagerly
    requires: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    optional: bool = False  # where `requires` or `devices` are not met it has no row, in place of one that is skipped
    nki: bool = False  # `fn` is an NKI kernel, or an operator that is made of one
    grid: int | None = None  # the cores that a kernel is launched on, kernel[2]; None: as NKI does without
    environment: Environment = OWN

    @property
    def key(self) -> str:
        """The key of the configuration that names its function."""
        return f"op.variants.{self.name}.{'nki' if self.nki else 'fn'}"

    def function(self) -> Callable[..., Any]:
        """The function that it names; raises UsageError if there is none."""
        return resolve(self.fn, self.key)

    def unmet(self, device: str) -> str | None:
        """Why the variant cannot run on `device`, or None."""
        if self.devices and device not in self.devices:
            return f"only for {', '.join(self.devices)}, not {device}"
        for module in self.requires:
            try:
                importlib.import_module(module)
            except Exception as error:  # a package that is broken is not there either
                return f"requires {module}: {one_line(error)}"
        return None


@dataclass(frozen=True)
class Operation:
    """Named dimensions, inputs, a float64 reference, the work to do, and the variants that do it."""

    name: str
    dims: Mapping[str, int]
    inputs: Function
    reference: Function | None
    work: Function | None
    baseline: str
    variants: tuple[Variant, ...]
    tolerance: float = 1.0  # a factor on the allowed error, above 1 for long chains of roundings
    index_dtype: str | None = None  # of inputs that are indices, if it can be chosen
    probes: tuple[Probe, ...] = ()  # further inputs by which variants are checked
    vary: tuple[str, ...] = ()  # the dims that are checked at near sizes too
    signs: bool = False  # whether variants are checked on inputs of both signs too

    def variant(self, name: str) -> Variant:
        """The variant called `name`."""
        return next(variant for variant in self.variants if variant.name == name)

    @property
    def right(self) -> Function:
        """The reference, or the baseline's function if there is none."""
        return self.variant(self.baseline).fn if self.reference is None else self.reference

    @property
    def imported(self) -> dict[str, Any]:
        """What names modules that a measuring process imports, by its key: paths, functions, lists of modules."""
        named: dict[str, Any] = {"op.inputs": self.inputs, "op.reference": self.right, "op.work": self.work}
        for variant in self.variants:
            named |= {variant.key: variant.fn}
            named |= {f"op.variants.{variant.name}.requires": f"[{','.join(variant.requires)}]"}
        return named


@dataclass(frozen=True)
class CaseKey:
    """A case's identity, equal for the same case of another run, and its name for people."""

    op: str
    dims: tuple[tuple[str, int], ...]
    dtype: str
    mode: str
    device: str

    @classmethod
    def of(cls, case: Mapping[str, Any]) -> CaseKey:
        """The key of a case as results.json describes it."""
        return cls(case["op"], tuple(case["dims"].items()), case["dtype"], case["mode"], case["device"])

    @property
    def words(self) -> tuple[str, ...]:
        """Its parts: `rmsnorm`, `rows=4`, `hidden=512`, `bfloat16`, `forward`, `cpu`."""
        return (self.op, *(f"{name}={size}" for name, size in self.dims), self.dtype, self.mode, self.device)

    @property
    def title(self) -> str:
        """`rmsnorm rows=4 hidden=512 · bfloat16 · forward · cpu`."""
        what = self.words[: 1 + len(self.dims)]
        return " · ".join([" ".join(what), self.dtype, self.mode, self.device])


@dataclass(frozen=True)
class Case:
    """One measurement to make: an operation at fixed dims, in one dtype, device and mode."""

    operation: Operation
    dtype: str
    device: str
    mode: str
    seed: int

    @property
    def baseline(self) -> Variant:
        """The variant that all others are compared with."""
        return self.operation.variant(self.operation.baseline)

    @property
    def key(self) -> CaseKey:
        """Its identity, and its title."""
        return CaseKey(self.operation.name, tuple(self.operation.dims.items()), self.dtype, self.mode, self.device)

    def apart(self, names: Collection[str]) -> Case:
        """The same, with these variants in processes that they share with no other."""
        variants = (
            replace(each, environment=replace(each.environment, alone=each.name)) if each.name in names else each
            for each in self.operation.variants
        )
        return replace(self, operation=replace(self.operation, variants=tuple(variants)))


def resolve(function: Function, key: str) -> Callable[..., Any]:
    """The function that a dotted path names; `key` is the configuration key it came from.

    Raises UsageError if the path does not lead to something that can be called.
    """
    if isinstance(function, Partial):
        return functools.partial(resolve(function.fn, f"{key}.fn"), **function.args)
    if not isinstance(function, str):
        return function
    if function.endswith(".py") or not all(part.isidentifier() for part in re.split("[.:]", function)):
        raise UsageError(f"{key}={function}: expected a dotted path, such as my_package.my_function")
    try:
        if function.partition(".")[0] == library.PACKAGE:
            library.import_library()
        value = pkgutil.resolve_name(function)
    except ModuleNotFoundError as error:
        raise UsageError(f"{key}={function}: {_missing_module(function, error)}") from error
    except AttributeError as error:
        raise UsageError(f"{key}={function}: {_missing_attribute(function)}") from error
    except (
        BaseException
    ) as error:  # whatever the module does when imported, which is in a process that no Ctrl-C reaches
        raise UsageError(f"{key}={function}: importing it raised {type(error).__name__}: {one_line(error)}") from error
    if not callable(value):
        raise UsageError(f"{key}={function}: {with_article(type(value).__name__)}, which cannot be called")
    return value


def make_inputs(operation: Operation, dtype: torch.dtype, generator: torch.Generator) -> tuple[Any, ...] | dict:
    """The operation's inputs on the CPU, as its `inputs` function returns them: a mapping is keyword arguments.

    Raises UsageError, naming the file, if that function does not fit its dims or raises.
    """
    function = resolve(operation.inputs, "op.inputs")
    if operation.index_dtype is not None and "index_dtype" not in inspect.signature(function).parameters:
        raise UsageError(
            f"op.index_dtype={operation.index_dtype}: op.inputs={describe(function)} does not take index_dtype"
        )
    inputs = call_author(function, "op.inputs", {"dtype": dtype, "generator": generator}, operation)
    if inputs is None:
        raise UsageError(f"op.inputs={describe(function)}: returned nothing; return the input tensors, as a tuple")
    if isinstance(inputs, Mapping):
        return dict(inputs)
    if isinstance(inputs, list):
        return tuple(inputs)
    return inputs if isinstance(inputs, tuple) else (inputs,)


def declared_work(operation: Operation, dtype: torch.dtype, mode: str) -> Mapping[str, float] | None:
    """FLOPs and bytes that the operation must do and move, or None if it declares none."""
    if operation.work is None:
        return None
    function = resolve(operation.work, "op.work")
    work = call_author(function, "op.work", {"dtype": dtype, "mode": mode}, operation)
    where = f"op.work={describe(function)}"
    if not isinstance(work, Mapping) or not {"flops", "bytes"} <= set(work):
        raise UsageError(f"{where}: returned {one_line(repr(work))}, not a dict with flops and bytes")
    for key, minimum in (("flops", 0), ("bytes", 1)):
        if not isinstance(work[key], (int, float)) or not minimum <= work[key] < math.inf:
            raise UsageError(f"{where}: returned {key}={one_line(repr(work[key]))}, not a number of {minimum} or more")
    return {"flops": float(work["flops"]), "bytes": float(work["bytes"])}


def call_author(function: Callable[..., Any], key: str, offered: dict[str, Any], operation: Operation) -> Any:
    """Calls a function of the operation's author with its dims and those of the `offered` arguments that it takes.

    Every dim must be taken; `dtype`, `index_dtype`, `generator` and `mode` are optional. `key` names the function in
    errors. Raises UsageError if the parameters do not fit, or if the function raises.
    """
    offered = {**operation.dims, **offered}
    if operation.index_dtype is not None:
        offered["index_dtype"] = _torch_dtype(operation.index_dtype)
    parameters = inspect.signature(function).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    unmet = [p.name for p in parameters if p.name in named and p.default is p.empty and p.name not in offered]
    unused = [dim for dim in operation.dims if dim not in named and not takes_all]
    if unmet or unused:
        problem = f"asks for {', '.join(unmet)}" if unmet else f"does not take {', '.join(unused)}"
        dims = ", ".join(operation.dims)
        raise UsageError(f"{key}={describe(function)}: {problem}; the dims of {operation.name} are {dims}")
    arguments = {name: value for name, value in offered.items() if takes_all or name in named}
    try:
        return function(**arguments)
    except UsageError:
        raise
    except BaseException as error:
        raise UsageError(f"{key}={describe(function)}: raised {type(error).__name__}: {one_line(error)}") from error


def _torch_dtype(name: str) -> torch.dtype:
    import torch

    return getattr(torch, name)


def describe(function: Callable[..., Any]) -> str:
    """A function's name and place: `variants.rmsnorm.inputs (variants/rmsnorm.py:12)`; an object's is its class."""
    if isinstance(function, functools.partial):
        return describe(function.func)
    named = function if hasattr(function, "__qualname__") else type(function)
    name = f"{getattr(named, '__module__', '?')}.{named.__qualname__}"
    code = getattr(function, "__code__", None)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else name


def _missing_module(path: str, error: ModuleNotFoundError) -> str:
    missing = error.name or path
    if path == missing or path.startswith(f"{missing}."):
        return f"no module named {missing} can be imported"
    return f"importing it failed, since no module named {missing} can be imported"


def _missing_attribute(path: str) -> str:
    """Names the longest part of a path that imports, and the functions there."""
    parts = path.replace(":", ".").split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        except BaseException as error:
            return f"importing it raised {type(error).__name__}: {one_line(error)}"
        offered = [name for name, value in vars(module).items() if callable(value) and name[0] != "_"]
        hint = nearest(parts[end], offered)
        return f"{module.__name__} has no {parts[end]}; {hint}it has: {some(sorted(offered), MOST_NAMES) or 'none'}"
    return "cannot be imported"
