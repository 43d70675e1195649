"""The table of the whole library in docs/operations.md: every operation at its own dims, measured on this machine.

python benchmarks/operations.py; with names of operations, and --page, a part of it on another page.
"""

from __future__ import annotations

import argparse
import re
from datetime import date
from pathlib import Path

from programs import ROOT, progress

from harness import compare
from harness.configuration import compose as library
from harness.report import formatting, rendering
from harness.report.notebook import Comparison
from harness.report.tables import Table

START, END = "<!-- table: benchmarks/operations.py -->", "<!-- end -->"
MODES = ("forward", "forward_backward")


def main() -> None:
    asked = options()
    tables, machine = [], ""
    for mode in asked.modes:
        found = []
        for op in asked.operations:
            measured = compare(op, dtype=asked.dtype, mode=mode, device=asked.device, overrides=asked.overrides)
            progress(f"{op} {mode}: {measured.document['stopped']}")
            found.append(measured)
        tables.append(f"### {mode}\n\n{rendering.markdown_table(table(found))}")
        machine = where(found[0])
    text = asked.page.read_text(encoding="utf-8")
    made = "\n\n".join([START, machine, *tables, END])
    text, places = re.subn(f"{re.escape(START)}.*?{re.escape(END)}", lambda _: made, text, flags=re.S)
    if places != 1:
        raise SystemExit(f"{asked.page}: expected one {START} … {END}")
    asked.page.write_text(text, encoding="utf-8")


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name in library.names() if "/" not in name]
    parser.add_argument("operations", nargs="*", default=names, metavar="OP", help="default: the whole library")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "operations.md")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--modes", nargs="+", default=MODES)
    parser.add_argument("--overrides", nargs="+", default=[], help="further keys, such as latency.seconds=2")
    return parser.parse_args()


def table(found: list[Comparison]) -> Table:
    """A row for each variant of each operation; the operation stands in the first of its rows."""
    headers = ["Operation", "Dims", "Variant", "Latency", "Speedup", "Verdict", "Operator calls", "Of the bound"]
    rows = []
    for measured in found:
        case, shown = measured.document["case"], measured.rows
        dims = " ".join(f"{name}={size}" for name, size in case["dims"].items())
        texts = [
            [row["variant"] for row in shown],
            [formatting.latency(row) for row in shown],
            [formatting.speedup(row) for row in shown],
            [formatting.verdict(row) for row in shown],
            [formatting.count(row["operator_calls"]) for row in shown],
            [share(row["bound_share"], row["bound"]) for row in shown],
        ]
        for number, row in enumerate(zip(*texts, strict=True)):
            rows.append([*((case["op"], dims) if number == 0 else ("", "")), *row])
    return Table("Operations", headers, [header not in (*headers[:3], "Verdict") for header in headers], rows)


def share(value: float | None, bound: str | None) -> str:
    """`12% (memory)`."""
    return formatting.NOTHING if value is None else f"{formatting.digits(100 * value, 2)}% ({bound})"


def where(measured: Comparison) -> str:
    """What the table was made on, and how."""
    document, device, environment = measured.document, measured.document["device"], measured.document["environment"]
    peaks = device.get("peaks")
    roof = ""
    if peaks:
        roof = f" Peaks: {peaks['flops_per_s'] / 1e9:,.3g} GFLOP/s, {peaks['bytes_per_s'] / 1e9:,.3g} GB/s"
        roof += f" ({peaks['source']})."
    return (
        f"Made on {date.today():%d %B %Y} on {device['name']}, {environment['cores']} cores, with torch "
        f"{environment['torch']}, in {document['case']['dtype']}.{roof}"
    )


if __name__ == "__main__":
    main()
