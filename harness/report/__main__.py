"""The command line of the report: makes the tables, charts and pages of a run or a sweep again from its results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.configuration.command_line import Parser, exit_status
from harness.configuration.errors import UsageError

if TYPE_CHECKING:
    from harness.results.comparison import Comparison

EXAMPLES = """\
examples:
  python -m harness.report outputs/2026-01-31/10-00-00-000000

exit status: 0 they are made; 1 they cannot be written; 2 the command is at fault, or there are no results
"""


@exit_status
def main() -> int:
    """Runs the program; returns its exit status."""
    parser = Parser(
        "report", "Makes the tables, charts and pages of a run or a sweep again from its results.", EXAMPLES
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="of a run or of a sweep: outputs/DATE/TIME")
    return remake(parser.parse_args().folder)


def remake(folder: Path) -> int:
    """Rewrites every derived file below a folder, a sweep's cases first, and shows a run's tables.

    Raises UsageError if it is a file, as a copy of results.json is, beside which nothing is made.
    """
    from harness.report import run_report
    from harness.report.sweep_report import collect
    from harness.results import storage, sweeps

    if folder.is_file():
        raise UsageError(f"{folder}: is a file; expected the folder of a run or of a sweep, outputs/DATE/TIME")
    if not (folder / storage.SWEEP).is_file():
        run_report.show(folder, one(folder))
    else:
        for case in sweeps.read(folder).cases:
            if case.missing is None:
                one(folder / case.planned.folder)
        collect(folder)
        print(f"Results: {folder}")
    return 0


def one(folder: Path) -> Comparison:
    """Makes a run's report again, with all its charts; returns its comparison."""
    from harness.report import run_report
    from harness.results import storage
    from harness.results.comparison import Comparison

    comparison = Comparison(storage.read(folder))
    run_report.write(folder, comparison)
    return comparison


if __name__ == "__main__":
    sys.exit(main())
