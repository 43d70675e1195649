"""torch's private names: every undocumented name that the harness uses, each with a fallback.

No other file of the package uses any. This file imports no torch itself, so that reports can use its texts. A test
checks every name against the installed torch.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

# Texts in profiles and graphs: without them operators are counted and named less well
GUARDS = "TorchDynamo Cache Lookup"  # no operator: Dynamo's check that compiled code fits its arguments
ENGINE = "autograd::engine::evaluate_function"  # no operator: autograd's wrapper of a node
COMPILED_GRAPH = re.compile(r"^## Call (CompiledFxGraph \w{1,6})\w* ##$")  # Inductor's code for one graph
COMPILED_REGION = "Torch-Compiled Region"  # around the code that Dynamo compiled of one frame
COMPILED_FUNCTION = "CompiledFunction"  # the autograd function around a compiled graph that has a backward one
COMPILED_BACKWARD = "CompiledFunctionBackward"  # the node of a compiled backward graph
NO_COMPILED_CODE = "found no compiled frames"  # in an error, of what compiles within itself on further inputs
# Texts of logs: without them Dynamo's counters alone say that it ran eagerly
DYNAMO_LOGGER = "torch._dynamo"
RECOMPILE_LIMIT = re.compile("recompile_limit|cache_size_limit")

DYNAMO = "torch._dynamo.utils"
DONATED_BUFFER = "torch._functorch.config:donated_buffer"
CONFIGURATIONS = ("torch._dynamo.config", "torch._functorch.config", "torch._inductor.config")
METRIC_FIELDS = (
    "recompile_reason",
    "start_time_us",
    "graph_node_shapes",
    "inductor_fx_local_cache_hit_count",
    "inductor_fx_local_cache_miss_count",
)
FUNCTION_MODES = "torch.overrides:_get_current_function_mode_stack"
DISPATCH_MODES = "torch.utils._python_dispatch:_get_current_dispatch_mode_stack"
POP_FUNCTION_MODE, POP_DISPATCH_MODE = "torch.overrides:_pop_mode", "torch.utils._python_dispatch:_pop_mode"
TOP_SAVED_HOOKS = "torch:_C._autograd._top_saved_tensors_default_hooks"
POP_SAVED_HOOKS = "torch:_C._autograd._pop_saved_tensors_default_hooks"
OTHER = ("/Meta", "/FuncTorchBatched")  # kernels' names end so: without the latter who uses vmap first adds some
KERNELS, LIBRARY = "torch.library:_impls", "torch.library:Library"
MODULE_HOOKS = tuple(
    f"torch.nn.modules.module:_global_{kind}_hooks" for kind in ("forward_pre", "forward", "backward_pre", "backward")
)
LOOKUP_BACKEND, BACKEND_FAILED = "torch._dynamo:lookup_backend", "torch._dynamo.exc:BackendCompilerFailed"
PROFILER_ENABLED, DISABLE_PROFILER = "torch.autograd:_profiler_enabled", "torch.autograd:_disable_profiler"
COMPILED_IN_PLACE = "_compiled_call_impl"  # of a module
FUNCTIONS_BEHIND = "torch._VF"  # where torch's own Python finds functions that it does not offer
SPAN = "torch:_C._profiler._RecordFunctionFast"
PROFILER_CONFIGURATION = "torch:_C._profiler._ExperimentalConfig"
VECTOR_INSTRUCTIONS = "torch._inductor.cpu_vec_isa:pick_vec_isa"
LOAD_KERNEL = "torch._inductor.codecache:CppPythonBindingsCodeCache.load_pybinding_async"
REGISTER_BACKENDS = "torch._inductor.codegen.common:init_backend_registration"
SOURCE_KEY = "torch._inductor.codecache:torch_key"

PROFILER_IMPORTS = "torch._inductor"  # what torch's profiler imports when it starts, if nobody has

# What a compile imports; without one of them a measuring process starts more slowly, and nothing else
BEFORE_PROBES = (
    *(f"torch._inductor.{name}" for name in ("cpu_vec_isa", "cpp_builder", "codecache")),
    "torch.utils.cpp_extension",
)
LAZILY_IMPORTED = (
    *(f"torch._inductor.{name}" for name in ("compile_fx", "compiler_bisector", "hooks")),
    *(f"torch._inductor.codegen.{name}" for name in ("cpp", "cpp_wrapper_cpu", "memory_planning")),
    *(f"torch._dynamo.{name}" for name in ("backends.inductor", "dce_extra_outputs", "repro.after_dynamo")),
    "torch._functorch._aot_autograd.subclass_codegen",
    "torch._export.passes._node_metadata_hook",
    "torch._subclasses.schema_check_mode",
    *(f"torch.{name}" for name in ("distributed.tensor.experimental", "export._trace", "export._unlift")),
    "torch.fx.experimental.validator",
)

NAMES = (
    *(f"{DYNAMO}:{name}" for name in ("counters", "get_compilation_metrics")),
    *(f"{DYNAMO}:CompilationMetrics.{field}" for field in METRIC_FIELDS),
    *(f"{module}:get_config_copy" for module in CONFIGURATIONS),
    *(FUNCTION_MODES, DISPATCH_MODES, POP_FUNCTION_MODE, POP_DISPATCH_MODE, TOP_SAVED_HOOKS, POP_SAVED_HOOKS),
    *(f"torch.nn:Module.{COMPILED_IN_PLACE}", FUNCTIONS_BEHIND),
    *(KERNELS, f"{LIBRARY}._destroy", *MODULE_HOOKS, DONATED_BUFFER, LOOKUP_BACKEND, BACKEND_FAILED),
    *(PROFILER_ENABLED, DISABLE_PROFILER, SPAN, VECTOR_INSTRUCTIONS, LOAD_KERNEL, REGISTER_BACKENDS, SOURCE_KEY),
    *(f"torch:Tensor.{name}" for name in ("_version", "_indices", "_values")),
    *(PROFILER_IMPORTS, *BEFORE_PROBES, *LAZILY_IMPORTED),
)


def moved(names: tuple[str, ...] = NAMES) -> list[str]:
    """Those of the names that the installed torch does not have."""
    return [name for name in names if not _exists(name)]


def keep_backward_buffers() -> None:
    """Lets the backward graph of compiled code run more than once, as torch's own error message advises.

    Without this name the second run raises, and the row says so.
    """
    module, _, name = DONATED_BUFFER.partition(":")
    if _named(DONATED_BUFFER) is not None:
        setattr(_named(module), name, False)


def load_backend(name: Any) -> None:
    """Imports a compiler's back end, which may set Dynamo's configuration as it is imported.

    Without this name a warning says that the first variant that compiles has changed that configuration.
    """
    _called(LOOKUP_BACKEND, name)


def compile_failed(error: BaseException) -> bool:
    """Whether a compiler's back end has failed; False if torch does not say."""
    if DYNAMO not in sys.modules:
        return False
    try:
        return isinstance(error, pkgutil.resolve_name(BACKEND_FAILED))
    except (ImportError, AttributeError):
        return False


def counters() -> Mapping[str, Mapping[str, int]] | None:
    """Dynamo's counters, empty if it is not imported; None if this torch has none of the known form."""
    dynamo = sys.modules.get(DYNAMO)
    if dynamo is None:
        return {}
    value = getattr(dynamo, "counters", None)
    return value if isinstance(value, Mapping) else None


def clear_counters() -> None:
    """Sets Dynamo's counters to nothing."""
    with contextlib.suppress(AttributeError):
        counters().clear()  # type: ignore[union-attr]


def compilations(since_us: float) -> Iterator[dict[str, Any]]:
    """METRIC_FIELDS of each compile since a time; a field that this torch does not have is None."""
    metrics: list[Any] = getattr(sys.modules.get(DYNAMO), "get_compilation_metrics", list)()
    for metric in metrics:
        fields = {field: getattr(metric, field, None) for field in METRIC_FIELDS}
        # by time, not by position: Dynamo keeps only the latest
        if not hasattr(metric, "start_time_us") or (fields["start_time_us"] or 0) >= since_us:
            yield fields


def configurations() -> dict[str, Any]:
    """The configuration modules of the compiler that are imported, by name, if they can be copied."""
    loaded = {name: sys.modules.get(name) for name in CONFIGURATIONS}
    return {name: module for name, module in loaded.items() if hasattr(module, "get_config_copy")}


def modes(kind: str) -> int:
    """How many modes are active that intercept torch's functions, or its dispatch; 0 if torch does not say."""
    return len(_called(kind) or ())


def is_function_mode(mode: Any) -> bool:
    """Whether a mode is one over torch's functions; True if torch does not say."""
    active = _called(FUNCTION_MODES)
    return active is None or mode in active


def leave_modes(kind: str, depth: int) -> None:
    """Ends all but the first `depth` of them."""
    while (before := modes(kind)) > depth:
        with contextlib.suppress(Exception):  # its own end takes its hooks along
            _called(kind)[-1].__exit__(None, None, None)
        if modes(kind) == before:
            _called(POP_FUNCTION_MODE if kind == FUNCTION_MODES else POP_DISPATCH_MODE)
        if modes(kind) == before:  # there is no way to end it
            return


def module_hooks() -> tuple[dict[int, Any], ...]:
    """The hooks that run with every module's call, by kind; none if torch does not say."""
    return tuple(dict(hooks) for hooks in _module_hooks())


def set_module_hooks(hooks: tuple[dict[int, Any], ...]) -> None:
    """Sets them to what `module_hooks` gave."""
    for current, known in zip(_module_hooks(), hooks, strict=True):
        current.clear()
        current.update(known)


def _module_hooks() -> list[Any]:
    return [hooks for name in MODULE_HOOKS if isinstance(hooks := _named(name), dict)]


def saved_tensor_hooks() -> Any:
    """The hooks through which autograd passes what it saves; None where there are none, or torch does not say."""
    return _called(TOP_SAVED_HOOKS, True)  # those that tracing ignores as well


def leave_saved_tensor_hooks(hooks: Any) -> None:
    """Ends those that were entered since `saved_tensor_hooks` gave `hooks`."""
    while _named(POP_SAVED_HOOKS) is not None and saved_tensor_hooks() not in (None, hooks):
        _called(POP_SAVED_HOOKS)


def kernels() -> frozenset[str]:
    """The kernels that Python has put in place for torch's own operators, as `aten/mul/CPU`.

    Without those of Meta, which compute nothing, and of vmap, which torch itself adds; none where torch does not say.
    """
    return frozenset(name for name in _named(KERNELS) or () if name.startswith("aten/") and not name.endswith(OTHER))


def remove_kernels(wanted: frozenset[str]) -> None:
    """Removes the libraries that put others than those `wanted` in place."""
    kind = _named(LIBRARY)
    if kernels() <= wanted or kind is None:
        return
    for library in [found for found in gc.get_objects() if type(found) is kind]:
        if any(name in kernels() - wanted for name in getattr(library, "_op_impls", ())):
            library._destroy()


def profiling() -> bool:
    """Whether a profiler is recording; True if torch does not say.

    To export a profile that another one has ended crashes the process, so it has to be known before.
    """
    enabled = _called(PROFILER_ENABLED)
    return enabled is None or bool(enabled)


def stop_profiling() -> None:
    """Ends the profiler that is recording, and drops what it has recorded."""
    _called(DISABLE_PROFILER)


def all_threads() -> Any:
    """A profiler's configuration under which it records the operators of all threads; None without that name."""
    return _called(PROFILER_CONFIGURATION, profile_all_threads=True)


def span(name: str) -> Any:
    """A context that a profile shows, as an operator, at a tenth of the cost of an annotation; None without one."""
    return _called(SPAN, name)


def compiled_in_place(module: Any) -> bool:
    """Whether a module's own `compile` has been called; False if torch does not say."""
    return getattr(module, COMPILED_IN_PLACE, None) is not None


def version(tensor: Any) -> int:
    """How often a tensor has been written in place; always 0 if torch does not say."""
    return int(getattr(tensor, "_version", 0))


def uncoalesced(tensor: Any) -> list[Any]:
    """Indices and values of a sparse COO tensor as they are stored; coalesced if torch does not give them."""
    if hasattr(tensor, "_indices") and hasattr(tensor, "_values"):
        return [tensor._indices(), tensor._values()]
    merged = tensor.coalesce()
    return [merged.indices(), merged.values()]


def probe_cpp_compiler() -> None:
    """Has Inductor find, and remember, what it asks of the C++ compiler once in every process.

    That is the vector instructions that it and the processor know, and the precompiled header of its kernels.
    """
    _called(VECTOR_INSTRUCTIONS)
    _called(LOAD_KERNEL, ["float*"], "", submit_fn=lambda build: None)  # nothing is built


def start_compiler() -> None:
    """Has Inductor register its back ends, and hash torch's sources, which name its cache's entries."""
    _called(REGISTER_BACKENDS)
    _called(SOURCE_KEY)


def _exists(name: str) -> bool:
    owner, _, part = name.rpartition(".")
    known = _named(owner)
    return _named(name) is not None or hasattr(known, part) or part in getattr(known, "__dataclass_fields__", ())


@functools.cache
def _named(name: str) -> Any:
    """What a name stands for; None where this torch has no such name."""
    try:
        return pkgutil.resolve_name(name)
    except Exception:  # of a module that cannot be imported
        return None


def _called(name: str, *arguments: Any, **named: Any) -> Any:
    """What the function of a name returns; None where this torch has no such name, or the function raises."""
    function = _named(name)
    with contextlib.suppress(Exception):
        return None if function is None else function(*arguments, **named)
    return None
