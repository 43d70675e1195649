"""The command line of the bisection: finds the commit that changed a variant, in worktrees. Imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from harness.bisect.search import Search, Settings, UnclearError
from harness.bisect.trees import Trees
from harness.bisect.turns import FEWEST, Turns
from harness.configuration.command_line import Parser, exit_status, number, share
from harness.configuration.errors import UsageError
from harness.history import words

EXAMPLES = """\
examples:
  python -m harness.bisect --good v1.2 --bad HEAD -- op=rmsnorm 'variants=[naive,fused]'
  python -m harness.bisect --good v1.2 --bad HEAD --build 'make -C kernels' -- op=rmsnorm latency.seconds=5

exit status: 0 the commit is found; 1 it cannot be told; 2 the command is at fault
"""


@exit_status
def main() -> int:
    """Runs the program; returns its exit status."""
    args = _parser().parse_args()
    _check(args.overrides)
    settings = Settings(args.variant, args.threshold, args.confidence, args.turns)
    with Trees(args.good, args.bad) as trees:
        search = Search(trees, Turns(trees, args.overrides, args.build), settings, say=_progress)
        try:
            search.tell_apart()
            found = search.run(args.log)
        except UnclearError as error:
            print(f"Not found: {error}")
            return 1
    assert search.quantity is not None
    print(f"{found.name} is the first bad commit, after {words.count(search.steps, 'step')}.")
    print(f"{found.author}, {found.date}, {found.id}")
    print(f"{search.quantity.title}: {search.difference}")
    if search.skipped:
        print(f"Skipped: {', '.join(search.skipped)}")
    return 0


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _check(overrides: Sequence[str]) -> None:
    for override in overrides:
        if override in ("-m", "--multirun") or override.startswith("hydra."):
            raise UsageError(f"{override}: bisect measures one case, in folders of its own")


def _parser() -> Parser:
    parser = Parser(
        "bisect",
        "Finds the commit that made a variant slower, faster or wrong. Each step measures a commit side by side with "
        "the good one, in worktrees; commits that do not build or run are skipped, as by git bisect.",
        EXAMPLES,
        usage="%(prog)s --good COMMIT --bad COMMIT [options] -- OVERRIDES",
    )
    add = parser.add_argument
    add("--good", metavar="COMMIT", required=True, help="a commit that is as it should be")
    add("--bad", metavar="COMMIT", required=True, help="a commit that is not")
    add("--variant", metavar="NAME", help="the variant that changed (default: the one that changed most clearly)")
    add("--build", metavar="COMMAND", help="builds a commit, in its worktree; where it fails the commit is skipped")
    add("--log", metavar="FILE", type=Path, help="keep git's log of the bisection there; if it is there, go on from it")
    add(
        "--turns",
        metavar="N",
        type=number("--turns", FEWEST),
        default=8,
        help="pairs of runs that a step may take (default: %(default)s)",
    )
    add(
        "--threshold",
        metavar="SHARE",
        type=share("--threshold", "5% or 0.05"),
        default="5%",
        help="look for no smaller change than this (default: 5%%)",
    )
    add(
        "--confidence",
        metavar="SHARE",
        type=share("--confidence", "99% or 0.99"),
        default="99%",
        help="of each step (default: 99%%)",
    )
    add("overrides", metavar="OVERRIDES", nargs="*", help="what to measure, as for python -m harness")
    return parser


if __name__ == "__main__":
    sys.exit(main())
