"""Variants of RMSNorm on the simulated NeuronCore: of costs that a test gives, or executed for the first time."""

from __future__ import annotations

import contextlib
import itertools

import torch
import torch._dynamo

PROFILED = {"builds": 0, "tries": 0}  # calls
NUMBERS = itertools.count()


def reference(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def wrong(x, weight):
    return 1.05 * reference(x, weight)


def execution(name, x, weight):
    """RMSNorm as one execution of the core, which takes what the table of costs has for its name."""
    import torch_neuronx

    return torch_neuronx._core.execute(name, reference, x, weight)


@contextlib.contextmanager
def switched(**values):
    """The simulation's switches set to other values for the executions of one call."""
    import torch_neuronx

    switches = torch_neuronx._core.switches
    before = {name: getattr(switches, name) for name in values}
    for name, value in values.items():
        setattr(switches, name, value)
    yield
    for name, value in before.items():
        setattr(switches, name, value)


def base(x, weight):
    return execution("work::base", x, weight)


def dispatched(x, weight):
    with switched(dispatch=3000.0):
        return execution("work::dispatched", x, weight)


def gapped(x, weight):
    with switched(gap=2000.0):
        for _ in range(4):
            result = execution("work::gapped", x, weight)
        return result


def throttled(x, weight):
    with switched(throttle=10.0):
        return execution("work::throttled", x, weight)


def new_operator():
    """An operator that no call has executed yet."""
    name = f"try_{next(NUMBERS)}"
    LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    LIBRARY.impl(name, lambda x: x.clone(), "CPU")
    return getattr(torch.ops.work, name)


LIBRARY = torch.library.Library("work", "FRAGMENT")


def tries_often(x, weight):
    """Less work than the baseline, and in every other call an operator that was never executed before."""
    result = execution("work::throttled", x, weight)
    tries_often.calls += 1
    if tries_often.calls % 2:
        with switched(first_execution=3000.0):
            new_operator()(x)
    return result


tries_often.calls = 0


def profiled(key):
    """How many calls the profiler has seen of the variant of this key, this one included; 0 outside of it."""
    PROFILED[key] += torch._C._autograd._profiler_enabled()
    return PROFILED[key] if torch._C._autograd._profiler_enabled() else 0


@torch.compile(backend="neuron", fullgraph=True)
def graph(x, weight):
    return reference(x, weight)


def builds_again(x, weight):
    """A graph that is built anew in each of the first two recorded calls."""
    if profiled("builds") in (2, 3):
        torch._dynamo.reset()
    return graph(x, weight)


def tries_another(x, weight):
    """Executes one further operator, in its second recorded call alone."""
    if profiled("tries") == 3:
        torch.sigmoid(x)
    return reference(x, weight)
