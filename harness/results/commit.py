"""The commit: what the repository around a folder is at, as results record it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

TIMEOUT_S = 10.0  # of git, as on a network file system


def of_folder(folder: Path) -> dict[str, Any] | None:
    """`id`, `time` (of the committer, ISO 8601) and whether tracked files were `changed` since.

    None outside a repository, before its first commit, and without git.
    """
    shown = _git(folder, "show", "--no-patch", "--no-show-signature", "--format=%H %cI", "HEAD")
    if shown is None:
        return None
    identity, _, time = shown.strip().partition(" ")
    status = _git(folder, "--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
    return {"id": identity, "time": time, "changed": bool(status)}


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
