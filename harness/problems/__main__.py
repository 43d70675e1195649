"""The command line of problems: a run's results in the schema of the data set that its problem comes from."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.configuration.command_line import Parser, exit_status

EXAMPLES = """\
examples:
  python -m harness.problems outputs/2026-01-31/10-00-00-000000

exit status: 0 they are printed; 2 the command is at fault, or it is a run of something else
"""


@exit_status
def main(arguments: Sequence[str]) -> int:
    """Prints a line of JSON for each solution; returns the exit status."""
    parser = Parser(
        "problems",
        "Prints what a run of a FlashInfer-Trace definition found of its solutions, as Traces, a line of JSON each.",
        EXAMPLES,
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="of a run: outputs/DATE/TIME")
    args = parser.parse_args(arguments)
    from harness.problems.flashinfer_trace import traces
    from harness.results import storage
    from harness.results.comparison import Comparison

    for trace in traces(Comparison(storage.read(args.folder))):
        print(json.dumps(trace, allow_nan=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
