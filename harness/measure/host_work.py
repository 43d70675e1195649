"""Host work: whether a call on an accelerator has the CPU do what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.measure.outputs import Outputs, few

HALF = 0.5  # of the elements that are returned: fewer are sizes, indices or constants


class HostWork(TorchDispatchMode):
    """Follows a call's copies between the device and the CPU, and its operators on tensors of the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self._to_host = 0  # elements
        self._to_device = 0
        self._returned = 0
        self._operators: dict[str, None] = {}  # on the CPU, in the order of their first call

    def follow(self, call: Callable[[], Outputs]) -> Outputs:
        """The outputs of one call, which no compiler must have seen: it would notice, and compile anew."""
        with self:
            outputs = call()
        self._returned = sum(output.numel() for output in outputs if isinstance(output, torch.Tensor))
        return outputs

    def __torch_dispatch__(self, func: Any, types: Sequence[Any], args: Any = (), kwargs: Any = None) -> Any:
        given = _sizes((args, kwargs))
        outputs = func(*args, **(kwargs or {}))
        made = _sizes(outputs)
        if "cpu" in made and given.keys() - {"cpu"}:
            self._to_host += made["cpu"]
        elif "cpu" in given and made.keys() - {"cpu"}:
            self._to_device += given["cpu"]
        elif "cpu" in given and "cpu" in made and not func.is_view:
            self._operators[func.name().partition(".")[0]] = None
        return outputs

    def reason(self) -> str | None:
        """Why the call was not the device's; None if it was, as far as torch sees."""
        if self._to_host <= 1 or self._to_device < max(HALF * self._returned, 1):
            return None
        operators = few(list(self._operators)) if self._operators else "none that torch sees"
        return f"computes on the CPU: copies its inputs there and its outputs back; operators there: {operators}"


def _sizes(values: Any) -> dict[str, int]:
    """Elements by type of device, of all tensors in a structure."""
    sizes: dict[str, int] = {}
    for value in tree_leaves(values):
        if isinstance(value, torch.Tensor):
            sizes[value.device.type] = sizes.get(value.device.type, 0) + value.numel()
    return sizes
