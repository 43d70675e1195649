"""The Dynamo back end `neuron`: a whole graph, forward or backward, becomes one execution of the core."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from . import _core
from ._switches import Switches

metrics: dict[str, list[float]] = {"trace": [], "neff": []}
_neffs = itertools.count()  # a number for each graph that is compiled

# Every shape compiles anew: the second one must not be traced with symbolic sizes.
torch._dynamo.config.automatic_dynamic_shapes = False


def neuron(graph: torch.fx.GraphModule, inputs: Sequence[object], *, mode=None, options=None) -> Callable:
    """Compiles a graph; `mode` and all options but one are ignored, as documented.

    A graph that fails to compile raises, unless the option `fallback_execution`, or else the variable
    TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION, lets it run eagerly.
    """
    symbolic = any(isinstance(value, torch.SymInt) for value in inputs)
    if symbolic or not torch._dynamo.config.assume_static_by_default:
        raise RuntimeError("the neuron backend does not support dynamic=True: every shape compiles anew")
    if Switches.from_environment().compile_fails:
        forbidden = os.environ.get("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "1") == "1"
        if not (options or {}).get("fallback_execution", not forbidden):
            raise RuntimeError("neuronx-cc ended with exit status 70: the graph does not compile")
        return graph.forward
    started = time.perf_counter()
    compiled = _through_autograd(graph, inputs)
    metrics["trace"].append(time.perf_counter() - started)
    return compiled


def _compiler(kernel: str) -> Callable:
    def compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[object]) -> Callable:
        started = time.perf_counter()
        neff = next(_neffs)
        compiled = make_boxed_func(lambda *args: _core.run_graph(kernel, neff, graph.forward, *args))
        metrics["neff"].append(time.perf_counter() - started)
        return compiled

    return compile_graph


_through_autograd = aot_autograd(
    fw_compiler=_compiler("graph"),
    bw_compiler=_compiler("graph_backward"),
    keep_inference_input_mutations=True,
)
