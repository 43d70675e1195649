"""What the operation of a FlashInfer-Trace definition calls: its inputs, its reference, and the code of a solution."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from harness.configuration.errors import UsageError
from harness.configuration.operation import SEEDS
from harness.measure.nki_kernel import UnsupportedError
from harness.problems.flashinfer import CUSTOM, FILE, Definition, definition
from harness.problems.source import unpacked

RUN = "run"  # the reference's function
LANGUAGES = ("python", "triton")
LARGEST = {torch.int8: 128, torch.bool: 2}  # random integers are below it, and not below minus it
LARGEST_INTEGER = 1024


def inputs(
    problem: str, workload: Mapping[str, Any], dtype: torch.dtype, generator: torch.Generator, **dims: int
) -> tuple[Any, ...]:
    """The inputs of a workload, at these sizes, in the definition's order and dtypes.

    Random ones are normal, of integers uniform. Raises UsageError for a source of inputs that is not known.
    """
    found = _definition(problem)
    sizes = found.sizes(dims)
    sources = workload["inputs"]
    if any(source.get("type") == CUSTOM for source in sources.values()):
        return _custom(found, sizes, sources, generator)
    return tuple(_input(found, name, sources.get(name, {}), sizes, generator) for name in found.inputs)


def reference(problem: str) -> Callable[..., Any]:
    """The function `run` of the definition's own code."""
    found = _definition(problem)
    return _ordered(_function(_reference_module(problem), RUN, problem), found)


def solution(problem: str, file: str) -> Callable[..., Any]:
    """The function that a solution's entry point names; one that is given its outputs gets new ones in each call.

    Raises UsageError if the file holds no solution of this problem, UnsupportedError if it is not of Python.
    """
    found = _definition(problem)
    try:
        plain = json.loads(Path(file).read_text(encoding="utf-8"))
        of, spec, sources = plain["definition"], plain["spec"], plain["sources"]
        path, _, name = spec["entry_point"].partition("::")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{file}: no solution of FlashInfer-Trace: {type(error).__name__}: {error}") from error
    if of != found.name:
        raise UsageError(f"{file}: solves {of}, not {found.name}")
    if spec.get("language", "python") not in LANGUAGES:
        raise UnsupportedError(f"its language is {spec['language']}; {' and '.join(LANGUAGES)} can be run")
    run = _function(
        _solution_module(file, path, tuple((each["path"], each["content"]) for each in sources)), name, file
    )
    return _returning(run, found) if spec.get("destination_passing_style", True) else _ordered(run, found)


def _definition(problem: str) -> Definition:
    return definition(Path(problem), problem)


def _input(
    found: Definition, name: str, source: Mapping[str, Any], sizes: Mapping[str, int], generator: torch.Generator
) -> Any:
    spec = found.inputs[name]
    kind = source.get("type", "random")
    if kind == "scalar":
        return source["value"]
    if kind == FILE:
        return _of_file(found, name, source)
    if kind != "random":
        raise UsageError(f"{found.path}: input {name} is of type {kind}; random, scalar, {FILE} and {CUSTOM} are known")
    dtype = _dtype(spec["dtype"], found)
    shape = [sizes[axis] for axis in spec["shape"] or ()]
    if dtype.is_floating_point:
        drawn: Any = torch.randn(shape, generator=generator, dtype=torch.float32).to(dtype)
    else:
        largest = LARGEST.get(dtype, LARGEST_INTEGER)
        smallest = 0 if dtype == torch.bool else -largest
        drawn = torch.randint(smallest, largest, shape, generator=generator).to(dtype)
    return drawn.item() if spec["shape"] is None else drawn


def _of_file(found: Definition, name: str, source: Mapping[str, Any]) -> torch.Tensor:
    """A tensor of a file, whose path is relative to the definition, or to a folder above it."""
    try:
        from safetensors import safe_open
    except ImportError as error:
        raise UsageError(f"{found.path}: input {name} is in a file; pip install safetensors") from error
    path = Path(source["path"])
    places = [path] if path.is_absolute() else [folder / path for folder in found.path.parents]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise UsageError(f"{found.path}: input {name} is in {path}, which is neither beside it nor in a folder above")
    with safe_open(file, "pt") as opened:
        return opened.get_tensor(source["tensor_key"])


def _custom(
    found: Definition, sizes: Mapping[str, int], sources: Mapping[str, Any], generator: torch.Generator
) -> tuple[Any, ...]:
    """What the definition's own function makes of the sizes and scalars."""
    name = found.plain.get("custom_inputs_entrypoint")
    function = _function(_reference_module(str(found.path)), str(name), str(found.path))
    scalars = {name: source["value"] for name, source in sources.items() if source.get("type") == "scalar"}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator.initial_seed() % SEEDS)
        made = {**scalars, **function({**sizes, **scalars}, torch.device("cpu"))}
    return tuple(made[name] for name in found.inputs)


def _ordered(run: Callable[..., Any], found: Definition) -> Callable[..., Any]:
    """The function, with outputs that it returns by name in the definition's order."""
    names = list(found.outputs)
    if len(names) == 1:
        return run

    def ordered(*inputs: Any) -> Any:
        outputs = run(*inputs)
        return tuple(outputs[name] for name in names) if isinstance(outputs, dict) else outputs

    return ordered


def _returning(run: Callable[..., Any], found: Definition) -> Callable[..., Any]:
    """A function that makes the outputs, has them written, and returns them."""
    specs = [(spec["shape"] or (), _dtype(spec["dtype"], found)) for spec in found.outputs.values()]
    shapes = [spec["shape"] or () for spec in found.inputs.values()]
    constant = {name: axis["value"] for name, axis in found.axes("const").items()}

    def returning(*inputs: Any) -> Any:
        sizes = dict(constant)
        device = None
        for value, shape in zip(inputs, shapes, strict=True):
            if isinstance(value, torch.Tensor):
                device = value.device
                sizes.update(zip(shape, value.shape, strict=True))
        known = found.sizes(sizes)
        outputs = tuple(
            torch.empty([known[axis] for axis in shape], dtype=dtype, device=device) for shape, dtype in specs
        )
        run(*inputs, *outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    return returning


def _dtype(name: str, found: Definition) -> torch.dtype:
    kind = getattr(torch, name, None)
    if not isinstance(kind, torch.dtype):
        raise UsageError(f"{found.path}: torch has no dtype {name}")
    return kind


def _function(module: ModuleType, name: str, file: str) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{file}: its code defines no function {name}")
    return function


@cache
def _reference_module(problem: str) -> ModuleType:
    found = _definition(problem)
    return _imported(found.reference[0][0], found.reference)


@cache
def _solution_module(file: str, path: str, sources: tuple[tuple[str, str], ...]) -> ModuleType:
    if path not in dict(sources):
        raise UsageError(f"{file}: its entry point is in {path}, which is not among its sources")
    return _imported(path, sources)


def _imported(path: str, sources: tuple[tuple[str, str], ...]) -> ModuleType:
    """The module of one of these files, imported from a folder, since Triton reads the code of its kernels there."""
    folder = unpacked(sources)
    name = f"problem_{folder.name}_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, folder / path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str((folder / path).parent))  # where its other files are found
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str((folder / path).parent))
    return module
