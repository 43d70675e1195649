"""The sweeper: Hydra's basic one, with every case checked, named and written down before the first one runs.

Hydra imports this file in any program of the environment it is installed in, so it imports the harness only when used.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hydra._internal.core_plugins.basic_launcher import BasicLauncher
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, flag_override, read_write

if TYPE_CHECKING:
    from harness.results.plan import Plan


class CaseSweeper(BasicSweeper):
    """Makes the product of all choices and ranges, as the basic sweeper does; refuses it where one case is wrong."""

    config: DictConfig
    hydra_context: HydraContext

    def __init__(self, params: dict[str, str] | None = None):
        super().__init__(max_batch_size=None, params=params)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Settles the sweep's folder before the launcher is made: it may keep files of its own there."""
        if config.resume is not None:
            from harness.results import plan

            with read_write(config.hydra):
                config.hydra.sweep.dir = str(plan.locate(str(config.resume), Path(config.hydra.sweep.dir)))
        super().setup(hydra_context=hydra_context, task_function=task_function, config=config)

    def sweep(self, arguments: list[str]) -> None:
        """Plans the sweep, then has the launcher run the cases that are not done.

        Raises UsageError, before anything has run, for a sweep of which any case cannot be measured as asked.
        """
        from harness.configuration.errors import CaseError, one_line
        from harness.execution.progress import watch
        from harness.results.sweeps import remaining

        plan = self._plan(arguments)
        folder = Path(self.config.hydra.sweep.dir)
        if self.config.resume is not None:
            left = remaining(folder, plan)
        else:
            self._found(folder, plan)
            left = list(range(len(plan.cases)))
        HydraConfig.instance().set_config(self.config)  # where the program finds the sweep after it has ended
        jobs = [
            [*plan.cases[number].overrides, f"hydra.sweep.dir={_quoted(folder)}", f"hydra.sweep.subdir={_quoted(name)}"]
            for number in left
            for name in [plan.cases[number].folder]
        ]
        here = isinstance(self.launcher, BasicLauncher)
        with watch(folder, plan, left, elsewhere=not here) as before:
            try:
                if here:
                    self._launch_here(jobs, left, before)
                elif jobs:
                    self.launcher.launch(jobs, initial_job_idx=0)  # type: ignore[union-attr]
            except OSError:
                raise
            except Exception as error:  # of a launcher that lost a job, on a cluster
                later = f"what still runs is gathered later by python -m harness.report {folder}"
                raise CaseError(f"the launcher ended early: {one_line(error)}; {later}") from error

    def _launch_here(self, jobs: list[list[str]], cases: list[int], before: Callable[[int], None]) -> None:
        assert self.launcher is not None
        for index, (job, case) in enumerate(zip(jobs, cases, strict=True)):
            before(case)
            self.launcher.launch([job], initial_job_idx=index)  # one by one, as it keeps the configurations of all

    def _plan(self, arguments: list[str]) -> Plan:
        from harness.configuration.errors import UsageError
        from harness.results import plan

        loader = self.hydra_context.config_loader
        overrides = OverridesParser.create(config_loader=loader).parse_overrides([*self._parse_config(), *arguments])
        last = {_key(override): override for override in overrides}  # the command line wins over a named sweep
        swept = {key: override for key, override in last.items() if override.is_sweep_override()}
        for key, override in swept.items():
            if key in ("sweep", *plan.ABOUT_THE_RUN):
                raise UsageError(f"{override.input_line}: one for the whole sweep, not several")
            if not override.is_discrete_sweep():
                raise UsageError(
                    f"{override.input_line}: no list of values; give one, such as {key}=1,2,4 or range(1,9)"
                )
            if not list(override.sweep_string_iterator()):
                options = loader.get_group_options(key)
                choices = f"; choices: {', '.join(options)}" if options else ""
                raise UsageError(f"{override.input_line}: matches nothing{choices}")
        jobs = self.split_arguments(overrides, None)[0]
        return plan.make(jobs, list(swept), self._compose, _command())

    def _compose(self, overrides: list[str]) -> DictConfig:
        from harness.report import drawing

        config = self.hydra_context.config_loader.load_sweep_config(self.config, overrides)
        with flag_override(config, ["struct", "readonly"], False):
            del config["hydra"]
        drawing.check(config.report.charts)
        return config

    def _found(self, folder: Path, plan: Plan) -> None:
        """Makes the sweep's folder."""
        from harness.configuration.errors import UsageError
        from harness.results.plan import FILE

        if (folder / FILE).exists():
            raise UsageError(f"hydra.sweep.dir={folder}: holds a sweep already; continue it by resume={folder}")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            OmegaConf.save(self.config, folder / "multirun.yaml")
            plan.write(folder)
        except OSError as error:
            raise UsageError(f"hydra.sweep.dir={folder}: cannot be written: {error.strerror}") from error


def _key(override: Override) -> str:
    return override.get_key_element().lstrip("+~")


def _quoted(text: Path | str) -> str:
    escaped = str(text).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _command() -> str:
    """The command line without resume=…, so that it can be completed by one."""
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("resume=")]
    return shlex.join(["python", "-m", "harness", *arguments])
