"""The page of a model: one self-contained HTML file, with its chart."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model import tables
from harness.model.analysis import Analysis
from harness.model.cases import FOLDER
from harness.model.decide import COMPILED, DO_NOT_USE, Decision
from harness.model.sentences import sentences
from harness.report import drawing, page
from harness.report.drawing import Bar, Bars
from harness.report.tables import Table, comparison_table
from harness.results import storage

FILE = "report.html"
REST = "(difference)"  # of a step, between its parts and what was measured


def _after(analysis: Analysis, before: Bar) -> Iterator[Bar]:
    """A bar for each replacement that was timed; what its groups save alone is taken from their parts."""
    for decision in analysis.decisions:
        if decision.measured is None or decision.seconds is None:
            continue
        us = decision.seconds * 1e6
        parts = {name: max(part - decision.saved.get(name, 0.0) * 1e6, 0.0) for name, part in before.parts}
        total = sum(parts.values())
        scaled = [(name, part * min(us / total, 1.0) if total else 0.0) for name, part in parts.items()]
        scaled.append((REST, max(us - total, 0.0)))
        yield Bar(decision.replacement, _text(decision), decision.decision != DO_NOT_USE, scaled)


def _text(decision: Decision) -> str:
    within = "in the compiled model, " if decision.base == COMPILED else ""
    return f"{within}{decision.decision}: {tables.gain(decision.measured)}, predicted {tables.gain(decision.predicted)}"


def write(analysis: Analysis) -> None:
    """Draws the chart of the step and writes the page into the analysis's folder."""
    folder = analysis.asked.folder
    charts = drawing.chosen(drawing.MODEL, analysis.asked.plain["report"]["charts"])
    drawn = drawing.draw(folder, drawing.MODEL, charts, bars(analysis))
    with storage.atomic(folder / FILE) as file:
        file.write(_content(analysis, [page.Picture.of(chart, folder) for chart in drawn]))


def bars(analysis: Analysis) -> Bars:
    """The step as it is, and as it was measured with each replacement; as it was recorded if nothing was measured."""
    step = analysis.recording.step
    shares = {row.group: row.share for row in analysis.spots.rows}
    latency = analysis.ways[0].comparison.baseline.latency if analysis.ways else None
    whole = step.host_us if latency is None else latency.value * 1e6
    clock = "as the profiler saw it" if latency is None else "without a profiler"
    first = Bar("as it is", "", True, [(name, share * whole) for name, share in shares.items()])
    rest = [] if latency is None else list(_after(analysis, first))
    how = f"a step, {clock}, cut by the shares of its groups"
    return Bars(f"{step.model} · {step.dtype}", how, [first, *rest])


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
