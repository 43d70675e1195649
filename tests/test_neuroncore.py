"""The simulated NeuronCore gives the known answers through torch's own dispatcher, Dynamo and profiler.

What takes a process of its own is slow, and of use to those who change the simulation: pytest -m slow.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
from pathlib import Path

import neuroncore
import pytest
from core_process import execute, on_simulation


def times(rows: dict[str, list]) -> dict[str, list]:
    """The rows that have device time."""
    return {name: row for name, row in rows.items() if row[1]}


@pytest.fixture(scope="module")
def profiles(shared):
    """One process that profiles the three variants in every way that the tests below ask for."""
    return shared("profiles", lambda folder: on_simulation(PROFILES, folder))


PROFILES = """
x, weight = inputs()
profiles = {f.__name__: profiled(lambda: f(x, weight)) for f in (naive, fused)}
profiles["compiled"] = profiled(lambda: compiled(x, weight))
profiles["five"] = profiled(lambda: naive(x, weight), active=5)
profiles["unsynchronized"] = profiled(lambda: naive(x, weight), synchronize=False)
profiles["uncorrelated"] = profiled(lambda: naive(x, weight), correlate_device_time=False)
profiles["copied"] = profiled(lambda: naive(x, weight).cpu(), synchronize=False)

x, weight = inputs(requires_grad=True)
grad = torch.ones_like(x)
profiles["fused backward"] = profiled(lambda: fused(x, weight).backward(grad))
profiles["compiled backward"] = profiled(lambda: compiled(x, weight).backward(grad))
answer(**profiles)
"""


def test_naive_gives_the_table_of_the_blog_post(profiles):
    rows = profiles["naive"]["cpu"]
    assert times(rows) == {
        "aten::mul": [3, 1164.5],
        "aten::mean": [1, 412.6],
        "aten::add": [1, 391.4],
        "aten::rsqrt": [1, 386.3],
    }
    total = sum(time for _, time in rows.values())
    assert f"{total:,.0f} µs" == "2,355 µs"
    assert f"{rows['aten::mul'][1] / total:.1%}" == "49.5%"


def test_fused_and_compiled_are_one_execution(profiles):
    assert times(profiles["fused"]["cpu"]) == {"aten::_fused_rms_norm": [1, 403.3]}
    assert times(profiles["fused"]["core"]) == {"nc_exec_running: aten::_fused_rms_norm": [1, 403.3]}
    assert times(profiles["compiled"]["cpu"]) == {"Torch-Compiled Region: 0/0": [1, 375.5]}
    assert times(profiles["compiled"]["core"]) == {"nc_exec_running: graph": [1, 375.5]}


def test_five_steps_have_five_times_as_much(profiles):
    assert times(profiles["five"]["cpu"]) == {
        "aten::mul": [15, 5822.5],
        "aten::mean": [5, 2063.0],
        "aten::add": [5, 1957.0],
        "aten::rsqrt": [5, 1931.5],
    }


@pytest.mark.parametrize("profile", ["naive", "fused", "five", "copied"])
def test_the_core_has_each_execution_as_a_row_of_its_own(profiles, profile):
    rows = profiles[profile]
    assert rows["core"] == {f"nc_exec_running: {name}": row for name, row in times(rows["cpu"]).items()}


def test_runtime_events_carry_no_device_time(profiles):
    assert profiles["naive"]["cpu"]["nrta_execute_schedule"] == [6, 0]
    assert profiles["naive"]["cpu"]["nrta_tensor_bind"] == [6, 0]
    assert profiles["compiled"]["cpu"]["nrta_execute_schedule"] == [1, 0]


def test_without_synchronize_there_is_no_device_time(profiles):
    rows = profiles["unsynchronized"]
    assert rows["cpu"]["aten::mul"] == [3, 0]
    assert times(rows["cpu"]) == rows["core"] == {}
    assert times(profiles["copied"]["cpu"]) == times(profiles["naive"]["cpu"])


def test_without_correlation_there_is_no_device_time(profiles):
    rows = profiles["uncorrelated"]
    assert rows["cpu"]["nrta_execute_schedule"] == [6, 0]
    assert times(rows["cpu"]) == rows["core"] == {}


def test_backward_is_profiled(profiles):
    fused = times(profiles["fused backward"]["cpu"])
    assert fused["aten::_fused_rms_norm"] == [1, 403.3]
    assert fused["aten::_fused_rms_norm_backward"] == [1, 390.0]
    graphs = profiles["compiled backward"]["core"]
    assert graphs["nc_exec_running: graph"] == graphs["nc_exec_running: graph_backward"] == [1, 375.5]


@pytest.mark.slow
def test_results_and_gradients_are_those_of_the_cpu(core):
    differences = core("""
from torch import nn

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(16, 48)
    def forward(self, x):
        q, k, v = self.project(x).view(2, 5, 3, 2, 8).unbind(2)
        heads = (t.transpose(1, 2) for t in (q, k, v))
        return nn.functional.scaled_dot_product_attention(*heads, is_causal=True)

class Naive(nn.RMSNorm):
    def forward(self, x):
        return naive(x, self.weight)

def trained(make, device, through=lambda module: module):
    torch.manual_seed(0)
    module = make().to(device)
    x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(1)).to(device).requires_grad_()
    out = through(module)(x)
    out.square().mean().backward()
    return [t.detach().cpu() for t in (out, x.grad, *(p.grad for p in module.parameters()))]

def difference(make, through=lambda module: module):
    pairs = zip(trained(make, "cpu"), trained(make, "neuron", through), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)

modules = {
    "naive": lambda: Naive(16),
    "fused": lambda: nn.RMSNorm(16),
    "mlp": lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Softmax(-1)),
    "attention": Attention,
}
compile = lambda module: torch.compile(module, backend="neuron", fullgraph=True)
answer(
    eager={name: difference(make) for name, make in modules.items()},
    compiled={name: difference(make, compile) for name, make in modules.items()},
)
""")
    for name, difference in (differences["eager"] | differences["compiled"]).items():
        assert difference < 1e-5, name


@pytest.mark.slow
def test_tensors_behave_as_on_a_device(core):
    seen = core("""
import copy
x = torch.arange(24.0, device="neuron").view(2, 3, 4)
torch_neuronx.clear_op_tracking()
row = x[1].transpose(0, 1)
row.unfold(0, 2, 1).reshape(-1)
views_executed = torch_neuronx.get_executed_ops()
row.zero_()
out = torch.empty(0, device="neuron")
product = torch.mul(x, 2, out=out)
torch.manual_seed(3)
first = torch.rand(4, device="neuron")
torch.manual_seed(3)
again = torch.rand(4, device="neuron")
own = torch.rand(4, device="neuron", generator=torch.Generator("neuron").manual_seed(3))

grow = torch.compile(lambda t: t + 1, backend="neuron", fullgraph=True)
shapes = [list(grow(torch.zeros(n, device="neuron")).shape) for n in (2, 3, 4)]

reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, str(raised(torch.zeros_like, x)).encode())
    os._exit(0)
forked = os.read(reader, 1000).decode()

answer(
    views_executed=views_executed,
    written_through=x.sum().item(),
    resized=product is out and product.shape == x.shape and torch.equal(product.cpu(), x.cpu() * 2),
    in_place=x.add_(1) is x,
    copied=str(copy.deepcopy(x).device),
    repeatable=torch.equal(first, again) and torch.equal(first, own),
    mixed=raised(torch.add, x, torch.ones(4)),
    dynamic=raised(torch.compile(lambda t: t + 1, backend="neuron", dynamic=True), x),
    shapes=shapes,
    compilations=len(torch.neuron.get_dynamo_metrics()),
    forked=forked,
    name=torch.neuron.get_device_properties().name,
)
""")
    assert seen["views_executed"] == ["aten::copy_"]  # of the reshape, which can't be a view
    assert seen["written_through"] == sum(range(12))
    assert seen["resized"] and seen["in_place"] and seen["repeatable"]
    assert seen["copied"] == "neuron:0"
    assert "same device" in seen["mixed"]
    assert "dynamic=True" in seen["dynamic"]
    assert seen["shapes"] == [[2], [3], [4]]
    assert seen["compilations"] == 3
    assert "opened before a fork" in seen["forked"]
    assert seen["name"] == "Trainium2 (simulated)"


@pytest.mark.slow
def test_memory_counts_what_is_alive_at_once(core):
    seen = core(
        """
import gc
x = torch.zeros(1000, device="neuron")

def peak(function):
    function(x)  # compiles
    gc.collect()
    torch.neuron.reset_peak_memory_stats()
    before = torch.neuron.memory_allocated()
    function(x)
    assert torch.neuron.memory_allocated() == before
    return torch.neuron.max_memory_allocated() - before

def chain(x):
    return (x * x + x).sin()

answer(
    eager=peak(chain),
    compiled=peak(torch.compile(chain, backend="neuron", fullgraph=True)),
    agrees=torch.neuron.memory_stats()["allocated_bytes"]["peak"] == torch.neuron.max_memory_allocated(),
    exhausted=raised(torch.zeros, 10**6, device="neuron"),
)
""",
        total_memory=10**6,
    )
    assert seen["eager"] == 8000  # an operator's input and its output
    assert seen["compiled"] == 4000  # the result alone
    assert seen["agrees"]
    assert seen["exhausted"].startswith("OutOfMemoryError")


@pytest.mark.slow
def test_fallbacks_are_silent_but_tracked(core):
    seen = core(
        """
x, weight = inputs()
torch_neuronx.clear_op_tracking()
out = naive(x, weight)
answer(
    device=str(out.device),
    fallback=torch_neuronx.get_fallback_ops(),
    executed=torch_neuronx.get_executed_ops(),
    rows=profiled(lambda: naive(x, weight)),
)
""",
        fallbacks=["rsqrt"],
    )
    assert seen["device"] == "neuron:0"
    assert seen["fallback"] == ["aten::rsqrt"]
    assert seen["executed"] == ["aten::add", "aten::mean", "aten::mul"]
    assert seen["rows"]["cpu"]["aten::rsqrt"] == [1, 0]
    assert "nc_exec_running: aten::rsqrt" not in seen["rows"]["core"]


@pytest.mark.slow
def test_a_graph_that_fails_raises_or_runs_eagerly_in_silence(core):
    """By the variable, which concerns graphs alone, and by the option that overrides it."""
    script = """
answer(
    default=raised(torch.compile(naive, backend="neuron"), *inputs()),
    option=raised(torch.compile(naive, backend="neuron", options={"fallback_execution": True}), *inputs()),
    eager=raised(naive, *inputs()),
    fallback=torch_neuronx.get_fallback_ops(),
)
"""
    seen = core(script, compile_fails=True, fallbacks=["aten::rsqrt"])
    assert "does not compile" in seen["default"]
    assert (seen["option"], seen["eager"]) == (None, None)
    variables = {"TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION": "0"}
    assert core(script, compile_fails=True, variables=variables)["default"] is None


@pytest.mark.slow
def test_an_older_version_and_other_costs(core, tmp_path):
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({"aten::_fused_rms_norm": 5000, "graph": [100, 200]}))
    seen = core(
        """
x, weight = inputs()
answer(
    unknown=raised(NeuronConfig, correlate_device_time=True),
    misspelt=raised(NeuronConfig, profile_output=FOLDER),
    default=profiled(lambda: fused(x, weight)),
    compiled=profiled(lambda: compiled(x, weight), active=2),
)
""",
        unknown_arguments=["correlate_device_time"],
        costs=str(costs),
    )
    assert seen["unknown"].startswith("TypeError") and "'correlate_device_time'" in seen["unknown"]
    assert seen["misspelt"].startswith("TypeError") and "'profile_output'" in seen["misspelt"]
    assert times(seen["default"]["cpu"]) == {"aten::_fused_rms_norm": [1, 5000]}
    assert times(seen["compiled"]["cpu"]) == {"Torch-Compiled Region: 0/0": [2, 300]}


@pytest.mark.slow
def test_without_the_plugin_a_profile_has_nothing_of_the_device(core):
    seen = core(
        """
x, weight = inputs()
supported = str(torch.profiler.supported_activities())
answer(rows=profiled(lambda: naive(x, weight)), supported=supported)
""",
        profiler=False,
    )
    assert seen["rows"]["core"] == times(seen["rows"]["cpu"]) == {}
    assert "nrta_execute_schedule" not in seen["rows"]["cpu"]
    assert "NEURON" in seen["supported"]  # which therefore proves nothing


@pytest.mark.slow
def test_a_capture_has_the_documented_files(core, tmp_path):
    core(
        """
x, weight = inputs()
capture = lambda: profiled(lambda: naive(x, weight), modes=list(ProfileMode), correlate_device_time=True)
home = FOLDER
for outcome in ("ok", "empty_folder", "empty_ntff", "no_neff", "only_pb"):
    FOLDER = os.path.join(home, outcome)
    os.environ["NEURONCORE_CAPTURE"] = outcome
    capture()
answer()
""",
        folder=tmp_path,
    )
    files = {folder.name: list(folder.glob("i-simulated_pid_*/*/*")) for folder in tmp_path.iterdir()}
    names = {outcome: {path.name for path in paths} for outcome, paths in files.items()}
    pb = {"ntrace.pb", "trace_info.pb", "cpu_util.pb", "host_mem.pb"}
    neffs = {name for name in names["ok"] if name.startswith("neff_") and name.endswith("_vnc_0.neff")}
    assert neffs
    assert names["ok"] == pb | neffs | {"profile_nc_0_session_0.ntff", "trace.json"}
    assert names["empty_folder"] == set()
    assert names["empty_ntff"] == names["ok"]
    assert [path.stat().st_size for path in files["empty_ntff"] if path.suffix == ".ntff"] == [0]
    assert names["no_neff"] == names["ok"] - neffs
    assert names["only_pb"] == pb

    trace = next(path for path in files["ok"] if path.name == "trace.json")
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    dispatched, scheduled, ran = (
        [event for event in events if event["name"].startswith(name)]
        for name in ("aten::mul", "nrta_execute_schedule", "nc_exec_running: ")
    )
    assert len(dispatched) == 3
    assert len(scheduled) == len(ran) == 6
    assert all(host["ts"] < core["ts"] for host, core in zip(scheduled, ran, strict=True))
    assert all(
        first["ts"] + first["dur"] < after["ts"] + 0.01  # a double holds today's time to about a ns
        for first, after in itertools.pairwise(ran)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("switch", "script", "error"),
    [
        (
            "busy",
            "torch.ones(2, device='neuron')",
            "RuntimeError: NEURON_RT: nrt_init failed to acquire core 0",
        ),
        (
            "absent",
            "torch.ones(2, device='neuron')",
            "RuntimeError: NEURON_RT: nrt_init failed: no Neuron device",
        ),
        ("broken", "", "RuntimeError: Failed to load the backend extension: torch_neuronx"),
    ],
)
def test_a_device_that_does_not_open(core, switch, script, error):
    env = os.environ | neuroncore.environment(**{switch: True})
    done = execute(f"import torch; print(torch.neuron.device_count()); {script}", env=env)
    assert done.returncode == 1
    assert error in done.stderr
    assert done.stdout.split() == {"busy": ["1"], "absent": ["0"], "broken": []}[switch]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "version", "imported"),
    [
        (neuroncore.stub_environment, "1.0", "ImportError: WRONG PACKAGE"),
        (neuroncore.xla_environment, "2.9.0.2.11.0", "None"),
    ],
)
def test_the_wrong_packages(environment, version, imported):
    script = """
import importlib, importlib.metadata
import torch
def outcome():
    try:
        importlib.import_module("torch_neuronx")
    except ImportError as error:
        return f"ImportError: {error}"
print(importlib.metadata.version("torch-neuronx"), hasattr(torch, "neuron"), outcome())
"""
    done = execute(script, env=os.environ | environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{version} False {imported}")


def explore(folder: Path, answer: str) -> subprocess.CompletedProcess[str]:
    command = ["neuron-explorer", "view", "-d", str(folder), "--output-format", "summary-json"]
    env = os.environ | neuroncore.explorer_environment(answer)
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=30)


def test_the_explorer_answers_in_three_shapes_or_fails(tmp_path):
    assert "no .neff file" in explore(tmp_path, "flat").stderr
    for name in ("neff_1_vnc_0.neff", "profile_nc_0_session_0.ntff"):
        (tmp_path / name).write_text("capture")
    flat = json.loads(explore(tmp_path, "flat").stdout)
    assert flat["total_time"] == 375.5e-6
    assert json.loads(explore(tmp_path, "by_core").stdout) == {"nc_0": flat}
    assert json.loads(explore(tmp_path, "list").stdout) == [flat]
    assert explore(tmp_path, "error").returncode == 1
    with pytest.raises(json.JSONDecodeError):
        json.loads(explore(tmp_path, "unreadable").stdout)


def test_two_processes_that_build_at_once_compile_once(tmp_path, monkeypatch):
    compilations = []

    def compile_slowly(workspace: Path) -> None:
        compilations.append(workspace)
        both_started.wait(timeout=10)
        (workspace / f"{neuroncore.MODULE}.so").touch()

    both_started = threading.Event()
    monkeypatch.setenv(neuroncore.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(neuroncore, "_compile", compile_slowly)
    monkeypatch.setattr(neuroncore, "_require_tools", lambda: None)
    builders = [threading.Thread(target=neuroncore.build.__wrapped__) for _ in range(2)]
    for builder in builders:
        builder.start()
    both_started.set()
    for builder in builders:
        builder.join()
    assert len(compilations) == 1


def test_a_missing_compiler_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv(neuroncore.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(neuroncore.UnavailableError, match="no-such-compiler"):
        neuroncore.build.__wrapped__()


def test_an_unknown_switch_is_refused():
    with pytest.raises(TypeError, match="no such switch: fallback;"):
        neuroncore.environment(fallback=["rsqrt"])
