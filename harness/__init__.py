"""Benchmarks the implementations of an operation side by side. `python -m harness op=rmsnorm`."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Imports `compare` and `hotspots` on first use, so that the command line starts without pandas."""
    modules = {"compare": "harness.report.notebook", "hotspots": "harness.model.notebook"}
    if name in modules:
        return getattr(importlib.import_module(modules[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
