"""my_op as an NKI kernel, to be replaced by one of your own. It has not been tried on Trainium."""

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl

LONGEST = 8192  # elements of a row: what a partition of on-chip memory holds of three tiles


@nki.jit
def silu_kernel(x: Any) -> Any:
    """Multiply x (rows, hidden) by its sigmoid, 128 rows at a time; each core of the grid takes its share of them."""
    rows, hidden = x.shape
    cores = nl.num_programs(axes=0)
    # What an assertion says stands in the row of a shape that the kernel does not take
    assert hidden <= LONGEST, f"hidden must be at most {LONGEST}, not {hidden}"
    assert rows % cores == 0, f"rows must be a multiple of {cores} cores, not {rows}"
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    share = rows // cores
    first = nl.program_id(axis=0) * share
    for start in nl.static_range(0, share, nl.tile_size.pmax):
        size = min(nl.tile_size.pmax, share - start)
        taken = nl.ds(first + start, size)
        values = nl.ndarray((size, hidden), dtype=nl.float32, buffer=nl.sbuf)
        gates = nl.ndarray((size, hidden), dtype=nl.float32, buffer=nl.sbuf)
        result = nl.ndarray((size, hidden), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=values, src=x[taken, 0:hidden])
        nisa.activation(dst=gates, op=nl.sigmoid, data=values)
        nisa.tensor_tensor(dst=result, data1=values, data2=gates, op=nl.multiply)
        nisa.dma_copy(dst=out[taken, 0:hidden], src=result)
    return out
