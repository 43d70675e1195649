"""The Dynamo back end `neuron`: a whole graph, forward or backward, becomes one execution of the core."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from . import _compiler, _core
from ._switches import Switches

_neffs = itertools.count()  # a number for each graph that is loaded

# Every shape compiles anew: the second one must not be traced with symbolic sizes.
torch._dynamo.config.automatic_dynamic_shapes = False


def neuron(graph: torch.fx.GraphModule, inputs: Sequence[object], *, mode=None, options=None) -> Callable:
    """Compiles a graph; `mode` and all options but one are ignored, as documented.

    A graph that fails to compile or to execute raises, unless the option `fallback_execution`, or else the variable
    TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION, lets it run eagerly.
    """
    symbolic = any(isinstance(value, torch.SymInt) for value in inputs)
    if symbolic or not torch._dynamo.config.assume_static_by_default:
        raise RuntimeError("the neuron backend does not support dynamic=True: every shape compiles anew")
    default = "0" if Switches.from_environment().falls_back else "1"
    forbidden = os.environ.get("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", default) == "1"
    eagerly = (options or {}).get("fallback_execution", not forbidden)
    return aot_autograd(
        fw_compiler=_compiling("graph", eagerly),
        bw_compiler=_compiling("graph_backward", eagerly),
        keep_inference_input_mutations=True,
    )(graph, inputs)


def _compiling(kernel: str, eagerly: bool) -> Callable:
    """A compiler of graphs; `eagerly`: one that fails runs so."""

    def compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[object]) -> Callable:
        shapes = [(tuple(value.shape), str(value.dtype)) for value in inputs if isinstance(value, torch.Tensor)]
        program = _compiler.identity(kernel, graph.code, shapes)
        switches = Switches.from_environment()
        try:
            _compiler.build(kernel, program, _compiler.GRAPH)
        except RuntimeError:
            if eagerly:
                return make_boxed_func(graph.forward)
            if switches.compile_poisons:
                _core.leave_error("NEURON_RT: an earlier compile in this process failed (status 70)")
            raise
        neff = next(_neffs)
        calls = itertools.count(1)

        def run(*args: object) -> object:
            if switches.rebuild_every and next(calls) % switches.rebuild_every == 0:
                _compiler.build(kernel, program, _compiler.GRAPH, anew=True)
            if not switches.execution_fails:
                return _core.run_graph(kernel, neff, graph.forward, *args)
            if eagerly:
                return graph.forward(*args)
            raise RuntimeError("NEURON_RT: nrt_execute failed with status 1006: the graph did not run")

        return make_boxed_func(run)

    return compile_graph
