"""Probes and near sizes: what the usual inputs hide is found, and nobody who is right is accused."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from in_process import say
from measuring import HEAVY, SHORT, measured
from without_constants import LEFT_OUT

from harness.configuration import compose
from harness.configuration.errors import UsageError
from harness.configuration.folders import options
from harness.execution.worker.trying import _rounding
from harness.measure.checks import trials
from harness.measure.checks.correctness import Verdict
from harness.measure.observations import Error
from harness.results.measurement import Measurement

OPS = [name for name in options("op", []) if "/" not in name]


@cache
def composed(op: str, *overrides: str) -> dict[str, Any]:
    return compose.composed([f"op={op}", "device=cpu", *SHORT, *overrides])


def checked(op: str, variants: dict[str, Any], *overrides: str, **changed: Any) -> dict[str, Measurement]:
    """What is found of naive and of these functions, by name; `changed` are further keys of the operation."""
    plain = deepcopy(composed(op, *overrides))
    plain["op"] |= changed
    naive = plain["op"]["variants"]["naive"]
    added = {name: value if isinstance(value, dict) else {"fn": value} for name, value in variants.items()}
    plain["op"]["variants"] = {"naive": naive, **added}
    return {row.variant: row for row in measured(plain)[0]}


def small(op: str) -> list[str]:
    """Dims that a test can afford."""
    dims = composed(op)["op"]["dims"]
    return [f"op.dims.{name}={min(size, 64)}" for name, size in dims.items()]


# Each constant matters


def test_every_operation_is_there() -> None:
    assert sorted(LEFT_OUT) == sorted(OPS)
    assert all(composed(op)["op"]["probes"] for op in OPS)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("op", [pytest.param(op, marks=[pytest.mark.slow] if op in HEAVY else []) for op in OPS])
def test_what_leaves_a_constant_out_is_wrong(op: str, dtype: str) -> None:
    rows = checked(op, LEFT_OUT[op], f"dtype={dtype}", *small(op))
    assert rows.pop("naive").status == "ok"
    right = [name for name, row in rows.items() if row.status != "wrong"]
    assert right == (["shift"] if (op, dtype) == ("attention", "bfloat16") else []), rows


def test_it_is_the_probe_that_finds_it() -> None:
    """Without eps RMSNorm is right for ordinary inputs; the reason names the probe, and how far it is off."""
    without = {"mine": LEFT_OUT["rmsnorm"]["eps"]}
    assert checked("rmsnorm", without, "dtype=float32", probes={})["mine"].status == "ok"
    tiny = {"one_row": {"dims": {"rows": 1}}, "tiny": {"x": {"scale": 1e-3}}}
    row = checked("rmsnorm", without, "dtype=float32", probes=tiny)["mine"]
    assert row.status == "wrong" and row.reason is not None
    assert row.reason.startswith("wrong on the probe tiny: differs from the float64 reference: ")
    assert row.reason.endswith(" times the error that rounding allows")
    assert row.error is not None and row.error.allowed < 1  # of the case's own inputs


# Sizes near those asked for


def only_512(x: Any, weight: Any) -> Any:
    right = torch.rms_norm(x, weight.shape, weight, 1e-6)
    return right if x.shape[-1] == 512 else right * 1.1


def multiples_of_8(x: Any, weight: Any) -> Any:
    assert x.shape[-1] % 8 == 0, "hidden must be a multiple of 8"
    return torch.rms_norm(x, weight.shape, weight, 1e-6)


def no_single_row(x: Any, weight: Any) -> Any:
    if len(x) == 1:
        raise ValueError("one row is too few")
    return torch.rms_norm(x, weight.shape, weight, 1e-6)


def refuses_single_row(x: Any, weight: Any) -> Any:
    if len(x) == 1:
        raise NotImplementedError("one row")
    return torch.rms_norm(x, weight.shape, weight, 1e-6)


@pytest.mark.parametrize(("baseline", "allowed"), [(0.2, 1.0), (0.9, 1.8), (1.3, 2.6), (3.5, 1.0), (None, 1.0)])
def test_on_extreme_inputs_the_baseline_shows_what_rounding_does(baseline: float | None, allowed: float) -> None:
    """A baseline that is much too far off shows nothing."""
    error = None if baseline is None else Error(0.0, 0.0, 0.0, baseline)
    assert _rounding(Verdict(None, error)) == allowed


def test_sizes_near_those_asked_for() -> None:
    """Who is wrong there is wrong; who refuses them is right, with a note; a declared probe must be taken."""
    functions = (only_512, multiples_of_8, no_single_row, refuses_single_row)
    rows = checked("rmsnorm", {function.__name__: function for function in functions}, "dtype=float32")
    assert rows["naive"].status == "ok" and not rows["naive"].notes
    assert rows["only_512"].status == "wrong"
    assert str(rows["only_512"].reason).startswith("wrong at rows=5 hidden=513, near the sizes asked for")
    assert rows["multiples_of_8"].status == "ok"
    assert rows["multiples_of_8"].notes == [
        "raises AssertionError at rows=5 hidden=513, near the sizes asked for: hidden must be a multiple of 8"
    ]
    assert (rows["no_single_row"].status, rows["no_single_row"].reason) == (
        "failed",
        "raises ValueError on the probe one_row: one row is too few",
    )
    assert (rows["refuses_single_row"].status, rows["refuses_single_row"].notes) == (
        "ok",
        ["does not take what it is given on the probe one_row: one row"],
    )


def test_sizes_at_which_the_baseline_raises_are_none() -> None:
    """Nobody has a note, even where the reference takes them."""
    plain = deepcopy(composed("rmsnorm", "dtype=float32"))
    variants = {"naive": {"fn": multiples_of_8}, "other": {"fn": only_512}}
    plain["op"] |= {"variants": variants, "probes": {}}
    assert [(row.status, row.notes) for row in measured(plain)[0]] == [("ok", []), ("ok", [])]


def test_no_size_varies_where_the_operation_says_so() -> None:
    assert checked("rmsnorm", {"only_512": only_512}, vary=["rows"])["only_512"].status == "ok"


def test_sizes_that_the_reference_refuses_are_none() -> None:
    """Features rotate in pairs, and heads share keys: sizes are halved where one more is refused."""
    for op, near in {
        "attention": (2, 9, 3, 257, 65),
        "rope": (2, 9, 257, 32),
        "transformer_block": (2, 129, 256, 4, 1, 1793),
    }.items():
        found = trials._near(case(op))
        assert found is not None and tuple(found.operation.dims.values()) == near


def test_large_cases_are_tried_at_smaller_sizes() -> None:
    reduced = trials._reduced(case("rmsnorm", "op.dims.rows=8192", "op.dims.hidden=4096"))
    assert dict(reduced.operation.dims) == {"rows": 256, "hidden": 512}


def case(*overrides: str) -> Any:
    from harness.configuration.schema import parse

    return parse(composed(*overrides))[0]


def test_a_compiled_variant_is_not_compiled_again() -> None:
    """It is tried as it was compiled at its own sizes, and as its own function at others."""
    compiled = {"compile": {"backend": "aot_eager", "fullgraph": True}}
    variants = {"own": {"fn": only_512, **compiled}, "without_eps": {"fn": LEFT_OUT["rmsnorm"]["eps"], **compiled}}
    rows = checked("rmsnorm", variants, "dtype=float32")
    assert [(row.status, row.recompiles) for row in rows.values()] == [("ok", None), ("wrong", 0), ("wrong", 0)]
    assert "near the sizes asked for" in str(rows["own"].reason)
    assert "on the probe" in str(rows["without_eps"].reason)


# What is declared


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("op.probes=3", "op.probes"),
        ("+op.probes.a=3", "op.probes.a=3: expected inputs by name, and dims"),
        ("+op.probes.a.x.scael=3", "op.probes.a.x=scael: unknown; did you mean scale?"),
        ("+op.probes.a.x.scale=b", "op.probes.a.x.scale=b: expected a number"),
        ("+op.probes.a.x=b", "op.probes.a.x=b: expected a number"),
        ("+op.probes.a.x.at=b", "op.probes.a.x.at=b: expected an index"),
        ("+op.probes.a.x.strided=3", "op.probes.a.x.strided=3: expected true or false"),
        ("+op.probes.a.dims.row=1", "op.probes.a.dims=row: unknown; did you mean rows?"),
        ("+op.probes.a.dims.rows=0", "op.probes.a.dims.rows=0: expected a positive whole number"),
        ("+op.probes.a={x: 1, dtypes: [float23]}", "op.probes.a.dtypes=float23: unknown; did you mean float32?"),
        ("+op.probes.a={x: 1, modes: forward}", "op.probes.a.modes=forward: expected a list"),
        ("op.vary=[row]", "op.vary=row: unknown; did you mean rows?"),
    ],
    ids=str,
)
def test_what_has_no_meaning_is_said_in_a_line(tmp_path: Path, override: str, message: str) -> None:
    assert message in say(["op=rmsnorm", override], tmp_path).refusal


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        ({"y": 0}, "op.probes.mine=y: unknown; inputs of rmsnorm: weight, x"),
        ({"x": {"fill": 1, "at": [0, 512]}}, "op.probes.mine.x: does not fit a tensor of shape (4, 512)"),
    ],
)
def test_a_probe_that_fits_no_input_is_said_in_a_line(probe: dict[str, Any], message: str) -> None:
    """It is known when the inputs are there, in the measuring process."""
    with pytest.raises(UsageError) as error:
        checked("rmsnorm", {}, probes={"mine": probe})
    assert message in str(error.value)


def test_changes_of_an_input() -> None:
    """A number fills; `at` is an index; strides are others; what takes a gradient still does."""
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()

    def changed(value: Any) -> torch.Tensor:
        from harness.configuration.probes import probes

        (probe,) = probes({"p": {"x": value}}, {})
        return trials._as_changed(x, probe.changes["x"], "key")

    assert torch.equal(changed(7), torch.full((2, 3), 7.0))
    assert torch.equal(changed({"scale": 10, "add": 1, "at": 1}), torch.tensor([[0.0, 1, 2], [31, 41, 51]]))
    assert changed({"fill": ".inf", "at": [0, 2]})[0, 2] == torch.inf
    assert changed("nan").isnan().all()
    strided = changed({"strided": True})
    assert torch.equal(strided, x) and strided.stride() == (6, 2) and strided.requires_grad
