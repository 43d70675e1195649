"""The command line: composes a configuration with Hydra, runs the case, reports it. Imports no torch."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from harness.composing import as_usage_error
from harness.config import directory, parse, resolved
from harness.errors import CaseError, UsageError

log = logging.getLogger("harness")


def main() -> int:
    """Runs the program; returns its exit status."""
    trace = os.environ.get("HYDRA_FULL_ERROR") == "1"
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises what it would otherwise print over several lines
    statuses: list[int] = []

    def job(config: DictConfig) -> None:
        statuses.append(run(config, trace))

    job.__module__ = "__main__"
    try:
        hydra.main(config_path=str(directory()), config_name="config", version_base="1.3")(job)()
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        if trace:
            raise
        return usage(as_usage_error(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return max(statuses, default=0)


def run(config: DictConfig, trace: bool = False) -> int:
    """Measures and reports one case; what is wrong is said in one line, and by the status."""
    try:
        return _run(config)
    except UsageError as error:
        if trace:
            raise
        return usage(error)
    except CaseError as error:
        if trace:
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1


def usage(error: UsageError) -> int:
    """Says what is wrong with the command, in one line."""
    print(f"error: {error}", file=sys.stderr)
    return 2


def _run(config: DictConfig) -> int:
    plain = resolved(config)
    case, settings = parse(plain)
    from harness import results, runner
    from harness.progress import progress
    from harness.report import run as report

    folder = Path(HydraConfig.get().runtime.output_dir)
    with progress(case.label) as tell:
        outcome = runner.measure(case, settings, folder, tell)
    document = results.document(case, plain, command(), outcome)
    report.write(folder, document)
    results.write(folder, document)
    report.show(folder, document)
    for warning in report.words.warnings(document):
        log.warning(warning)
    return report.status(document)


def command() -> str:
    """The command that makes this run again."""
    import shlex

    return shlex.join(["python", "-m", "harness", *HydraConfig.get().overrides.task])


if __name__ == "__main__":
    sys.exit(main())
