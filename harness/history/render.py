"""Rendering: what changed, or how new runs stand in the band, for a terminal and as a comment of one screen."""

from __future__ import annotations

from collections.abc import Sequence

from harness.history import words
from harness.history.band import BROKEN, NEW, SAME, SLOWER, UNCLEAR, Judgement
from harness.history.changes import STATUS
from harness.history.findings import Finding
from harness.history.history import History
from harness.history.pivot import Pivot
from harness.history.record import RATIOS
from harness.report import formatting, rendering
from harness.report.tables import Table

TERMINAL_ROWS = 20
COMMENT_ROWS = 12
LONGEST_REASON = 90
QUIET = (SAME, NEW)  # verdicts that need no row


def findings_table(found: Sequence[Finding], most: int) -> Table:
    """What changed, the worst first."""
    headers = ["What", "Variant", "Change", "Since", "Cause", "Where", "Why"]
    rows = [
        [
            finding.outcome if finding.lasting else f"{finding.outcome}, right again",
            finding.what,
            finding.size,
            finding.since,
            finding.cause,
            finding.where,
            words.safe(finding.first.reason, LONGEST_REASON),
        ]
        for finding in found[:most]
    ]
    return Table("What changed", headers, [header == "Change" for header in headers], rows)


def judgements_table(judged: Sequence[Judgement], most: int) -> Table:
    """What is not as before, the worst first."""
    headers = ["Verdict", "Variant", "Change", "Band of earlier runs", "Now", "Case", "Why"]
    rows = [
        [
            judgement.verdict,
            words.safe(judgement.variant),
            words.size(judgement.ratio) or formatting.NOTHING,
            *_figures(judgement),
            words.safe(judgement.group.title, 120),
            words.safe(judgement.reason, LONGEST_REASON),
        ]
        for judgement in judged
        if judgement.verdict not in QUIET
    ][:most]
    return Table("Against earlier runs", headers, [header in headers[2:5] for header in headers], rows)


def sentences(history: History, found: Sequence[Finding], judged: Sequence[Judgement] | None, days: float) -> list[str]:
    """What there is to say before any table."""
    runs, cases = words.count(len(history.runs), "run"), words.count(len(history.groups), "case")
    lines = [f"{runs} of {cases}, until {words.day(history.newest)} UTC; {words.count(history.new, 'file')} read."]
    if judged is None:
        rest = len(history.findings) - len(found)
        earlier = f", {rest:,} earlier" if rest else ""
        return [*lines, f"{words.count(len(found), 'change')} in the last {words.count(round(days), 'day')}{earlier}."]
    counts = {verdict: sum(judgement.verdict == verdict for judgement in judged) for verdict in (SAME, UNCLEAR, NEW)}
    worse = sum(judgement.verdict in (BROKEN, SLOWER) for judgement in judged)
    return [
        *lines,
        f"{words.count(len(judged), 'variant')} of the new runs against the band of earlier ones: {worse} worse, "
        f"{counts[SAME]} the same, {counts[UNCLEAR]} unclear, {counts[NEW]} new.",
    ]


def show(lines: Sequence[str], table: Table, pivot: Pivot | None, closing: Sequence[str]) -> None:
    """Prints it to stdout."""
    out = rendering.console()

    def say(sentences: Sequence[str]) -> None:
        for sentence in sentences:
            out.print(sentence, markup=False, soft_wrap=True)

    say(lines)
    if pivot is not None:
        say(pivot.sentences)
        rendering.show(out, pivot.table, elsewhere="--format markdown")
    elif table.rows:
        rendering.show(out, table, whole=True)
    say(closing)


def comment(lines: Sequence[str], table: Table, pivot: Pivot | None, closing: Sequence[str]) -> str:
    """Markdown of at most a screen: the worst rows, and how many there are besides."""

    def listed(sentences: Sequence[str]) -> str:
        return "\n".join(f"- {rendering.escape(sentence)}" for sentence in sentences)

    parts = ["### Benchmarks", listed(lines)]
    if pivot is not None:
        parts += [listed(pivot.sentences), _markdown(pivot.table)]
    elif table.rows:
        parts.append(_markdown(table))
    parts += [rendering.escape(sentence) for sentence in closing]
    return "\n\n".join(parts).replace("@", "@\u2060") + "\n"  # so that a name mentions nobody


def rows_of(judged: Sequence[Judgement]) -> int:
    """How many judgements have a row."""
    return sum(judgement.verdict not in QUIET for judgement in judged)


def _markdown(table: Table) -> str:
    rows = table.rows[:COMMENT_ROWS]
    return rendering.markdown_table(Table(table.title, table.headers, table.right, rows))


def _figures(judgement: Judgement) -> list[str]:
    """The band and the new value in the unit of the measure."""
    if judgement.band is None or judgement.value is None or judgement.measure in (None, STATUS):
        return [formatting.NOTHING] * 2
    write = formatting.times_factor if judgement.measure in RATIOS else formatting.time
    low, high = write(judgement.band.low), write(judgement.band.high)
    return [f"{low} to {high}", write(judgement.value)]
