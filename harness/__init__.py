"""Benchmarks the implementations of an operation side by side. `python -m harness op=rmsnorm`."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Imports `compare` on first use, so that the command line starts without pandas."""
    if name == "compare":
        return importlib.import_module("harness.report.notebook").compare
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
