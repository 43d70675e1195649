"""Honest: in place, on a copy of its own."""

from __future__ import annotations


def candidate(x, weight):
    result = x * x
    scale = result.mean(-1, keepdim=True).add_(1e-6).rsqrt_()
    return result.copy_(x).mul_(scale).mul_(weight)
