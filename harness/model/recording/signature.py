"""The signature of a call: what it was given, as plain values, and arguments like those, drawn from a seed."""

from __future__ import annotations

import base64
import dataclasses
import math
import zlib
from collections.abc import Sequence
from typing import Any

import torch

from harness.configuration.operation import resolve
from harness.measure.tensors import odd, own, short, storage
from harness.model.names import named
from harness.model.plain import CLASS, DICT, OTHER, SLICE, TENSOR, TORCH, TUPLE

KEPT_BYTES = 1 << 18  # of a tensor whose recorded values are kept: larger ones are drawn
MASK_VALUES = 2  # a floating-point tensor of so few values, or with infinities, is a mask
PLAIN = (bool, int, float, str)
ELLIPSIS = "..."


def signature(value: Any, dtype: torch.dtype) -> Any:
    """A value as JSON holds it: of a tensor its shape, strides if not contiguous, dtype if not `dtype`, and gradient.

    Lists, tuples, dicts and dataclasses at any depth; what has no such form is {"object": its class}.
    """
    if isinstance(value, torch.Tensor):
        return _tensor(value, dtype)
    if value is None or isinstance(value, PLAIN):
        return value if not isinstance(value, float) or math.isfinite(value) else {TORCH: repr(value)}
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return {TORCH: str(value).removeprefix("torch.")}
    if value is ...:
        return {TORCH: ELLIPSIS}
    if isinstance(value, slice):
        return {SLICE: signature(_bounds(value), dtype)}
    if isinstance(value, list):
        return [signature(inner, dtype) for inner in value]
    kind = _class(value)
    if isinstance(value, tuple) and OTHER not in kind:
        return {TUPLE: [signature(inner, dtype) for inner in value], **kind}
    fields = _fields(value)
    if fields is not None and OTHER not in kind:
        return {DICT: {key: signature(inner, dtype) for key, inner in fields.items()}, **kind}
    return {OTHER: f"{type(value).__module__}.{type(value).__qualname__}"}


def _class(value: Any) -> dict[str, str]:
    """The class that makes a named tuple or a dataclass of its parts, which can be imported; none of another value."""
    if not (hasattr(value, "_fields") or dataclasses.is_dataclass(value)):
        return {}
    path = named(type(value))
    return {CLASS: path} if isinstance(path, str) else {OTHER: type(value).__qualname__}


def _fields(value: Any) -> dict[str, Any] | None:
    """A dict with names for keys, or the fields of a dataclass by which its constructor makes it again."""
    if dataclasses.is_dataclass(value) and all(field.init for field in dataclasses.fields(value)):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value if type(value) is dict and all(isinstance(key, str) for key in value) else None


def _bounds(value: slice) -> list[Any]:
    return [value.start, value.stop, value.step]


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
        try:
            return plain if OTHER in plain else plain | _contents(value.detach())
        except RuntimeError:  # vmap's are many tensors of this shape
            return {OTHER: "a tensor whose values cannot be read, as within torch.func"}
    if isinstance(value, list):
        return [with_values(*pair) for pair in zip(value, plain, strict=True)]
    if isinstance(plain, dict):
        if TUPLE in plain:
            return plain | {TUPLE: [with_values(*pair) for pair in zip(value, plain[TUPLE], strict=True)]}
        if SLICE in plain:
            return {SLICE: with_values(_bounds(value), plain[SLICE])}
        if DICT in plain:
            fields = _fields(value) or {}
            return plain | {DICT: {key: with_values(fields[key], inner) for key, inner in plain[DICT].items()}}
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
    made = resolve(plain[CLASS], "op.inputs") if CLASS in plain else None
    if TUPLE in plain:
        parts = tuple(drawn(inner, dtype, generator) for inner in plain[TUPLE])
        return parts if made is None else made._make(parts)  # type: ignore[attr-defined]
    if SLICE in plain:
        return slice(*drawn(plain[SLICE], dtype, generator))
    if DICT in plain:
        fields = {key: drawn(inner, dtype, generator) for key, inner in plain[DICT].items()}
        return fields if made is None else made(**fields)
    if TORCH in plain:
        name = plain[TORCH]
        if name == ELLIPSIS:
            return ...
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
