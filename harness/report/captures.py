"""Captures: the page on what the device's profiler left in a run's folder, and how it is viewed."""

from __future__ import annotations

import shlex
from pathlib import Path

from harness.report import formatting
from harness.report.rendering import markdown_table
from harness.report.tables import Table
from harness.results.comparison import Comparison


def markdown(folder: Path, comparison: Comparison) -> str | None:
    """A page, in Markdown, on what the profiler left in a run's `folder`; None where it left nothing but traces."""
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
        parts += [f"**{trouble}**" for trouble in capture["troubles"]]
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
