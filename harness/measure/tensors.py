"""Tensors: copies that keep the layout, sealed contents that no variant can reach, and the kinds that are supported."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from harness.configuration.errors import with_article
from harness.measure import torch_private
from harness.measure.trees import flatten

COMPRESSED = {torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}
COPIED = {torch.strided, torch.sparse_coo, *COMPRESSED}


class Sealed:
    """A strided tensor's contents as bytes; no dataclass, so that it is a value of a tree.

    A tensor can be found by walking the garbage collector's objects, and be overwritten; bytes are in none of its
    lists, and never change, but for who writes to their address: the checksum tells.
    """

    __slots__ = ("_checksum", "_dtype", "_form", "_requires_grad", "data")

    def __init__(self, tensor: torch.Tensor):
        plain = tensor.detach().cpu().resolve_conj().resolve_neg()
        self.data = storage(plain).view(torch.uint8).numpy().tobytes()
        self._checksum = zlib.crc32(self.data)
        self._dtype = tensor.dtype
        self._form = tuple(plain.size()), plain.stride(), int(plain.storage_offset())
        self._requires_grad = tensor.requires_grad

    def tensor(self) -> torch.Tensor:
        """A new CPU tensor of these contents."""
        if self.data:
            memory = torch.frombuffer(bytearray(self.data), dtype=self._dtype)
        else:
            memory = torch.empty(0, dtype=self._dtype, device="cpu")
        return memory.as_strided(*self._form).requires_grad_(self._requires_grad)

    def intact(self) -> bool:
        """Whether the contents are those that were sealed."""
        return zlib.crc32(self.data) == self._checksum


class SealedSparse:
    """A sparse tensor as its sealed components."""

    __slots__ = ("_coalesced", "_components", "_layout", "_requires_grad", "_size")

    def __init__(self, tensor: torch.Tensor):
        self._components = [Sealed(component) for component in _components(tensor.detach().cpu())]
        self._layout = tensor.layout
        self._size = tuple(tensor.size())
        self._coalesced = tensor.layout == torch.sparse_coo and tensor.is_coalesced()
        self._requires_grad = tensor.requires_grad

    def tensor(self) -> torch.Tensor:
        """A new CPU tensor of these contents."""
        components = [component.tensor() for component in self._components]
        sparse = _assembled(self._layout, components, self._size, self._coalesced)
        return sparse.requires_grad_(self._requires_grad)

    def intact(self) -> bool:
        """Whether the contents are those that were sealed."""
        return all(component.intact() for component in self._components)


def odd(value: Any) -> str | None:
    """Why a tensor can be neither copied nor compared; None if it can, and for anything else than a tensor."""
    if not isinstance(value, torch.Tensor):
        return None
    if uncomputed := lazy(value):
        return uncomputed
    if value.is_nested:
        return "a nested tensor"
    if value.is_quantized:
        return f"a quantized tensor ({short(value.dtype)})"
    if value.layout not in COPIED:
        return f"a tensor of layout {short(value.layout)}"
    return None


def lazy(value: Any) -> str | None:
    """What a tensor is whose contents need not have been computed; None for any other, and for anything else."""
    if not isinstance(value, torch.Tensor):
        return None
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        return f"{with_article(kind)}, a subclass of torch.Tensor whose contents need not have been computed"
    hiding = [name for name in vars(value) if hasattr(torch.Tensor, name)]
    if hiding:
        return f"a tensor whose own attributes hide torch's ({', '.join(sorted(hiding))})"
    return "a tensor on the meta device, without contents" if value.is_meta else None


def own(value: Any, with_gradient: bool = False, device: torch.device | None = None) -> Any:
    """A copy of a tensor, at its own address, with the same sizes, strides and offset; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    detached = value.detach()
    if value.layout != torch.strided:
        copy = detached.clone() if device is None else detached.clone().to(device)
    else:
        plain = detached.resolve_conj().resolve_neg()
        memory = storage(plain).clone()
        if device is not None:
            memory = memory.to(device)
        copy = memory.as_strided(plain.size(), plain.stride(), plain.storage_offset())
    return copy.requires_grad_(with_gradient and value.requires_grad)


def seal(value: Any) -> Any:
    """A tensor's contents, out of reach of whoever looks for tensors; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    return Sealed(value) if value.layout == torch.strided else SealedSparse(value)


def unseal(value: Any) -> Any:
    """A new CPU tensor of sealed contents; anything else as it is."""
    return value.tensor() if isinstance(value, (Sealed, SealedSparse)) else value


def intact(value: Any) -> bool:
    """Whether sealed contents are those that were sealed; True of anything else."""
    return not isinstance(value, (Sealed, SealedSparse)) or value.intact()


def hide(tensor: torch.Tensor) -> Callable[[], object]:
    """Seals a tensor's contents and leaves zeros in their place; what is returned puts them back, at once on the CPU.

    One that is sparse, or a view by which values are conjugate or negative, keeps its own.
    """
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        return lambda: None
    sealed = Sealed(tensor)
    memory = storage(tensor.detach())
    with torch.no_grad():
        memory.zero_()
    if tensor.is_cpu and memory.nbytes == len(sealed.data):
        return partial(ctypes.memmove, memory.data_ptr(), sealed.data, len(sealed.data))
    return lambda: overwrite(tensor, sealed.tensor())


def with_values(tensor: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """`function` of a tensor, or of the stored values of a sparse one; the result keeps `requires_grad`."""
    detached = tensor.detach()
    if tensor.layout == torch.strided:
        return function(detached).requires_grad_(tensor.requires_grad)
    *indices, values = _components(detached)
    coalesced = tensor.layout == torch.sparse_coo and tensor.is_coalesced()
    result = _assembled(tensor.layout, [*indices, function(values)], tuple(tensor.size()), coalesced)
    return result.requires_grad_(tensor.requires_grad)


def same(left: Any, right: Any) -> bool:
    """Whether two values hold the same, NaN for NaN; of tensors also the form, though not the device."""
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return left is right or (type(left) is type(right) and _equal(left, right))
    if odd(left) is not None or odd(right) is not None:
        return left is right
    if left.dtype != right.dtype or left.layout != right.layout or left.shape != right.shape:
        return False
    return all(
        _same_contents(a, b) for a, b in zip(_components(left.detach()), _components(right.detach()), strict=True)
    )


def _equal(left: Any, right: Any) -> bool:
    try:
        return bool(left == right)
    except Exception:  # what cannot say whether it is equal cannot be said to have changed
        return True


def _same_contents(left: torch.Tensor, right: torch.Tensor) -> bool:
    left, right = left.cpu(), right.cpu()
    if left.dtype.is_floating_point and left.dtype.itemsize == 1:  # few operators know these
        left, right = left.float(), right.float()
    if torch.equal(left, right):
        return True
    if left.dtype.is_complex:
        left, right = torch.view_as_real(left.resolve_conj()), torch.view_as_real(right.resolve_conj())
    missing = left.isnan()
    return (
        left.shape == right.shape
        and torch.equal(missing, right.isnan())
        and torch.equal(left[~missing], right[~missing])
    )


def overwrite(tensor: torch.Tensor, new: torch.Tensor) -> bool:
    """Writes the contents of `new` to the addresses of `tensor`; False if its memory is not of the same form."""
    if tensor.dtype != new.dtype or tensor.layout != new.layout or tensor.shape != new.shape:
        return False
    pairs = list(zip(memories(tensor), memories(own(new)), strict=True))
    if any(target.numel() != source.numel() for target, source in pairs):
        return False
    with torch.no_grad():
        for target, source in pairs:
            target.copy_(source.to(target.device))
    return True


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The same values with nothing left out."""
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def memories(tensor: torch.Tensor) -> list[torch.Tensor]:
    """All memory that a tensor's contents lie in, flat: one piece, or a sparse tensor's components."""
    return [storage(component) for component in _components(tensor.detach())]


def addresses(tensor: torch.Tensor) -> list[int]:
    """Where each piece of a tensor's memory begins."""
    return [component.untyped_storage().data_ptr() for component in _components(tensor.detach())]


def storage(tensor: torch.Tensor) -> torch.Tensor:
    """All of a strided tensor's memory, flat."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.detach().as_strided((size,), (1,), 0)


def dtypes(tree: Any) -> set[torch.dtype]:
    """The dtypes of the tensors in a tree of values."""
    return {value.dtype for value in flatten(tree) if isinstance(value, torch.Tensor)}


def short(kind: torch.dtype | torch.layout) -> str:
    """`float32`, `sparse_csr`."""
    return str(kind).removeprefix("torch.")


def _components(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The dense tensors that a tensor is stored as, its values last."""
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor.indices(), tensor.values()] if tensor.is_coalesced() else torch_private.uncoalesced(tensor)
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]


def _assembled(
    layout: torch.layout, components: list[torch.Tensor], size: tuple[int, ...], coalesced: bool
) -> torch.Tensor:
    if layout == torch.sparse_coo:
        indices, values = components
        return torch.sparse_coo_tensor(indices, values, size, is_coalesced=coalesced or None, check_invariants=False)
    outer, inner, values = components
    return torch.sparse_compressed_tensor(outer, inner, values, size, layout=layout, check_invariants=False)
