"""Benchmarks the implementations of an operation side by side. `python -m harness op=rmsnorm`."""

__version__ = "0.1.0"
