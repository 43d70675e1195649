"""NKI: on how many cores a kernel is launched, and how much of a row fits on one."""

import os
from typing import Any

import nki.language as nl

# A kernel must be launched on as many cores as its logical core has; two is what Trainium2 and 3 begin with
CORES = int(os.environ.get("NEURON_LOGICAL_NC_CONFIG", "2"))
LONGEST = 8192  # elements of a row: four tiles of them in float32 take 128 KiB of a partition's 192


def tile(rows: int, columns: int, dtype: Any = nl.float32) -> Any:
    """Make a tile of on-chip memory, (rows, columns), a row in each partition."""
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)
