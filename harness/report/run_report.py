"""The report of one run: every file of its folder that is derived from results.json."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from harness.report import drawing, formatting, page, rendering, summary
from harness.report.rendering import markdown_table
from harness.report.tables import Table, comparison_table, declared_tables, operator_tables
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
    if comparison.device_samples:
        names = columns.names(columns.DEVICE_SAMPLES)
        storage.write_table(folder / "device_samples.csv", names, comparison.device_samples)
    with storage.atomic(folder / "comparison.md") as file:
        file.write(markdown(comparison))
    capture = _captures(folder, comparison)
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
    """The exit status: 0 if every variant that was measured is right, else 1."""
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
    sentences = summary.sentences(comparison)
    warnings = summary.warnings(comparison)
    return rendering.markdown_page(comparison.title, sentences, tables, warnings, footer)


def _captures(folder: Path, comparison: Comparison) -> str | None:
    """A page, in Markdown, on what the profiler left in a run's `folder`; None if it left nothing but traces."""
    captured = [entry for entry in comparison.entries.values() if entry.measurement.capture]
    if not captured:
        return None
    parts = [
        "# Captures",
        f"Run the commands in the run's folder:\n\n```bash\ncd {shlex.quote(str(folder.absolute()))}\n```",
        (captured[0].measurement.capture or {})["viewing"],
    ]
    for entry in captured:
        capture = entry.measurement.capture or {}
        parts.append(f"## {entry.name}")
        parts += [f"**{problem}**" for problem in capture["problems"]]
        if capture["commands"]:
            parts.append("```bash\n" + "\n".join(capture["commands"]) + "\n```")
        if capture["files"]:
            pairs = {pair["ntff"]: pair["neff"] or "no NEFF of its hash" for pair in capture["pairs"]}
            lines = [
                [file["path"], file["kind"], formatting.size(file["bytes"]), pairs.get(file["path"], "")]
                for file in capture["files"]
            ]
            headers = ["File", "Kind", "Size", "Decoded by"] if pairs else ["File", "Kind", "Size"]
            lines = [line[: len(headers)] for line in lines]
            parts.append(markdown_table(Table("", headers, [header == "Size" for header in headers], lines)))
    return "\n\n".join(parts) + "\n"
