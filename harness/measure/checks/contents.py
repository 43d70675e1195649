"""Contents: figures by which the tensors of two processes can be compared. Imports torch within a function alone.

Another version of torch, or other kernels, may draw other numbers from the same seed; rounding alone is no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.measure.trees import flatten

MOST = 1 << 20  # elements of a tensor that are looked at
ROUNDING = 1e-3  # of the norm: numbers that are drawn anew differ by about as much as the norm

Figures = list[list[float]]


def figures(tree: Any) -> Figures:
    """Of each tensor of a tree its number of elements, its norm, and its product with numbers of alternating signs."""
    import torch

    found = []
    for value in flatten(tree):
        if not isinstance(value, torch.Tensor):
            continue
        plain = value.detach().cpu()
        plain = plain if plain.layout == torch.strided else plain.to_dense()
        plain = torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain
        every = max(1, plain.numel() // MOST)
        chosen = torch.nan_to_num(plain.reshape(-1)[::every].to(torch.float64), posinf=1.0, neginf=-1.0)
        weights = torch.cos(torch.arange(len(chosen), dtype=torch.float64, device="cpu"))
        found.append([float(plain.numel()), float(chosen.norm()), float(chosen @ weights)])
    return found


def alike(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> bool:
    """Whether two sets of figures are of the same contents, but for rounding."""
    return len(one) == len(other) and all(
        a[0] == b[0] and all(abs(x - y) <= ROUNDING * max(a[1], b[1]) for x, y in zip(a, b, strict=True))
        for a, b in zip(one, other, strict=True)
    )
