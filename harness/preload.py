"""Imported once by the server that measuring processes are forked from, so that a compile in them starts warm.

It must not touch a device or start a thread: both would be lost or broken in a fork.
"""

from __future__ import annotations

import contextlib
import importlib

LAZILY_IMPORTED = (
    "torch._inductor.compile_fx",
    "torch._inductor.codegen.cpp",
    "torch._inductor.codegen.cpp_wrapper_cpu",
    "torch._dynamo.backends.inductor",
    "torch._functorch._aot_autograd.subclass_codegen",
    "torch._export.passes._node_metadata_hook",
    "torch.distributed.tensor.experimental",
    "torch.export._trace",
    "torch.export._unlift",
    "torch.utils.cpp_extension",
)


def warm() -> None:
    """Imports what a compile imports, and runs its one-time probes of the machine.

    These are names of torch's own that may move; without them a process is slower to start, and nothing else.
    """
    for module in LAZILY_IMPORTED:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    with contextlib.suppress(Exception):
        from torch._inductor import codecache, cpu_vec_isa

        codecache.torch_key()
        cpu_vec_isa.pick_vec_isa()


warm()
