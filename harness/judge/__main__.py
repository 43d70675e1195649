"""The command line of the judge: one verdict or several as JSON on stdout, and an exit status that is one too."""

from __future__ import annotations

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
  python -m harness.judge my_solution.py --problem my_problem.py op.shrink=8 dtype=float32

exit status: 0 all candidates are valid; 1 one is not; 2 the command is at fault
"""


@exit_status
def main() -> int:
    """Runs the program; returns its exit status."""
    since = time.monotonic()
    args = _parser().parse_intermixed_args()
    overrides = [word for word in args.words if "=" in word and not Path(word).is_file()]
    files = [word for word in args.words if word not in overrides]
    if not files:
        raise UsageError("CANDIDATE: name the file of at least one; see python -m harness.judge --help")
    from harness.judge import candidate, judging, verdict  # not above: --help takes less time without
    from harness.problems.reading import is_problem

    op = args.op or args.problem
    if args.problem is not None and not is_problem(args.problem):
        raise UsageError(f"--problem={args.problem}: expected a file, FILE.py or DEFINITION.json[:WORKLOAD]")
    if args.problem is not None and args.fn is not None:
        raise UsageError(f"--fn={args.fn}: a solution of a problem is a whole file; leave it out")
    candidates = candidate.read(files, args.fn, args.op)
    try:
        with tempfile.TemporaryDirectory(prefix="harness-judge-") as folder:
            seen, faults = judging.judged(candidates, op, overrides, args.config_dir, args.seconds, Path(folder))
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
    """The first of the ranking, and the ranking if there are several, with what they were judged by.

    Solutions of a definition of FlashInfer-Trace come as its Traces as well.
    """
    from harness.problems import flashinfer_trace

    document: dict[str, Any] = {"schema_version": SCHEMA_VERSION, **verdicts[0]}
    document["seconds"] = round(seconds, 2)
    if seen is not None:
        document["case"] = seen.key.title
        document["baseline"] = seen.baseline.name
        document["sandbox"] = seen.document["environment"].get("sandbox")
        document["warnings"] = seen.document["warnings"]
        if flashinfer_trace.is_of_definition(seen):
            document["traces"] = flashinfer_trace.traces(seen)
    if len(verdicts) > 1:
        document["ranking"] = verdicts
    return document


def _parser() -> Parser:
    parser = Parser(
        "judge",
        "Judges kernels of which nobody knows how honest they are: whether each is right, how fast it is beside the "
        "operation's baseline, and what is suspicious about it.",
        EXAMPLES,
    )
    parser.add_argument(
        "words",
        metavar="CANDIDATE | KEY=VALUE",
        nargs="*",
        help="files, each with a function of the operation's inputs, or a problem's solution; and overrides, as of "
        "python -m harness",
    )
    by = parser.add_mutually_exclusive_group(required=True)
    by.add_argument("--op", metavar="NAME", help="the operation, as in op=NAME")
    by.add_argument(
        "--problem",
        metavar="FILE",
        help="in place of an operation: a file of KernelBench's form, or a definition of FlashInfer-Trace, "
        "DEFINITION.json[:WORKLOAD]; the candidates are solutions, whole files",
    )
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
    parser.add_config_dir()
    return parser


if __name__ == "__main__":
    sys.exit(main())
