"""Where a replacement first differs: the first of the modules that it replaces whose output is another, in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from harness.configuration.operation import Inputs
from harness.measure import memory
from harness.measure.modules import exact, exact_bytes
from harness.measure.precision import upcast
from harness.measure.subject import bound
from harness.measure.trees import flatten, tree_map
from harness.model.known import same
from harness.model.replace import replaced, targets


def first_difference(model: nn.Module, replacement: Mapping[str, Any], inputs: Inputs) -> str | None:
    """The path of the first replaced module, in the order of calls, that returns something else than before.

    None if none does, or if that cannot be found out: it raises, or a copy in float64 does not fit into memory.
    """
    if exact_bytes(model) > memory.free_bytes():
        return None
    try:
        paths = targets(model, replacement)
        before = _outputs(exact(model, torch.float64), paths, inputs)
        after = _outputs(replaced(exact(model, torch.float64), [replacement]), paths, inputs)
    except Exception:  # it may raise anything, and is measured all the same
        return None
    for (path, left), (_, right) in zip(before, after, strict=False):
        if not same(left, right):
            return path or "the model itself"
    return None


def _outputs(model: nn.Module, paths: Sequence[str], inputs: Inputs) -> list[tuple[str, Any]]:
    """What each call of the modules at these paths returns, in one forward pass."""
    seen: list[tuple[str, Any]] = []

    def keep(path: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            seen.append((path, [value.clone() for value in flatten(output) if isinstance(value, torch.Tensor)]))

        return hook

    for path in paths:
        model.get_submodule(path).register_forward_hook(keep(path))
    with torch.no_grad():
        bound(model, tree_map(upcast, inputs))()
    return seen
