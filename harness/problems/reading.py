"""Reading: a problem's file as an operation, whichever form it is of. Imports no torch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from harness.configuration.errors import UsageError
from harness.problems import flashinfer, kernelbench

READERS = {".py": kernelbench.read, ".json": flashinfer.read}
PROBLEM = re.compile(rf"(?P<file>.+({'|'.join(map(re.escape, READERS))}))(:(?P<part>[^/:]+))?")


def is_problem(option: str) -> bool:
    """Whether what op= names is a file, with or without one of its workloads, and not an operation's name."""
    return PROBLEM.fullmatch(option) is not None


def read(option: str) -> dict[str, Any]:
    """The operation of a problem's file, as the configuration holds one: `level1/19_ReLU.py`, `rmsnorm_h128.json`.

    After a colon, which of its parts: a workload of a definition. Raises UsageError if the file is not there, or
    not of its form.
    """
    named = PROBLEM.fullmatch(option)
    assert named is not None
    path = Path(named["file"])
    if not path.is_file():
        raise UsageError(f"op={option}: no such file as {path}")
    return READERS[path.suffix](path.resolve(), named["part"], f"op={option}")
