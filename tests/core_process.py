"""Scripts in a process of their own that has the simulated core: what they find there, and how they answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import neuroncore
import pytest

# As the harness ends its measuring processes: autograd's threads may abort an interpreter that is taken down
ENDING = "\nsys.stdout.flush()\nos._exit(0)\n"
PRELUDE = """
import json, os, sys
import torch
import torch_neuronx
from torch.profiler import ProfilerActivity, profile, schedule
from torch_neuronx.profiling import NeuronConfig, NeuronProfiler, ProfileMode

FOLDER = sys.argv[1]

def answer(**values):
    print(json.dumps(values))

def raised(action, *arguments, **keywords):
    try:
        action(*arguments, **keywords)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def inputs(requires_grad=False):
    torch.manual_seed(0)
    x = torch.randn(4, 512, dtype=torch.bfloat16, device="neuron", requires_grad=requires_grad)
    weight = torch.rand(512, dtype=torch.bfloat16, device="neuron", requires_grad=requires_grad)
    return x, weight

def naive(x, weight):
    mean = (x * x).mean(-1, keepdim=True)
    return x * torch.rsqrt(mean + 1e-6) * weight

def fused(x, weight):
    return torch.rms_norm(x, [512], weight, 1e-6)

compiled = torch.compile(naive, backend="neuron", fullgraph=True)

def profiled(function, active=1, synchronize=True, **arguments):
    config = NeuronConfig(profile_output_dir=FOLDER, **arguments)
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1],
        experimental_config=config,
        schedule=schedule(wait=2, warmup=1, active=active, repeat=1),
        on_trace_ready=NeuronProfiler(config).export_trace,
    ) as prof:
        for _ in range(3 + active):
            function()
            if synchronize:
                torch.neuron.synchronize()
            prof.step()
    rows = {"cpu": {}, "core": {}}
    for row in prof.key_averages():
        side = "core" if row.device_type == torch.autograd.DeviceType.PrivateUse1 else "cpu"
        rows[side][row.key] = [row.count, round(row.self_device_time_total, 3)]
    return rows
"""


def on_simulation(script: str, folder: Path, variables: dict[str, str] | None = None, **switches: object):
    """What a script answers that runs after PRELUDE, with these switches; skips where the core cannot be built."""
    try:
        neuroncore.build()
    except neuroncore.UnavailableError as reason:
        pytest.skip(str(reason))
    env = os.environ | neuroncore.environment(**switches) | (variables or {})
    done = execute(PRELUDE + script + ENDING, str(folder), env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def execute(script: str, *arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a script of Python, whether it succeeds or not."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
