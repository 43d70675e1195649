"""The report of one run: every file of its folder that is derived from results.json."""

from __future__ import annotations

import multiprocessing
import shlex
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.measure import trace
from harness.measure.trace import Event
from harness.report import device_tables as device
from harness.report import markdown, page, terminal
from harness.report import summary as words
from harness.report import tables as cells
from harness.report.charts import comparison, roofline, samples, style, timeline
from harness.results import comparison as derived
from harness.results import folder as results
from harness.results.folder import Document


def write(folder: Path, document: Document, swept: bool = False) -> None:
    """Writes the tables, the Markdown, the charts and the page of a run into its folder.

    A case of a sweep (`swept`) gets only the comparison, as PNG: to draw them all costs a fifth of measuring it.
    """
    rows, operators, title = derived.comparison(document), derived.operators(document), results.title(document)
    results.write_table(folder / "comparison.csv", derived.columns(list(document["case"]["dims"])), rows)
    results.write_table(folder / "operators.csv", derived.OPERATOR_COLUMNS, operators)
    results.write_table(folder / "samples.csv", derived.SAMPLE_COLUMNS, derived.samples(document))
    with results.atomic(folder / "comparison.md") as file:
        file.write(_markdown(document, rows, operators))
    captures = device.captures(folder, document)
    if captures is not None:
        with results.atomic(folder / "traces" / "README.md") as file:
            file.write(captures)
    if swept:
        charts = _drawn(folder, {"comparison": lambda: comparison.draw(rows, operators, title)}, ("png",))
    else:
        charts = _drawn(folder, _charts(folder, document, rows, operators), style.FORMATS)
    sentences, warnings = words.summary(document, rows), words.warnings(document, rows)
    redraw = shlex.join(["python", "-m", "harness.report", str(folder)]) if swept else ""
    with results.atomic(folder / "report.html") as file:
        file.write(page.of_run(document, title, rows, operators, sentences, warnings, charts, redraw))


def show(folder: Path, document: Document) -> None:
    """Prints both tables, the sentences and the place of the files to stdout."""
    out = terminal.console()
    rows, operators = derived.comparison(document), derived.operators(document)
    for row in rows:
        table = cells.operator_table(operators, row["variant"], row["device"])
        if table is not None:
            terminal.show(out, table)
    terminal.show(out, cells.comparison_table(rows, results.title(document)))
    for table in device.tables(rows):
        terminal.show(out, table)
    for sentence in words.summary(document, rows):
        out.print(sentence, markup=False, soft_wrap=True)
    out.print(f"Results: {folder}", markup=False, soft_wrap=True)


def status(document: Document) -> int:
    """The exit status: 0 where every variant that was measured is right, else 1."""
    return int(any(row["status"] not in ("ok", "skipped") for row in document["measurements"]))


def _markdown(document: Document, rows: list[derived.Row], operators: list[derived.Row]) -> str:
    tables = [cells.comparison_table(rows, "Comparison")]
    for row in rows:
        table = cells.operator_table(operators, row["variant"], row["device"])
        if table is not None:
            tables.append(table)
    tables += device.tables(rows)
    footer = f"Made by `{document['command']}` with torch {document['environment'].get('torch', '?')}."
    return markdown.page(
        results.title(document), words.summary(document, rows), tables, words.warnings(document, rows), footer
    )


def _charts(
    folder: Path, document: Document, rows: list[derived.Row], operators: list[derived.Row]
) -> dict[str, Callable[[], Any]]:
    """What there is to draw, by the names of its files."""
    name, work, peaks = results.title(document), document["work"], document["device"].get("peaks")
    traces, taken = _traces(folder, document), derived.samples(document)
    charts = {
        "comparison": lambda: comparison.draw(rows, operators, name),
        "timeline": lambda: timeline.draw(rows, operators, traces, name),
        "samples": lambda: samples.draw(rows, taken, name),
    }
    if peaks and work and work["flops"] and work["bytes"]:
        charts["roofline"] = lambda: roofline.draw(rows, work, peaks, name)
    return charts


def _drawn(folder: Path, draw: Mapping[str, Callable[[], Any]], formats: Sequence[str]) -> list[Path]:
    """Draws the first chart here and each other one in a fork, where forking is safe: drawing takes a second.

    Returns the files for the page. Those that an earlier report drew, and this one does not, are removed.
    """
    for chart in page.ALTERNATIVES:
        for suffix in style.FORMATS:
            if chart not in draw or suffix not in formats:
                (folder / f"{chart}.{suffix}").unlink(missing_ok=True)

    def save(chart: str) -> Path:
        return style.save(folder, chart, draw[chart], formats)

    def save_apart(chart: str) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is this process's to handle
        save(chart)

    first, *others = draw
    forks = {}
    if "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1:
        context = multiprocessing.get_context("fork")
        forks = {chart: context.Process(target=save_apart, args=(chart,)) for chart in others}
    for process in forks.values():
        process.start()
    save(first)
    for process in forks.values():
        process.join()
    for chart in others:
        if chart not in forks or forks[chart].exitcode != 0:
            save(chart)  # what is wrong with it is raised here
    return [folder / f"{chart}.{formats[-1]}" for chart in draw]


def _traces(folder: Path, document: Document) -> dict[str, list[Event]]:
    """The events of those variants whose trace is there and can be read."""
    found = {}
    for measurement in document["measurements"]:
        path = folder / "traces" / trace.folder_name(measurement["variant"]) / "trace.json"
        try:
            found[measurement["variant"]] = trace.from_file(path)
        except (OSError, ValueError, KeyError):
            continue  # the chart says that there is none
    return found
