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


@dataclass(frozen=True)
class Table:
    """Device time in µs of one call of a kernel; `default` where the table lacks it.

    A list holds the times that successive calls take in turn.
    """

    costs: dict[str, float | list[float]]
    default: float


TABLES = {
    # Three multiplications take the 1,164.5 µs of the blog post, which no three equal times add up to. The six calls
    # of the naive RMSNorm take 2,354.8 µs together: printed, that is the post's 2,355 µs, and leaves mul the post's
    # 49.5 %, which 2,355.0 would not.
    "blog": Table(
        {
            "aten::mul": [388.1, 388.2, 388.2],
            "aten::mean": 412.6,
            "aten::add": 391.4,
            "aten::rsqrt": 386.3,
            "aten::_fused_rms_norm": 403.3,
            "graph": 375.5,
            "graph_backward": 375.5,
        },
        default=390.0,
    ),
    # A third party's figures of torch-neuronx 2.12.3 on one logical core of a Trn2: 45 µs for an addition and 52 µs for
    # a softmax, 45 to 60 µs for small operators, of which the middle is taken for all others, graphs among them.
    "2.12.3": Table({"aten::add": 45.0, "aten::_softmax": 52.0}, default=52.5),
}


@dataclass(frozen=True)
class Switches:
    """What the simulation does. The defaults are a healthy core with the costs of the blog post."""

    # The table of costs: "blog", or "2.12.3", of third-party figures.
    table: str = "blog"
    # Costs by kernel, over the table's: an object, or the path of a JSON file that holds one. The kernel of an
    # operator is its name ("aten::mul"); a compiled graph is "graph", or "graph_backward" if it is autograd's.
    costs: dict[str, float | list[float]] = field(default_factory=dict)
    # The cost of a kernel that is in neither; null takes the table's.
    default_cost: float | None = None
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
    # Every graph fails when it is compiled, or when it is executed: it raises, or runs eagerly without a word where
    # fallback_execution allows that.
    compile_fails: bool = False
    execution_fails: bool = False
    # What holds where TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION is not set: true is the default of April 2026.
    falls_back: bool = False
    # A compile that fails leaves an error behind, which the next operation of the process raises.
    compile_poisons: bool = False
    # Host time in ms of each stage of compiling a program that no cache holds.
    compile_time: float = 0.0
    # Every how manieth call of a graph builds it anew, unknown to Dynamo; 0 for none.
    rebuild_every: int = 0
    # When the table of metrics is written: "at_exit" of the process, or "at_once".
    metrics_csv: str = "at_exit"
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
        table = TABLES[self.table].costs | self.costs
        return {kernel: cost if isinstance(cost, list) else [cost] for kernel, cost in table.items()}

    def cost_elsewhere(self) -> float:
        """The cost of a kernel that has none of its own."""
        return TABLES[self.table].default if self.default_cost is None else self.default_cost

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
