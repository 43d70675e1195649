"""What an operation must do and move at the least, as one convention for the whole library.

FLOPs: an operation with matrix products counts these alone, 2·m·n·k each, as PyTorch's FlopCounterMode does;
its gradients take two products for each one forward. Any other operation counts one for each scalar
operation of its plain formula: exp, rsqrt, tanh and divide are one each, a sum over n values is n. The
backward pass is given statistics of a row (a mean, a root, a log of a sum) and computes the rest again.

Bytes: the forward pass reads each input once and writes each output once. The backward pass reads the inputs
and the gradients of the outputs once, and writes the gradients of the inputs once. What a fused kernel can
keep to itself is not counted.
"""

import torch


def least_work(
    mode: str,
    dtype: torch.dtype,
    *,
    flops: tuple[int, int],
    inputs: int,
    outputs: int,
    constant_bytes: int = 0,
    saved: int | None = None,
    gradients: int | None = None,
) -> dict[str, int]:
    """Add up the FLOPs and bytes of one call.

    Args:
        mode: "forward", "backward" or "forward_backward", which is the sum of the two.
        dtype: of the inputs, outputs and gradients.
        flops: of the forward and of the backward pass.
        inputs: elements of the inputs that take gradients.
        outputs: elements of the outputs.
        constant_bytes: bytes of the inputs that take no gradient (targets, tables).
        saved: elements that the backward pass reads besides gradients, where fewer than `inputs`.
        gradients: elements of the inputs' gradients, where fewer than `inputs`.
    """
    saved = inputs if saved is None else saved
    gradients = inputs if gradients is None else gradients
    passes = {
        "forward": (flops[0], (inputs + outputs) * dtype.itemsize + constant_bytes),
        "backward": (flops[1], (saved + outputs + gradients) * dtype.itemsize + constant_bytes),
    }
    counted = passes.values() if mode == "forward_backward" else [passes[mode]]
    total_flops, total_bytes = map(sum, zip(*counted, strict=True))
    return {"flops": total_flops, "bytes": total_bytes}
