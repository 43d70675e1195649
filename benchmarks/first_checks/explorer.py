"""neuron-explorer: the shape and the units of its summary, and its tables."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from pathlib import Path

from first_checks import Check
from harness.devices import neuron_explorer, neuron_summary
from harness.measure.trace import PER_CORE

TIMEOUT_S = 600


def summary(folder: Path) -> Check:
    """What the program prints of the capture in `folder`."""
    found = neuron_explorer.Explorer(TIMEOUT_S).summarize(folder)
    shares = [value for name, value in found.metrics.items() if name in neuron_summary.PERCENT]
    yield "its percentages are shares of one", max(shares) <= 100 if shares else None, shares
    known = set(neuron_summary.COLUMNS) <= set(found.metrics) if found.metrics else None
    yield "neuron-explorer's summary has the documented keys", known, found.metrics or found.problems


def tables(folder: Path, scratch: Path) -> Check:
    """What it writes as Parquet, below `scratch`."""
    if neuron_explorer.installed() is None:
        yield "neuron-explorer writes Parquet tables where it is told to", None, "not installed"
        return
    where = ["--output-format", "parquet", "--data-path", str(scratch), "--display-name", "checks", "--ingest-only"]
    command = [neuron_explorer.PROGRAM, "view", "-d", str(folder.absolute()), *where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    files = sorted(str(path.relative_to(scratch)) for path in scratch.rglob("*.parquet"))
    yield "neuron-explorer writes Parquet tables where it is told to", bool(files), files or done.stderr[-300:]
    try:
        rows = {name: neuron_summary.table(scratch, name) for name in (*neuron_summary.TABLES, "SystemProfileEvents")}
    except ImportError as error:
        yield "their columns are as documented", None, f"{error}; pip install pyarrow"
        return
    summed = rows[neuron_summary.SUMMARY]
    known = neuron_summary.of_value(summed)
    yield "Summary has a row with the known keys", bool(known) if summed else None, known
    throttling = rows[neuron_summary.THROTTLING]
    share = neuron_summary.of_throttling(throttling)
    yield "ThrottleSummary has a share of one", max(share.values()) <= 100 if share else None, throttling
    cores = defaultdict(set)
    for row in rows["SystemProfileEvents"]:
        if str(row.get("name")).startswith(PER_CORE):
            cores[tuple(row.get("flow_id") or ())].add(row.get("pcore_idx"))
    numbers = set(map(len, cores.values()))
    seen = f"{len(cores)} flows, on {sorted(numbers)} physical cores each"
    yield "each flow has one execution on each physical core", len(numbers) == 1 if cores else None, seen
