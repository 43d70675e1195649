"""Imported once by the server that measuring processes are forked from, so that a compile in them starts warm.

It must not touch a device or leave a thread running: both would be lost or broken in a fork.
"""

from __future__ import annotations

import contextlib
import importlib
import threading

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
    """Imports what a compile imports, and meanwhile runs its one-time probes of the machine.

    These are names of torch's own that may move; without them a process is slower to start, and nothing else.
    """
    probes = threading.Thread(target=_probe)
    probes.start()
    for module in LAZILY_IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    probes.join()


def _probe() -> None:
    """Waits for the compiler, mostly."""
    with contextlib.suppress(Exception):
        from torch._inductor import cpu_vec_isa

        cpu_vec_isa.pick_vec_isa()
    with contextlib.suppress(Exception):
        from torch._inductor import codecache

        codecache.torch_key()


warm()
