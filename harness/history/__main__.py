"""The command line of histories: reads runs, says what changed, writes series.csv and index.html. Imports no torch."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from platformdirs import user_cache_path

from harness.configuration.command_line import Parser, choice, exit_status, number, share
from harness.configuration.errors import UsageError
from harness.history import band, checks, findings, helpers, history, pivot, table, words
from harness.history.band import BROKEN, SLOWER, Judgement
from harness.history.history import History, Settings
from harness.measure.garbage import no_garbage_collection
from harness.report import formatting

LEVELS = (BROKEN, SLOWER)
CHECKS = {"junit": checks.as_junit, "github": checks.as_annotations}
FORMATS = ("text", "markdown", *CHECKS)
NAMED = 4  # failures in the gate's sentence
EXAMPLES = """\
examples:
  python -m harness.history outputs --out history
  python -m harness.history --git benchmarks --out history
  python -m harness.history --git benchmarks --new outputs --format markdown --fail-on slower
  python -m harness.history outputs --pivot torch --where op=rmsnorm

exit status: 0 the gate passes, or there is none; 1 the gate fails; 2 the command is at fault, or there are no runs
"""


@exit_status
@no_garbage_collection()  # which would look through all runs again and again
def main() -> int:
    """Runs the program; returns its exit status."""
    args = _parser().parse_args()
    if not args.paths and args.git is None:
        raise UsageError("DIR: name folders of runs, or a branch by --git; see python -m harness.history --help")
    settings = Settings(args.store, args.threshold, args.confidence, dict(args.rename), dict(args.where))
    made = history.history(args.paths, args.git, settings)
    _warn(made.notices)
    side_by_side = pivot.pivot(made, args.pivot) if args.pivot is not None else None
    recent = findings.recent(made.findings, made.newest, args.days)
    judged = _judged(args.new, made, settings) if args.new else None
    writing = contextlib.nullcontext() if args.out is None else helpers.beside(partial(_write_table, args, made))
    with writing:
        from harness.history import page, render  # not earlier, but meanwhile: jinja2 and rich take a while

        if args.out is not None:
            page.write(args.out, made, args.threshold, args.days, side_by_side)
    if judged is None:
        failed = [f"{one.where}: {one.what}" for one in findings.failures(recent, args.fail_on)]
    else:
        failed = [f"{one.group.title}: {one.variant}" for one in band.failures(judged, args.fail_on)]
    if args.format in CHECKS:
        checked = checks.of_history(made, recent) if judged is None else checks.of_judgements(judged)
        print(CHECKS[args.format](checked))
    else:
        lines = render.sentences(made, recent, judged, args.days)
        most = render.TERMINAL_ROWS if args.format == "text" else render.COMMENT_ROWS
        rows = render.findings_table(recent, most) if judged is None else render.judgements_table(judged, most)
        more = (len(recent) if judged is None else render.rows_of(judged)) - len(rows.rows)
        closing = [*([f"… and {more} more."] if more and side_by_side is None else []), *_gate(args.fail_on, failed)]
        if args.format == "markdown":
            print(render.comment(lines, rows, side_by_side, closing), end="")
        else:
            render.show(lines, rows, side_by_side, [*closing, *([f"Results: {args.out}"] if args.out else [])])
    return int(bool(failed))


def _write_table(args: argparse.Namespace, made: History) -> None:
    table.write(args.out, made.groups, made.changes, args.store)


def _judged(paths: list[Path], made: History, settings: Settings) -> list[Judgement]:
    """How new runs stand in the band of earlier ones."""
    runs, told, _ = history.read(paths, None, settings)
    _warn([f"--new: {notice}" for notice in told])
    return band.judge(made, runs, settings.threshold, settings.confidence)


def _warn(notices: Sequence[str]) -> None:
    for notice in notices:
        print(f"WARNING {notice}", file=sys.stderr)


def _gate(level: str | None, failed: list[str]) -> list[str]:
    """The gate's sentence, if there is one."""
    if level is None:
        return []
    return [f"The gate fails on {words.safe(formatting.some(failed, NAMED), 300)}." if failed else "The gate passes."]


def _parser() -> Parser:
    parser = Parser(
        "history",
        "Says since when variants are slower, faster or wrong in many runs, and whether it is the code.",
        EXAMPLES,
    )
    add = parser.add_argument
    add(
        "paths",
        metavar="DIR",
        nargs="*",
        type=Path,
        help="folders of runs and sweeps, at any depth, or copies of a run's results.json under any names",
    )
    add("--git", metavar="BRANCH", help="the same in a branch of the repository around the working folder")
    add("--out", metavar="FOLDER", type=Path, help="write series.csv and index.html there")
    add(
        "--new",
        metavar="DIR",
        nargs="+",
        type=Path,
        default=[],
        help="runs that are not part of the history: each is compared with the band of the earlier ones",
    )
    add(
        "--fail-on",
        metavar="LEVEL",
        type=choice("--fail-on", LEVELS),
        help="exit with 1 if a variant that was right is not (broken); or if it is that, or slower (slower): of --new, "
        "or in the last --days",
    )
    add("--pivot", metavar="KEY", help="stand side by side by device, torch, machine, commit, variant, or another key")
    add(
        "--where",
        metavar="KEY=VALUE",
        type=_pair("--where", "op=rmsnorm"),
        action="append",
        default=[],
        help="only runs of which this holds, such as op=rmsnorm or torch=2.13.0; may be repeated",
    )
    add(
        "--rename",
        metavar="OLD=NEW",
        type=_pair("--rename", "fused=fused_v2"),
        action="append",
        default=[],
        help="a variant that was renamed; may be repeated",
    )
    add(
        "--days",
        metavar="N",
        type=number("--days", 0.01, float),
        default=30.0,
        help="what counts as lately (default: 30 before the last run)",
    )
    add(
        "--threshold",
        metavar="SHARE",
        type=share("--threshold", "3% or 0.03"),
        default="3%",
        help="claim no smaller change than this (default: 3%%)",
    )
    add(
        "--confidence",
        metavar="SHARE",
        type=share("--confidence", "99% or 0.99"),
        default="99%",
        help="of intervals, and of all claims on --new together (default: 99%%)",
    )
    add(
        "--format",
        metavar="FORMAT",
        type=choice("--format", FORMATS),
        default="text",
        help="of the output: text, markdown (a comment of a screen), junit (XML), github (annotations) (default: text)",
    )
    add(
        "--store",
        metavar="FILE",
        type=Path,
        default=user_cache_path("variant-harness") / "history.sqlite",
        help="where what was read is kept; may be removed at any time (default: %(default)s)",
    )
    return parser


def _pair(option: str, example: str) -> Callable[[str], tuple[str, str]]:
    def read(text: str) -> tuple[str, str]:
        key, equals, value = text.partition("=")
        if not key or not equals or not value:
            raise UsageError(f"{option}={text}: expected {example}")
        return key, value

    return read


if __name__ == "__main__":
    sys.exit(main())
