"""The contract with torch: each private name that the harness uses is there, and behaves as known."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from harness.devices.cpu import Cpu
from harness.measure import torch_private, trace
from harness.measure.compiling import Watch
from harness.measure.profile import OwnProfilerError, probe
from harness.measure.state import GlobalState

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch warns of its own as it is imported


@pytest.mark.parametrize("name", torch_private.NAMES)
def test_the_installed_torch_has(name: str) -> None:
    assert torch_private.moved((name,)) == [], f"torch {torch.__version__} has no {name}: see harness/measure"


def test_a_name_that_moved_is_named() -> None:
    assert torch_private.moved(("torch:Tensor._version", "torch:Tensor._gone", "torch._gone")) == [
        "torch:Tensor._gone",
        "torch._gone",
    ]


def test_no_other_file_names_what_is_private_to_torch() -> None:
    """Public names with an underscore, such as `torch.__version__`, are no such thing."""
    private = re.compile(
        r"torch\._(?!_)|_functorch|_inductor|(?<!get)_dynamo|evaluate_function|CompiledFxGraph|Cache Lookup"
    )
    for path in (ROOT / "harness").rglob("*.py"):
        if path.name != "torch_private.py":
            assert not private.search(path.read_text(encoding="utf-8")), path


@pytest.fixture(scope="module")
def compiled() -> Any:
    """A compiled function with a backward graph, and its inputs: called once."""
    torch._dynamo.reset()
    function = torch.compile(lambda x: (x.sin() * 2).sum(), backend="aot_eager", isolate_recompiles=True)
    x = torch.ones(8, requires_grad=True)
    watch = Watch()
    function(x)
    yield function, x, watch
    watch.close()


def test_counters_and_metrics_of_a_compile(compiled: Any) -> None:
    _, _, watch = compiled
    counts = torch_private.counters()
    assert counts is not None
    assert (counts["frames"]["total"], counts["stats"]["unique_graphs"]) == (1, 1)
    assert watch.news() == (1, None)
    *_, metric = torch_private.compilations(0)  # earlier ones are those of other tests
    assert metric["start_time_us"] > 0
    assert metric["recompile_reason"] is None
    cost = watch.cost(1.0, dynamic=False)
    assert (cost.graphs, cost.graph_breaks, cost.degraded, watch.blind) == (1, 0, None, False)


def test_texts_in_a_profile_of_compiled_code(compiled: Any) -> None:
    function, x, _ = compiled
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        result = function(x)
        result.backward()
    names = {event.name for event in trace.of_profile(profile)}
    assert torch_private.GUARDS in names
    assert any(name.startswith(torch_private.ENGINE) for name in names)
    assert any(name.startswith("Torch-Compiled Region") for name in names)
    assert function(x).grad_fn.name() == torch_private.COMPILED_BACKWARD


def test_the_recompile_limit_is_logged_in_known_words() -> None:
    torch._dynamo.reset()
    watch = Watch()
    limited = torch.compile(lambda x, number: x * number, backend="eager", dynamic=False, recompile_limit=1)
    for number in range(4):
        limited(torch.ones(2), number)
    watch.close()
    assert "recompile limit" in str(watch.limit())


@pytest.mark.parametrize("counters", [None, {}], ids=["no counters", "counters of another form"])
def test_without_counters_an_extra_call_shows_what_is_not_compiled(
    monkeypatch: pytest.MonkeyPatch, counters: Any
) -> None:
    torch._dynamo.reset()
    watch = Watch()
    function = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
    function(torch.ones(2))
    monkeypatch.setattr(torch_private, "counters", lambda: counters)
    cost = watch.cost(1.0, dynamic=False)
    assert (cost.graphs, cost.degraded, watch.blind) == (None, None, True)
    assert watch.confirm(lambda: function(torch.ones(2))) is None
    assert "compiles again" in str(watch.confirm(lambda: function(torch.ones(3))))
    watch.close()


@pytest.mark.parametrize("fullgraph", [True, False])
def test_recompiles_are_counted_with_fullgraph_as_without(fullgraph: bool) -> None:
    torch._dynamo.reset()
    watch = Watch()
    function = torch.compile(lambda x: x * 2, backend="eager", fullgraph=fullgraph, dynamic=False)
    seen = []
    for size in (2, 3, 3, 4):
        function(torch.ones(size))
        seen.append(watch.news()[0])
    watch.close()
    assert seen == [1, 1, 0, 1]


def test_a_mode_that_was_left_is_ended_with_its_hooks() -> None:
    state, before = GlobalState(Cpu()), torch_private.module_hooks()
    FlopCounterMode(display=False).__enter__()
    assert torch_private.modes(torch_private.DISPATCH_MODES) == 1
    assert set(state.restore_all()) == {"modes over torch's dispatch", "hooks on every module"}
    assert (torch_private.modes(torch_private.DISPATCH_MODES), torch_private.module_hooks()) == (0, before)


def test_kernels_of_operators_are_put_back() -> None:
    state = GlobalState(Cpu())
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.impl("mul.Tensor", lambda left, right: torch.zeros_like(left), "CPU")
    assert (torch.ones(1) * torch.ones(1)).item() == 0
    assert state.restore_all() == ["kernels of torch's operators"]
    assert (torch.ones(1) * torch.ones(1)).item() == 1


def test_hooks_on_every_module_are_put_back() -> None:
    state = GlobalState(Cpu())
    torch.nn.modules.module.register_module_forward_hook(lambda module, inputs, output: output + 1)
    assert state.restore_all() == ["hooks on every module"]
    assert torch.nn.Identity()(torch.zeros(1)).item() == 0


def test_a_profiler_within_a_profile_is_noticed() -> None:
    def profiles_itself() -> torch.Tensor:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            return torch.ones(2) + 1

    with warnings.catch_warnings(), pytest.raises(OwnProfilerError, match="a profiler of its own"):
        probe(profiles_itself, Cpu())
    x = torch.ones(256)
    assert probe(lambda: torch.neg(torch.neg(x)), Cpu()).peak_bytes == 2048
