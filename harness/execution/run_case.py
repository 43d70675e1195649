"""Runs a case: holds its device, measures it in processes of its own, and leaves its results."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import devices
from harness.configuration.operation import Case
from harness.configuration.settings import Settings, WorkerSettings
from harness.execution import lock
from harness.execution.processes import process
from harness.execution.processes.environment import compiling
from harness.measure import torch_private

if TYPE_CHECKING:
    from harness.results.comparison import Comparison

Progress = Callable[[str], None]


def run_case(
    case: Case,
    settings: Settings,
    config: dict[str, Any],
    command: str,
    folder: Path,
    progress: AbstractContextManager[Progress],
    write_report: Callable[[Path, Comparison], None],
    report_modules: Sequence[str] = (),
) -> Comparison:
    """Measures a case while nothing else uses its device, writes its results, and returns the comparison.

    `config` is the resolved configuration in plain values, as the results hold it, and `command` the command that
    repeats the run. `write_report` writes the files that people read into `folder`; the modules that it needs,
    `report_modules`, are imported on another core while the server of the measuring processes imports torch. Raises
    UsageError and CaseError as `measure` does, and OSError if a file cannot be written.
    """
    candidates = devices.candidates(case.device, settings.devices)
    scopes = {scope for device in candidates for scope in device.scopes()}
    why = next((device.alone for device in candidates if device.alone), "")
    with lock.hold(scopes, settings.lock, f"device={case.device}, {folder}", why):
        with compiling(settings.worker, candidates, _variables(case)) as worker:
            environments = _environments(case, worker)
            process.start_servers(candidates, environments, _preload(case, worker), folder / "worker.log")
            from harness.execution.measuring import measure  # not above: the server has begun before it is imported
            from harness.results import storage
            from harness.results.comparison import Comparison

            threading.Thread(target=_import, args=(["scipy.stats", *report_modules],), daemon=True).start()
            with progress as show:
                outcome = measure(case, replace(settings, worker=worker), folder, show)
        comparison = Comparison(storage.document(case, config, command, outcome))
        try:
            write_report(folder, comparison)  # within the lock: drawing would slow the next run
        finally:
            storage.write(folder, comparison.document)  # even if the report fails, the results are kept
    return comparison


def _variables(case: Case) -> set[str]:
    """The variables that its environments set."""
    return {name for variant in case.operation.variants for name, _ in variant.environment.env}


def _environments(case: Case, worker: WorkerSettings) -> list[tuple[WorkerSettings, str | None]]:
    """The settings of the processes of each of the case's environments, and the interpreter that these have."""
    variants = (case.baseline, *case.operation.variants)
    found = dict.fromkeys(variant.environment for variant in variants)
    return [(replace(worker, **environment.applied(worker)), environment.python) for environment in found]


def _preload(case: Case, worker: WorkerSettings) -> list[str]:
    """Modules that the server imports; those for compiling take longest, and only if a variant compiles."""
    compiles = any(variant.compile is not None for variant in case.operation.variants)
    own = ["harness.execution.worker.main", torch_private.PROFILER_IMPORTS]
    return [*own, *(["harness.execution.worker.preload"] if compiles else []), *worker.preload]


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)
