"""Host work: whether a call on an accelerator has the CPU do what it returns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.measure.outputs import Outputs, few

HALF = 0.5  # of the elements that are returned: fewer are sizes, indices or constants


class HostWork(TorchDispatchMode):
    """Follows a call's copies between `device` and the CPU, and its operators on tensors of the CPU."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device.type
        self._to_host = 0  # elements
        self._to_device = 0
        self._returned = 0
        self._operators: dict[str, None] = {}  # on the CPU, in the order of their first call

    def follow(self, call: Callable[[], Outputs]) -> None:
        """Follows one call. What compiles within it may refuse to be followed, and is let go."""
        with contextlib.suppress(Exception, SystemExit), self:
            self._returned = sum(output.numel() for output in call() if isinstance(output, torch.Tensor))

    def __torch_dispatch__(self, func: Any, types: Sequence[Any], args: Any = (), kwargs: Any = None) -> Any:
        on_device, on_host = self._elements((args, kwargs))
        outputs = func(*args, **(kwargs or {}))
        made_on_device, made_on_host = self._elements(outputs)
        if on_device and made_on_host:
            self._to_host += made_on_host
        elif on_host and made_on_device:
            self._to_device += on_host
        elif on_host and made_on_host and not func.is_view:
            self._operators[func.name().partition(".")[0]] = None
        return outputs

    def reason(self) -> str | None:
        """Why the call was not the device's; None if it was, as far as torch sees."""
        if self._to_host <= 1 or self._to_device < max(HALF * self._returned, 1):
            return None
        operators = few(list(self._operators)) if self._operators else "none that torch sees"
        return f"computes on the CPU: copies its inputs there and its outputs back; operators there: {operators}"

    def _elements(self, values: Any) -> tuple[int, int]:
        """How many the tensors in a structure have on the device, and on the CPU."""
        sizes = {True: 0, False: 0}
        for value in tree_leaves(values):
            if isinstance(value, torch.Tensor):
                sizes[value.device.type == self._device] += value.numel()
        return sizes[True], sizes[False]
