"""The page of a model: one self-contained HTML file, with its chart."""

from __future__ import annotations

from harness.model import tables
from harness.model.analysis import Analysis
from harness.model.bars import bars
from harness.model.cases import FOLDER
from harness.model.sentences import sentences
from harness.report import drawing, page
from harness.report.tables import Table, comparison_table
from harness.results import storage

FILE = "report.html"


def write(analysis: Analysis) -> None:
    """Draws the chart of the step and writes the page into the analysis's folder."""
    folder = analysis.asked.folder
    charts = drawing.chosen(drawing.MODEL, analysis.asked.plain["report"]["charts"])
    drawn = drawing.draw(folder, drawing.MODEL, charts, bars(analysis))
    with storage.atomic(folder / FILE) as file:
        file.write(_content(analysis, [page.Picture.of(chart, folder) for chart in drawn]))


def _content(analysis: Analysis, pictures: list[page.Picture]) -> str:
    document = analysis.document
    device, environment = document["device"], document["environment"]
    named = f"{document['created']} · {device.get('name', device['device'])} · torch {environment.get('torch', '?')}"
    return page.render(
        "model.html",
        title=f"{analysis.recording.step.model} · {analysis.recording.step.dtype} · {document['config']['mode']}",
        subtitle=named,
        sentences=sentences(analysis),
        warnings=analysis.warned,
        pictures=pictures,
        tables=[table for table in _tables(analysis) if table.rows],
        details=[table for table in (tables.levels(analysis.spots), tables.operators(analysis)) if table.rows],
        cases=[
            {"name": name, "problem": measured.problem, "folder": f"{FOLDER}/{name}"}
            for name, measured in analysis.measured.items()
        ]
        + [{"name": f"the whole model, {way.base}", "problem": None, "folder": way.folder} for way in analysis.ways],
        command=document["command"],
        environment=page.environment(document),
        config=document["config"],
    )


def _tables(analysis: Analysis) -> list[Table]:
    return [
        tables.decisions(analysis),
        tables.hotspots(analysis.spots, most=None),
        tables.cases(analysis),
        *(comparison_table(way.comparison, f"Whole models, {way.base}") for way in analysis.ways),
    ]
