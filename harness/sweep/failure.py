"""Failure: what a case leaves in its folder in place of results, where it could not be measured at all."""

from __future__ import annotations

import json
import traceback
from dataclasses import dataclass
from pathlib import Path

from harness import results
from harness.errors import CaseError, UsageError, one_line

FILE = "failure.json"


@dataclass(frozen=True)
class Failure:
    """Why a case has no results."""

    status: int  # the exit status that it calls for
    reason: str


def record(folder: Path, error: Exception) -> int:
    """Writes failure.json, and returns its status; of an error that should not be, the traceback as well, to stderr."""
    reason, status = one_line(error), 2 if isinstance(error, UsageError) else 1
    if not isinstance(error, (UsageError, CaseError)):
        traceback.print_exception(error)
        reason = f"{type(error).__name__}: {reason}"
    with results.atomic(folder / FILE) as file:
        json.dump({"status": status, "reason": reason}, file, ensure_ascii=False)
    return status


def read(folder: Path) -> Failure | None:
    """What failure.json says, where there is one."""
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return Failure(int(content["status"]), str(content["reason"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def clear(folder: Path) -> None:
    """Forgets an earlier attempt, before the case is measured again; its results stand until there are new ones."""
    for name in (FILE, "worker.log"):
        (folder / name).unlink(missing_ok=True)
