"""A step taken apart: its calls, the time of each, groups and levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import model_zoo
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from harness.devices.cpu import Cpu
from harness.model import plain
from harness.model.groups import OWN, PYTHON, HotSpots
from harness.model.names import pattern, unique
from harness.model.recording.record import record
from harness.model.recording.watch import watched
from harness.model.step import FUNCTION, MODULE, Step


def step_of(model: nn.Module, inputs: Any, folder: Path, backward: bool = False) -> Step:
    """A step of a model, recorded in this process."""

    def call() -> Any:
        output = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
        if backward:
            first = next(value for value in (output.values() if isinstance(output, dict) else [output]))
            parameters = [value for value in model.parameters() if value.requires_grad]
            torch.autograd.grad(first.sum(), parameters, allow_unused=True)

    with torch.set_grad_enabled(backward):
        call()
    return record(call, model, Cpu(None), torch.float32, backward, folder)


def of_net(folder: Path, backward: bool = False) -> HotSpots:
    torch.manual_seed(0)
    model, inputs = model_zoo.net()
    return HotSpots(step_of(model, inputs, folder, backward))


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "training"])
def test_all_of_a_step_is_given_to_calls_once(tmp_path: Path, backward: bool) -> None:
    spots = of_net(tmp_path, backward)
    step = spots.step
    parts = [call.host_us for call in step.calls]
    assert min(parts) >= 0
    outside = step.outside_us + step.autograd_us + step.optimizer_us
    assert sum(parts) + outside == pytest.approx(step.host_us)
    assert (step.autograd_us > 0) == backward
    assert sum(row.share for row in spots.rows) == pytest.approx(1, abs=0.01)
    assert (tmp_path / "trace.json").is_file()


def test_calls_are_grouped_by_what_they_are(tmp_path: Path) -> None:
    groups = of_net(tmp_path).groups
    norm = groups["MyRMSNorm_2x16x64"]
    assert (norm.count, norm.where, norm.first.function) == (2, "blocks.*.norm", "model_zoo.MyRMSNorm")
    linear = {group.where: group.count for name, group in groups.items() if name.startswith("Linear")}
    assert linear == {"blocks.*.up": 2, "blocks.*.down": 2, "head": 1}  # alike in their inputs' shape, not in weights
    softmax = groups["softmax_2x16x256"]
    assert (softmax.first.kind, softmax.first.function, softmax.count) == (FUNCTION, "torch.softmax", 2)
    assert softmax.where == "blocks.*"
    assert groups["Block_2x16x64"].signature["dict"]["kwargs"]["dict"]["scale"] == 0.5


def test_names_of_groups_do_not_follow_what_was_measured(tmp_path: Path) -> None:
    spots = of_net(tmp_path)
    calls = [replace(call, host_us=100.0 * (number % 7)) for number, call in enumerate(spots.step.calls)]
    again = HotSpots(replace(spots.step, calls=calls))
    assert [*again.groups] != [*spots.groups]  # the costliest first
    assert {name: group.calls for name, group in again.groups.items()} == {
        name: group.calls for name, group in spots.groups.items()
    }
    assert [spots.groups[f"Linear_2x16x{end}"].where for end in ("64", "64_2")] == ["blocks.*.up", "head"]


def test_a_number_makes_no_name_that_is_taken() -> None:
    assert unique(["f", "f", "f_2", "f", "f_2"]) == ["f", "f_2", "f_2_2", "f_3", "f_2_3"]


def test_levels_do_not_count_twice_and_own_code_has_rows(tmp_path: Path) -> None:
    spots = of_net(tmp_path)
    shown = {position for group in spots.shown for position in group.calls}
    for position in shown:
        parent = spots.step.calls[position].parent
        while parent >= 0:
            assert parent not in shown
            parent = spots.step.calls[parent].parent
    names = [row.group for row in spots.rows]
    assert f"Net, {OWN}" in names
    assert PYTHON in names
    assert len(names) == len(set(names))


def products(spots: HotSpots) -> Counter[str]:
    """Calls of the matrix products that linear layers made."""
    rows = [row for row in spots.step.operators if row.operator in ("aten::addmm", "aten::mm")]
    assert {row.caller for row in rows} == {"torch.nn.functional.linear"}
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row.operator] += row.calls
    return counts


def test_the_backward_pass_belongs_to_the_modules_whose_operators_made_it(tmp_path: Path) -> None:
    """A linear layer's backward pass is two matrix products to the forward's one."""
    forward, both = (of_net(tmp_path / name, backward) for name, backward in (("f", False), ("b", True)))
    assert {(group.where, group.calls) for group in both.groups.values()} == {
        (group.where, group.calls) for group in forward.groups.values()
    }
    assert products(forward) == {"aten::addmm": 5}
    assert products(both) == {"aten::addmm": 5, "aten::mm": 10}


def test_operators_are_listed_with_what_they_were_given(tmp_path: Path) -> None:
    rows = of_net(tmp_path).step.operators
    (softmax,) = [row for row in rows if row.operator == "aten::softmax"]
    assert (softmax.caller, softmax.shapes, softmax.dtypes.split(", ")[0]) == (
        "torch.softmax",
        "[2, 16, 256], [], []",
        "float",
    )
    assert softmax.calls == 2
    assert softmax.self_cpu_us > 0


class Deciding(nn.Module):
    """Does something else in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        for layer in self.layers[: 1 + self.calls]:
            x = layer(x)
        return x


def test_a_step_that_changes_is_told(tmp_path: Path) -> None:
    step = step_of(Deciding(), (torch.randn(2, 8),), tmp_path)
    assert "differ from step to step" in step.notes[0]
    assert sum(call.host_us for call in step.calls) + step.outside_us == pytest.approx(step.host_us)


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "training"])
def test_a_fast_path_that_hooks_keep_torch_from_is_told(backward: bool, tmp_path: Path) -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    step = step_of(model, (torch.randn(2, 4, 8),), tmp_path, backward)
    assert any("fast path" in note for note in step.notes) != backward
    assert "torch.nn.MultiheadAttention" in [call.function for call in step.calls]


class Shared(nn.Module):
    """One module at two places, called four times; another is called by its forward alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = self.first
        self.silent = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = self.second(self.first(x))
        return self.silent.forward(x)


def test_shared_modules_and_hooks_are_counted(tmp_path: Path) -> None:
    model = Shared()
    seen = []
    model.first.register_forward_hook(lambda module, args, output: seen.append(output))
    groups = HotSpots(step_of(model, (torch.randn(2, 8),), tmp_path)).groups
    assert groups["Linear_2x8"].count == 4
    assert groups["linear_2x8"].count == 5  # the functions in them, and the one that is called by its forward
    assert seen
    assert not model.first._forward_pre_hooks


class Routed(nn.Module):
    """Experts that get as many rows as the data says: of 40, in some order, none the same number."""

    def __init__(self, counts: list[int]) -> None:
        super().__init__()
        self.counts = counts
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in counts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([expert(x[:count]) for expert, count in zip(self.experts, self.counts, strict=True)])


def test_sizes_that_follow_from_the_data_make_one_group(tmp_path: Path) -> None:
    counts = [7, 4, 9, 5, 3, 8, 5]
    spots = HotSpots(step_of(Routed(counts), (torch.randn(40, 8),), tmp_path))
    expert = spots.groups["Sequential_3-9x8"]
    assert (expert.count, expert.shapes, expert.where) == (7, 6, "experts.*")
    assert plain.shapes(expert.signature) == "5x8"
    assert expert.first.path == "experts.3"  # the most frequent one
    assert spots.row(expert).shapes == "3-9x8"
    rows = dict(zip(expert.calls, counts, strict=True))
    timed = [replace(call, host_us=float(rows.get(number, 0))) for number, call in enumerate(spots.step.calls)]
    again = HotSpots(replace(spots.step, calls=timed)).groups[expert.name]
    assert again.like_first == pytest.approx(sum(counts) / 5)  # calls of that shape
    assert {"Linear_3-9x8", "ReLU_3-9x8", "linear_3-9x8"} <= set(spots.groups)
    assert spots.compile == {"dynamic": None}
    few = HotSpots(step_of(Routed(counts[:5]), (torch.randn(40, 8),), tmp_path / "few"))
    assert {"Sequential_7x8", "Sequential_3x8"} <= set(few.groups)
    assert few.compile == {}


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(model_zoo.Block(8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return x


def test_what_a_checkpoint_computes_again_is_seen(tmp_path: Path) -> None:
    x = torch.randn(4, 8, requires_grad=True)
    groups = HotSpots(step_of(Checkpointed(), (x,), tmp_path, backward=True)).groups
    for name in ("MyRMSNorm_4x8", "softmax_4x32"):
        assert groups[name].count == 6
        assert 3 < groups[name].like_first < 6  # three have a backward pass
    assert groups["MyRMSNorm_4x8"].where == "layers.*.norm"


def test_classes_that_are_made_for_one_model_are_found_again(tmp_path: Path) -> None:
    """As torch.fx and torch.export make them, whose names are not those by which they are found."""
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
    step = step_of(traced, (torch.randn(2, 8),), tmp_path)
    assert not step.notes
    assert [call.path for call in step.calls if call.kind == MODULE] == ["", "0", "1"]


def test_what_is_done_to_see_is_not_seen() -> None:
    model = model_zoo.Block(8)
    with watched(model, torch.float32) as seen:
        model(torch.randn(2, 8), scale=2.0)
    names = Counter(called.function.rpartition(".")[2] for called in seen.calls if called.kind == FUNCTION)
    assert names == Counter(["linear"] * 2 + ["pow", "mean", "add", "rsqrt", "softmax"] + ["mul"] * 3 + ["add"])


def test_functions_are_seen_where_torch_has_a_default_device() -> None:
    """Which is a mode between as well."""
    model = model_zoo.Block(8)
    with torch.device("cpu"), watched(model, torch.float32) as seen:
        model(torch.randn(2, 8))
    assert "torch.softmax" in [called.function for called in seen.calls]


def test_what_a_model_repeats_is_a_layer_and_covers_its_parts(tmp_path: Path) -> None:
    spots = of_net(tmp_path)
    assert [group.first.function for group in spots.layers] == ["model_zoo.Block"]
    (block,) = spots.layers
    assert spots.covered({block.name}) == pytest.approx(block.share)
    assert spots.covered({block.name, "MyRMSNorm_2x16x64"}) == pytest.approx(block.share)
    assert spots.covered(set()) == 0
    assert spots.covered({"Net_2x16"}) == pytest.approx(1 - spots.step.outside_us / spots.step.host_us)


def test_patterns_of_paths() -> None:
    assert pattern(["layers.0.norm", "layers.1.norm"]) == "layers.*.norm"
    assert pattern(["layers.0.q", "layers.1.q", "layers.0.k", "layers.1.k"]) == "layers.*.{q,k}"
    assert pattern(["layers.3.norm"]) == "layers.3.norm"
    assert pattern([""]) == "(the model)"
    assert pattern(["a.0.0", "a.0.1"]) == "a.0.*"
    assert pattern(["layer_0.fc1", "layer_1.fc1", "layer_1.fc2", "out"]) == "layer_*.fc*, out"
    assert pattern(["a", "b.c", "d.e", "f.g"]) == "a, b.c, 2 more"


@pytest.mark.parametrize(
    ("make", "backward"),
    [
        pytest.param(make, backward, marks=[] if make is model_zoo.llama and backward else [pytest.mark.slow])
        for make in (model_zoo.llama, model_zoo.bert, model_zoo.resnet)
        for backward in (False, True)
    ],
)
def test_real_models_are_attributed(make: Callable[[], Any], backward: bool, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model, inputs = make()
    spots = HotSpots(step_of(model, inputs, tmp_path, backward))
    assert 0.95 <= spots.attributed <= 1.01
    assert not spots.step.notes
    assert {call.kind for call in spots.step.calls} == {MODULE, FUNCTION}
