"""The page: one HTML file with what changed and a chart of each series, which a browser draws as it comes into view."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import numpy as np
from markupsafe import Markup

from harness.history import causes, words
from harness.history.changes import STATUS, Change
from harness.history.findings import Finding
from harness.history.history import History
from harness.history.pivot import Pivot
from harness.history.record import LATENCY, MEASURES
from harness.history.series import Group, Series, switched
from harness.report import formatting
from harness.results.measurement import OK
from harness.results.storage import atomic

FILE = "index.html"
HERE = Path(__file__).with_name("templates")
SHARED = Path(__file__).parents[1] / "report" / "templates"  # the style of all pages
MARKED = 40  # versions that a chart marks at most
DAYS = (1, 7, 30, 90, 365)
SEPARATOR = "\0"  # of texts, where there are thousands: no file has it in its name
SINGLE = (1e-30, 1e30)  # times within what single precision holds


def write(folder: Path, history: History, threshold: float, days: float, pivot: Pivot | None) -> None:
    """Writes index.html into a folder; links lead from there to the runs' own pages."""
    first = float(history.runs.times.min())
    page = _template().generate(
        title="History",
        subtitle=f"{words.count(len(history.runs), 'run')} of {words.count(len(history.groups), 'case')} · "
        f"{words.day(first)} to {words.day(history.newest)} UTC",
        notices=history.notices,
        pivot=pivot,
        data=_embedded(_content(folder, history, threshold, days, pivot)),
    )
    with atomic(folder / FILE) as file:
        file.writelines(page)


def _content(folder: Path, history: History, threshold: float, days: float, pivot: Pivot | None) -> dict[str, Any]:
    numbers = {id(group): number for number, group in enumerate(history.groups)}
    changed: dict[tuple[int, str], list[Change]] = {}
    for change in history.changes:
        changed.setdefault((id(change.group), change.variant), []).append(change)
    return {
        "newest": history.newest,
        "branch": history.branch,
        "days": days,
        "periods": sorted({*DAYS, days}),
        "threshold": threshold,
        "causes": causes.CAUSES,
        "measures": [measure for measure in MEASURES if _known(history.groups, measure)] or [LATENCY],
        "groups": [_group(folder, group, changed) for group in history.groups],
        "findings": [_finding(finding, numbers) for finding in history.findings],
        "bars": pivot.bars if pivot else [],
    }


def _known(groups: Sequence[Group], measure: str) -> bool:
    return any(len(group.series(name, measure).places) for group in groups for name in group.variants)


def _group(folder: Path, group: Group, changed: dict[tuple[int, str], list[Change]]) -> dict[str, Any]:
    case = group.case
    names = [name or formatting.NOTHING for name in group.runs.commit_names]
    commits = list(dict.fromkeys(names))
    place = {commit: number for number, commit in enumerate(commits)}
    return {
        "title": words.safe(group.title, 160),
        "op": words.safe(case.op),
        "dtype": case.dtype,
        "device": case.device,
        "machine": words.safe(group.machine),
        "baseline": words.safe(group.baseline),
        "times": _packed(np.rint(group.runs.times).astype("<f8")),
        "commits": SEPARATOR.join(name.replace(SEPARATOR, "") for name in commits),
        "commit": _packed(np.array([place[name] for name in names], "<i4")),
        "names": SEPARATOR.join(group.runs.names.tolist()),
        "pages": _links(folder, group.runs.pages.tolist()),
        "versions": _versions(group),
        "series": [_series(group, name, changed.get((id(group), name), [])) for name in group.variants],
    }


def _series(group: Group, name: str, changes: Sequence[Change]) -> dict[str, Any]:
    right = group.statuses(name) <= {OK, None}
    measures = {measure: group.series(name, measure) for measure in MEASURES}
    return {
        "variant": words.safe(name),
        "wrong": []
        if right
        else [[place, each] for place, each in enumerate(group.texts(name, "status")) if each not in (OK, None)],
        "measures": {
            measure: _figures(series, len(group.runs)) for measure, series in measures.items() if len(series.places)
        },
        "changes": [
            {
                "place": change.place,
                "measures": [STATUS] if change.ratio is None else list(change.evidence),
                "outcome": words.outcome(change),
                "cause": change.cause,
                "text": formatting.change(change.ratio.value) if change.ratio else (change.status or ("", ""))[1],
                "reason": words.safe(change.reason, 300),
            }
            for change in changes
        ],
    }


def _figures(series: Series, runs: int) -> dict[str, str | None]:
    """Arrays as bytes in base64, which take a browser and this program a tenth of the time of numbers in JSON.

    Those of places are left out if all runs have a value.
    """
    columns = np.clip(series.figures, *SINGLE).T.astype("<f4")
    packed = [_packed(column) for column in columns]
    places = None if len(series.places) == runs else _packed(series.places.astype("<i4"))
    return {"places": places, **dict(zip(("values", "low", "high"), packed, strict=True))}


def _packed(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()


def _versions(group: Group) -> list[tuple[int, str]]:
    """Versions and settings that change between two runs; none of what changes all the time."""
    marks = []
    for place, differences in switched(group.runs):
        found = [f"{name}: {before} → {after}" for name, before, after in differences if name != causes.HOST]
        if found:
            marks.append((place, words.safe("\n".join(found), 300)))
    return marks if len(marks) <= max(MARKED, len(group.runs) * causes.OFTEN) else []


def _finding(finding: Finding, numbers: dict[int, int]) -> dict[str, Any]:
    cases = {id(change.group): change.group for change in finding.changes}.values()
    return {
        "outcome": finding.outcome,
        "cause": finding.cause,
        "lasting": finding.lasting,
        "what": finding.what,
        "where": finding.where,
        "size": finding.size,
        "since": finding.since,
        "end": round(finding.time),
        "commits": finding.commits,
        "reason": words.safe(finding.first.reason, 300),
        "series": [[numbers[id(change.group)], words.safe(change.variant)] for change in finding.changes],
        "groups": [numbers[id(group)] for group in cases],
    }


def _links(folder: Path, pages: Sequence[str | None]) -> list[str | None] | None:
    """The ways from a folder to pages, if there are any; never one that a browser takes for another scheme."""
    if not any(pages):
        return None
    here = os.getcwd()
    paths = [page and os.path.join(here, page) for page in pages]
    common = os.path.commonprefix([path for path in paths if path]).rpartition("/")[0]  # noqa: RUF071  its folder
    way = os.path.relpath(f"{common}/", folder)  # once for all: it takes a while
    return [path and f"./{quote(os.fsencode(way + path[len(common) :]))}" for path in paths]


def _embedded(content: Any) -> Markup:
    """JSON that stands within a script element, whatever its texts hold."""
    return Markup(json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([HERE, SHARED]),
        autoescape=True,  # names and reasons are the users'
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("history.html")
