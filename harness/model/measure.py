"""Measuring a model's groups and its whole, each as a case, by the way that every case goes."""

from __future__ import annotations

import shlex
from collections.abc import Container, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.configuration.errors import CaseError, UsageError, unknown
from harness.configuration.overrides import key_of
from harness.configuration.schema import parse
from harness.execution.progress import progress
from harness.execution.run_case import run_case
from harness.model import cases, whole
from harness.model.analysis import Analysis, Asked, Measured, described
from harness.model.groups import NOTABLE, Group, HotSpots
from harness.model.names import short
from harness.model.step import MODULE
from harness.model.whole import Model, Recording
from harness.report import run_report, summary
from harness.results.comparison import Comparison
from harness.results.measurement import OK, SKIPPED

# Keys that the command of a case gives itself, or that are the whole's
OF_THE_RUN = ("dtype", "mode", "device", "variants", "replace", "hydra.run.dir")


def record(asked: Asked) -> Analysis:
    """Records a step of the model. Raises UsageError and CaseError as `whole.record` does."""
    recording = whole.record(asked.model, asked.plain, asked.own_dtype, asked.replacements, asked.folder)
    _check_variants(asked, recording)
    preload = [*asked.plain["worker"]["preload"], *_modules(asked.model, recording)]
    plain = {
        **asked.plain,
        "dtype": recording.step.dtype,
        "device": recording.device["device"],
        "worker": {**asked.plain["worker"], "preload": preload},
    }
    return Analysis(replace(asked, plain=plain), recording, HotSpots(recording.step))


def _check_variants(asked: Asked, recording: Recording) -> None:
    """Raises UsageError for names in `variants` that no case of the model has."""
    chosen = asked.plain["variants"]
    if chosen is None:
        return
    if not isinstance(chosen, list):
        raise UsageError(f"variants={chosen}: expected a list, such as variants=[{chosen}]")
    own = [replacement.name for replacement in asked.replacements]
    known = dict.fromkeys(operation for call in recording.step.calls for operation in call.known)
    library = [f"{operation}_{name}" for operation in known for name in cases.LIBRARY_VARIANTS]
    names = [whole.AS_IS, whole.COMPILED, *own, *library]
    compiled = [f"{name}_{whole.COMPILED}" for name in (*own, *library)]
    for name in chosen:
        if name not in (*names, *compiled):
            raise unknown("variants", name, names, "variants")


def _modules(model: Model, recording: Recording) -> list[str]:
    """Python's modules that the builder and the model's classes are in, each of which may take seconds to import."""
    paths = [path for path in (model.builder, model.inputs) if isinstance(path, str)]
    paths += [call.function for call in recording.step.calls if call.kind == MODULE]
    modules = dict.fromkeys(path.rpartition(".")[0] for path in paths)
    return [module for module in modules if module.partition(".")[0] != "torch"]


def measure_groups(analysis: Analysis) -> None:
    """Measures each group that is worth it as a case of its own."""
    for group in _to_measure(analysis):
        analysis.measured[group.name] = _measure_group(analysis, group)


def _to_measure(analysis: Analysis) -> list[Group]:
    """The groups that are shown and cost something, what the model repeats, and all whose modules are replaced."""
    spots = analysis.spots
    shown = [group for group in [*spots.layers, *spots.shown] if group.share >= NOTABLE]
    asked = [group for each in analysis.asked.replacements for group in analysis.groups_of(each)]
    names = dict.fromkeys(group.name for group in [*asked, *shown])
    return [spots.groups[name] for name in names]


def _measure_group(analysis: Analysis, group: Group) -> Measured:
    asked = analysis.asked
    replacements = [each for each in asked.replacements if group in analysis.groups_of(each)]
    try:
        operation = cases.operation(asked.model, group, replacements, analysis.spots.compile)
    except cases.NoCaseError as error:
        return Measured(group, None, str(error))
    times = f", {group.count} times a step" if group.count > 1 else ""
    times += f" with {group.shapes} shapes, of which this is one of the most frequent" if group.shapes > 1 else ""
    try:
        what = f"{short(group.first.function)}{times}, in {group.where}"
        mode = asked.plain["mode"] if group.first.differentiable else "forward"
        comparison = run(analysis, operation, what, group.name, mode)
        decided = {name for each in replacements for name in (each.name, f"{each.name}_{whole.COMPILED}")}
        warn_of_faults(analysis, comparison, set(comparison.entries) - decided)
    except (UsageError, CaseError) as error:
        analysis.warn(group.name, f"its case could not be measured: {error}")
        analysis.failed = True
        return Measured(group, None, str(error))
    return Measured(group, comparison)


def run(analysis: Analysis, operation: Mapping[str, Any], what: str, name: str, mode: str) -> Comparison:
    """Measures one case as `python -m harness` does; its results are in cases/NAME, and its YAML file, if it has one.

    `what` says there what it is.
    """
    asked = replace(analysis.asked, plain={**analysis.asked.plain, "mode": mode})
    command = _case_command(asked, name)
    cases.write(asked.folder, name, operation, what, command)
    folder = asked.folder / cases.FOLDER / name
    plain = {**asked.plain, "op": dict(operation)}
    chosen = plain["variants"]
    if isinstance(chosen, list):
        names = [name for name in operation["variants"] if name in chosen or name == operation["baseline"]]
        plain["variants"] = names
    case, settings = parse(plain)
    charts = settings.report.charts

    def write_report(folder: Path, comparison: Comparison) -> None:
        run_report.write(folder, comparison, charts, swept=True)

    folder.mkdir(parents=True, exist_ok=True)
    comparison = run_case(case, settings, described(plain), command, folder, progress(case.key.title), write_report)
    for text in summary.warnings(comparison):
        analysis.warn(operation["name"], text)
    return comparison


def warn_of_faults(analysis: Analysis, comparison: Comparison, variants: Container[str]) -> None:
    """Warns of those variants of a case that are not right."""
    for name, entry in comparison.entries.items():
        found = entry.measurement
        if name in variants and found.status not in (OK, SKIPPED):
            analysis.warn(comparison.case["op"], f"{name} is {found.status}: {found.reason or 'no reason known'}")


def _case_command(asked: Asked, name: str) -> str:
    given = [override for override in asked.overrides if key_of(override) not in OF_THE_RUN]
    own = [f"{key}={asked.plain[key]}" for key in ("dtype", "mode", "device")]
    searched = [] if asked.config_dir is None else [f"hydra.searchpath=[file://{asked.config_dir.resolve()}]"]
    folder = f"--config-dir={asked.folder / cases.FOLDER}"
    return shlex.join(["python", "-m", "harness", folder, f"op={name}", *searched, *own, *given])
