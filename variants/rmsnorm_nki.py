"""RMSNorm as an NKI kernel, and the operator by which torch calls it, with its gradient.

Written after AWS's documentation of NKI 0.7, and run on a simulated core alone, line by line, by a stand-in for nki:
that the compiler takes it, and how fast it is, has not been tried on Trainium. Assumed besides: that a DMA whose access
pattern has the step 0 repeats a row, and that without a grid nl.num_programs is 1.
"""

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import torch
from torch import Tensor
from torch_neuronx import nki_op

from variants._nki import CORES, LONGEST, tile
from variants.rmsnorm import EPS


@nki.jit
def rms_norm_kernel(x: Any, weight: Any, eps: float = EPS) -> Any:
    """Normalise x (rows, hidden), scaled by weight (hidden,), 128 rows at a time; each core takes its share of them."""
    rows, hidden = x.shape
    cores = nl.num_programs(axes=0)
    assert weight.shape == (hidden,), f"weight must be ({hidden},) as the rows are, not {weight.shape}"
    assert hidden <= LONGEST, f"hidden must be at most {LONGEST}, not {hidden}"
    assert rows % cores == 0, f"rows must be a multiple of {cores} cores, not {rows}"
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    share = rows // cores
    first = nl.program_id(axis=0) * share
    height = min(nl.tile_size.pmax, share)
    weights = tile(height, hidden)
    nisa.dma_copy(dst=weights, src=weight.ap(pattern=[[0, height], [1, hidden]], offset=0))  # into every partition
    for start in nl.static_range(0, share, height):
        size = min(height, share - start)
        taken = nl.ds(first + start, size)
        values = tile(size, hidden)
        nisa.dma_copy(dst=values, src=x[taken, 0:hidden])
        squares, total = tile(size, hidden), tile(size, 1)
        nisa.tensor_tensor(dst=squares, data1=values, data2=values, op=nl.multiply)
        nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=1, keepdims=True)
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1 / hidden, op1=nl.add, operand1=eps)
        nisa.tensor_scalar(dst=values, data=values, op0=nl.multiply, operand0=nl.rsqrt(total))
        result = tile(size, hidden, x.dtype)
        nisa.tensor_tensor(dst=result, data1=values, data2=weights[0:size, 0:hidden], op=nl.multiply)
        nisa.dma_copy(dst=out[taken, 0:hidden], src=result)
    return out


@nki_op("variants::rms_norm", mutates_args=())
def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Launch the kernel on all cores of a logical core."""
    return rms_norm_kernel[CORES](x, weight)


def _setup(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Differentiate in float32, by torch's own operators."""
    x, weight = ctx.saved_tensors
    values, upstream = x.float(), grad.float()
    scale = torch.rsqrt(values.square().mean(dim=-1, keepdim=True) + EPS)
    normed, scaled = values * scale, upstream * weight.float()
    grad_x = scale * (scaled - normed * (scaled * normed).mean(dim=-1, keepdim=True))
    return grad_x.to(x.dtype), (upstream * normed).sum(dim=0).to(weight.dtype)


rms_norm.register_autograd(_backward, setup_context=_setup)
