"""device=neuron, through the program, torch's dispatcher, compiler and profiler, on the simulated NeuronCore.

The costs of its kernels are those of the seed's table, so that what the program prints is known to the digit.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import neuroncore
import pytest
import torch
from cli import Ran, strict_json
from conftest import Shared
from neuron_runner import SIX, of_package, on_core

from harness.configuration.devices import library
from harness.devices import candidates
from harness.devices.neuron_package import accepted
from harness.execution.processes.process import start_method
from harness.measure import trace
from harness.report.charts.timeline import typical

TABLE = {  # calls and device time per call of the variant, µs
    "naive": {
        "aten::mul": (3, 1164.5),
        "aten::mean": (1, 412.6),
        "aten::add": (1, 391.4),
        "aten::rsqrt": (1, 386.3),
    },
    "fused": {"aten::_fused_rms_norm": (1, 403.3)},
    "compiled": {"Torch-Compiled Region: 0/0": (1, 375.5)},
}
TOTAL = {"naive": 2354.8, "fused": 403.3, "compiled": 375.5}
CALLS = {"naive": 6, "fused": 1, "compiled": 1}
EAGER = "variants=[naive,fused]"
OF_TORCH = "variants=[naive,fused,compiled]"


WAYS = [
    pytest.param((7, "by_core"), id="active=7"),
    pytest.param((1, "flat"), id="active=1", marks=pytest.mark.slow),
    pytest.param((50, "list"), id="active=50", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=WAYS)
def healthy(request: pytest.FixtureRequest, shared: Shared) -> Ran:
    """A run on a healthy core, with neuron-explorer installed, for three numbers of recorded calls."""
    active, answer = request.param

    def make(folder: Path) -> Ran:
        ran = on_core(OF_TORCH, f"profile.active={active}", cwd=folder, explorer=answer)
        assert ran.status == 0, ran.err
        assert [measurement["profile"]["active"] for measurement in ran.results["measurements"]] == [active] * 3
        return ran

    return shared(f"healthy-{active}", make)


def notes(ran: Ran, variant: str) -> str:
    """All that a run warns of a variant."""
    measurement = next(found for found in ran.results["measurements"] if found["variant"] == variant)
    return "\n".join(measurement["notes"])


def test_the_seeds_table_to_the_digit(healthy: Ran) -> None:
    for variant, wanted in TABLE.items():
        operators = healthy.operators[variant]
        timed = {name: row for name, row in operators.items() if float(row["device_time_us"])}
        assert {name: int(row["calls"]) for name, row in timed.items()} == {name: n for name, (n, _) in wanted.items()}
        for name, (_, time) in wanted.items():
            assert float(timed[name]["device_time_us"]) == pytest.approx(time, abs=0.001)
        assert float(healthy.rows[variant]["device_time_us"]) == pytest.approx(TOTAL[variant], abs=0.001)
    assert float(healthy.operators["naive"]["aten::mul"]["device_pct"]) == pytest.approx(49.5, abs=0.05)


def test_it_is_printed_as_the_profiler_prints_it(healthy: Ran) -> None:
    for header in ("Self NEURON", "% NEURON", "NEURON time"):
        assert header in healthy.out
    for cell in ("1,164.5 µs", "49.5%", "2,355 µs", "403.3 µs", "375.5 µs"):
        assert cell in healthy.out
        assert cell in (healthy.folder / "comparison.md").read_text()


def test_device_work_is_counted_once(healthy: Ran) -> None:
    """It stands in the operator's row and in a row of its own; the runtime's events stand beside both."""
    for variant, row in healthy.rows.items():
        assert int(row["operator_calls"]) == int(row["device_executions"]) == CALLS[variant]
        rows = healthy.operators[variant].values()
        assert sum(float(operator["device_time_us"]) for operator in rows) == pytest.approx(TOTAL[variant], abs=0.001)
        assert float(row["device_busy_us"]) == pytest.approx(TOTAL[variant], abs=0.1)
        assert sum(float(operator["device_pct"]) for operator in rows) == pytest.approx(100)


def test_the_runtimes_events_are_no_operators(healthy: Ran) -> None:
    for variant, row in healthy.rows.items():
        names = {event["name"] for event in events(healthy, variant)}
        assert {"nrta_execute_schedule", "nrta_tensor_bind"} & names, "the trace has them"
        assert not [name for name in healthy.operators[variant] if name.startswith(("nrta_", "nc_", "harness", "Prof"))]
        own = sum(float(operator["self_cpu_us"]) for operator in healthy.operators[variant].values())
        assert float(row["self_cpu_us"]) == pytest.approx(own)
        assert int(float(row["runtime_schedules"])) == CALLS[variant]


def test_self_cpu_is_what_the_operators_took_without_the_runtime_in_them(healthy: Ran) -> None:
    """Worked out anew from the trace of the eager variants, in which no operator holds another but rms_norm."""
    found = events(healthy, "naive")
    totals = []
    for call in [event for event in found if event["name"] == "harness.call"]:
        inside = [event for event in found if call["ts"] <= event["ts"] < call["ts"] + call["dur"]]
        operators = sum(event["dur"] for event in inside if event.get("cat") == "cpu_op")
        runtime = sum(event["dur"] for event in inside if event.get("cat", "").startswith("privateuse1_"))
        totals.append(operators - runtime)
    quiet = [total for total in totals if total <= 3 * statistics.median(totals)]
    assert float(healthy.rows["naive"]["self_cpu_us"]) == pytest.approx(statistics.mean(quiet), rel=0.01)


def test_peak_memory_is_what_a_call_holds(healthy: Ran) -> None:
    """Rows of 4 x 512 bfloat16 are 4,096 bytes: naive holds two at once and a mean, a graph only what it returns."""
    peak = {name: int(row["peak_memory_bytes"]) for name, row in healthy.rows.items()}
    assert peak["compiled"] == 4096
    assert 4096 <= peak["fused"] < 8192 <= peak["naive"] < 3 * 4096


def test_the_whole_capture_is_kept_and_listed(healthy: Ran) -> None:
    for measurement in healthy.results["measurements"]:
        capture = measurement["capture"]
        assert capture["problems"] == []
        folder = healthy.folder / capture["folder"]
        assert strict_json(folder / "trace.json")["traceEvents"]
        sizes = {file["path"]: file["bytes"] for file in capture["files"]}
        assert sizes == {name: (folder / name).stat().st_size for name in sizes}
        assert {Path(name).suffix for name in sizes} == {".neff", ".ntff", ".pb", ".json"}
        page = (healthy.folder / "traces" / "README.md").read_text()
        assert f"neuron-explorer view -d {capture['folder']} --ingest-only --display-name rmsnorm-" in page


def test_engine_activity_joins_the_tables_in_each_shape_of_summary(healthy: Ran) -> None:
    for row in healthy.rows.values():
        assert [float(row[name]) for name in ("tensor_engine_pct", "vector_engine_pct", "dma_pct")] == [0, 41.5, 22]
        assert [int(float(row[name])) for name in ("hbm_read_bytes", "hbm_write_bytes")] == [5120, 4096]
    assert "GpSimd" in healthy.out
    assert all(measurement["engines"]["mfu_pct"] == 0.01 for measurement in healthy.results["measurements"])
    raw = healthy.folder / "traces" / "naive" / "neuron-explorer-summary.txt"
    assert json.loads(raw.read_text())


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.slow) for name in ("flow", "submission")])
def two_cores(request: pytest.FixtureRequest, shared: Shared) -> Ran:
    """A run on a logical core of two physical ones, whose traces name the flow of an execution or not."""

    def make(folder: Path) -> Ran:
        names_flow = request.param == "flow"
        return on_core(OF_TORCH, cwd=folder, flow_ids=names_flow, NEURON_LOGICAL_NC_CONFIG="2")

    return shared(f"two-cores-{request.param}", make)


def test_an_execution_on_two_physical_cores_counts_once(two_cores: Ran) -> None:
    """In numbers, in times, and on the lanes of the timeline, though the trace itself shows both cores."""
    assert two_cores.status == 0, two_cores.err
    for variant, row in two_cores.rows.items():
        ran = [event for event in events(two_cores, variant) if event["name"].startswith("nc_exec_running")]
        assert len({event["tid"] for event in ran}) == 2, "the hardware shows both"
        assert int(row["operator_calls"]) == int(row["device_executions"]) == CALLS[variant]
        assert float(row["runtime_schedules"]) == CALLS[variant]
        assert float(row["device_time_us"]) == pytest.approx(TOTAL[variant], abs=0.01)
        assert float(row["device_busy_us"]) == pytest.approx(TOTAL[variant], abs=0.1)
        call = typical(trace.from_file(two_cores.folder / "traces" / variant / "trace.json"))
        assert call is not None
        assert len(call.device) == 1
        assert len(call.executions) == CALLS[variant]


@pytest.mark.slow
def test_operators_that_the_runtime_joins_are_counted_as_they_ran(tmp_path: Path) -> None:
    """Six operators in three executions: nothing takes their numbers to be equal."""
    ran = on_core(OF_TORCH, cwd=tmp_path, join=2)
    assert ran.status == 0, ran.err
    naive, compiled = ran.rows["naive"], ran.rows["compiled"]
    assert (naive["device_executions"], naive["operator_calls"], naive["host_dispatches"]) == ("3", "3", "6.0")
    assert (compiled["device_executions"], compiled["operator_calls"]) == ("1", "1")
    assert float(naive["device_time_us"]) == pytest.approx(412.6 + 391.4 + 388.2, abs=0.3)
    assert "compiled does in one device execution what naive does in three" in ran.out


@pytest.mark.slow
def test_gaps_are_what_fusion_removes(tmp_path: Path) -> None:
    """Kernels of 5 µs leave the core waiting for the host; the capture lacks its device part, with a warning."""
    ran = on_core(EAGER, cwd=tmp_path, costs=dict.fromkeys(SIX, 5.0), capture="only_pb", explorer="flat")
    assert ran.status == 0, ran.err
    naive, fused = ran.rows["naive"], ran.rows["fused"]
    assert float(naive["device_busy_us"]) == pytest.approx(30, abs=0.1)
    assert float(naive["device_gap_us"]) > 1
    assert float(fused["device_gap_us"]) == 0
    span = float(naive["device_busy_us"]) + float(naive["device_gap_us"])
    assert float(naive["device_span_us"]) == pytest.approx(span, abs=0.01)
    assert "Device timeline, per call" in ran.out
    assert "only system files (.pb) were captured" in notes(ran, "naive")
    assert naive["tensor_engine_pct"] == ""
    assert strict_json(ran.folder / "traces" / "naive" / "trace.json")["traceEvents"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        ("rmsnorm", {"naive": 3 * 52.5 + 52.5 + 45 + 52.5, "fused": 52.5, "compiled": 52.5}),
        ("softmax", {"fused": 52.0, "compiled": 52.5}),
    ],
)
def test_the_table_of_third_party_figures(tmp_path: Path, op: str, wanted: dict[str, float]) -> None:
    """An addition takes 45 µs and a softmax 52 µs where the blog post has about 390."""
    ran = on_core(f"op={op}", "variants=[naive,fused,compiled]", cwd=tmp_path, table="2.12.3")
    assert ran.status == 0, ran.err
    for variant, time in wanted.items():
        assert float(ran.rows[variant]["device_time_us"]) == pytest.approx(time, abs=0.001)
        assert f"{time:.4g}" in ran.out
    if op == "rmsnorm":
        assert float(ran.operators["naive"]["aten::add"]["device_time_us"]) == 45


@pytest.mark.slow  # test_neuron_artefacts reads the same figures from files
def test_throttling_is_told_beside_the_figures_that_it_spoils(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    ran = on_core(EAGER, cwd=tmp_path, explorer="lacking", throttle=1.5)
    assert ran.status == 0, ran.err
    for variant, row in ran.rows.items():
        assert 10 < float(row["throttled_pct"]) <= 100
        assert (row["vector_engine_pct"], row["dma_pct"]) == ("41.5", "22.0"), "from the tables, and as printed"
        assert "the core was throttled for" in notes(ran, variant)
        assert f"{variant}: the core was throttled for" in ran.err
    assert "Throttled" in ran.out
    assert float(ran.rows["fused"]["device_time_us"]) == pytest.approx(1.5 * 403.3, abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "switches", "reason"),
    [
        pytest.param(
            ["neuron.correlate_device_time=false"],
            {"explorer": "unreadable"},
            "neuron.correlate_device_time=false keeps",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            [],
            {"profiler": False, "explorer": "error"},
            "the profiler plug-in is not registered",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["correlation is off", "no plug-in"],
)
def test_missing_device_time_is_empty_and_explained(
    tmp_path: Path, arguments: list[str], switches: dict[str, object], reason: str
) -> None:
    ran = on_core(EAGER, *arguments, cwd=tmp_path, **switches)
    assert ran.status == 0, ran.err
    for variant, row in ran.rows.items():
        assert row["status"] == "ok"
        for column in ("device_time_us", "operator_calls", "device_executions", "device_busy_us", "device_gap_us"):
            assert row[column] == "", column
        assert float(row["self_cpu_us"]) > 0
        assert "device time not available" in notes(ran, variant)
        assert reason in notes(ran, variant)
        assert all(operator["device_time_us"] == "" for operator in ran.operators[variant].values())
    assert reason in ran.err
    assert "inf" not in (ran.folder / "comparison.csv").read_text()
    assert "Self NEURON" not in ran.out
    assert "engine activity is not known" in ran.err, "neuron-explorer that fails costs no more than its columns"


@pytest.mark.slow  # test_neuron_compiles has graphs that fail
def test_a_silent_fallback_degrades_its_own_row_alone(tmp_path: Path) -> None:
    """naive falls back; the fused variant, measured before and after it, does not. neuron-explorer hangs meanwhile."""
    (tmp_path / "moved.py").write_text(
        "import torch\n"
        "def to_cpu(x, weight): return torch.rms_norm(x.cpu(), x.shape[-1:], weight.cpu(), 1e-6).to(x.device)\n"
        "def to_numpy(x, weight):\n"
        "    rows = x.cpu().float().numpy()\n"
        "    rows = rows / ((rows**2).mean(-1, keepdims=True) + 1e-6) ** 0.5\n"
        "    return torch.from_numpy(rows).to(x.device, x.dtype) * weight\n"
        "def asks(x, weight):\n"
        "    sizes = (x[0, :2] > 0).tolist()\n"
        "    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6) if sizes else x\n"
    )
    moved = ("to_cpu", "to_numpy", "asks")
    ran = on_core(
        f"variants=[naive,fused,after,{','.join(moved)}]",
        "+op.variants.after.fn=variants.rmsnorm.fused",
        *(f"+op.variants.{name}.fn=moved.{name}" for name in moved),
        "neuron.explorer_timeout_s=0.5",
        cwd=tmp_path,
        fallbacks=["rsqrt"],
        explorer="timeout",
        unknown_arguments=["correlate_device_time", "precache_node_info"],
    )
    assert ran.status == 1
    assert {name: row["status"] for name, row in ran.rows.items()} == {
        "naive": "degraded",
        "fused": "ok",
        "after": "ok",
        "to_cpu": "degraded",
        "to_numpy": "degraded",
        "asks": "ok",
    }
    assert "operators there: aten::_to_copy, aten::pow" in ran.rows["to_cpu"]["reason"]
    assert "computes on the CPU" in ran.rows["to_numpy"]["reason"]
    assert ran.rows["naive"]["reason"] == "fell back to the CPU: aten::rsqrt"
    assert ran.rows["naive"]["operator_calls"] == "5"
    assert float(ran.rows["fused"]["device_time_us"]) == pytest.approx(403.3, abs=0.001)
    assert "does not know correlate_device_time: left out" in notes(ran, "fused")
    assert "precache_node_info" not in notes(ran, "fused"), "what is not asked for is not dropped"
    assert ran.err.count("gave no summary within 0.5 s; raise neuron.explorer_timeout_s") == 1


@pytest.mark.slow
def test_an_older_package_is_measured_with_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "older.py").write_text(
        "import multiprocessing, pathlib, torch, torch_neuronx\n"
        "from variants.rmsnorm import inputs\n"
        "pathlib.Path('start_method').write_text(multiprocessing.get_start_method())\n"
        "del torch_neuronx.get_fallback_ops, torch_neuronx.clear_op_tracking\n"
        "del torch.neuron.memory_stats, torch.neuron.memory_allocated, torch.neuron.max_memory_allocated\n"
        "del torch.neuron.reset_peak_memory_stats\n"
    )
    ran = on_core(EAGER, "op.inputs=older.inputs", "neuron.precache_node_info=true", cwd=tmp_path,
                  unknown_arguments=["correlate_device_time", "precache_node_info"], correlate_device_time=False,
                  capture="no_neff", fallbacks=["rsqrt"])  # fmt: skip
    assert ran.status == 0, ran.err
    assert all(row["peak_memory_bytes"] == "" and row["status"] == "ok" for row in ran.rows.values())
    assert "has no get_fallback_ops: an operator that falls back to the CPU goes unseen" in ran.err
    assert "peak memory stays empty" in ran.err
    message = notes(ran, "naive")
    assert "does not know precache_node_info: left out" in message
    assert "does not know correlate_device_time; install a later version" in message
    assert "no compiled graph (.neff) lies beside the device profile" in message
    assert (tmp_path / "start_method").read_text() == "spawn", "a core must not be opened before a fork"


@pytest.fixture(scope="module")
def spoilt(shared: Shared) -> Ran:
    """A run that leaves an empty capture, with a variable set for which it is told to go on."""
    return shared(
        "spoilt",
        lambda folder: on_core(
            "variants=[naive]", "doctor=warn", cwd=folder, capture="empty_folder", NEURON_LAUNCH_BLOCKING="1"
        ),
    )


def test_an_empty_capture_fails_its_row_and_keeps_the_rest(spoilt: Ran) -> None:
    assert spoilt.status == 1
    row = spoilt.rows["naive"]
    assert row["status"] == "failed"
    assert row["reason"].startswith("empty capture: the profiler left no file")
    assert float(row["latency_us"]) > 0
    assert float(row["device_time_us"]) == pytest.approx(2354.8, abs=0.001)
    assert strict_json(spoilt.folder / "traces" / "naive" / "trace.json")["traceEvents"]


def test_what_the_doctor_calls_unfit_is_measured_where_that_is_asked_for(spoilt: Ran) -> None:
    assert "NEURON_LAUNCH_BLOCKING=1: every launch waits for its execution" in spoilt.err


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"absent": True}, ["device=neuron: torch.neuron finds no NeuronCore", "NEURON_RT_VISIBLE_CORES", "here: cpu"]),
        pytest.param(
            {"busy": True},
            ["device=neuron: the NeuronCore does not open", "in use by another process", "neuron-ls"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"broken": True}, ["torch_neuronx does not load", "libnrt.so.1", "device=cpu"], marks=pytest.mark.slow
        ),
        pytest.param(
            {"NEURON_RT_INSPECT_ENABLE": "1"},
            ["NEURON_RT_INSPECT_ENABLE=1", "unset it", "doctor=warn"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION": "0"},
            ["FALLBACK_EXECUTION=0", "run eagerly", "unset it"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["absent", "busy", "broken", "unfit", "eager graphs"],
)
def test_a_device_that_cannot_be_measured_is_refused_in_one_line(
    tmp_path: Path, switches: dict[str, object], message: list[str]
) -> None:
    ran = on_core("variants=[naive]", cwd=tmp_path, **switches)
    assert ran.status == 2
    for text in message:
        assert text in ran.error


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stub", "xla"])
def test_the_two_wrong_packages_are_distinguished(tmp_path: Path, name: str) -> None:
    variables = {"stub": neuroncore.stub_environment, "xla": neuroncore.xla_environment}[name]()
    ran = of_package(variables, "device=neuron", cwd=tmp_path)
    assert ran.status == 2
    assert {"stub": "from PyPI is a stub (WRONG PACKAGE)", "xla": "is the older XLA package"}[name] in ran.error
    assert "AWS's own package index" in ran.error


def test_a_process_that_opens_a_core_is_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(neuroncore.SITE))
    methods = {name: start_method(candidates(name, library())) for name in ("neuron", "auto", "cpu")}
    assert methods == {"neuron": "spawn", "auto": "spawn", "cpu": "forkserver"}


def test_arguments_that_a_constructor_does_not_know_are_dropped() -> None:
    def python(*, modes: list[str], folder: str) -> tuple[list[str], str]:
        return modes, folder

    assert accepted(python, {"modes": [], "folder": "x", "new": 1, "newer": 2}) == (([], "x"), ["new", "newer"])
    native = torch._C._profiler._ExperimentalConfig
    made, dropped = accepted(native, {"verbose": True, "new": 1, "newer": 2})
    assert isinstance(made, native)
    assert dropped == ["new", "newer"]
    with pytest.raises(TypeError):
        accepted(native, {"verbose": "not a bool"})


def events(ran: Ran, variant: str) -> list[dict]:
    """The complete events of a variant's trace."""
    found = strict_json(ran.folder / "traces" / variant / "trace.json")["traceEvents"]
    return [event for event in found if event.get("ph") == "X"]
