"""The device's side of a run: the life of a call, the activity of its engines, and how captures are viewed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from harness.report import markdown
from harness.report import tables as cells
from harness.report.tables import Table
from harness.results.comparison import Row
from harness.results.folder import Document

ENGINES = {
    "tensor_engine_pct": "Tensor",
    "vector_engine_pct": "Vector",
    "scalar_engine_pct": "Scalar",
    "gpsimd_engine_pct": "GpSimd",
    "dma_pct": "DMA",
    "mfu_pct": "MFU",
    "hbm_read_bytes": "HBM read",
    "hbm_write_bytes": "HBM written",
}


def tables(rows: Sequence[Row]) -> list[Table]:
    """What the device's timeline and neuron-explorer tell of the variants; none where there is no such device."""
    return [table for table in (_life(rows), _engines(rows)) if table is not None]


def captures(folder: Path, document: Document) -> str | None:
    """A page, in Markdown, on what the profiler left in a run's `folder`; None where it left nothing but traces."""
    captured = [measurement for measurement in document["measurements"] if measurement.get("capture")]
    if not captured:
        return None
    parts = [
        "# Captures",
        f"Run the commands in the run's folder:\n\n```bash\ncd {shlex.quote(str(folder.absolute()))}\n```",
        captured[0]["capture"]["viewing"],
    ]
    for measurement in captured:
        capture = measurement["capture"]
        parts.append(f"## {measurement['variant']}")
        parts += [f"**{trouble}**" for trouble in capture["troubles"]]
        if capture["commands"]:
            parts.append("```bash\n" + "\n".join(capture["commands"]) + "\n```")
        if capture["files"]:
            pairs = {pair["ntff"]: pair["neff"] or "no NEFF of its hash" for pair in capture["pairs"]}
            lines = [
                [file["path"], file["kind"], cells.size(file["bytes"]), pairs.get(file["path"], "")]
                for file in capture["files"]
            ]
            headers = ["File", "Kind", "Size", "Decoded by"] if pairs else ["File", "Kind", "Size"]
            lines = [line[: len(headers)] for line in lines]
            parts.append(markdown.table(Table("", headers, [header == "Size" for header in headers], lines)))
    return "\n\n".join(parts) + "\n"


def _life(rows: Sequence[Row]) -> Table | None:
    """From the host's dispatch to the device's execution, per call; gaps are the device waiting for its next work."""
    if all(row["device_busy_us"] is None for row in rows):
        return None
    label = rows[0]["device"].upper()
    columns = {
        "Variant": [row["variant"] for row in rows],
        "Host dispatches": [_count(row["host_dispatches"]) for row in rows],
        "Runtime schedules": [_count(row["runtime_schedules"]) for row in rows],
        "Device executions": [_count(row["device_executions"]) for row in rows],
        f"{label} busy": cells.times(rows, "device_busy_us"),
        f"{label} span": cells.times(rows, "device_span_us"),
        "Gaps": cells.times(rows, "device_gap_us"),
        "Gaps, of span": [_share(row) for row in rows],
    }
    lines = [list(line) for line in zip(*columns.values(), strict=True)]
    return Table("The life of a call", list(columns), [header != "Variant" for header in columns], lines)


def _engines(rows: Sequence[Row]) -> Table | None:
    """Activity over the whole capture, as neuron-explorer sums it up."""
    seen = [name for name in ENGINES if any(row[name] is not None for row in rows)]
    if not seen:
        return None
    lines = [[row["variant"], *(_engine(name, row[name]) for name in seen)] for row in rows]
    headers = ["Variant", *(ENGINES[name] for name in seen)]
    return Table("Engines, as neuron-explorer sums them up", headers, [name != "Variant" for name in headers], lines)


def _engine(name: str, value: float | None) -> str:
    if value is None:
        return cells.NOTHING
    return cells.percent(value / 100) if name.endswith("_pct") else cells.size(value)


def _count(value: float | None) -> str:
    return cells.NOTHING if value is None else f"{value:,.4g}"


def _share(row: Row) -> str:
    span = row["device_span_us"]
    return cells.percent(row["device_gap_us"] / span) if span else cells.NOTHING
