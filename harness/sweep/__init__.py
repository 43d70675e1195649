"""Sweeps: many cases planned, measured one after the other or on many machines, and gathered into one table."""

from __future__ import annotations

from harness.sweep.gathering import gather

__all__ = ["gather"]
