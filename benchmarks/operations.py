"""The table of the whole library in docs/operations.md: every operation at its own dims, measured on this machine.

With names of operations and --page, a part of the library on another page.
"""

from __future__ import annotations

import argparse
import re
from datetime import date
from pathlib import Path

from programs import ROOT, progress

from harness import compare
from harness.configuration.folders import options as configured
from harness.report import formatting, rendering
from harness.report.notebook import Comparison
from harness.report.tables import Table

START, END = "<!-- table: benchmarks/operations.py -->", "<!-- end -->"
MODES = ("forward", "forward_backward")


def main() -> None:
    args = options()
    sections = []
    machine = ""
    for mode in args.modes:
        results = []
        for op in args.operations:
            measured = compare(op, dtype=args.dtype, mode=mode, device=args.device, overrides=args.overrides)
            progress(f"{op} {mode}: {measured.document['stopped']}")
            results.append(measured)
        sections.append(f"### {mode}\n\n{rendering.markdown_table(table(results))}")
        machine = machine_of(results[0])
    text = args.page.read_text(encoding="utf-8")
    block = "\n\n".join([START, machine, *sections, END])
    text, count = re.subn(f"{re.escape(START)}.*?{re.escape(END)}", lambda _: block, text, flags=re.S)
    if count != 1:
        raise SystemExit(f"{args.page}: expected one {START} … {END}")
    args.page.write_text(text, encoding="utf-8")


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    library = [name for name in configured("op", []) if "/" not in name]
    parser.add_argument("operations", nargs="*", default=library, metavar="OP", help="default: the whole library")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "operations.md")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--modes", nargs="+", default=MODES)
    parser.add_argument("--overrides", nargs="+", default=[], help="further keys, such as latency.seconds=2")
    return parser.parse_args()


def table(results: list[Comparison]) -> Table:
    """A row for each variant of each operation; the operation stands in the first of its rows."""
    headers = ["Operation", "Dims", "Variant", "Latency", "Speedup", "Verdict", "Operator calls", "Of the bound"]
    rows = []
    for measured in results:
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


def machine_of(measured: Comparison) -> str:
    """The machine and the settings of the table."""
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
