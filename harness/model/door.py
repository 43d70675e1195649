"""The door of models: what the command line and the notebook ask for, and what they leave and show."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.configuration.errors import UsageError
from harness.configuration.operation import Function
from harness.model import files, tables
from harness.model.analysis import Asked
from harness.model.measure import measure_groups, record
from harness.model.replacements import parse
from harness.model.sentences import sentences
from harness.model.verify import verify
from harness.model.whole import Model
from harness.report import rendering
from harness.results.storage import holds_run

log = logging.getLogger("harness")


def asked(
    builder: Function, inputs: Function | None, plain: Mapping[str, Any], folder: Path, overrides: Sequence[str]
) -> Asked:
    """What is asked for; raises UsageError if the folder holds something, or if `replace` is not what it can be."""
    if holds_run(folder) or (folder / files.MODEL).exists():
        raise UsageError(f"hydra.run.dir={folder}: holds earlier results; choose another folder, or remove it")
    rest = {key: value for key, value in plain.items() if key != "replace"}
    return Asked(Model(builder, inputs), rest, list(overrides), parse(plain.get("replace")), folder)


def run(asked: Asked, measured: bool, levels: bool) -> int:
    """Analyses a model, writes its files, and prints tables and sentences; returns the exit status."""
    out = rendering.console()
    analysis = record(asked)
    files.write_hotspots(asked.folder, analysis)
    rendering.show(out, tables.hotspots(analysis.spots))
    if measured:
        measure_groups(analysis)
        verify(analysis)
        files.write_hotspots(asked.folder, analysis)
        files.write_decisions(asked.folder, analysis)
        rendering.show(out, tables.decisions(analysis), whole=True)
    files.write_model(asked.folder, analysis)
    for sentence in sentences(analysis):
        out.print(sentence, markup=False, soft_wrap=True)
    for warning in analysis.warnings:
        log.warning(warning)
    out.print(f"Results: {asked.folder}", markup=False, soft_wrap=True)
    return analysis.status
