"""The command line: composes a configuration with Hydra, runs the case, reports it. Imports no torch."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from harness.configuration import help
from harness.configuration.command_line import cannot_write, flushed
from harness.configuration.errors import CaseError, UsageError
from harness.configuration.hydra_errors import as_usage_error
from harness.configuration.schema import directory, parse, resolved

if TYPE_CHECKING:
    from harness.results.comparison import Comparison

log = logging.getLogger("harness")


def main() -> int:
    """Runs the program; returns its exit status."""
    trace = os.environ.get("HYDRA_FULL_ERROR") == "1"
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises what it would otherwise print over several lines
    statuses: list[int] = []
    composed = False

    def job(config: DictConfig) -> None:
        nonlocal composed
        composed = True
        statuses.append(run(config, trace))

    job.__module__ = "__main__"
    try:
        if help.asked(sys.argv[1:]):
            print(help.text(sys.argv[1:]))
            return 0
        hydra.main(config_path=str(directory()), config_name="config", version_base="1.3")(job)()
        status = max(statuses, default=0)
    except (UsageError, HydraException, OmegaConfBaseException, ValueError) as error:
        if trace or composed:  # composed: not the command's fault
            raise
        return usage(error if isinstance(error, UsageError) else as_usage_error(error))
    except CaseError as error:
        status = fault(error)
    except YAMLError as error:
        return usage(UsageError(f"{' '.join(str(error).split())}: not valid YAML"))
    except OSError as error:
        if error.filename is not None and not composed and not sweeping():
            return usage(UsageError(f"hydra.run.dir: {error.filename} cannot be written: {error.strerror}"))
        status = cannot_write(error)
    except Stopped:
        status = 1
    except KeyboardInterrupt:
        status = 130
    return end(status)


def end(status: int) -> int:
    """Ends the program; the exit status of a sweep depends on what its cases left, wherever they were measured."""
    if not sweeping():
        if status == 130:
            print("interrupted", file=sys.stderr)
        return status
    from harness.report import sweep_report
    from harness.results import plan

    folder = Path(HydraConfig.get().sweep.dir)
    if not (folder / plan.FILE).exists():
        return status
    try:
        return sweep_report.close(folder, status)
    except OSError as error:
        return max(status, cannot_write(error))


class Stopped(BaseException):
    """Ends a sweep from within a case, past Hydra, which goes on after any Exception."""


def run(config: DictConfig, trace: bool = False) -> int:
    """Measures and reports one case; what is wrong is said in one line, and by the status."""
    try:
        return _run(config)
    except OSError as error:
        if trace:
            raise
        status = cannot_write(error)
        if sweeping():  # what one case cannot write, the others cannot either
            raise Stopped from error
        return status
    except Exception as error:
        if trace:
            raise
        if sweeping():
            from harness.results import sweeps

            return sweeps.record_failure(output(), error)  # the sweep tells of it
        if isinstance(error, UsageError):
            return usage(error)
        if isinstance(error, CaseError):
            return fault(error)
        raise


def sweeping() -> bool:
    """Whether this process runs a sweep, or a case of one."""
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


def output() -> Path:
    """The folder of the case's results."""
    return Path(HydraConfig.get().runtime.output_dir)


def fault(error: CaseError) -> int:
    """Says what went wrong outside the command, in one line."""
    print(f"error: {error}", file=sys.stderr)
    return 1


def usage(error: UsageError) -> int:
    """Says what is wrong with the command, in one line."""
    print(f"error: {error}", file=sys.stderr)
    return 2


def _run(config: DictConfig) -> int:
    plain = resolved(config)
    case, settings = parse(plain)
    from harness.execution.progress import progress
    from harness.execution.run_case import run_case
    from harness.report import drawing, run_report, summary
    from harness.results import sweeps

    charts = settings.report.charts
    drawing.check(charts)

    folder, alone = output(), not sweeping()
    if plain["resume"] is not None and alone:
        raise UsageError(f"resume={plain['resume']}: continues a sweep; add -m, or sweep=NAME")
    if not alone:
        sweeps.clear_failure(folder)
    told = progress(case.label) if alone else nullcontext(lambda text: None)

    def write_report(folder: Path, comparison: Comparison) -> None:
        run_report.write(folder, comparison, charts, swept=not alone)

    early = ["harness.report.charts.style"] if charts is None or charts else []  # matplotlib takes half a second
    comparison = run_case(case, settings, plain, command(), folder, told, write_report, early)
    warnings = summary.warnings(comparison)
    if alone:
        run_report.show(folder, comparison)
    elif warnings:  # a line a case
        more = f" ({len(warnings) - 1} more: {folder / 'comparison.md'})" if len(warnings) > 1 else ""
        warnings = [f"{folder.name}: {warnings[0]}{more}"]
    for warning in warnings:
        log.warning(warning)
    return run_report.status(comparison)


def command() -> str:
    """The command that makes this run again."""
    import shlex

    return shlex.join(["python", "-m", "harness", *HydraConfig.get().overrides.task])


if __name__ == "__main__":
    sys.exit(flushed(main()))
