"""The door of models: what the command line and the notebook ask for, and what they leave and show."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.configuration.errors import UsageError
from harness.configuration.operation import Function
from harness.model import files, page, tables
from harness.model.analysis import Analysis, Asked
from harness.model.measure import measure_groups, record
from harness.model.replacements import parse
from harness.model.sentences import sentences
from harness.model.verify import verify
from harness.model.whole import TRACE, TRACES, Model
from harness.report import rendering
from harness.report.program import discard
from harness.results.storage import holds_run

log = logging.getLogger("harness")


def asked(
    builder: Function,
    inputs: Function | None,
    plain: Mapping[str, Any],
    folder: Path,
    overrides: Sequence[str],
    config_dir: Path | None,
) -> Asked:
    """What is asked for, with a folder for it.

    Raises UsageError if the folder holds results or cannot be made, or if `replace` is not what it can be.
    """
    replacements = parse(plain.get("replace"))
    rest = {key: value for key, value in plain.items() if key != "replace"}
    if holds_run(folder) or (folder / files.MODEL).exists():
        raise UsageError(f"hydra.run.dir={folder}: holds earlier results; choose another folder, or remove it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"hydra.run.dir: {error.filename} cannot be written: {error.strerror}") from error
    return Asked(Model(builder, inputs), rest, list(overrides), replacements, folder, config_dir)


def run(asked: Asked, measured: bool, levels: bool) -> int:
    """Analyses a model, writes its files, and prints tables and sentences; returns the exit status."""
    out = rendering.console()
    try:
        analysis = record(asked)
    except UsageError:
        shutil.rmtree(asked.folder / TRACES / TRACE, ignore_errors=True)
        discard(asked.folder)
        raise
    shown = [tables.hotspots(analysis.spots), *([tables.levels(analysis.spots)] if levels else [])]
    for table in shown:
        rendering.show(out, table)
    try:
        finish(analysis, measured)
    except KeyboardInterrupt:
        out.print(f"Results: {asked.folder}, without decisions", markup=False, soft_wrap=True)
        raise
    if analysis.decisions:
        rendering.show(out, tables.decisions(analysis))
    for sentence in sentences(analysis):
        out.print(sentence, markup=False, soft_wrap=True)
    for warning in analysis.warned:
        log.warning(warning)
    out.print(f"Results: {asked.folder}", markup=False, soft_wrap=True)
    return analysis.status


def finish(analysis: Analysis, measured: bool) -> None:
    """Measures what was recorded, unless only its hot spots are wanted, and writes all files; model.json if it ends."""
    folder = analysis.asked.folder
    files.write_hotspots(folder, analysis)
    try:
        if measured and analysis.unmeasurable:
            analysis.warn("the whole model", analysis.unmeasurable)
            analysis.failed = True
        elif measured:
            measure_groups(analysis)
            verify(analysis)
    finally:  # what was measured before an interrupt is shown as well
        files.write_hotspots(folder, analysis)
        files.write_decisions(folder, analysis)
        page.write(analysis)
    files.write_model(folder, analysis)
