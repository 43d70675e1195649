"""The report of one run: every file of its folder that is derived from results.json."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from harness.report import captures, drawing, page, rendering, summary
from harness.report.tables import comparison_table, declared_tables, operator_tables
from harness.results import columns, storage
from harness.results.comparison import Comparison


def write(folder: Path, comparison: Comparison, charts: Sequence[str] | None = None, swept: bool = False) -> None:
    """Writes the tables, the Markdown, the charts and the page of a run into its folder.

    `charts` are the names of those to draw; None: all. A case of a sweep (`swept`) gets only those that each case has,
    as PNG.
    """
    storage.write_table(folder / "comparison.csv", columns.names(comparison.columns), comparison.rows)
    storage.write_table(folder / "operators.csv", columns.names(columns.OPERATORS), comparison.operators)
    storage.write_table(folder / "samples.csv", columns.names(columns.SAMPLES), comparison.samples)
    with storage.atomic(folder / "comparison.md") as file:
        file.write(markdown(comparison))
    capture = captures.markdown(folder, comparison)
    if capture is not None:
        with storage.atomic(folder / "traces" / "README.md") as file:
            file.write(capture)
    wanted = [chart for chart in drawing.chosen(drawing.RUN, charts) if chart.each_case or not swept]
    drawn = drawing.draw(folder, drawing.RUN, wanted, comparison, ("png",) if swept else drawing.FORMATS)
    redraw = shlex.join(["python", "-m", "harness.report", str(folder)]) if swept else ""
    with storage.atomic(folder / "report.html") as file:
        file.write(page.of_run(comparison, folder, drawn, redraw))


def show(folder: Path, comparison: Comparison) -> None:
    """Prints the tables, the sentences and the path of the files to stdout."""
    out = rendering.console()
    further = declared_tables(comparison, (columns.TIMELINE, columns.ENGINES, columns.FURTHER))
    for table in [*operator_tables(comparison), comparison_table(comparison, comparison.title), *further]:
        rendering.show(out, table)
    for sentence in summary.sentences(comparison):
        out.print(sentence, markup=False, soft_wrap=True)
    out.print(f"Results: {folder}", markup=False, soft_wrap=True)


def status(comparison: Comparison) -> int:
    """The exit status: 0 where every variant that was measured is right, else 1."""
    return int(any(row["status"] not in ("ok", "skipped") for row in comparison.rows))


def markdown(comparison: Comparison) -> str:
    """comparison.md."""
    tables = [
        comparison_table(comparison, "Comparison"),
        *operator_tables(comparison),
        *declared_tables(comparison, (columns.TIMELINE, columns.ENGINES, columns.FURTHER)),
    ]
    document = comparison.document
    footer = f"Made by `{document['command']}` with torch {document['environment'].get('torch', '?')}."
    sentences, warnings = summary.sentences(comparison), summary.warnings(comparison)
    return rendering.markdown_page(comparison.title, sentences, tables, warnings, footer)
