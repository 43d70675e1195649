"""Imported once by the server that measuring processes are forked from, so that a compile in them starts warm.

It must not touch a device or leave a thread running: both would be lost or broken in a fork.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Sequence

FOR_THE_PROBE = (
    "torch._inductor.cpu_vec_isa",
    "torch._inductor.cpp_builder",
    "torch._inductor.codecache",
    "torch.utils.cpp_extension",
)
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
)


def warm() -> None:
    """Imports what a compile imports, and runs its one-time probes of the machine.

    These are names of torch's own that may move; without them a process is slower to start, and nothing else.
    """
    _import(FOR_THE_PROBE)  # before there is a second thread: two that import in circles can break both
    probe = threading.Thread(target=_probe)  # it waits for a compiler and a Python, on another core
    probe.start()
    _import(LAZILY_IMPORTED)
    with contextlib.suppress(Exception):
        from torch._inductor import codecache

        codecache.torch_key()
    probe.join()


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(module)


def _probe() -> None:
    """Finds the vector instructions that this machine's compiler and processor know."""
    with contextlib.suppress(Exception):
        from torch._inductor import cpu_vec_isa

        cpu_vec_isa.pick_vec_isa()


warm()
