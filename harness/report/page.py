"""The page: one self-contained HTML file with everything that a run or a sweep has to show."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import yaml

from harness.report import formatting, summary
from harness.report.drawing import FORMATS, Chart
from harness.report.tables import NAMES, Table, comparison_table, declared_tables, operator_tables
from harness.results import columns
from harness.results.comparison import Comparison
from harness.results.storage import Document

if TYPE_CHECKING:
    from harness.report.sweep_report import SweepReport

MARKED = (
    "faster",
    "slower",
    "wrong",
    "failed",
    "degraded",
    "use",
    "do not use",
)  # cells that have a colour of their own
TYPES = {".png": "png", ".svg": "svg+xml"}
MOST_ROWS = 200  # of a table in the page itself; a browser takes seconds to lay out thousands


@dataclass(frozen=True)
class Picture:
    """A chart that stands in the page itself."""

    source: str
    alternative: str

    @classmethod
    def of(cls, chart: Chart, folder: Path) -> Picture:
        """A chart that was drawn into a folder."""
        path = next(path for suffix in reversed(FORMATS) if (path := folder / f"{chart.name}.{suffix}").exists())
        content = base64.b64encode(path.read_bytes()).decode()
        return cls(f"data:image/{TYPES[path.suffix]};base64,{content}", chart.alternative)


@dataclass
class Section:
    """A part of the page under a heading of its own."""

    heading: str
    note: str = ""
    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)


def of_run(comparison: Comparison, folder: Path, charts: Sequence[Chart], redraw: str = "") -> str:
    """The page of a run; `charts` are those drawn in its folder, `redraw` the command that draws the others."""
    document = comparison.document
    return render(
        "run.html",
        title=comparison.title,
        subtitle=f"{document['created']} · {document['device'].get('name', comparison.case['device'])} · "
        f"torch {document['environment'].get('torch', '?')}",
        sentences=summary.sentences(comparison),
        warnings=summary.warnings(comparison),
        sections=_sections(comparison, folder, charts, redraw),
        command=document["command"],
        environment=environment(document),
        config=document["config"],
    )


def _sections(comparison: Comparison, folder: Path, charts: Sequence[Chart], redraw: str) -> list[Section]:
    device = (columns.TIMELINE, columns.ENGINES)
    tables = {
        "Comparison": [comparison_table(comparison, "Comparison")],
        "Timeline": declared_tables(comparison, device),
        "Operators": operator_tables(comparison, most=None),
        **{title: declared_tables(comparison, [title]) for title in columns.tables() if title not in device},
    }
    stopped = comparison.document["stopped"]
    notes = {
        "Comparison": f"This is a case of a sweep; its other charts are drawn by {redraw}." if redraw else "",
        "Operators": "" if tables["Operators"] else "No variant was profiled.",
        "Samples": f"Sampling ended: {stopped}." if stopped else "",
    }
    sections = {name: Section(name, notes.get(name, ""), tables.get(name, [])) for name in {**tables, **notes}}
    for chart in charts:
        sections.setdefault(chart.heading, Section(chart.heading)).pictures.append(Picture.of(chart, folder))
    return [section for section in sections.values() if section.note or section.tables or section.pictures]


def of_sweep(report: SweepReport, charts: Sequence[Chart]) -> str:
    """The page of a sweep; `charts` are those drawn in its folder."""
    first = report.first_document
    return render(
        "sweep.html",
        title=report.swept.title,
        subtitle=report.subtitle,
        sentences=report.sentences,
        warnings=report.warnings,
        comparison=report.table,
        cases=[asdict(job) for job in report.jobs],
        pictures=[Picture.of(chart, report.folder) for chart in charts],
        command=report.command,
        environment=environment(first) if first else {},
        config=report.config,
    )


def render(template: str, *, config: Mapping[str, Any], **context: Any) -> str:
    """A page of a template below templates/; `config` is shown as YAML."""
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=100)
    marks = {"marked": MARKED, "names": NAMES}
    return _templates().get_template(template).render(**context, **marks, configuration=text, most=MOST_ROWS)


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,  # names and reasons are the users'
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def environment(document: Document) -> dict[str, str]:
    """What a page shows of the harness, the device and the environment that results hold."""
    return _flat({"harness": document["harness"], "device": document["device"], **document["environment"]})


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested mappings as one, with dotted names."""
    flat: dict[str, str] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        elif value is not None:
            flat[prefix + name] = formatting.size(value) if name.endswith("_bytes") else str(value)
    return flat
