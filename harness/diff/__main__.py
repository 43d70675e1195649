"""The command line of the comparison of two runs; its exit status is a gate. Imports no torch."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.configuration.command_line import Parser, choice, exit_status, share
from harness.configuration.errors import unknown
from harness.diff.difference import LEVELS, Settings, difference, gate_failures
from harness.diff.render import as_json, as_markdown, show
from harness.diff.runs import METRICS

FORMATS = ("text", "markdown", "json")
EXAMPLES = """\
examples:
  python -m harness.diff outputs/2026-01-30/10-00-00-000000 outputs/2026-01-31/10-00-00-000000
  python -m harness.diff baselines/rmsnorm.json outputs/2026-01-31/10-00-00-000000 --fail-on slower
  python -m harness.diff OLD NEW --fail-on slower --threshold 10% --format markdown
  python -m harness.diff OLD NEW --fail-on slower --metric device

exit status: 0 the gate passes, or there is none; 1 the gate fails; 2 the command is at fault, or nothing compares
"""


@exit_status
def main() -> int:
    """Runs the program; returns its exit status."""
    args = _parser().parse_args()
    settings = Settings(args.threshold, args.confidence, args.absolute, args.metric)
    result = difference(args.old, args.new, settings)
    if args.format == "text":
        show(result, args.fail_on)
    elif args.format == "markdown":
        print(as_markdown(result, args.fail_on).rstrip("\n"))
    else:
        print(as_json(result, args.fail_on))
    return int(args.fail_on is not None and bool(gate_failures(result, args.fail_on)))


def _parser() -> Parser:
    parser = Parser(
        "diff", "Compares two runs, or two sweeps case by case: what became slower, faster, wrong or missing.", EXAMPLES
    )
    path = "a run's folder, a sweep's folder, or a copy of a run's results.json"
    parser.add_argument("old", metavar="OLD", type=Path, help=f"the baseline: {path}")
    parser.add_argument("new", metavar="NEW", type=Path, help="what to compare with it: the same")
    parser.add_argument(
        "--fail-on",
        metavar="LEVEL",
        type=choice("--fail-on", LEVELS),
        help="exit with 1 if a variant that was right is now wrong, failed, degraded, skipped or missing (broken); "
        "or if it is that, or slower (slower)",
    )
    parser.add_argument(
        "--metric",
        metavar="METRICS",
        type=_metrics,
        default=",".join(METRICS),
        help=f"what is compared and may fail a gate: {', '.join(METRICS)}, or both (default: %(default)s); device time "
        "if both runs have it",
    )
    parser.add_argument(
        "--threshold",
        metavar="SHARE",
        type=share("--threshold", "5% or 0.05"),
        default="5%",
        help="claim no smaller change than this, such as 10%% or 0.1 (default: 5%%); noisier runs claim less by "
        "themselves",
    )
    parser.add_argument(
        "--confidence",
        metavar="SHARE",
        type=share("--confidence", "99% or 0.99"),
        default="99%",
        help="joint confidence of all claims (default: 99%%)",
    )
    parser.add_argument(
        "--absolute",
        action="store_true",
        help="compare times as they are; without it, a change that all variants of a case share is attributed to "
        "the machine and is unclear",
    )
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        type=choice("--format", FORMATS),
        default="text",
        help=f"of the output: {', '.join(FORMATS)} (default: text)",
    )
    return parser


def _metrics(text: str) -> tuple[str, ...]:
    for name in text.split(","):
        if name not in METRICS:
            raise unknown("--metric", name, METRICS)
    return tuple(metric for metric in METRICS if metric in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
