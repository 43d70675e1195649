"""The switches of the simulated NeuronCore: environment variables.

Those of the device are read when torch_neuronx is imported, those of profiling when they are used. The
switch `fallbacks` is the variable NEURONCORE_FALLBACKS, and so on. A value is JSON; where a text is meant it
may stand bare (NEURONCORE_CAPTURE=no_neff).
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

# Device time in µs of one call of a kernel. A list holds the times that successive calls take in turn: three
# multiplications take the 1,164.5 µs of the blog post, which no three equal times add up to. The six calls of
# the naive RMSNorm take 2,354.8 µs together: printed, that is the post's 2,355 µs, and leaves mul the post's
# 49.5 %, which 2,355.0 would not.
SEED_COSTS: dict[str, float | list[float]] = {
    "aten::mul": [388.1, 388.2, 388.2],
    "aten::mean": 412.6,
    "aten::add": 391.4,
    "aten::rsqrt": 386.3,
    "aten::_fused_rms_norm": 403.3,
    "graph": 375.5,
    "graph_backward": 375.5,
}


@dataclass(frozen=True)
class Switches:
    """What the simulation does. The defaults are a healthy core with the costs of the blog post."""

    # Costs by kernel, over SEED_COSTS: an object, or the path of a JSON file that holds one. The kernel of an
    # operator is its name ("aten::mul"); a compiled graph is "graph", or "graph_backward" if it is autograd's.
    costs: dict[str, float | list[float]] = field(default_factory=dict)
    # The cost of a kernel that the table lacks.
    default_cost: float = 390.0
    # The relative standard deviation of each execution's device time, which is normal about its cost.
    jitter: float = 0.0
    # Of the jitter; null draws one for each process, so that no two have the same.
    seed: int | None = None
    # Device time in µs that the first execution of a kernel or graph in a process takes in addition; of an operator
    # that of each set of shapes.
    first_execution: float = 0.0
    # Host time in µs that each dispatch takes, busy.
    dispatch: float = 0.0
    # Device time in µs that the core stands idle between two executions, whatever the host does.
    gap: float = 0.0
    # How many times as long an execution takes whose core has stood idle for more than 3 µs.
    throttle: float = 1.0
    # How many consecutive operators the runtime joins into one execution, unless the host waits before.
    join: int = 1
    # Whether the executions in a trace name their submission ("flow_id").
    flow_ids: bool = True
    # Operators (["rsqrt"]) that eager mode silently runs on the CPU: no executions, but get_fallback_ops() tells.
    fallbacks: list[str] = field(default_factory=list)
    # torch.compile fails on every graph, which then raises, or runs eagerly without a word: see dynamo.py.
    compile_fails: bool = False
    # Device memory in bytes; the default is one logical core's share of a Trainium2 chip.
    total_memory: int = 24 * 2**30

    # There is no device.
    absent: bool = False
    # Another process holds the core: the first use of the device raises RuntimeError.
    busy: bool = False
    # `import torch_neuronx` fails, and with it `import torch`, which loads it.
    broken: bool = False

    # Whether the Kineto plug-in is registered; without it a profile holds nothing of the device.
    profiler: bool = True
    # The default of NeuronConfig's correlate_device_time.
    correlate_device_time: bool = True
    # Arguments of NeuronConfig that this version does not know, as an older one would not.
    unknown_arguments: list[str] = field(default_factory=list)
    # What a capture leaves: "ok", or a failed one's "empty_folder", "empty_ntff", "no_neff", "only_pb".
    capture: str = "ok"

    @classmethod
    def from_environment(cls) -> Switches:
        values = {}
        for known in dataclasses.fields(cls):
            text = os.environ.get(f"NEURONCORE_{known.name.upper()}")
            if text is not None:
                values[known.name] = _parse(text)
        if isinstance(values.get("costs"), str):
            values["costs"] = json.loads(Path(values["costs"]).read_text(encoding="utf-8"))
        return cls(**values)

    def cost_table(self) -> dict[str, list[float]]:
        """The costs that hold, each as the list of what successive calls take."""
        table = SEED_COSTS | self.costs
        return {kernel: cost if isinstance(cost, list) else [cost] for kernel, cost in table.items()}

    def fallback_names(self) -> set[str]:
        return {name if "::" in name else f"aten::{name}" for name in self.fallbacks}

    def drawn_seed(self) -> int:
        """The seed, or else a new one."""
        return int.from_bytes(os.urandom(8), "big") if self.seed is None else self.seed


def physical_cores() -> int:
    """Of the logical core, as NEURON_LOGICAL_NC_CONFIG says: 1 (the default here) or 2."""
    return {"1": 1, "2": 2}[os.environ.get("NEURON_LOGICAL_NC_CONFIG", "1")]


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
