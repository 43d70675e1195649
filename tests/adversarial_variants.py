"""Variants of RMSNorm that are dishonest, wrong or adversarial, each in one way; tests say what is found out."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import sys
import threading
import time

import torch
import torch._dynamo

FORKED = False
CALLS = {"raises_late": 0, "exits_late": 0}


def good(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def zeroes_its_input(x, weight):
    x.zero_()
    return torch.zeros_like(x)


def scales_its_input(x, weight):
    result = good(x, weight)
    x.mul_(2)
    return result


def zeros(x, weight):
    return torch.zeros_like(x)


def one_nan(x, weight):
    result = good(x, weight)
    result.view(-1)[7] = float("nan")
    return result


def all_nan(x, weight):
    return good(x, weight) * float("nan")


def one_infinity(x, weight):
    result = good(x, weight)
    result.view(-1)[7] = float("inf")
    return result


def one_dimension_more(x, weight):
    return good(x, weight).unsqueeze(0)


def one_row(x, weight):
    return good(x, weight)[:1]


def another_dtype(x, weight):
    return good(x, weight).double()


def scaled(x, weight):
    return good(x, weight) * 1.05


def one_element_off(x, weight):
    result = good(x, weight)
    result.view(-1)[3] *= 1.5
    return result


def its_input(x, weight):
    return x


def two_outputs(x, weight):
    return good(x, weight), weight


def no_tensor(x, weight):
    return None


@functools.lru_cache(maxsize=8)
def _remembered(x_address, weight_address, read):
    return good(*read.pair)


class _Pair:
    """Hashes alike for the same addresses, whatever they hold."""

    def __init__(self, *pair):
        self.pair = pair

    def __hash__(self):
        return hash(tuple(tensor.data_ptr() for tensor in self.pair))

    def __eq__(self, other):
        return hash(self) == hash(other)


def remembers(x, weight):
    return _remembered(x.data_ptr(), weight.data_ptr(), _Pair(x, weight))


def leaves_work_running(x, weight):
    result = torch.empty_like(x)

    def later():
        time.sleep(0.005)
        result.copy_(good(x, weight))

    threading.Thread(target=later).start()
    return result


def adds_noise(x, weight):
    return good(x, weight) + torch.rand_like(x)


def raises_late(x, weight):
    CALLS["raises_late"] += 1
    if CALLS["raises_late"] > 2:
        raise RuntimeError("the third call is one too many\nwith a second line")
    return good(x, weight)


def exits_late(x, weight):
    CALLS["exits_late"] += 1
    if CALLS["exits_late"] > 20:
        sys.exit(3)
    return good(x, weight)


def prints(x, weight):
    print("printed by a variant")
    return good(x, weight)


def item_in_the_middle(x, weight):
    total = (x * x).sum().item()
    return good(x, weight) + (0 * total)


def break_in_the_middle(x, weight):
    y = x * 1
    torch._dynamo.graph_break()
    return good(y, weight)


def two_thousand(x, weight):
    y = x
    for _ in range(1000):
        y = torch.neg(torch.neg(y))
    return good(y, weight)


def forks(x, weight):
    """Returns twice in its first call: in this process, and in a copy of it."""
    global FORKED
    if not FORKED:
        FORKED = True
        os.fork()
    return good(x, weight)


def changes_global_state(x, weight):
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(3)
    torch.manual_seed(1)
    return good(x, weight)


TURNS = 0


def recompiles_always(x, weight):
    global TURNS
    TURNS += 1
    return good(x, weight) * (1.0 if TURNS else 0.0)


@torch._dynamo.disable
def _hidden(x, weight):
    return good(x, weight)


def never_compiles(x, weight):
    return _hidden(x, weight)


def counts_up(x, weight, limit=1.0):
    return good(x, weight) * limit


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("in str")


def raises_unprintable(x, weight):
    raise UnprintableError


def raises_markup(x, weight):
    raise RuntimeError("\udcff bad \x1b[31mred <b>|pipe` " + "A" * 100_000)


def interrupts(x, weight):
    raise KeyboardInterrupt


def leaves_the_generator(x, weight):
    raise GeneratorExit


def closes_stderr(x, weight):
    os.close(1)
    os.close(2)
    raise ValueError("after closing")


_MEMO: dict = {}


def memoizes(x, weight):
    key = (x.data_ptr(), x._version)
    if key not in _MEMO:
        _MEMO[key] = good(x, weight)
    return _MEMO[key]


def remembers_and_leaves_default_device(x, weight):
    """Is tried many times on contents that it has not seen, each drawn after it has left the default device changed."""
    key = x.view(torch.int16).sum().item()
    if key not in _MEMO:
        time.sleep(1e-3)
        _MEMO[key] = good(x, weight)
    result = _MEMO[key].clone()
    torch.set_default_device("meta")
    return result


def _found(x):
    tensors = [held for held in gc.get_objects() if type(held) is torch.Tensor]
    return [held for held in tensors if held.shape == x.shape and held is not x]


def overwrites_the_reference(x, weight):
    """Zeroes every float64 tensor of its input's shape that the garbage collector knows."""
    for tensor in _found(x):
        if tensor.dtype == torch.float64:
            tensor.zero_()
    return torch.zeros_like(x)


def overwrites_inputs_of_others(x, weight):
    result = good(x, weight)
    for tensor in _found(x):
        if tensor.dtype == x.dtype and tensor.data_ptr() != result.data_ptr():
            tensor.zero_()
    return result


def writes_to_the_inputs_of_others(x, weight):
    """Zeroes the memory of every tensor of its input's form, as no counter of torch's tells."""
    result = good(x, weight)
    for tensor in _found(x):
        if tensor.dtype == x.dtype and tensor.data_ptr() not in (x.data_ptr(), result.data_ptr()):
            ctypes.memset(tensor.data_ptr(), 0, tensor.nbytes)
    return result


def writes_to_sealed_memory(x, weight):
    """Zeroes the bytes in which the inputs are kept, which never change otherwise."""
    kept = [found for found in gc.get_objects() if type(found).__name__ == "CaseData"]
    held = [sealed for found in kept for inputs in found._inputs.values() for sealed in inputs]
    for sealed in held:
        ctypes.memset(id(sealed.data) + bytes.__basicsize__ - 1, 0, len(sealed.data))
    return torch.zeros_like(x)


def replaces_when_called(x, weight):
    torch.nn.functional.rms_norm = torch.rms_norm = _slow
    torch.Tensor.mul = _slow
    time.perf_counter = lambda: 0.0
    return _RMS_NORM(x, x.shape[-1:], weight, 1e-6)


_RMS_NORM = torch.rms_norm


def _slow(*arguments):
    time.sleep(0.001)
    return _RMS_NORM(*arguments)


def leaves_default_device(x, weight):
    result = good(x, weight)
    torch.set_default_device("meta")
    return result


def leaves_settings(x, weight):
    import logging
    import resource
    import signal
    import warnings

    import numpy as np

    torch.autograd.set_detect_anomaly(True)
    torch.set_flush_denormal(True)
    torch.backends.mkldnn.enabled = False
    torch.use_deterministic_algorithms(True)
    torch.autocast("cpu").__enter__()
    torch.utils.flop_counter.FlopCounterMode(display=False).__enter__()
    torch.autograd.graph.save_on_cpu().__enter__()
    gc.disable()
    sys.setrecursionlimit(900)
    logging.disable(logging.CRITICAL)
    os.umask(0o777)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    sys.stdin = None
    warnings.simplefilter("error")
    np.seterr(all="raise")
    signal.signal(signal.SIGTERM, lambda *_: None)
    sys.path.insert(0, "nowhere")
    torch._inductor.config.max_autotune = True
    torch._dynamo.config.recompile_limit = 1
    return _RMS_NORM(x, x.shape[-1:], weight, 1e-6)


SETTINGS = (
    "anomaly detection",
    "the flushing of denormal numbers",
    "mkldnn's enabled",
    "deterministic algorithms",
    "autocast on cpu",
    "modes over torch's dispatch",
    "hooks on what autograd saves",
    "garbage collection",
    "the recursion limit",
    "the level below which nothing is logged",
    "the mask of files' permissions",
    "the limits of the process's resources",
    "sys.stdin",
    "warnings as errors",
    "numpy's handling of errors",
    "the handler of SIGTERM",
    "sys.path",
    "torch._inductor.config.max_autotune",
    "torch._dynamo.config.recompile_limit",
)


def profiles_itself(x, weight):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        return good(x, weight)


def profiles_on(x, weight):
    torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]).__enter__()
    return good(x, weight)


def labels_with_a_quote(x, weight):
    with torch.profiler.record_function('a "quoted" label'):
        return good(x, weight)
