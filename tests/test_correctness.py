"""What counts as right: dtypes, shapes, magnitudes and reductions, by known answers."""

from __future__ import annotations

import pytest
import torch

from harness.measure.checks.correctness import compare
from harness.measure.checks.reference import Expected, expect

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def expected(function, *inputs: torch.Tensor, dtype: torch.dtype, mode: str = "forward") -> Expected:
    return expect(function, inputs, mode, dtype, seed=0, tolerance=1.0)


def noise(*shape: int, dtype: torch.dtype, scale: float = 1.0) -> torch.Tensor:
    return (scale * torch.randn(*shape, generator=torch.Generator().manual_seed(1))).to(dtype)


def test_a_small_difference_is_shown_in_as_many_digits_as_it_takes() -> None:
    right = expected(lambda t: t, torch.full((4,), 2.67458, dtype=torch.float64), dtype=torch.float64)
    reason = compare((torch.full((4,), 2.67458000001, dtype=torch.float64),), right).reason
    assert reason is not None
    shown, meant = reason.removeprefix("differs from the float64 reference: ").split(" is right")[0].split(" where ")
    assert shown != meant


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_rounding_passes_and_a_scale_fails_at_any_magnitude(dtype: torch.dtype, scale: float) -> None:
    x = noise(64, 256, dtype=dtype, scale=scale)
    right = expected(lambda t: t * 3, x, dtype=dtype)
    assert compare((x * 3,), right).reason is None
    assert compare(((x * 3) * 1.05,), right).reason
    assert compare((torch.zeros_like(x),), right).reason
    assert compare((-x * 3,), right).reason


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("length", [16, 4096])
def test_a_long_reduction_that_cancels_may_be_off_by_its_terms(dtype: torch.dtype, length: int) -> None:
    x = noise(32, length, dtype=dtype)
    right = expected(lambda t: t.sum(-1), x, dtype=dtype)
    assert compare((x.float().sum(-1).to(dtype) if dtype != torch.float64 else x.sum(-1),), right).reason is None
    assert compare((x[:, : length // 2].sum(-1),), right).reason


def test_a_matrix_product_in_low_precision() -> None:
    a, b = noise(32, 1024, dtype=torch.bfloat16), noise(1024, 32, dtype=torch.bfloat16)
    right = expected(torch.matmul, a, b, dtype=torch.bfloat16)
    assert compare((a @ b,), right).reason is None
    assert compare(((a @ b) * 1.05,), right).reason
    assert compare(((a @ b).t().contiguous(),), right).reason


def test_shape_dtype_and_number_of_outputs_are_compared() -> None:
    x = noise(4, 4, dtype=torch.float32)
    right = expected(lambda t: t + 1, x, dtype=torch.float32)
    assert "shape" in str(compare(((x + 1)[None],), right).reason)
    assert "shape" in str(compare(((x + 1)[:1],), right).reason)
    assert "dtype" in str(compare(((x + 1).double(),), right).reason)
    assert "2 outputs" in str(compare((x + 1, x), right).reason)
    assert "not a tensor" in str(compare((None,), right).reason)


def test_what_is_not_finite_must_stand_where_the_reference_has_it() -> None:
    x = torch.tensor([1.0, 0.0, -1.0, 4.0])
    right = expected(torch.log, x, dtype=torch.float32)
    assert compare((torch.log(x),), right).reason is None
    for position, value in [(0, torch.nan), (0, torch.inf), (1, 0.0), (1, torch.inf), (2, 0.0)]:
        output = torch.log(x)
        output[position] = value
        assert compare((output,), right).reason, (position, value)


def test_what_float16_cannot_hold_may_overflow() -> None:
    x = torch.tensor([300.0, 2.0], dtype=torch.float16)
    right = expected(lambda t: t * t, x, dtype=torch.float16)
    assert compare((x * x,), right).reason is None


@pytest.mark.parametrize("function", [torch.argmax, lambda t: t > 0, lambda t: t.long()], ids=["int", "bool", "long"])
def test_integers_and_booleans_are_compared_exactly(function) -> None:
    x = noise(7, 9, dtype=torch.float32, scale=10)
    right = expected(function, x, dtype=torch.float32)
    output = function(x)
    assert compare((output,), right).reason is None
    wrong = ~output if output.dtype == torch.bool else output + 1
    assert "values differ" in str(compare((wrong,), right).reason)


def test_every_output_is_compared_and_the_wrong_one_named() -> None:
    x = noise(8, 8, dtype=torch.float32)
    right = expected(lambda t: (t + 1, t * 2), x, dtype=torch.float32)
    assert compare((x + 1, x * 2), right).reason is None
    assert str(compare((x + 1, x * 3), right).reason).startswith("output 1:")


def test_gradients_are_compared_in_backward() -> None:
    x = noise(8, 8, dtype=torch.float32).requires_grad_()
    right = expected(lambda t: t * t, x, dtype=torch.float32, mode="backward")
    assert len(right.outputs) == 1
    assert compare((right.outputs[0].float(),), right).reason is None
    assert compare((right.outputs[0].float() * 1.05,), right).reason


def test_the_largest_error_is_given_three_ways() -> None:
    x = torch.full((16,), 2.0, dtype=torch.bfloat16)
    right = expected(lambda t: t, x, dtype=torch.bfloat16)
    output = x.clone()
    output[3] = 2.0 + 2 * 2.0**-7  # one unit up
    error = compare((output,), right).error
    assert error is not None
    assert (error.absolute, error.relative, error.units) == pytest.approx((2.0**-6, 2.0**-7, 1.0))


def test_a_random_reference_is_known_as_random() -> None:
    x = noise(8, 8, dtype=torch.float32)
    assert expected(torch.nn.functional.dropout, x, dtype=torch.float32).random
    assert not expected(lambda t: t + 1, x, dtype=torch.float32).random
