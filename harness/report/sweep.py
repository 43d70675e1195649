"""The report of a sweep: its charts and its page, from the rows of all its cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.comparison import Row


@dataclass(frozen=True)
class Job:
    """One case of a sweep, as its page names it."""

    name: str  # what sets it apart from the others: `hidden=256 dtype=bfloat16`
    folder: str  # relative to the sweep's folder; its report.html is linked to
    missing: str | None = None  # why it has no rows; None: it has


def write(folder: Path, rows: Sequence[Row], jobs: Sequence[Job], command: str, config: Mapping[str, Any]) -> None:
    """Writes sweep.png, speedup.png, both as .svg too, and report.html into a sweep's folder.

    `rows` are those of comparison.csv of all cases, as numbers (a cell that is not known is None), in the order of
    the sweep; `jobs` are all cases that were asked for, those without rows too. `command` makes the sweep again, and
    `config` is the resolved configuration of its first case. What is swept is found from the rows: whatever differs
    between them among op, device, dtype, mode and the dims.
    """
