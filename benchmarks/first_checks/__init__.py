"""What `benchmarks/neuron_first_checks.py` checks: a file for each kind of assumption."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Check = Iterator[tuple[str, bool | None, Any]]  # an assumption, whether it holds (None: not seen), what was seen
