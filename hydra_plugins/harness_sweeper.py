"""The sweeper: the product of all choices, with every case checked, named and written down before the first one runs.

Hydra imports this file in any program of the environment it is installed in, so it imports the harness only when used.
"""

from __future__ import annotations

import itertools
import logging
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, read_write

if TYPE_CHECKING:
    from harness.results.plan import Job, Plan


log = logging.getLogger("harness")


class CaseSweeper(Sweeper):
    """Makes the product of all choices and ranges, as the basic sweeper does; refuses it if one case is wrong."""

    config: DictConfig
    hydra_context: HydraContext
    launcher: Launcher

    def __init__(self, params: Mapping[str, Any] | None = None):
        self.params = dict(params or {})
        self.unused: dict[str, None] = {}  # a sentence for each file of the user that the library's shadows

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Sets the sweep's folder before the launcher is created, which may keep files of its own there."""
        resume = config.get("resume")
        if resume is not None:
            from harness.results import plan

            with read_write(config.hydra):
                config.hydra.sweep.dir = str(plan.locate(str(resume), Path(config.hydra.sweep.dir)))
        self.hydra_context = hydra_context
        self.config = config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Plans the sweep, then has the launcher run the cases that are not done.

        Raises UsageError, before anything has run, for a sweep of which any case cannot be measured as asked.
        """
        from harness.configuration.errors import CaseError, one_line
        from harness.configuration.hydra_private import BASIC_LAUNCHER
        from harness.configuration.library import hidden
        from harness.configuration.overrides import assignment
        from harness.execution.progress import watch
        from harness.results.sweeps import remaining

        plan = self._plan(arguments)
        folder = Path(self.config.hydra.sweep.dir)
        if self.config.get("resume") is not None:
            left = remaining(folder, plan)
        else:
            self._create_folder(folder, plan)
            left = list(range(len(plan.cases)))
        HydraConfig.instance().set_config(self.config)  # where the program finds the sweep after it has ended
        jobs = []
        for number in left:
            case = plan.cases[number]
            where = [assignment("hydra.sweep.dir", folder), assignment("hydra.sweep.subdir", case.folder)]
            jobs.append([*case.overrides, *where])
        for sentence in [*self.unused, *hidden(plan.config["op"])]:
            log.warning(sentence)
        here = self.config.hydra.runtime.choices.get("hydra/launcher") == BASIC_LAUNCHER
        with watch(folder, plan, left, elsewhere=not here) as before:
            try:
                if here:
                    self._launch_here(jobs, left, before)
                elif jobs:
                    self.launcher.launch(jobs, initial_job_idx=0)
            except Exception as error:
                if here or isinstance(error, OSError):
                    raise
                # A launcher lost a job, on a cluster
                report = shlex.join(["python", "-m", "harness.report", str(folder)])
                later = f"when the other cases have ended, collect them by {report}"
                raise CaseError(f"the launcher ended early: {one_line(error)}; {later}") from error

    def _launch_here(self, jobs: list[list[str]], cases: list[int], before: Callable[[int], None]) -> None:
        for index, (job, case) in enumerate(zip(jobs, cases, strict=True)):
            before(case)
            self.launcher.launch([job], initial_job_idx=index)  # one by one, as it keeps the configurations of all

    def _plan(self, arguments: list[str]) -> Plan:
        from harness.results import plan

        loader = self.hydra_context.config_loader
        parser = OverridesParser.create(config_loader=loader)
        named = parser.parse_overrides([f"{key}={value}" for key, value in self.params.items()])
        given = parser.parse_overrides(arguments)
        keys = {_key(override) for override in given}  # the command line wins over a named sweep
        overrides = _effective([*(override for override in named if _key(override) not in keys), *given])
        return plan.make(_product(overrides, loader), self._compose, _command())

    def _compose(self, overrides: list[str]) -> DictConfig:
        from harness.configuration.compose import explained, shadowed, without_hydra
        from harness.configuration.folders import config_flags
        from harness.report import drawing

        try:
            config = self.hydra_context.config_loader.load_sweep_config(self.config, overrides)
        except Exception as error:
            raise explained(error, [*config_flags(sys.argv[1:]), *overrides]) from error
        drawing.check(config.report.charts)
        self.unused |= dict.fromkeys(shadowed(config.hydra))
        return without_hydra(config)

    def _create_folder(self, folder: Path, plan: Plan) -> None:
        """Makes the sweep's folder."""
        from harness.configuration.errors import UsageError
        from harness.configuration.overrides import assignment
        from harness.results.storage import SWEEP, holds_run

        if (folder / SWEEP).exists():
            again = shlex.quote(assignment("resume", folder))
            raise UsageError(f"hydra.sweep.dir={folder}: holds a sweep already; continue it by {again}")
        if holds_run(folder):
            raise UsageError(f"hydra.sweep.dir={folder}: holds a run already; choose another folder, or remove it")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            OmegaConf.save(self.config, folder / "multirun.yaml")
            plan.write(folder)
        except OSError as error:
            raise UsageError(f"hydra.sweep.dir={folder}: cannot be written: {error.strerror}") from error


def _key(override: Override) -> str:
    return override.get_key_element().lstrip("+~")


def _effective(overrides: Sequence[Override]) -> list[Override]:
    """The overrides without those that a later one of the same key replaces; mappings and deletions add to it."""
    effective: list[Override] = []
    for override in overrides:
        if not (override.is_delete() or _adds(override)):
            effective = [other for other in effective if _key(other) != _key(override) or other.is_delete()]
        effective.append(override)
    return effective


def _adds(override: Override) -> bool:
    """Whether a value is a mapping, or each of several: Hydra merges it into what is there."""
    value = override.value()
    values = value.list if isinstance(value, ChoiceSweep) else [value]
    return bool(values) and all(isinstance(one, dict) for one in values)


def _product(overrides: Sequence[Override], loader: ConfigLoader) -> list[Job]:
    """The overrides of each case, the last swept key varying fastest."""
    from harness.results.plan import Job

    parts: list[list[tuple[str, str | None, str]]] = []  # of each override: text, key if it is swept, and value
    for override in overrides:
        key = override.get_key_element()
        if override.is_sweep_override():
            parts.append([(f"{key}={value}", _key(override), value) for value in _values(override, loader)])
        elif override.is_delete():
            parts.append([(str(override.input_line), None, "")])
        else:
            parts.append([(f"{key}={override.get_value_element_as_str()}", None, "")])
    jobs = []
    for chosen in itertools.product(*parts):
        swept: dict[str, str] = {}
        for _, name, value in chosen:
            if name is not None:
                swept[name] = f"{swept[name]} {value}" if name in swept else value
        jobs.append(Job(tuple(text for text, _, _ in chosen), swept))
    return jobs


def _values(override: Override, loader: ConfigLoader) -> list[str]:
    """The values of a swept key; raises UsageError if they cannot be listed, or if there are none."""
    from harness.configuration.errors import UsageError
    from harness.results.plan import ABOUT_THE_RUN

    key = _key(override)
    if key in ("sweep", *ABOUT_THE_RUN):
        raise UsageError(f"{override.input_line}: one for the whole sweep, not several")
    if not override.is_discrete_sweep():
        raise UsageError(f"{override.input_line}: no list of values; give one, such as {key}=1,2,4 or range(1,9)")
    values = [str(value) for value in override.sweep_string_iterator()]
    if not values:
        options = loader.get_group_options(key)
        choices = f"; choices: {', '.join(options)}" if options else ""
        raise UsageError(f"{override.input_line}: matches nothing{choices}")
    return values


def _command() -> str:
    """The command line without resume=…, so that it can be completed by one."""
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("resume=")]
    return shlex.join(["python", "-m", "harness", *arguments])
