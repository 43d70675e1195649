"""Variants of RMSNorm whose work is known: as much as the baseline's, a tenth more, or as a table says."""

from __future__ import annotations

import os

import torch

from variants.rmsnorm import fused, naive

CALLS = int(os.environ.get("WORKLOAD_CALLS", "10"))


def ten(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The work of ten calls."""
    for _ in range(10):
        result = naive(x, weight)
    return result


def eleven(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The work of eleven calls: a tenth more than `ten`."""
    for _ in range(11):
        result = naive(x, weight)
    return result


def asked_for(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The work of as many calls as a variable asks for, ten without it."""
    for _ in range(CALLS):
        result = naive(x, weight)
    return result


def tenth_more(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The work of one call, and of another on a tenth of the rows."""
    naive(x[: x.shape[0] // 10], weight)
    return naive(x, weight)


def execution(x: torch.Tensor, weight: torch.Tensor, kernel: str) -> torch.Tensor:
    """One execution of the simulated NeuronCore, of a kernel whose cost its table names."""
    from torch_neuronx._core import execute

    return execute(kernel, fused, x, weight)
