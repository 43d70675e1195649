"""Parts of the way from a model to a decision, by themselves: signatures, predictions, replacements."""

from __future__ import annotations

import json
import math
import pkgutil
from collections import namedtuple
from functools import partial
from typing import Any

import model_zoo
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from harness.configuration.errors import UsageError
from harness.measure.checks.perturbation import Rounding
from harness.measure.modules import State, exact
from harness.model import plain, replay
from harness.model.predict import Saving, speedup
from harness.model.recording import known
from harness.model.recording.replace import replaced
from harness.model.recording.signature import drawn, signature, with_values
from harness.model.recording.watch import watched
from harness.model.replacements import parse
from harness.results.statistics import Interval


def again(value: Any, dtype: torch.dtype = torch.float32) -> Any:
    """A value that is drawn like another, through JSON."""
    written = json.loads(json.dumps(with_values(value, signature(value, dtype))))
    return drawn(written, dtype, torch.Generator().manual_seed(1))


def test_shapes_strides_dtypes_and_gradients_are_drawn_again() -> None:
    values = {
        "plain": torch.randn(2, 3),
        "strided": torch.randn(3, 4).t(),
        "sliced": torch.randn(8, 8)[2:4, ::2],
        "expanded": torch.randn(1, 3).expand(4, 3),
        "half": torch.randn(4).half(),
        "grad": torch.randn(4, requires_grad=True),
        "scalar": torch.tensor(2.5),
        "empty": torch.empty(0, 3),
    }
    for name, drawn_again in again(values).items():
        value = values[name]
        assert drawn_again.shape == value.shape, name
        assert drawn_again.stride() == value.stride(), name
        assert drawn_again.dtype == value.dtype, name
        assert drawn_again.requires_grad == value.requires_grad, name


def test_values_that_decide_are_kept_and_others_are_drawn() -> None:
    indices = torch.randint(1000, (64,))
    mask = torch.full((8, 8), -math.inf).triu(1)
    assert torch.equal(again(indices), indices)
    assert torch.equal(again(mask), mask)
    chosen = torch.rand(5) > 0.5
    assert torch.equal(again(chosen), chosen)
    positive = torch.rand(1000) + 3
    drawn_again = again(positive)
    assert not torch.equal(drawn_again, positive)
    assert drawn_again.min() >= positive.min() and drawn_again.max() <= positive.max()
    large = torch.randint(7, (200_000,))
    assert not torch.equal(again(large), large)
    assert set(again(large).unique().tolist()) <= set(range(7))


@settings(max_examples=30, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=10,
    )
)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    assert again(value) == value


def test_what_is_no_plain_value_is_named() -> None:
    written = signature({"cache": object(), "x": torch.randn(2), "kind": torch.float16}, torch.float32)
    assert plain.others(written) == ["builtins.object"]
    assert plain.shapes(written) == "2"
    with pytest.raises(ValueError, match=r"builtins\.object"):
        drawn(written, torch.float32, torch.Generator())
    assert drawn(signature(torch.float16, torch.float32), torch.float32, torch.Generator()) is torch.float16


def test_named_tuples_dataclasses_slices_and_packed_sequences_come_back_as_they_were() -> None:
    pair = again(model_zoo.Pair(torch.randn(2), torch.tensor([True])))
    assert isinstance(pair, model_zoo.Pair) and pair.x.shape == (2,) and pair.mask.tolist() == [True]
    output = again(model_zoo.Output(torch.randn(3), [None, 2]))
    assert isinstance(output, model_zoo.Output) and output.logits.shape == (3,) and output.cache == [None, 2]
    assert again((..., slice(None, 3), slice(1, None, 2), None)) == (..., slice(None, 3), slice(1, None, 2), None)
    packed = pack_padded_sequence(torch.randn(3, 4, 2), torch.tensor([2, 4, 1]), True, enforce_sorted=False)
    drawn_again = again(packed)
    assert isinstance(drawn_again, PackedSequence)
    assert drawn_again.data.shape == packed.data.shape
    assert all(map(torch.equal, drawn_again[1:], packed[1:]))


def test_a_class_that_cannot_be_imported_is_named() -> None:
    written = signature(namedtuple("Local", "x")(1), torch.float32)
    assert plain.others(written) == [f"{__name__}.Local"]


def test_functions_are_named_as_they_are_found_again() -> None:
    with watched(model_zoo.Handing(), torch.float32) as seen:
        model_zoo.Handing()(*model_zoo.handing()[1])  # another one: none of its modules is seen
    assert not seen.calls
    model, inputs = model_zoo.handing()
    with watched(model, torch.float32) as seen:
        model(*inputs)
    functions = {call.function for call in seen.calls if call.kind == "function"}
    assert {"torch.softmax", "torch.Tensor.__getitem__", "torch._VF._pad_packed_sequence"} <= functions
    assert all(callable(pkgutil.resolve_name(function)) for function in functions)


def test_a_function_is_called_as_its_model_calls_it() -> None:
    q, k, v = torch.randn(3, 2, 4, 8)
    mask = torch.rand(4, 4) > 0.3
    function = "torch.nn.functional.scaled_dot_product_attention"
    called = replay.function(function=function, by_name=["attn_mask"], kwargs={"scale": 0.5})
    expected = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.5)
    assert torch.equal(called(q, k, v, mask), expected)
    wide = replay.function(function="torch.softmax", kwargs={"dim": -1, "dtype": {"torch": "float64"}})
    assert torch.equal(wide(q), q.softmax(-1, dtype=torch.float64))
    library = replay.function(function="variants.softmax.naive", kwargs={"dim": -1})
    assert torch.allclose(library(q), q.softmax(-1), atol=1e-6)


def test_what_is_within_torchs_transforms_is_seen_without_its_values() -> None:
    model = model_zoo.Derivative()
    with torch.no_grad(), watched(model, torch.float32) as seen:
        model(torch.randn(8, 4))
    (energy,) = [call for call in seen.calls if call.path == "energy" and call.kind == "module"]
    assert plain.others(seen.signatures[energy.signature]) == [
        "a tensor whose values cannot be read, as within torch.func"
    ]


def test_what_is_within_torchs_transforms_is_checked_as_well() -> None:
    state = State(exact(model_zoo.Derivative(), torch.float64))
    x = torch.randn(8, 4, dtype=torch.float64)
    expected = state.module(x)
    with Rounding(torch.float32, 0).within(state):
        moved = state.module(x)
    assert not torch.equal(moved, expected) and torch.allclose(moved, expected, rtol=1e-4)


class Scaled(nn.Module):
    """Does one of two things, which nothing but an attribute says."""

    def __init__(self, number: int, twice: bool) -> None:
        super().__init__()
        self.number, self.twice = number, twice

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if self.twice else x + 1


def test_modules_are_alike_unless_something_that_they_hold_decides() -> None:
    model = nn.Sequential(Scaled(0, True), Scaled(1, False), Scaled(2, True))
    with watched(model, torch.float32) as seen:
        model(torch.randn(2))
    first, second, third = [call.config for call in seen.calls if call.function.endswith("Scaled")]
    assert first == third != second


def test_a_module_that_cannot_be_printed_is_seen() -> None:
    model = model_zoo.Unprintable(4, 4)
    with watched(model, torch.float32) as seen:
        model(torch.ones(4))
    assert [call.function for call in seen.calls] == ["model_zoo.Unprintable", "torch.nn.functional.linear"]


def test_what_is_compiled_within_a_model_is_seen_as_it_was_written() -> None:
    model, x = model_zoo.Inner(), torch.randn(2, 16)
    expected = model(x)
    with watched(model, torch.float32) as seen:
        assert torch.equal(model(x), expected)
    names = [call.function.rpartition(".")[2] for call in seen.calls]
    assert names == ["Inner", "Linear", "linear", "tanh", "Linear", "linear", "softmax"]


def test_a_dtype_that_is_the_steps_own_follows_the_case() -> None:
    written = signature([torch.randn(2), torch.randn(2).double()], torch.float32)
    first, second = drawn(written, torch.bfloat16, torch.Generator())
    assert (first.dtype, second.dtype) == (torch.bfloat16, torch.float64)


def called(*shapes: tuple[int, ...], **further: Any) -> dict[str, Any]:
    return {"dict": {"args": {"tuple": [{"tensor": list(shape)} for shape in shapes]}, "kwargs": {"dict": further}}}


SIZES = (5, 1, 9, 2, 7, 3)


@pytest.mark.parametrize(
    ("signatures", "one"),
    [
        ([called((n, 8)) for n in SIZES], True),
        ([called((n, 8)) for n in SIZES[:5]], False),  # as many as images of a pyramid have
        ([called((n, 8), (2, n, n + 1)) for n in SIZES], True),
        ([called((n, 8), (10 - n,)) for n in SIZES], False),  # channels rise where images shrink
        ([called((n, 8), scale=n) for n in SIZES], False),  # an argument decides, and no size
        ([called((n, 8), scale=1) for n in SIZES], True),
        ([called((n, *[8] * n)) for n in SIZES], False),
    ],
)
def test_signatures_that_differ_in_sizes_that_rise_together_are_one(signatures: list[Any], one: bool) -> None:
    found = plain.together(dict(enumerate(signatures)))
    assert sorted(key for keys in found for key in keys) == list(range(len(signatures)))
    assert len(found) == (1 if one else len(signatures))


def test_a_module_that_is_called_at_two_widths_has_two_ranges() -> None:
    signatures = {(n, wide): called((2, n, wide)) for n in SIZES for wide in (8, 16)} | {(1, 4): called((2, 1, 4))}
    found = sorted(sorted(keys) for keys in plain.together(signatures))
    assert found == [[(1, 4)], [(n, 8) for n in sorted(SIZES)], [(n, 16) for n in sorted(SIZES)]]


def test_a_span_tells_the_sizes_that_differ() -> None:
    signatures = [called((n, 8), (2, n), scale=1) for n in SIZES]
    assert plain.shapes(plain.span(signatures)) == "1-9x8, 2x1-9"
    assert plain.span(signatures[:1]) == signatures[0]
    assert plain.middle(dict(zip("abcdef", signatures, strict=True))) == "a"  # of 1, 2, 3, 5, 7, 9


# Predictions


def saved(value: float, half: float = 0.0, context: float = 1.0) -> Saving:
    return Saving(Interval(value, value - half, value + half), context)


def test_a_prediction_is_the_steps_time_less_what_is_saved() -> None:
    step = Interval(10.0, 10.0, 10.0)
    assert speedup(step, [saved(2.0), saved(3.0)]).value == pytest.approx(2.0)
    assert speedup(step, [saved(-10.0)]).value == pytest.approx(0.5)
    assert speedup(step, []) == Interval(1.0, 1.0, 1.0)
    assert speedup(step, [saved(20.0)]).value == pytest.approx(100)  # nothing would be left


def test_a_predictions_interval_carries_those_of_its_parts() -> None:
    exact = speedup(Interval(10.0, 10.0, 10.0), [saved(2.0, 0.3), saved(1.0, 0.4)])
    assert exact.low == pytest.approx(10 / (10 - 2.5))  # the root of the squares' sum is 0.5
    assert exact.high == pytest.approx(10 / (10 - 3.5))
    rough = speedup(Interval(10.0, 9.0, 11.0), [saved(2.0, 0.3), saved(1.0, 0.4)])
    assert rough.low < exact.low and rough.high > exact.high
    within = speedup(Interval(10.0, 10.0, 10.0), [saved(2.0, context=1.5)])
    assert (within.low, within.high) == (pytest.approx(10 / 8), pytest.approx(10 / 7))
    slower = speedup(Interval(10.0, 10.0, 10.0), [saved(-2.0, context=1.5)])
    assert (slower.low, slower.high) == (pytest.approx(10 / 13), pytest.approx(10 / 12))


# Replacements


def made(of: str, by: str) -> nn.Module:
    torch.manual_seed(0)
    return replaced(model_zoo.Net(), [{"of": of, "by": by}])


@pytest.mark.parametrize("by", ["model_zoo.FusedNorm", "model_zoo.fused_norm", "variants.rmsnorm.fused"])
def test_a_replacement_computes_with_the_weights_of_the_old_module(by: str) -> None:
    torch.manual_seed(0)
    model, tokens = model_zoo.Net(), torch.randint(32, (2, 16))
    expected = model(tokens)
    new = made("model_zoo.MyRMSNorm", by)
    assert torch.allclose(new(tokens), expected, atol=1e-5)
    assert list(new.state_dict()) == list(model.state_dict())
    assert all(value.requires_grad for value in new.parameters())


class Linear(nn.Module):
    """A linear layer whose constructor takes what torch's takes."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight, self.bias)


class Wide(nn.Module):
    """A constructor that asks for what no linear layer has."""

    def __init__(self, in_features: int, blocks: int):
        super().__init__()


class Other(nn.Module):
    """Other parameters."""

    def __init__(self, in_features: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(in_features))


def test_constructors_get_what_the_old_module_has() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4, bias=False)).eval()
    model[0].weight.requires_grad_(False)
    model.tied = model[1].weight
    x = torch.randn(2, 4)
    expected = model(x)
    new = replaced(model, [{"of": "torch.nn.Linear", "by": f"{__name__}.Linear"}])
    assert [type(module) for module in new] == [Linear, Linear]
    assert torch.equal(new(x), expected)
    assert new.tied is new[1].weight
    assert not new[0].weight.requires_grad and not new[0].training


@pytest.mark.parametrize(
    ("of", "by", "reason"),
    [
        ("torch.nn.Conv2d", "model_zoo.FusedNorm", "the model has none; it has: model_zoo.Block"),
        ("torch.nn.linear", "model_zoo.FusedNorm", "torch.nn has no linear; did you mean"),
        ("torch.nn.functional.silu", "model_zoo.FusedNorm", "not a class of modules"),
        ("torch.nn.Linear", "model_zoo.nothing", "model_zoo has no nothing"),
        ("torch.nn.Linear", f"{__name__}.Wide", "asks for blocks, which torch.nn.Linear has no attribute of"),
        ("torch.nn.Linear", f"{__name__}.Other", "has no scale of its shape"),
    ],
)
def test_what_does_not_fit_is_refused(of: str, by: str, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        made(of, by)
    assert reason in str(refused.value)
    assert str(refused.value).startswith("replace")


def test_a_module_at_two_places_is_replaced_by_one() -> None:
    model = nn.ModuleList([nn.Linear(4, 4)] * 2)
    new = replaced(model, [{"of": "torch.nn.Linear", "by": f"{__name__}.Linear"}])
    assert new[0] is new[1]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("x", "expected a list"),
        (["x"], "expected a mapping in a list"),
        ([{"of": "a"}], "replace.by=None: expected a dotted path"),
        ([{"of": "a", "with": "b"}], r"replace\.with: no such key; keys there: by, of"),
        ([{"of": 1, "by": "b"}], "replace.of=1: expected"),
    ],
)
def test_replace_is_checked(value: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse(value)


def test_replacements_have_names_of_their_own() -> None:
    both = [{"of": "a.A", "by": "p.new"}, {"of": "b.B", "by": "q.new"}, {"of": "b.B", "by": "r.new"}]
    assert [each.name for each in parse(both)] == ["new", "new for B", "new for B 3"]


def test_names_of_replacements_are_none_of_other_variants() -> None:
    items = ["p.new", "p.new_compiled", "p.compiled", lambda x: x, partial(sorted)]
    names = [each.name for each in parse([{"of": "a.A", "by": by} for by in items])]
    assert names == ["new", "new_compiled for A", "compiled for A", "lambda", "other"]


@pytest.mark.parametrize(
    "by",
    [
        lambda x, module: x * module.eps,
        lambda x, norm: x * norm.eps,
        lambda x, norm, /: x * norm.eps,
        lambda x, norm, scale=1.0: x * norm.eps * scale,
        lambda x, scale=1.0, *, module: x * module.eps * scale,
        lambda module, x: x * module.eps,
    ],
)
def test_a_function_is_given_the_module_where_it_asks_for_it(by: Any) -> None:
    torch.manual_seed(0)
    model = replaced(model_zoo.MyRMSNorm(4, eps=0.5), [{"at": [""], "by": by}])
    for called in (model, torch.compile(model, backend="eager", fullgraph=True)):
        assert torch.equal(called(torch.ones(4)), torch.full((4,), 0.5))


@pytest.mark.parametrize("by", [lambda x, factor=1.0: x * factor, "torch.nn.functional.relu", lambda *x: x[0]])
def test_a_functions_own_arguments_are_not_given_the_module(by: Any) -> None:
    """Of relu it would be a true value for `inplace`."""
    model = replaced(model_zoo.MyRMSNorm(4), [{"at": [""], "by": by}])
    x = torch.tensor([-1.0, 1.0])
    assert not torch.equal(model(x), x) if by == "torch.nn.functional.relu" else torch.equal(model(x), x)
    assert torch.equal(x, torch.tensor([-1.0, 1.0]))


def test_a_buffer_is_taken_over_as_a_parameter_that_takes_no_gradient() -> None:
    old = nn.Module()
    old.register_buffer("weight", torch.rand(4))
    new = replaced(nn.Sequential(old), [{"at": ["0"], "by": Buffered}])
    assert torch.equal(new[0].weight, old.weight) and not new[0].weight.requires_grad


class Buffered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4))


# The library's operations


@pytest.mark.parametrize(
    ("module", "inputs", "operations"),
    [
        (nn.RMSNorm(8, eps=1e-5), (torch.randn(4, 8),), ["rmsnorm"]),
        (nn.RMSNorm(8), (torch.randn(4, 8),), ["rmsnorm"]),
        (nn.LayerNorm(8, eps=1e-3), (torch.randn(4, 8),), ["layernorm"]),
        (nn.LayerNorm((4, 8)), (torch.randn(2, 4, 8),), []),
        (nn.GELU(approximate="tanh"), (torch.randn(64),), ["gelu"]),
        (nn.GELU(), (torch.randn(64),), []),
        (nn.Softmax(dim=-1), (torch.randn(4, 8),), ["softmax"]),
        (nn.Softmax(dim=0), (torch.randn(4, 8),), []),
        (nn.CrossEntropyLoss(), (torch.randn(4, 8), torch.randint(8, (4,))), ["cross_entropy"]),
        (nn.CrossEntropyLoss(reduction="sum"), (torch.randn(4, 8), torch.randint(8, (4,))), []),
        (nn.Linear(8, 8), (torch.randn(4, 8),), []),
    ],
)
def test_modules_are_known_by_what_they_compute(module: nn.Module, inputs: Any, operations: list[str]) -> None:
    assert known.of_module(module, {"args": inputs, "kwargs": {}}) == operations


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "operations"),
    [
        ("torch.softmax", (torch.randn(4, 8), -1), {}, ["softmax"]),
        ("torch.nn.functional.softmax", (torch.randn(4, 8),), {"dim": 0}, []),
        ("torch.nn.functional.gelu", (torch.randn(64),), {"approximate": "tanh"}, ["gelu"]),
        ("torch.nn.functional.gelu", (torch.randn(64),), {}, []),
        ("torch.nn.functional.layer_norm", (torch.randn(4, 8), (8,), torch.rand(8), torch.rand(8), 1e-3), {},
         ["layernorm"]),
        ("torch.nn.functional.scaled_dot_product_attention", tuple(torch.randn(1, 2, 8, 4) for _ in range(3)),
         {"is_causal": True}, ["attention"]),
        ("torch.nn.functional.scaled_dot_product_attention", tuple(torch.randn(1, 2, 8, 4) for _ in range(3)), {}, []),
    ],
)  # fmt: skip
def test_functions_are_known_by_what_they_compute(name: str, args: Any, kwargs: Any, operations: list[str]) -> None:
    assert known.of_function(name, {"args": args, "kwargs": kwargs}) == operations


# How modules are called


class Attending(nn.Module):
    """Attention to itself: one tensor by position in place of three, and a plain value by name."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


def attending() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Attending(), (torch.randn(2, 4, 8),)


def to_itself(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, need_weights: bool) -> Any:
    """By other names than the module's own."""
    assert q is k and k is v and need_weights is False
    return 2 * q, None


def test_a_module_is_called_as_its_model_calls_it() -> None:
    model, inputs = attending()
    with watched(model, torch.float32) as seen:
        model(*inputs)
    (call,) = [call for call in seen.calls if call.function == "torch.nn.MultiheadAttention"]
    given = drawn(seen.signatures[call.signature], torch.float32, torch.Generator().manual_seed(0))
    assert (given["args"], set(given["kwargs"])) == ((), {"query", "need_weights"})
    assert (given["by_position"], given["same"]) == (3, {"key": "query", "value": "query"})
    how = {"path": "attention", "by_position": given["by_position"], "same": given["same"]}
    x = given["kwargs"]["query"]
    as_it_is = replay.module(attending, **how)(**given["kwargs"])[0]
    assert torch.allclose(as_it_is, replay.module(attending)(x))
    replacement = {"by": to_itself, "at": [""]}
    assert torch.equal(replay.module(attending, replace=[replacement], **how)(**given["kwargs"])[0], 2 * x)


class Nameless(nn.Module):
    def forward(self, x: torch.Tensor, /, y: float) -> torch.Tensor:
        return x * y


def test_what_has_no_name_is_not_given_one() -> None:
    model = Nameless()
    with watched(model, torch.float32) as seen:
        model(torch.ones(2), y=3.0)
    given = drawn(seen.signatures[0], torch.float32, torch.Generator())
    assert (len(given["args"]), given["kwargs"]) == (1, {"y": 3.0})
