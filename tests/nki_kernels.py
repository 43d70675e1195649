"""NKI kernels for op=rmsnorm, each odd in its own way; imported where nki is there."""

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import torch
from torch_neuronx import nki_op

from variants.rmsnorm_nki import rms_norm_kernel


@nki.jit
def unscaled(x: Any, weight: Any) -> Any:
    """Wrong: it hands on what it loads."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


@nki.jit
def unwritten(x: Any, weight: Any) -> Any:
    """Wrong: it writes half of its output."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    half = x.shape[1] // 2
    nl.store(out[:, 0:half], nl.load(x[:, 0:half]))
    return out


@nki.jit
def picky(x: Any, weight: Any) -> Any:
    assert x.shape[0] % 128 == 0, f"rows must be a multiple of 128, not {x.shape[0]}"
    return rms_norm_kernel(x, weight)


@nki.jit
def wordless(x: Any, weight: Any) -> Any:
    assert x.shape[1] == 513
    return rms_norm_kernel(x, weight)


@nki.jit
def too_many_partitions(x: Any, weight: Any) -> Any:
    """Beyond what a core has, which NKI says."""
    tile = nl.ndarray((129, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[0 : x.shape[0], :], src=x)
    return tile


@nki.jit
def faulty(x: Any, weight: Any) -> Any:
    return nl.no_such_function(x)


@nki_op("nki_kernels::without_gradient", mutates_args=())
def without_gradient(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return rms_norm_kernel(x, weight)


def plain(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """No kernel."""
    return torch.rms_norm(x, weight.shape, weight, 1e-6)
