"""The notebook: a model's hot spots and decisions from Python."""

from __future__ import annotations

import html
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.configuration import compose
from harness.configuration.operation import Function
from harness.model import door, files, tables
from harness.model.analysis import Analysis
from harness.model.measure import record
from harness.model.names import named
from harness.model.page import bars
from harness.model.sentences import sentences
from harness.report import drawing, page, rendering
from harness.report.tables import Table

if TYPE_CHECKING:
    from harness.report.charts.style import Figure


def hotspots(
    model: Any,
    inputs: Any = None,
    *,
    replace: Sequence[Mapping[str, Any]] = (),
    measure: bool = True,
    dtype: str | None = None,
    device: str | None = None,
    mode: str | None = None,
    overrides: Sequence[str] = (),
    config_dir: str | Path | None = None,
    folder: str | Path | None = None,
) -> HotSpots:
    """Takes a model's step apart, measures its groups, and decides on replacements, as `python -m harness.model` does.

    Args:
        model: a function that returns the module and its example inputs, or its dotted path; or a module, or what
            makes one, with `inputs`.
        inputs: a tuple or a dict of keyword arguments, or a function that makes them.
        replace: replacements, [{"of": a class of modules, "by": a class or a function}], by object or dotted path.
        measure: False records the step alone, and measures no case.
        dtype: else that of the model's parameters.
        device, mode: as on the command line.
        overrides: further keys as on the command line, such as ["latency.seconds=1"].
        config_dir: a further folder of configuration.
        folder: where the results are kept; else in a temporary folder, for as long as the returned object is.

    Raises:
        UsageError: what was asked for cannot be measured; says why, and names the key.
        CaseError: no process could measure.
    """
    keys = {"dtype": dtype, "device": device, "mode": mode}
    arguments = [*(f"{key}={value}" for key, value in keys.items() if value is not None), *overrides]
    further = None if config_dir is None else Path(config_dir)
    plain = compose.composed(arguments, further)
    plain["replace"] = [{key: named(value) for key, value in each.items()} for each in replace]
    temporary = None if folder is not None else tempfile.TemporaryDirectory(prefix="harness-")
    path = Path(temporary.name if temporary is not None else folder).resolve()  # type: ignore[arg-type]
    builder, maker = _functions(model, inputs)
    analysis = record(door.asked(builder, maker, plain, path, arguments, further))
    door.finish(analysis, measure)
    return HotSpots(analysis, temporary)


class HotSpots:
    """A model's hot spots and decisions; the files that the command line leaves are in `folder`."""

    def __init__(self, analysis: Analysis, temporary: Any = None):
        self._analysis = analysis
        self._temporary = temporary
        self.folder = analysis.asked.folder

    @property
    def table(self) -> pd.DataFrame:
        """hotspots.csv: the rows that share the step; an unknown value is missing."""
        return pd.DataFrame(files.hotspot_rows(self._analysis), columns=list(files.HOTSPOTS))

    @property
    def decisions(self) -> pd.DataFrame:
        """decision.csv: a row for each replacement."""
        return pd.DataFrame(files.decision_rows(self._analysis), columns=list(files.DECISIONS))

    @property
    def levels(self) -> pd.DataFrame:
        """Every group, at all levels, the costliest first: these contain one another."""
        spots = self._analysis.spots
        rows = [spots.row(group) for group in spots.groups.values()]
        return pd.DataFrame([files.hotspot_row(row) for row in rows], columns=list(files.HOTSPOTS[:-1]))

    @property
    def operators(self) -> pd.DataFrame:
        """The step's operators, by shapes and by whose code calls them, the costliest first."""
        return pd.DataFrame(self._analysis.recording.step.operators)

    @property
    def document(self) -> dict[str, Any]:
        """model.json."""
        return files.document(self._analysis)

    @property
    def warnings(self) -> list[str]:
        """The warnings, each with its likely cause and a remedy."""
        return self._analysis.warned

    def plot(self) -> Figure | None:
        """The chart of the step as a figure."""
        return drawing.MODEL[0].figure(bars(self._analysis), self.folder)

    def __repr__(self) -> str:
        out = rendering.console()
        with out.capture() as captured:
            for table in self._tables():
                rendering.show(out, table)
            for sentence in (*sentences(self._analysis), *self.warnings):
                out.print(sentence, markup=False, soft_wrap=True)
        return captured.get().rstrip()

    def _repr_html_(self) -> str:
        parts = [rendering.html_table(table) for table in self._tables()]
        chart = drawing.MODEL[0]
        if (self.folder / f"{chart.name}.svg").exists():
            picture = page.Picture.of(chart, self.folder)
            text = html.escape(picture.alternative)
            parts.append(f'<img src="{picture.source}" alt="{text}" style="max-width: 100%">')
        parts.append(rendering.html_list(sentences(self._analysis)))
        parts.append(rendering.html_folded("Warnings", rendering.html_list(self.warnings)))
        return "\n".join(filter(None, parts))

    def _tables(self) -> list[Table]:
        found = [tables.decisions(self._analysis), tables.hotspots(self._analysis.spots)]
        return [table for table in found if table.rows]


class Given:
    """A function that gives what was given."""

    def __init__(self, value: Any):
        self._value = value

    def __call__(self) -> Any:
        return self._value


def _functions(model: Any, inputs: Any) -> tuple[Function, Function | None]:
    """The builder and what makes its inputs, by their names where they have some."""
    plain = inputs is None or isinstance(inputs, str) or callable(inputs)
    return named(model), named(inputs) if plain else Given(inputs)
