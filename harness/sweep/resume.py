"""Resume: which sweep is continued, and which of its cases are left to measure."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UsageError
from harness.sweep import gathering, plan
from harness.sweep.plan import Plan

LAST = "last"


def locate(resume: str, fresh: Path) -> Path:
    """The folder that `resume` names; `fresh` is the one that a new sweep would get: last is sought beside it.

    Raises UsageError where that is not the folder of a sweep.
    """
    if resume != LAST:
        return Path(resume)
    outputs = fresh.parent.parent  # outputs/DATE/TIME
    found = sorted(outputs.glob(f"*/*/{plan.FILE}"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise UsageError(f"resume={LAST}: no sweep under {outputs}")
    return found[-1].parent


def remaining(folder: Path, made: Plan) -> list[int]:
    """The numbers of the cases of a sweep that are missing or failed.

    Raises UsageError where `folder` holds another sweep than `made`, or results of another version of the harness.
    """
    try:
        before = plan.read(folder)
    except UsageError as error:
        raise UsageError(f"resume={error}") from error
    _same(folder, before, made)
    sweep = gathering.read(folder)
    for case in sweep.cases:
        complaint = gathering.foreign(folder / case.planned.folder)
        if complaint:
            raise UsageError(f"resume={folder / case.planned.folder}: {complaint}; start a new sweep without resume")
    return [number for number, case in enumerate(sweep.cases) if case.again]


def _same(folder: Path, before: Plan, made: Plan) -> None:
    """Results measured under other settings must not end up in one table."""
    if len(before.cases) != len(made.cases):
        raise UsageError(
            f"resume={folder}: has {len(before.cases)} cases, and this command has {len(made.cases)}; "
            f"continue it by {before.resuming(folder)}"
        )
    for old, new in zip(before.cases, made.cases, strict=True):
        if old.digest != new.digest:
            asked = (
                "was asked for" if old.name == new.name else f"is {old.name}, and here {new.name}: both are asked for"
            )
            raise UsageError(
                f"resume={folder}: {old.folder} {asked} by other settings; continue it by {before.resuming(folder)}, "
                "or start a new sweep without resume"
            )
