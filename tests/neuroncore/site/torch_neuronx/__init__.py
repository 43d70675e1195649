"""A stand-in for AWS's torch-neuronx: the documented names, over a NeuronCore simulated on the CPU."""

import nki  # noqa: F401 - as the real package does
import torch

from . import _compiler, _core, _device
from ._switches import Switches, physical_cores
from .nki_ops import nki_op  # noqa: F401

__version__ = "2.13.3.0+sim"


def _register() -> None:
    switches = Switches.from_environment()
    core = _core.switches
    core.absent = switches.absent
    core.busy = switches.busy
    core.total_memory = switches.total_memory
    core.costs = switches.cost_table()
    core.default_cost = switches.cost_elsewhere()
    core.fallbacks = switches.fallback_names()
    core.jitter = switches.jitter
    core.seed = switches.drawn_seed()
    core.first_execution = switches.first_execution
    core.dispatch = switches.dispatch
    core.gap = switches.gap
    core.throttle = switches.throttle
    core.join = switches.join
    core.flow_ids = switches.flow_ids
    core.physical_cores = physical_cores()

    torch.utils.rename_privateuse1_backend("neuron")
    _core.register_device()
    torch._register_device_module("neuron", _device)
    torch.utils.generate_methods_for_privateuse1_backend()
    if switches.profiler:
        _core.register_profiler()
    _compiler.follow_operators()


_register()


def get_executed_ops() -> list[str]:
    """The operators that ran on the core since the last clear_op_tracking()."""
    return sorted(_core.executed_ops())


def get_fallback_ops() -> list[str]:
    """The operators that ran on the CPU instead."""
    return sorted(_core.fallback_ops())


def clear_op_tracking() -> None:
    _core.clear_op_tracking()
