"""What the operation of a KernelBench file calls: its inputs, its Model, and the ModelNew of a solution."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from harness.configuration.errors import UsageError
from harness.configuration.operation import SEEDS
from harness.measure.modules import adopt
from harness.measure.trees import tree_map
from harness.problems.kernelbench import NEW, resized
from harness.problems.source import parsed


def inputs(problem: str, dtype: torch.dtype, generator: torch.Generator, **sizes: int) -> tuple[Any, ...]:
    """What get_inputs makes at these sizes, from the generator's seed; tensors with a point in `dtype`."""

    def converted(value: Any) -> Any:
        is_floating = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.detach().to(dtype).requires_grad_() if is_floating else value

    module = _loaded(problem, sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator.initial_seed() % SEEDS)
        made = module.get_inputs()
    if not isinstance(made, list | tuple):
        raise UsageError(f"{problem}: get_inputs makes a {type(made).__name__}, where a list of inputs is expected")
    return tuple(tree_map(converted, made))


def model(problem: str, sizes: Mapping[str, int]) -> nn.Module:
    """The problem's Model, whose weights are drawn from the present seed."""
    module = _loaded(problem, sizes)
    return module.Model(*_init_inputs(module))


def solution(problem: str, sizes: Mapping[str, int], file: str) -> nn.Module:
    """A file's ModelNew, made as the problem's Model is, from the same seed, with its weights where they fit.

    Raises UsageError if the file has none.
    """
    seed = torch.initial_seed()
    right = model(problem, sizes)
    torch.manual_seed(seed)
    module = _loaded(file, sizes)
    new = getattr(module, NEW, None)
    if not callable(new):
        raise UsageError(f"{file}: defines no {NEW}")
    made = new(*_init_inputs(_loaded(problem, sizes)))
    if not isinstance(made, nn.Module):
        raise TypeError(f"{NEW} is no nn.Module but makes a {type(made).__name__}")
    adopt(made, right)
    return made


def _init_inputs(module: ModuleType) -> list[Any]:
    return list(module.get_init_inputs()) if hasattr(module, "get_init_inputs") else []


def _loaded(file: str, sizes: Mapping[str, int]) -> ModuleType:
    return _executed(file, tuple(sorted(sizes.items())))


@cache
def _executed(file: str, sizes: tuple[tuple[str, int], ...]) -> ModuleType:
    """A file's module, executed with these sizes in place of its own; line numbers stay, as tracebacks and Triton want.

    Raises UsageError if it is not Python, and what the file raises.
    """
    path = Path(file)
    tree = resized(parsed(path.read_bytes(), file, file), dict(sizes))
    module = ModuleType(f"{__name__}.{path.stem}_{len(sys.modules)}")
    module.__file__ = file
    sys.modules[module.__name__] = module  # where dataclasses, pickle and Triton look for it
    exec(compile(tree, file, "exec"), module.__dict__)
    return module
