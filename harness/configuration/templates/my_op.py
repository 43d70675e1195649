"""my_op: the SiLU of each element, to be replaced by an operation of your own."""

import torch
from torch import Tensor


def inputs(rows: int, hidden: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Draw x (rows, hidden) on the CPU; the arguments are the dims of my_op.yaml, and these two."""
    x = torch.randn(rows, hidden, generator=generator).to(dtype)
    return (x.requires_grad_(),)  # of what needs a gradient in the modes backward and forward_backward


def reference(x: Tensor) -> Tensor:
    """Compute the right result, in another way than the variants; the inputs are in float64."""
    return x / (1 + torch.exp(-x))


def work(rows: int, hidden: int, dtype: torch.dtype, mode: str) -> dict[str, int]:
    """Count the FLOPs that the operation must at least do, and the bytes that it must move."""
    elements = rows * hidden
    forward = {"flops": 4 * elements, "bytes": 2 * elements * dtype.itemsize}  # x is read, the result written
    backward = {"flops": 8 * elements, "bytes": 3 * elements * dtype.itemsize}  # x, its gradient and the result's
    if mode == "forward_backward":
        return {key: forward[key] + backward[key] for key in forward}
    return forward if mode == "forward" else backward


def naive(x: Tensor) -> Tensor:
    """Multiply by the sigmoid: two operators."""
    return x * torch.sigmoid(x)


def fused(x: Tensor) -> Tensor:
    """Let one operator do it all."""
    return torch.nn.functional.silu(x)
