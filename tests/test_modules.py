"""Modules as variants, references and baselines: made, copied, compared by output, gradient and buffer."""

from __future__ import annotations

import dataclasses
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from cli import BRIEF, QUICK, in_process
from neuron_runner import on_core
from torch import nn

from harness import compare
from harness.configuration.errors import UsageError
from harness.configuration.operation import DTYPES, MODES, Case, Operation, Variant
from harness.devices.cpu import Cpu
from harness.measure import memory
from harness.measure.binding import bind
from harness.measure.checks.case_data import CaseData
from harness.measure.checks.validity import Given, judge, observe, remembered
from harness.measure.modules import ModuleError, exact, measured
from harness.measure.observations import Finding
from harness.measure.outputs import PARAMETER
from harness.measure.subject import Subject

HIDDEN = 8


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small operators on several threads wait for each other where other tests use the cores as well."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Net(nn.Module):
    """A block with a parameter that takes no gradient, and buffers."""

    def __init__(self, hidden: int = HIDDEN, scale: float = 1.0, p: float = 0.0):
        super().__init__()
        self.fc = nn.Linear(hidden, hidden)
        self.norm = nn.RMSNorm(hidden)
        self.fixed = nn.Parameter(torch.rand(hidden), requires_grad=False)
        self.drop = nn.Dropout(p)
        self.scale = scale
        self.register_buffer("mask", torch.rand(hidden) > 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        masked = torch.where(self.mask, self.fc(x), 0)
        return self.scale * self.drop(self.norm(masked) * self.fixed)


def build(hidden: int = HIDDEN, layers: int = 1, replace: list[dict[str, str]] | None = None) -> nn.Module:
    """Layers in a row; `replace` is what a model's variant is told by plain values."""
    model = nn.Sequential(*(Net(hidden) for _ in range(layers)))
    for rule in replace or []:
        for net in model:
            setattr(net, rule["of"], getattr(nn, rule["by"])())
    return model


def normal(*shape: int, grad: bool = True) -> Callable[..., Any]:
    return lambda dtype, generator: torch.randn(*shape, generator=generator).to(dtype).requires_grad_(grad)


def case(
    reference: Any, variant: Any = None, mode: str = "forward", dtype: str = "float32", inputs: Any = None, **args: Any
) -> Case:
    """A case of two variants: the baseline, which is the reference, and one to look at, with its arguments."""
    variants = (Variant("baseline", reference), Variant("variant", variant or reference, args))
    made = Operation("made", {}, inputs or normal(4, HIDDEN), None, None, "baseline", variants)
    return Case(made, dtype, "cpu", mode, seed=1)


def examined(made: Case) -> Finding:
    """What a run finds of the variant in its first calls, and on other contents where these were right."""
    data, device = CaseData(made), Cpu()
    bound = bind(made.operation.variants[1], made, device, data.inputs(1))
    subject = Subject("variant", bound.function, data.inputs(1), made.mode, made.seed, bound.state)
    seen = observe(subject, Given(subject()), lambda: Given(subject()), lambda: data.inputs(1), device)
    finding = judge(seen, data.expected(1))
    if finding.reason or finding.not_comparable:
        return finding
    subject.refresh(data.inputs(2))
    reason = remembered(Given(subject()).taken, data.expected(2), subject.labels)
    return dataclasses.replace(finding, reason=reason)


def right(made: Case) -> Finding:
    finding = examined(made)
    assert finding.reason is None, finding.reason
    assert finding.not_comparable is None, finding.not_comparable
    assert finding.error is not None and finding.error.allowed <= 1
    return finding


def wrong(made: Case, reason: str) -> None:
    assert reason in str(examined(made).reason)


# Forms


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_class_a_function_and_an_object_are_the_same_module(mode: str, dtype: str) -> None:
    assert not right(case(Net, mode=mode, dtype=dtype)).notes
    right(case(Net, lambda: Net(), mode, dtype))
    right(case(Net, Net, mode, dtype, hidden=HIDDEN))
    right(case(build, build, mode, dtype, layers=1))
    module = Net()
    right(case(module, module, mode, dtype))
    wrong(case(Net, Net, mode, dtype, scale=1.05), "differs from the float64 reference")


def test_what_an_object_is_given_as_arguments_goes_to_its_calls() -> None:
    attention = nn.MultiheadAttention(HIDDEN, 2, batch_first=True)

    def inputs(dtype: torch.dtype, generator: torch.Generator) -> Any:
        return [torch.randn(2, 4, HIDDEN, generator=generator, dtype=dtype)] * 3

    right(case(attention, attention, inputs=inputs, need_weights=True))
    wrong(case(attention, attention, inputs=inputs, need_weights=False), "output 1: returned a NoneType")


def test_nested_plain_arguments_reach_a_factory() -> None:
    right(case(build, build, replace=[{"of": "drop", "by": "Identity"}]))
    wrong(case(build, build, replace=[{"of": "norm", "by": "Identity"}]), "differs")


class Other(nn.Module):
    """The mathematics of Net, whose weights are drawn in another order and one of which has another name."""

    def __init__(self, name: str = "norm"):
        super().__init__()
        self.name = name
        self.register_module(name, nn.RMSNorm(HIDDEN))
        self.fixed = nn.Parameter(torch.rand(HIDDEN), requires_grad=False)
        self.register_buffer("mask", torch.rand(HIDDEN) > 0.1)
        self.fc = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm = self.get_submodule(self.name)
        return norm(torch.where(self.mask, self.fc(x), 0)) * self.fixed


def test_a_class_is_given_the_weights_of_the_reference() -> None:
    right(case(Net, Other, "forward_backward"))
    right(case(Net(), Other))
    wrong(case(Net, lambda: Other()), "differs")  # what a function makes has the weights that it gives it
    made = case(Net, Other, name="other")
    (note,) = bind(made.operation.variants[1], made, Cpu(), CaseData(made).inputs(1)).notes
    assert "other.weight" in note


# Gradients


class Backward(torch.autograd.Function):
    """A product whose gradient by the weight is too large."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return gradient * weight, (gradient * x).sum(0) * 1.05


class Scale(nn.Module):
    """`x * weight`, and what a variant may do otherwise."""

    def __init__(self, faulty: bool = False, name: str = "weight", shape: tuple[int, ...] = (HIDDEN,)):
        super().__init__()
        self.name = name
        self.faulty = faulty
        self.register_parameter(name, nn.Parameter(torch.rand(HIDDEN).view(shape)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = getattr(self, self.name)
        return Backward.apply(x, weight) if self.faulty else x * weight


@pytest.mark.parametrize("mode", ["backward", "forward_backward"])
def test_the_gradient_of_a_parameter_is_checked_by_its_name(mode: str) -> None:
    right(case(Scale, mode=mode))
    wrong(case(Scale, Scale, mode, faulty=True), "grad of weight: differs from the float64 reference")
    right(case(Scale, mode=mode, inputs=normal(4, HIDDEN, grad=False)))


def test_a_parameter_of_another_name_or_shape_is_said_not_to_be_checked() -> None:
    (missing, own) = right(case(Scale, Scale, "backward", name="gain")).notes
    assert missing == "gives no grad of weight of the reference's shape: not checked"
    assert own == "gives grad of gain, of which the reference has none: not checked"
    (missing,) = right(case(Scale, Scale, "backward", shape=(1, HIDDEN))).notes
    assert "grad of weight" in missing
    module = Scale()
    (missing,) = right(case(module, lambda x: x * module.weight, "backward")).notes
    assert "neither checked nor computed while timed" in missing


# State


class Counted(nn.Module):
    """A batch norm in training, whose buffers may be left as they were."""

    def __init__(self, track: bool = True):
        super().__init__()
        self.norm = nn.BatchNorm1d(HIDDEN)
        self.track = track

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.track:
            return self.norm(x)
        return nn.functional.batch_norm(x, None, None, self.norm.weight, self.norm.bias, training=True)


@pytest.mark.parametrize("mode", MODES)
def test_buffers_that_calls_change_are_put_back_and_compared(mode: str) -> None:
    right(case(Counted, mode=mode))
    wrong(case(Counted, Counted, mode, track=False), "buffer norm.running_mean after the call: differs")


class Moving(nn.Module):
    """Divides by a magnitude that moves from call to call, as what spectral_norm keeps does."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("size", torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.size.mul_(0.9).add_(0.1 * x.detach().abs().mean())
        return x / self.size


class Lapsing(Moving):
    """Gives something else once it was called often, which it counts in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.where(self.calls > 20, 0, super().forward(x))


def test_what_moves_from_call_to_call_does_so_in_the_reference() -> None:
    """The first of many calls with contents of its own is one of those that are timed, when buffers have moved on."""
    found = compare(
        variants={"moving": Moving(), "lapsing": Lapsing()}, inputs=(torch.randn(4, HIDDEN),), overrides=[*BRIEF]
    )
    rows = found.table.set_index("variant")
    assert list(rows["status"]) == ["ok", "wrong"]
    assert rows["reason"]["lapsing"].startswith("wrong for new contents of its inputs")


class Growing(nn.Module):
    """Keeps what is no buffer from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x)
        return x * len(self.seen)


def test_state_that_is_in_no_buffer_is_found_out() -> None:
    with pytest.raises(UsageError, match="gives other outputs when it is called again"):
        CaseData(case(Growing)).expected(1)
    wrong(case(lambda x: x * 1, Growing), "right in its first call only")


def test_evaluation_stays_as_it_was() -> None:
    right(case(Net(p=0.5).eval()))
    assert examined(case(Net, p=0.5)).not_comparable


@pytest.mark.parametrize("mode", MODES)
def test_dropout_is_found_out(mode: str) -> None:
    assert "draws random numbers" in str(examined(case(lambda: Net(p=0.5), mode=mode)).not_comparable)


# Depth


class Query(nn.Module):
    """Attention whose key has a bias: its gradient is zero but for rounding, which only what is within it shows."""

    def __init__(self, scale: float):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.query(x), self.key(x), self.value(x)
        return self.scale * nn.functional.scaled_dot_product_attention(q, k, v)


class Deep(nn.Module):
    """Convolutions, batch norms, attention and kinks in a row."""

    def __init__(self, scale: float = 1.0):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(4, 16, 3, padding=1), nn.BatchNorm1d(16), nn.ReLU(inplace=True))
        self.blocks = nn.ModuleList([Query(1.0), Query(scale), Query(1.0)])
        self.mlp = nn.Sequential(nn.Linear(16, 64), nn.ReLU(inplace=True), nn.Linear(64, 16), nn.LayerNorm(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).transpose(1, 2)
        for block in self.blocks:
            x = x + block(x)
        return self.mlp(x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_adds_up_in_a_deep_module_and_a_fault_is_found(dtype: str) -> None:
    inputs = normal(4, 4, 32)
    assert right(case(Deep, mode="forward_backward", dtype=dtype, inputs=inputs)).error.allowed < 0.8
    wrong(case(Deep, Deep, "forward_backward", dtype, inputs, scale=1.2), "differs")


# Copies


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, HIDDEN)
        self.head = nn.Linear(HIDDEN, 16, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(tokens))


def test_tied_weights_stay_tied_and_integers_stay_integers() -> None:
    for copy, dtype in (
        (measured(Tied(), torch.bfloat16, torch.device("cpu")), torch.bfloat16),
        (exact(Tied(), torch.bfloat16), torch.float64),
    ):
        assert copy.head.weight is copy.embed.weight
        assert copy.head.weight.dtype == dtype
    assert measured(Net(), torch.bfloat16, torch.device("cpu")).mask.dtype == torch.bool

    def tokens(dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
        return torch.randint(0, 16, (2, 5), generator=generator)

    right(case(Tied, mode="forward_backward", dtype="bfloat16", inputs=tokens))


def test_hooks_are_kept() -> None:
    module = Net()
    module.fc.register_forward_hook(lambda module, inputs, output: output * 2)
    right(case(module))
    assert not torch.equal(
        measured(module, torch.float32, torch.device("cpu")).fc(torch.ones(HIDDEN)),
        Net.forward(module, torch.ones(HIDDEN)),
    )


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: nn.LazyLinear(4), "its weight is not initialised yet"),
        (lambda: nn.Linear(HIDDEN, 4, device="meta"), "its weight is a tensor on the meta device"),
        (lambda: nn.Linear(HIDDEN), "missing 1 required positional argument: 'out_features'"),
        (lambda: 3, "takes no inputs, and what it returns is neither module nor function but an int"),
    ],
)
def test_what_has_no_copy_is_refused_in_a_line(make: Callable[[], Any], reason: str) -> None:
    made = case(make)
    with pytest.raises((UsageError, ModuleError, TypeError), match=reason):
        bind(made.operation.variants[1], made, Cpu(), CaseData(made).inputs(1))
    with pytest.raises(UsageError, match=r"op\.reference=.*" + reason) as refusal:
        CaseData(made).expected(1)
    assert "\n" not in str(refusal.value)


@pytest.mark.filterwarnings("ignore")  # both are deprecated
def test_kinds_that_copy_themselves_or_have_no_float64_are_refused() -> None:
    for make, reason in (
        (lambda: torch.jit.script(nn.Linear(HIDDEN, 4)), "a RecursiveScriptModule has no copy in float64"),
        (lambda: torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(HIDDEN, 4))), "its 0 is a quantized"),
    ):
        with pytest.raises(UsageError, match=r"op\.reference=.*" + reason):
            CaseData(case(make)).expected(1)


@pytest.mark.parametrize("thing", ["parametrized", "locked"])
def test_what_cannot_be_sent_to_a_process_is_refused_in_a_line(thing: str) -> None:
    module = nn.Linear(HIDDEN, HIDDEN)
    if thing == "locked":
        module.lock = threading.Lock()
    else:
        module = torch.nn.utils.parametrizations.weight_norm(module)
    with pytest.raises(UsageError, match=r"^op\.variants\.b\.fn=.*cannot be sent to a measuring process: .*") as error:
        compare(variants={"a": nn.Linear(HIDDEN, HIDDEN), "b": module}, inputs=torch.ones(2, HIDDEN), overrides=BRIEF)
    assert "\n" not in str(error.value)


def test_a_function_of_inputs_that_all_have_defaults_is_no_factory() -> None:
    def product(x: torch.Tensor | None = None, times: int = 2) -> torch.Tensor:
        return x * times

    right(case(product))
    right(case(nn.Sequential()))  # which is false in a condition


def test_a_module_that_was_compiled_by_its_owner_says_so() -> None:
    made = case(Net, lambda: torch.compile(Net(), backend="eager"), "forward_backward")
    right(made)
    (note,) = bind(made.operation.variants[1], made, Cpu(), CaseData(made).inputs(1)).notes
    assert "compiled already" in note


def test_a_module_that_is_compiled_in_place_is_measured_as_it_was_written_and_says_so() -> None:
    def make() -> nn.Module:
        module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        module[0].compile(backend="eager")
        return module

    made = case(make, make, "forward")
    (note,) = bind(made.operation.variants[1], made, Cpu(), CaseData(made).inputs(1)).notes
    assert note.startswith("0: compiled in place by Module.compile")
    right(case(lambda: torch.compile(Net(), backend="eager"), Net))


# Inputs and outputs


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...]
    count: int = 2
    loss: torch.Tensor | None = None


class Cache:
    """What a module may hand back that is no value."""


def test_what_in_outputs_is_no_value_is_left_out_and_said() -> None:
    class Caching(Net):
        def forward(self, x: torch.Tensor) -> Any:
            return {"logits": super().forward(x), "cache": Cache()}

    made = case(Caching)
    right(made)
    wrong(case(Caching, Caching, scale=1.05), "output logits: differs")
    data = CaseData(made)
    data.expected(1)
    assert len(data.warnings) == 1 and "output cache is a Cache, which is not compared" in data.warnings[0]


class Named(Net):
    """Takes keyword arguments, returns a dataclass."""

    def forward(self, x: torch.Tensor, bias: Any, *, times: int = 1) -> Output:  # type: ignore[override]
        first = super().forward(x) * times + bias["shift"]
        return Output(first, (x * 2, first + 1))


@pytest.mark.parametrize("mode", MODES)
def test_keyword_arguments_and_dataclasses(mode: str) -> None:
    def inputs(dtype: torch.dtype, generator: torch.Generator) -> Any:
        x, shift = torch.randn(2, 4, HIDDEN, generator=generator).to(dtype).requires_grad_()
        return {"x": x, "bias": {"shift": shift}, "times": 3}

    right(case(Named, mode=mode, inputs=inputs))
    wrong(case(Named, Named, mode, inputs=inputs, scale=1.05), "logits: differs" if mode != "backward" else "differs")


# Memory


@pytest.mark.parametrize("mode", MODES)
def test_what_does_not_fit_in_float64_is_checked_layer_by_layer(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    inputs = normal(4, 4, 32)
    whole = CaseData(case(Deep, mode=mode, dtype="bfloat16", inputs=inputs))
    exact_outputs = whole.expected(1).outputs
    assert not whole.warnings
    monkeypatch.setattr(memory, "free_bytes", lambda: 1000)
    made = case(Deep, mode=mode, dtype="bfloat16", inputs=inputs)
    data = CaseData(made)
    narrow = data.expected(1)
    assert "layer by layer" in data.warnings[0]
    for label, output, right_one in zip(narrow.labels, narrow.outputs, exact_outputs, strict=True):
        if label.kind == PARAMETER:  # autograd gives it in the parameter's dtype
            torch.testing.assert_close(output.double(), right_one, rtol=0.01, atol=0.02)
        else:
            torch.testing.assert_close(output, right_one, rtol=1e-9, atol=1e-9)
    right(made)
    wrong(case(Deep, Deep, mode, "bfloat16", inputs, scale=1.5), "differs")


def test_copies_live_no_longer_than_they_are_needed() -> None:
    made: list[weakref.ref[nn.Module]] = []

    def factory() -> nn.Module:
        module = Net()
        made.append(weakref.ref(module))
        return module

    data = CaseData(case(factory, mode="forward_backward"))
    data.expected(1)
    gc.collect()
    assert made and not any(reference() is not None for reference in made)
    doubles = [found for found in gc.get_objects() if type(found) is nn.Parameter and found.dtype == torch.float64]
    assert not doubles


# As a user runs it


NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, breaks=False):
        super().__init__()
        self.fc, self.norm, self.breaks = nn.Linear(16, 16), nn.RMSNorm(16), breaks
        self.register_buffer("calls", torch.zeros((), dtype=torch.int32))
    def forward(self, x):
        self.calls.add_(1)
        y = self.fc(x)
        if self.breaks and y.sum().item() > 1e9:
            y = y + 1
        return self.norm(y)

def build(scale):
    net = Net()
    net.fc.register_forward_hook(lambda module, inputs, output: output * scale)
    return net

def inputs(rows, dtype, generator):
    return {"x": torch.randn(rows, 16, generator=generator).to(dtype)}

def broken():
    raise RuntimeError("no weights here")
"""
NETS_YAML = """
name: nets
dims: {rows: 4}
inputs: nets.inputs
reference: null
baseline: net
variants:
  net: {fn: nets.Net}
  built: {fn: nets.build, args: {scale: 1.0}}
  compiled: {fn: nets.Net, compile: {fullgraph: true}}
"""
MORE_YAML = """
  shifted: {fn: nets.build, args: {scale: -1.0}}
  broken: {fn: nets.broken}
  split: {fn: nets.Net, args: {breaks: true}, compile: {backend: aot_eager}}
"""


def nets(folder: Path, more: str = "") -> list[str]:
    """Writes modules and an operation of theirs; returns the arguments that measure it."""
    (folder / "nets.py").write_text(NETS)
    (folder / "conf" / "op").mkdir(parents=True)
    (folder / "conf" / "op" / "nets.yaml").write_text(NETS_YAML + more.removeprefix("\n"))
    return [f"hydra.searchpath=[file://{folder / 'conf'}]", "op=nets", "mode=forward_backward", "dtype=float32"]


@pytest.mark.slow
def test_the_command_line_measures_modules_by_name(package: Path) -> None:
    eager = "+op.variants.compiled.compile.backend=aot_eager"  # spares the time to generate code
    ran = in_process(*nets(package, MORE_YAML), eager, "device=cpu", "profile.active=1", *QUICK, cwd=package)
    assert ran.status == 1, ran.err
    assert {name: row["status"] for name, row in ran.rows.items()} == {
        "net": "ok", "built": "ok", "compiled": "ok", "shifted": "wrong", "broken": "failed", "split": "ok"
    }  # fmt: skip
    assert ran.rows["broken"]["reason"].startswith("RuntimeError: no weights here")
    counts = {name: [row[key] for key in ("graphs", "graph_breaks", "recompiles")] for name, row in ran.rows.items()}
    assert counts["compiled"] == ["2", "0", "0"]
    assert (counts["split"][1:], counts["net"]) == (["1", "0"], ["", "", ""])


@pytest.mark.slow
def test_modules_on_the_simulated_core(package: Path) -> None:
    ran = on_core(*nets(package), "profile.active=2", cwd=package, default_cost=1)
    assert ran.status == 0, ran.err
    assert {name: row["status"] for name, row in ran.rows.items()} == dict.fromkeys(("net", "built", "compiled"), "ok")
    assert ran.rows["compiled"]["graphs"] == "2"
    assert float(ran.rows["net"]["device_time_us"]) > 0


@pytest.mark.slow  # test_validity has who overwrites inputs
def test_who_overwrites_the_weights_of_others_is_found_out(tmp_path: Path) -> None:
    class Thief(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            own = {id(value) for value in self.parameters()}
            for found in gc.get_objects():
                if type(found) is nn.Parameter and found.shape == self.fc.weight.shape and id(found) not in own:
                    with torch.no_grad():
                        found.zero_()
            return super().forward(x)

    found = compare(
        variants={"net": Net, "thief": lambda: Thief(), "later": Net},
        inputs=(torch.randn(4, HIDDEN),),
        overrides=BRIEF,
        folder=tmp_path / "run",
    )
    statuses = {row["variant"]: row["status"] for row in found.rows}
    assert statuses == {"net": "ok", "thief": "wrong", "later": "ok"}, [row["reason"] for row in found.rows]


@pytest.mark.slow
def test_compare_takes_modules_and_their_dtype(tmp_path: Path) -> None:
    module = Tied().double()
    found = compare(
        variants={
            "eager": module,
            "given": Tied,
            "own": lambda: Tied(),
            "compiled": {"fn": module, "compile": {"backend": "aot_eager"}},
        },
        inputs={"tokens": torch.randint(0, 16, (2, 5))},
        overrides=BRIEF,
        folder=tmp_path / "run",
    )
    statuses = {row["variant"]: row["status"] for row in found.rows}
    assert statuses == {"eager": "ok", "given": "ok", "own": "wrong", "compiled": "ok"}
    assert {row["dtype"] for row in found.rows} == {"float64"}
    assert found.document["config"]["op"]["variants"]["eager"]["fn"] == "test_modules.Tied"
