"""Task: one measuring process's share of a case."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.config import Settings
from harness.operation import Case


@dataclass(frozen=True)
class Task:
    """One process's share of a case."""

    case: Case
    settings: Settings
    variants: tuple[str, ...]  # to be measured, in the order of the configuration
    replicate: int
    thorough: bool  # also checks, profiles and weighs the variants; once a case is enough
    seconds: float  # of timing
    traces: Path  # holds a folder for each variant
