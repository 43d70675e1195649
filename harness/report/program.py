"""The program: composes a configuration with Hydra, measures the case, reports it. Imports no torch."""

from __future__ import annotations

import contextlib
import logging
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig

from harness.configuration import library
from harness.configuration.command_line import cannot_write, usage_fault
from harness.configuration.compose import explained, shadowed
from harness.configuration.errors import CaseError, Refused, UsageError
from harness.configuration.folders import config_flags, directory
from harness.configuration.hydra_private import flags_parser, full_errors_wanted
from harness.configuration.overrides import as_written
from harness.configuration.schema import parse, resolved

if TYPE_CHECKING:
    from harness.results.comparison import Comparison

log = logging.getLogger("harness")


def main() -> int:
    """Runs the program; returns its exit status."""
    trace = full_errors_wanted()
    sys.argv[1:] = [as_written(argument) for argument in sys.argv[1:]]
    statuses: list[int] = []

    def job(config: DictConfig) -> None:
        statuses.append(-1)  # from here on an error is not the command's fault
        statuses[-1] = run(config, trace)

    try:
        with flags_parser():
            hydra.main(config_path=str(directory()), config_name="config", version_base="1.3")(job)()
        status = max(statuses, default=0)
    except Refused as refused:
        return usage_fault(refused.error)
    except CaseError as error:
        status = fault(error)
    except Exception as error:
        if isinstance(error, OSError) and not isinstance(error, HydraException):
            status = unwritable(error, begun=bool(statuses))
            if status == 2:
                return status
        elif trace or statuses:
            raise
        else:
            return usage_fault(explained(error, sys.argv[1:]))
    except Stopped:
        status = 1
    except KeyboardInterrupt:
        status = 130
    return end(status, begun=bool(statuses))


def end(status: int, begun: bool) -> int:
    """Closes a sweep and returns the exit status, which for a sweep also depends on the results of its cases.

    `begun` says whether a case was measured in this process.
    """
    if not sweeping():
        if status == 130:
            print("interrupted", file=sys.stderr)
        return status
    from harness.report import sweep_report
    from harness.results import storage

    folder = Path(HydraConfig.get().sweep.dir)
    if not (folder / storage.SWEEP).exists():
        if begun or status == 0:
            print(f"error: {folder}: was removed while the sweep ran", file=sys.stderr)
        return max(status, 1)
    try:
        return sweep_report.close(folder, status)
    except OSError as error:
        return max(status, cannot_write(error))


class Stopped(BaseException):
    """Ends a sweep from within a case, past Hydra, which goes on after any Exception."""


def run(config: DictConfig, trace: bool = False) -> int:
    """Measures and reports one case; returns its exit status, after a line on stderr about any error."""
    try:
        return _run(config)
    except OSError as error:
        if trace:
            raise
        status = cannot_write(error)
        if sweeping():  # other cases could not write there either
            raise Stopped from error
        return status
    except Exception as error:
        if trace:
            raise
        if sweeping():
            from harness.results import sweeps

            return sweeps.record_failure(output(), error)  # which the sweep reports
        if isinstance(error, UsageError):
            discard(output())
            return usage_fault(error)
        if isinstance(error, CaseError):
            return fault(error)
        raise


def discard(folder: Path) -> None:
    """Removes the folder of a run that was refused, unless there are more files in it than Hydra's and the log."""
    files = (path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file())
    if {*files} <= {".hydra", "worker.log"}:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # other runs of the day are in it
            folder.parent.rmdir()


def sweeping() -> bool:
    """Whether this process runs a sweep, or a case of one."""
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


def output() -> Path:
    """The folder of the case's results."""
    return Path(HydraConfig.get().runtime.output_dir)


def fault(error: CaseError) -> int:
    """Prints what went wrong outside the command, in one line; returns the exit status, 1."""
    print(f"error: {error}", file=sys.stderr)
    return 1


def _run(config: DictConfig) -> int:
    plain = resolved(config)
    case, settings = parse(plain)
    folder = output()
    alone = not sweeping()
    if settings.resume is not None and alone:
        raise UsageError(f"resume={settings.resume}: continues a sweep; add -m, or sweep=NAME")
    from harness.execution.run_case import run_case
    from harness.report import drawing

    charts = settings.report.charts
    drawing.check(charts)

    if alone:
        for sentence in [*shadowed(HydraConfig.get()), *library.hidden(plain["op"])]:
            log.warning(sentence)
    else:
        from harness.results import sweeps

        sweeps.clear_attempt(folder)
    shown = _progress(case.key.title) if alone else nullcontext(lambda text: None)

    def write_report(folder: Path, comparison: Comparison) -> None:
        from harness.report import run_report

        run_report.write(folder, comparison, charts, swept=not alone)

    early = ["harness.report.run_report", *(["harness.report.charts.style"] if charts is None or charts else [])]
    comparison = run_case(case, settings, plain, command(), folder, shown, write_report, early)
    from harness.report import run_report, summary

    warnings = summary.warnings(comparison)
    if alone:
        run_report.show(Path(HydraConfig.get().run.dir), comparison)
    elif warnings:  # a line a case
        more = f" ({len(warnings) - 1} more: {folder / 'comparison.md'})" if len(warnings) > 1 else ""
        warnings = [f"{folder.name}: {warnings[0]}{more}"]
    for warning in warnings:
        log.warning(warning)
    return run_report.status(comparison)


@contextlib.contextmanager
def _progress(title: str) -> Iterator[Callable[[str], None]]:
    """Progress, imported when it begins: by then the measuring processes' server is at work."""
    from harness.execution.progress import progress

    with progress(title) as show:
        yield show


def unwritable(error: OSError, begun: bool) -> int:
    """Prints what could not be written; a folder in which no run can start is the command's fault (status 2)."""
    if begun or sweeping() or error.filename is None:
        return cannot_write(error)
    return usage_fault(UsageError(f"hydra.run.dir: {error.filename} cannot be written: {error.strerror}"))


def command() -> str:
    """The command that repeats this run."""
    config = HydraConfig.get()
    searched = [override for override in config.overrides.hydra if override.startswith("hydra.searchpath=")]
    return shlex.join(["python", "-m", "harness", *config_flags(sys.argv[1:]), *searched, *config.overrides.task])
