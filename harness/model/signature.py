"""The signature of a call: what it was given, as plain values, and arguments like those, drawn from a seed."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence
from typing import Any

import torch

from harness.measure.tensors import odd, own, short, storage
from harness.model.plain import DICT, OTHER, TENSOR, TORCH, TUPLE

KEPT_BYTES = 1 << 18  # of a tensor whose recorded values are kept: larger ones are drawn
MASK_VALUES = 2  # a floating-point tensor of so few values, or with infinities, is a mask
PLAIN = (bool, int, float, str)


def signature(value: Any, dtype: torch.dtype) -> Any:
    """A value as JSON holds it: of a tensor its shape, strides if not contiguous, dtype if not `dtype`, and gradient.

    Lists, tuples and dicts at any depth; what has no such form is {"object": its class}.
    """
    if isinstance(value, torch.Tensor):
        return _tensor(value, dtype)
    if value is None or isinstance(value, PLAIN):
        return value if not isinstance(value, float) or math.isfinite(value) else {TORCH: repr(value)}
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return {TORCH: str(value).removeprefix("torch.")}
    if isinstance(value, list):
        return [signature(inner, dtype) for inner in value]
    if isinstance(value, tuple):
        return {TUPLE: [signature(inner, dtype) for inner in value]}
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {DICT: {key: signature(inner, dtype) for key, inner in value.items()}}
    return {OTHER: f"{type(value).__module__}.{type(value).__qualname__}"}


def _tensor(value: torch.Tensor, dtype: torch.dtype) -> Any:
    kind = odd(value)
    if kind is not None or value.layout != torch.strided:
        return {OTHER: kind or f"a tensor of layout {short(value.layout)}"}
    plain: dict[str, Any] = {TENSOR: list(value.shape)}
    if not value.is_contiguous():
        plain["stride"] = list(value.stride())
    if value.dtype != dtype:
        plain["dtype"] = short(value.dtype)
    if value.requires_grad:
        plain["grad"] = True
    return plain


def likeness(value: Any) -> Any:
    """What values of one signature share, made in a fraction of its time; a key of its own for what is seldom given."""
    if isinstance(value, torch.Tensor):
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.is_nested or vars(value):
            return object()
        strides = value.stride() if value.layout == torch.strided else None
        return value.shape, strides, value.dtype, value.requires_grad, value.layout, value.device
    if isinstance(value, (list, tuple)):
        return type(value), *map(likeness, value)
    if type(value) is dict:
        return dict, *((key, likeness(inner)) for key, inner in value.items())
    return (type(value), repr(value)) if value is None or isinstance(value, PLAIN) else object()


def with_values(value: Any, plain: Any) -> Any:
    """A signature with what its tensors are to be drawn like, or their values where these decide (indices, masks)."""
    if isinstance(value, torch.Tensor):
        return plain if OTHER in plain else plain | _contents(value.detach())
    if isinstance(value, list):
        return [with_values(*pair) for pair in zip(value, plain, strict=True)]
    if isinstance(value, tuple):
        return {TUPLE: [with_values(*pair) for pair in zip(value, plain[TUPLE], strict=True)]}
    if isinstance(plain, dict) and DICT in plain:
        return {DICT: {key: with_values(value[key], inner) for key, inner in plain[DICT].items()}}
    return plain


def _contents(tensor: torch.Tensor) -> dict[str, Any]:
    if not tensor.numel() or tensor.dtype.is_complex:
        return {}
    floating = tensor.dtype.is_floating_point
    wide = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float() if floating else tensor.double()
    low, high = (float(bound) for bound in wide.aminmax())
    finite = math.isfinite(low) and math.isfinite(high)
    mask = floating and (not finite or len(wide.flatten()[:4096].unique()) <= MASK_VALUES)
    if (mask or not floating) and tensor.untyped_storage().nbytes() <= KEPT_BYTES:
        data = storage(own(tensor)).cpu().contiguous().view(torch.uint8).numpy().tobytes()
        return {"values": base64.b64encode(zlib.compress(data)).decode(), "offset": int(tensor.storage_offset())}
    if not finite:
        wide = wide[wide.isfinite()]
        if not wide.numel():
            return {}
        low, high = (float(bound) for bound in wide.aminmax())
    std, mean = torch.std_mean(wide, correction=0)
    return {"mean": float(mean), "std": float(std), "range": [low, high]}


def drawn(plain: Any, dtype: torch.dtype, generator: torch.Generator) -> Any:
    """The value that a signature stands for, on the CPU; raises ValueError for what has none."""
    if isinstance(plain, list):
        return [drawn(inner, dtype, generator) for inner in plain]
    if not isinstance(plain, dict):
        return plain
    if TUPLE in plain:
        return tuple(drawn(inner, dtype, generator) for inner in plain[TUPLE])
    if DICT in plain:
        return {key: drawn(inner, dtype, generator) for key, inner in plain[DICT].items()}
    if TORCH in plain:
        name = plain[TORCH]
        return getattr(torch, name) if hasattr(torch, name) else float(name)
    if TENSOR in plain:
        return _drawn_tensor(plain, dtype, generator).requires_grad_(plain.get("grad", False))
    raise ValueError(f"nothing is known of {plain[OTHER]} but its class")


def _drawn_tensor(plain: dict[str, Any], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    shape = plain[TENSOR]
    own_dtype = getattr(torch, plain["dtype"]) if "dtype" in plain else dtype
    stride = plain.get("stride") or _contiguous(shape)
    if "values" in plain:
        data = bytearray(zlib.decompress(base64.b64decode(plain["values"])))
        return torch.frombuffer(data, dtype=own_dtype).as_strided(shape, stride, plain["offset"])
    size = 1 + sum((length - 1) * step for length, step in zip(shape, stride, strict=True)) if math.prod(shape) else 0
    low, high = plain.get("range", (-math.inf, math.inf))
    if own_dtype.is_floating_point or own_dtype.is_complex:
        flat = torch.randn(size, generator=generator) * plain.get("std", 1.0) + plain.get("mean", 0.0)
        flat = flat.clamp(low, high)
    elif own_dtype == torch.bool:
        flat = torch.rand(size, generator=generator) < plain.get("mean", 0.5)
    else:
        flat = torch.randint(
            int(low) if math.isfinite(low) else 0,
            int(high) + 1 if math.isfinite(high) else 2,
            (size,),
            generator=generator,
        )
    return flat.to(own_dtype).as_strided(shape, stride)


def _contiguous(shape: Sequence[int]) -> list[int]:
    strides: list[int] = []
    step = 1
    for length in reversed(shape):
        strides.insert(0, step)
        step *= max(length, 1)
    return strides
