"""The command line of the judge: one verdict or several as JSON on stdout, and an exit status that is one too."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.configuration.command_line import Parser, exit_status, number
from harness.configuration.errors import CaseError, UsageError

SCHEMA_VERSION = 1
EXAMPLES = """\
examples:
  python -m harness.judge candidate.py --op rmsnorm
  python -m harness.judge candidate.py --op rmsnorm --fn fast dtype=float32 op.dims.hidden=256
  python -m harness.judge first.py second.py --op softmax --seconds 30

exit status: 0 all candidates are valid; 1 one is not; 2 the command is at fault
"""


@exit_status
def main() -> int:
    """Runs the program; returns its exit status."""
    since = time.monotonic()
    args = _parser().parse_intermixed_args()
    files = [word for word in args.words if "=" not in word]
    overrides = [word for word in args.words if "=" in word]
    if not files:
        raise UsageError("CANDIDATE: name the file of at least one; see python -m harness.judge --help")
    from harness.judge import candidate, judging, verdict  # not above: --help takes less time without

    candidates = candidate.read(files, args.fn, args.op)
    try:
        with tempfile.TemporaryDirectory(prefix="harness-judge-") as folder:
            seen, faults = judging.judged(candidates, args.op, overrides, args.seconds, Path(folder))
    except CaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    verdicts = [verdict.of_fault(name, fault) for name, fault in faults.items()]
    if seen is not None:
        verdicts += [verdict.of_variant(seen, each.name) for each in candidates if each.name not in faults]
    verdicts = verdict.ranked(verdicts)
    print(json.dumps(_document(verdicts, seen, time.monotonic() - since), indent=2, allow_nan=False))
    return int(not all(each["valid"] for each in verdicts))


def _document(verdicts: list[dict[str, Any]], seen: Any, seconds: float) -> dict[str, Any]:
    """The first of the ranking, and the ranking if there are several, with what they were judged by."""
    document: dict[str, Any] = {"schema_version": SCHEMA_VERSION, **verdicts[0]}
    document["seconds"] = round(seconds, 2)
    if seen is not None:
        document["case"] = seen.key.title
        document["baseline"] = seen.baseline.name
        document["sandbox"] = seen.document["environment"].get("sandbox")
        document["warnings"] = seen.document["warnings"]
    if len(verdicts) > 1:
        document["ranking"] = verdicts
    return document


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m harness.judge",
        description="Judges kernels of which nobody knows how honest they are: whether each is right, how fast it is "
        "beside the operation's baseline, and what is suspicious about it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "words",
        metavar="CANDIDATE | KEY=VALUE",
        nargs="*",
        help="Python files, each with a function of the operation's inputs; and overrides, as of python -m harness",
    )
    parser.add_argument("--op", metavar="NAME", required=True, help="the operation, as in op=NAME")
    parser.add_argument(
        "--fn", metavar="NAME", help="the function in the files (default: named as the operation, or candidate)"
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=number("--seconds", 5, float),
        default=15.0,
        help="the time that it may take, all in (default: %(default)g)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
