"""Recording: one case measured while nothing else uses its device, its report made, and its results kept."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from harness import lock, results, runner
from harness.config import Settings
from harness.operation import Case
from harness.results import Document
from harness.runner import Progress


def record(
    case: Case,
    settings: Settings,
    config: Mapping[str, Any],
    command: str,
    folder: Path,
    progress: AbstractContextManager[Progress],
    swept: bool = False,
) -> Document:
    """Measures a case and leaves every file of a run in `folder`; what is in results.json.

    `config` is the resolved configuration in plain values, as the results hold it, and `command` what makes them again.
    Raises UsageError and CaseError as `runner.measure` does, and OSError where a file cannot be written.
    """
    threading.Thread(target=_prepare, daemon=True).start()
    with lock.hold(case.device, config["lock"], str(folder)):
        with progress as tell:
            outcome = runner.measure(case, settings, folder, tell)
        from harness.report import run as report

        document = results.document(case, config, command, outcome)
        try:
            report.write(folder, document, swept)  # within the lock: drawing would disturb the next run
        finally:
            results.write(folder, document)  # whatever happened to the charts, what was measured is kept
    return document


def _prepare() -> None:
    """Imports what the report needs while the first measuring process starts, on another core."""
    for module in ("scipy.stats", "harness.report.run"):
        importlib.import_module(module)
