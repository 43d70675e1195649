"""What inputs and outputs may be: complex, nested, sparse, exact, of a shape that hangs on values; right or refused."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness.configuration.errors import UsageError
from harness.configuration.operation import Case, Operation, Variant
from harness.devices.cpu import Cpu
from harness.measure.checks.case_data import CaseData
from harness.measure.checks.validity import Given, judge, observe, remembered
from harness.measure.observations import Finding
from harness.measure.subject import Subject
from harness.measure.tensors import same


def case(
    inputs: Callable[..., Any], reference: Callable[..., Any], dtype: str = "float32", mode: str = "forward"
) -> Case:
    """A case whose inputs are those that `inputs` makes of a generator."""
    variant = Variant("naive", reference)
    operation = Operation(
        "made", {}, lambda dtype, generator: inputs(dtype, generator), reference, None, "naive", (variant,)
    )
    return Case(operation, dtype, "cpu", mode, seed=1)


def examined(made: Case, function: Callable[..., Any]) -> Finding:
    """What a run finds of a variant in its first calls, and on other contents where these were right."""
    data, device = CaseData(made), Cpu()
    subject = Subject("variant", function, data.inputs(1), made.mode, made.seed)
    seen = observe(subject, Given(subject()), lambda: Given(subject()), lambda: data.inputs(1), device)
    finding = judge(seen, data.expected(1))
    if finding.reason or finding.not_comparable:
        return finding
    subject.refresh(data.inputs(2))
    return Finding(remembered(Given(subject()).taken, data.expected(2), subject.labels), finding.error)


def normal(*shape: int) -> Callable[..., Any]:
    return lambda dtype, generator: torch.randn(*shape, generator=generator).to(dtype)


def several(*shape: int) -> Callable[..., Any]:
    return lambda dtype, generator: tuple(torch.randn(*shape, generator=generator).to(dtype) for _ in range(3))


def right(made: Case, function: Callable[..., Any]) -> None:
    finding = examined(made, function)
    assert finding.reason is None, finding.reason
    assert finding.not_comparable is None, finding.not_comparable
    assert finding.error is not None and finding.error.allowed <= 1


def wrong(made: Case, function: Callable[..., Any], reason: str) -> None:
    assert reason in str(examined(made, function).reason)


# Complex numbers


def transform(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return torch.fft.fft(torch.complex(a, b)) * c


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mode", ["forward", "backward", "forward_backward"])
def test_complex_outputs_are_compared_whole(dtype: str, mode: str) -> None:
    def inputs(kind: torch.dtype, generator: torch.Generator) -> Any:
        return tuple(tensor.requires_grad_() for tensor in several(4, 64)(kind, generator))

    made = case(inputs, transform, dtype, mode)
    right(made, transform)
    wrong(made, lambda *x: transform(*x).conj(), "differs from the float64 reference")
    wrong(made, lambda *x: transform(*x).real + 0j, "differs from the float64 reference")
    wrong(made, lambda *x: transform(*x) * 1.05, "differs from the float64 reference")
    if mode == "forward":
        wrong(made, lambda *x: transform(*x).real, "dtype")


def test_complex_inputs_are_moved_and_compared() -> None:
    def inputs(dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
        return torch.randn(8, 32, generator=generator, dtype=dtype.to_complex())

    made = case(inputs, lambda z: z.exp())
    right(made, lambda z: z.exp())
    wrong(made, lambda z: z.exp().conj().resolve_conj(), "differs")
    wrong(made, lambda z: z.mul_(2).div(2).exp(), "changes its inputs in place")
    nan = complex(0, float("nan"))
    wrong(
        made, lambda z: z.exp().index_put((torch.tensor(3), torch.tensor(3)), torch.tensor(nan, dtype=z.dtype)), "NaN"
    )


# Nested inputs


def nested(dtype: torch.dtype, generator: torch.Generator) -> Any:
    tensors = [torch.randn(16, generator=generator).to(dtype).requires_grad_() for _ in range(4)]
    return (tensors[:2], {"scale": tensors[2], "shift": (tensors[3], 2.0)}, 3)


def use(pair: Any, options: Any, power: int) -> torch.Tensor:
    shift, factor = options["shift"]
    return pair[0] * options["scale"] + factor * pair[1] ** power + shift


def spoil(pair: Any, options: Any, power: int) -> torch.Tensor:
    result = use(pair, options, power)
    with torch.no_grad():
        options["shift"][0].zero_()
    return result


def drop(pair: Any, options: Any, power: int) -> torch.Tensor:
    return use([pair[0], pair.pop() if len(pair) > 1 else pair[0]], options, power)


@pytest.mark.parametrize("mode", ["forward", "backward", "forward_backward"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_inputs_in_lists_tuples_and_dicts(mode: str, dtype: str) -> None:
    made = case(nested, use, dtype, mode)
    right(made, use)
    wrong(made, lambda p, o, n: use(p, o, n) * 1.05, "differs")
    if mode == "forward":
        wrong(made, spoil, "changes its inputs in place (input 1)")
        wrong(made, drop, "changes its inputs in place (input 0)")


def test_outputs_in_dicts_go_by_their_keys_at_any_depth() -> None:
    made = case(several(8, 8), lambda a, b, c: ({"sum": {"ab": a + b, "bc": b + c}}, a), "float32")
    right(made, lambda a, b, c: [{"sum": {"bc": b + c, "ab": a + b}}, a])
    wrong(made, lambda a, b, c: ({"sum": {"ab": b + c, "bc": a + b}}, a), "differs")
    told = "outputs by 0.sum.ab, 0.sum.cb, where the reference has 0.sum.ab, 0.sum.bc"
    wrong(made, lambda a, b, c: ({"sum": {"ab": a + b, "cb": b + c}}, a), told)
    wrong(made, lambda a, b, c: ({"sum": [a + b, b + c]}, a), "outputs by 0.sum, where")


# Sparse tensors


@pytest.mark.filterwarnings("ignore:Sparse")  # beta state; invariants that are not checked
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "uncoalesced"])
def test_sparse_inputs_and_outputs(layout: str) -> None:
    def inputs(dtype: torch.dtype, generator: torch.Generator) -> Any:
        dense = torch.randn(16, 16, generator=generator).to(dtype)
        dense = torch.where(torch.rand(16, 16, generator=generator) > 0.7, dense, 0)
        if layout == "uncoalesced":
            indices = torch.randint(0, 16, (2, 40), generator=generator)
            values = torch.randn(40, generator=generator).to(dtype)
            sparse = torch.sparse_coo_tensor(indices, values, (16, 16))
        elif layout == "bsr":
            sparse = dense.to_sparse_bsr((4, 4))
        else:
            sparse = dense.to_sparse_coo() if layout == "coo" else getattr(dense, f"to_sparse_{layout}")()
        return sparse, torch.randn(16, 8, generator=generator).to(dtype)

    def spoil(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = a.to_dense() @ b
        (a.coalesce() if a.layout == torch.sparse_coo else a).values().zero_()
        return result

    made = case(inputs, lambda a, b: a.to_dense() @ b)
    right(made, lambda a, b: a.to_dense() @ b)
    wrong(made, lambda a, b: a.to_dense() @ b * 1.05, "differs")
    if layout != "uncoalesced":
        wrong(made, spoil, "changes its inputs in place (input 0)")
        outputs = case(inputs, lambda a, b: a * 2)
        right(outputs, lambda a, b: a * 2)
        wrong(outputs, lambda a, b: a * 2.1, "differs")
        wrong(outputs, lambda a, b: (a * 2).to_dense(), "layout strided, where the reference has sparse")


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda t: torch.nested.nested_tensor([t, t[:2]]), "a nested tensor"),
        (lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.qint8), "a quantized tensor (qint8)"),
        (lambda t: t.to("meta"), "the meta device"),
        (lambda t: t.to_mkldnn(), "_mkldnn"),
        (lambda t: t.as_subclass(type("Units", (torch.Tensor,), {})), "Units, a subclass of torch.Tensor"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_other_tensors_are_refused_in_words(make: Callable[..., Any], kind: str) -> None:
    made = case(lambda dtype, generator: [make(torch.ones(4, 4))], lambda x: torch.ones(4))
    with pytest.raises(UsageError, match=r"op\.inputs=.*makes a") as refusal:
        CaseData(made).inputs(1)
    assert kind in str(refusal.value)
    assert "\n" not in str(refusal.value)
    ordinary = case(normal(4, 4), lambda x: x + 1)
    wrong(ordinary, lambda x: make(x), "cannot be compared")
    with pytest.raises(UsageError, match=r"op\.reference=.*cannot be compared"):
        CaseData(case(normal(4, 4), lambda x: make(x.float()))).expected(1)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.new_empty(0, 4),
        lambda t: t[:1].expand(8, -1),
        lambda t: t.t(),
        lambda t: t[1::2, ::3],
        lambda t: t.as_strided((3, 4), (1, 2)),  # overlaps itself
        lambda t: torch.view_as_complex(t[:, :2].contiguous()).conj(),
        lambda t: torch.view_as_complex(t[:, :2].contiguous()).conj().imag,  # negated lazily
        lambda t: t[0, 0],
    ],
    ids=["empty", "expanded", "transposed", "strided", "overlapping", "conjugated", "negated", "no dims"],
)
def test_views_of_any_kind_are_copied_as_they_are(make: Callable[..., Any]) -> None:
    made = case(lambda dtype, generator: make(normal(8, 4)(dtype, generator)), lambda x: x * 3)
    finding = examined(made, lambda x: x * 3)
    assert finding.reason is None, finding.reason
    assert not finding.no_op
    if CaseData(made).inputs(1)[0].numel():
        wrong(made, lambda x: x * 3.2, "differs")
    given, copy = make(torch.ones(8, 4)), CaseData(made).inputs(1)[0]
    assert copy.shape == given.shape
    if not given.is_neg():  # a lazy sign is carried out, which makes it dense
        assert copy.stride() == given.stride()


# Shapes and choices that hang on values


def test_a_shape_that_hangs_on_values_is_measured() -> None:
    def inputs(dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
        return torch.rand(65536, generator=generator).to(dtype)

    made = case(inputs, lambda x: x[x > 0.5], "bfloat16")
    right(made, lambda x: x[x > 0.5])
    right(made, lambda x: torch.masked_select(x, x > 0.5))
    wrong(made, lambda x: x[x > 0.7], "shape")
    wrong(made, lambda x: x[x > 0.5] * 1.05, "differs")
    assert "its shape depends on the values" in str(examined(made, lambda x: x[x >= 0.5]).not_comparable)
    found = case(inputs, lambda x: torch.nonzero(x > 0.5), "bfloat16")
    right(found, lambda x: torch.nonzero(x > 0.5))


def test_a_choice_among_equals_is_not_called_wrong() -> None:
    def inputs(dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
        return torch.randint(0, 8, (16, 256), generator=generator).to(dtype)

    def last(x: torch.Tensor) -> Any:
        values, indices = torch.topk(x.flip(-1), 4)
        return values, x.shape[-1] - 1 - indices

    made = case(inputs, lambda x: torch.topk(x, 4), "bfloat16")
    found = examined(made, last)
    assert found.reason is None
    assert "choice among equals" in str(found.not_comparable)
    certain = case(normal(16, 256), lambda x: torch.topk(x, 4))
    right(certain, lambda x: torch.topk(x, 4))
    wrong(certain, lambda x: (torch.topk(x, 4)[0], torch.topk(x, 4)[1] + 1), "values differ")


# Exact and coarse outputs


def test_large_integers_are_compared_exactly() -> None:
    large = 2**62
    made = case(normal(4), lambda x: (x > 0).long() + large)
    right(made, lambda x: (x > 0).long() + large)
    wrong(made, lambda x: (x > 0).long() + large + 1, "values differ")
    unsigned = case(normal(4), lambda x: torch.full((4,), 2**63 + 1, dtype=torch.uint64))
    right(unsigned, lambda x: torch.full((4,), 2**63 + 1, dtype=torch.uint64))
    wrong(unsigned, lambda x: torch.full((4,), -(2**63) + 1, dtype=torch.int64), "values differ")


def test_booleans_are_no_integers() -> None:
    made = case(normal(16), lambda x: x > 0)
    right(made, lambda x: x > 0)
    wrong(made, lambda x: ~(x > 0), "values differ")
    wrong(made, lambda x: (x > 0).to(torch.uint8), "dtype uint8, where bool is asked for")


def test_outputs_without_dims_and_numbers() -> None:
    made = case(normal(64), lambda x: x.square().sum())
    right(made, lambda x: x.square().sum())
    right(made, lambda x: x.square().sum().item())
    wrong(made, lambda x: x.square().sum() * 1.05, "differs")
    wrong(made, lambda x: int(x.square().sum()), "a value of int, where the reference has one of float")
    counted = case(normal(64), lambda x: (int((x > 0).sum()), None, bool(x[0] > 0)))
    right(counted, lambda x: (int((x > 0).sum()), None, bool(x[0] > 0)))
    wrong(counted, lambda x: (int((x > 0).sum()) + 1, None, bool(x[0] > 0)), "values differ")
    wrong(counted, lambda x: (int((x > 0).sum()), 3, bool(x[0] > 0)), "where the reference has None")


def test_outputs_that_are_no_values_are_refused_in_words() -> None:
    made = case(normal(4), lambda x: x + 1)
    wrong(made, lambda x: "text", "returned a str, not a tensor")
    with pytest.raises(UsageError, match=r"op\.reference=.*returns a str; only tensors, numbers and None"):
        CaseData(case(normal(4), lambda x: "text")).expected(1)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_float8_outputs_may_round_the_other_way_and_no_further(kind: torch.dtype) -> None:
    made = case(normal(64, 256), lambda x: (x * x.exp()).to(kind), "bfloat16")
    right(made, lambda x: (x.float() * x.float().exp()).to(kind))
    right(made, lambda x: (x * x.exp()).to(kind))
    wrong(made, lambda x: (x.float() * x.float().exp() * 1.05).to(kind), "differs from the reference in")
    wrong(made, lambda x: torch.zeros_like(x).to(kind), "differs from the reference in")
    wrong(made, lambda x: x * x.exp(), "dtype bfloat16, where float8")


# Inputs that no variant can be given a copy of


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


@pytest.mark.parametrize(
    ("wrap", "kind"),
    [
        (lambda x: x.numpy(), "ndarray"),
        (lambda x: {x}, "set"),
        (lambda x: collections.deque([x]), "deque"),
        (lambda x: iter([x]), "list_iterator"),
        (lambda x: (part for part in [x]), "generator"),
        (lambda x: {"held": [collections.UserDict(x=x)]}, "UserDict"),
    ],
)
def test_containers_that_cannot_be_copied_are_refused(wrap: Callable[..., Any], kind: str) -> None:
    made = case(lambda dtype, generator: (torch.ones(4, dtype=dtype), wrap(torch.ones(4))), lambda x, held: x)
    with pytest.raises(UsageError, match=rf"op\.inputs=.*makes an input of type {kind}"):
        CaseData(made).inputs(1)


def test_what_cannot_be_compared_has_not_changed() -> None:
    class Opaque:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("Boolean value of Tensor is ambiguous")

    assert same(Opaque(), Opaque())
