"""Softmax as an NKI kernel, and the operator by which torch calls it, with its gradient.

Written after AWS's documentation of NKI 0.7, and run on a simulated core alone, line by line, by a stand-in for nki:
that the compiler takes it, and how fast it is, has not been tried on Trainium.
"""

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
from torch import Tensor
from torch_neuronx import nki_op

from variants._nki import CORES, LONGEST, tile


@nki.jit
def softmax_kernel(x: Any) -> Any:
    """Compute it of each row of x (rows, columns), 128 rows at a time; each core takes its share of them."""
    rows, columns = x.shape
    cores = nl.num_programs(axes=0)
    assert columns <= LONGEST, f"columns must be at most {LONGEST}, not {columns}"
    assert rows % cores == 0, f"rows must be a multiple of {cores} cores, not {rows}"
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    share = rows // cores
    first = nl.program_id(axis=0) * share
    for start in nl.static_range(0, share, nl.tile_size.pmax):
        size = min(nl.tile_size.pmax, share - start)
        taken = nl.ds(first + start, size)
        values = tile(size, columns)
        nisa.dma_copy(dst=values, src=x[taken, 0:columns])
        shift = tile(size, 1)  # minus the maximum, against overflow
        nisa.tensor_reduce(dst=shift, op=nl.maximum, data=values, axis=1, negate=True, keepdims=True)
        exponentials, total = tile(size, columns), tile(size, 1)
        nisa.activation(
            dst=exponentials,
            op=nl.exp,
            data=values,
            bias=shift,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        nisa.reciprocal(dst=total, data=total)
        result = tile(size, columns, x.dtype)
        nisa.tensor_scalar(dst=result, data=exponentials, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[taken, 0:columns], src=result)
    return out


@nki_op("variants::softmax", mutates_args=())
def softmax(x: Tensor) -> Tensor:
    """Launch the kernel on all cores of a logical core."""
    return softmax_kernel[CORES](x)


def _setup(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.save_for_backward(output)


def _backward(ctx: Any, grad: Tensor) -> Tensor:
    """Differentiate in float32, by torch's own operators."""
    (result,) = ctx.saved_tensors
    values, upstream = result.float(), grad.float()
    return (values * (upstream - (upstream * values).sum(dim=-1, keepdim=True))).to(grad.dtype)


softmax.register_autograd(_backward, setup_context=_setup)
