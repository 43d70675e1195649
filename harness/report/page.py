"""The page: one self-contained HTML file with everything that a run or a sweep has to show."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import yaml

from harness.report import device_tables as device
from harness.report import tables as cells
from harness.report.tables import Table
from harness.results.comparison import Row
from harness.results.folder import Document

MARKED = ("faster", "slower", "wrong", "failed", "degraded")  # cells that have a colour of their own
TYPES = {".png": "png", ".svg": "svg+xml"}
MOST_ROWS = 200  # of a table in the page itself; a browser takes seconds to lay out thousands
ALTERNATIVES = {
    "comparison": "Latency and time by operator of each variant; the tables here hold the same numbers",
    "timeline": "One call of each variant: dispatch, runtime and device on a common time axis",
    "roofline": "The variants' FLOP/s below the machine's roof",
    "samples": "All latency samples of each variant in the order they were taken",
    "sweep": "Latency and time of each variant against what was swept",
    "speedup": "The fastest variant and its speedup in each case",
}


@dataclass(frozen=True)
class Picture:
    """A chart that stands in the page itself."""

    source: str
    alt: str

    @classmethod
    def of(cls, path: Path) -> Picture:
        """The chart in a file."""
        content = base64.b64encode(path.read_bytes()).decode()
        return cls(f"data:image/{TYPES[path.suffix]};base64,{content}", ALTERNATIVES[path.stem])


def of_run(
    document: Document,
    title: str,
    rows: Sequence[Row],
    operators: Sequence[Row],
    sentences: Sequence[str],
    warnings: Sequence[str],
    charts: Sequence[Path],
    redraw: str = "",
) -> str:
    """The page of a run; `charts` are the files of its charts, `redraw` the command that draws the others."""
    tables = [cells.operator_table(operators, row["variant"], row["device"], most=None) for row in rows]
    return _render(
        "run.html",
        title=title,
        subtitle=f"{document['created']} · {document['device'].get('name', document['case']['device'])} · "
        f"torch {document['environment'].get('torch', '?')}",
        sentences=sentences,
        warnings=warnings,
        comparison=cells.comparison_table(rows, "Comparison"),
        operators=[table for table in tables if table is not None],
        life=device.tables(rows),
        tables=[table for table in (_compile(document, rows), _roofline(rows), _errors(rows)) if table],
        stopped=f"Sampling ended: {document['stopped']}." if document["stopped"] else "",
        charts={path.stem: Picture.of(path) for path in charts},
        redraw=redraw,
        command=document["command"],
        environment=_environment(document),
        config=document["config"],
    )


def of_sweep(
    title: str,
    subtitle: str,
    sentences: Sequence[str],
    warnings: Sequence[str],
    comparison: Table,
    cases: Sequence[Mapping[str, Any]],
    charts: Sequence[Path],
    command: str,
    config: Mapping[str, Any],
    first: Document | None,
) -> str:
    """The page of a sweep; `cases` have name, folder and what is missing, `first` is what one of them left."""
    return _render(
        "sweep.html",
        title=title,
        subtitle=subtitle,
        sentences=sentences,
        warnings=warnings,
        comparison=comparison,
        cases=cases,
        charts={path.stem: Picture.of(path) for path in charts},
        command=command,
        environment=_environment(first) if first else {},
        config=config,
    )


def _render(template: str, *, config: Mapping[str, Any], **context: Any) -> str:
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=100)
    return _templates().get_template(template).render(**context, configuration=text, marked=MARKED, most=MOST_ROWS)


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,  # names and reasons are the users'
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _environment(document: Document) -> dict[str, str]:
    return _flat({"harness": document["harness"], "device": document["device"], **document["environment"]})


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested mappings as one, with dotted names."""
    found: dict[str, str] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        elif value is not None:
            found[prefix + name] = cells.size(value) if name.endswith("_bytes") else str(value)
    return found


def _compile(document: Document, rows: Sequence[Row]) -> Table | None:
    compiled = [row for row in rows if row["compile_s"] is not None]
    if not compiled:
        return None
    reasons = {measurement["variant"]: measurement["compiles"] for measurement in document["measurements"]}
    lines = [
        [
            row["variant"],
            cells.duration(row["compile_s"]),
            "warm" if row["compile_cached"] else "cold",
            cells.duration(row["compile_warm_s"]),
            cells.count(row["graphs"]),
            cells.count(row["graph_breaks"]),
            "; ".join(reasons[row["variant"]][0]["break_reasons"]) or "–",
            cells.count(row["recompiles"]),
            cells.count(row["break_even_calls"]),
        ]
        for row in compiled
    ]
    headers = [
        "Variant", "To the first result", "Cache", "In a later process", "Graphs", "Graph breaks", "Why",
        "Recompiles while timed", "Pays after calls",
    ]  # fmt: skip
    return _table("Compile cost", headers, lines)


def _roofline(rows: Sequence[Row]) -> Table | None:
    timed = [row for row in rows if row["flops_per_s"] is not None and row["bytes_per_s"] is not None]
    if not timed:
        return None
    headers = ["Variant", "FLOP/s", "B/s"]
    lines = [[row["variant"], _rate(row["flops_per_s"]), _rate(row["bytes_per_s"])] for row in timed]
    if any(row["bound_share"] is not None for row in timed):
        headers += ["Of the bound", "Bound by"]
        for line, row in zip(lines, timed, strict=True):
            line += [f"{cells.digits(100 * row['bound_share'], 2)}%", row["bound"]]
    return _table("Roofline", headers, lines)


def _errors(rows: Sequence[Row]) -> Table | None:
    compared = [row for row in rows if row["max_error"] is not None]
    if not compared:
        return None
    lines = [
        [row["variant"], *(f"{row[key]:.3g}" if row[key] is not None else cells.NOTHING for key in ERRORS)]
        for row in compared
    ]
    return _table("Errors against the reference", ["Variant", *ERRORS.values()], lines)


ERRORS = {
    "max_error": "Largest",
    "max_error_relative": "Relative",
    "max_error_units": "In units of the dtype's precision",
    "error_allowed_share": "Share of what is allowed",
}


def _table(title: str, headers: list[str], lines: list[list[str]]) -> Table:
    texts = ("Variant", "Cache", "Why", "Bound by")
    return Table(title, headers, [header not in texts for header in headers], lines)


def _rate(value: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{cells.digits(value / size, 3)} {unit}"
    return cells.digits(value, 3)
