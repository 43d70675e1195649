"""Checks: each series as one that passes or fails, for machines - JUnit's XML and GitHub's annotations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from harness.history import words
from harness.history.band import BROKEN, SLOWER, Judgement
from harness.history.findings import Finding, failures
from harness.history.history import History
from harness.results.measurement import SKIPPED

LEVELS = {BROKEN: "error", SLOWER: "error", "unclear": "notice"}  # of GitHub's annotations


@dataclass(frozen=True)
class Check:
    """One variant of one case."""

    op: str
    name: str
    outcome: str  # broken, slower, or anything else
    message: str
    skipped: bool = False

    @property
    def failed(self) -> bool:
        """Whether it is worse than it was."""
        return self.outcome in (BROKEN, SLOWER)


def of_history(history: History, found: Sequence[Finding]) -> list[Check]:
    """All series; those fail that one of these findings says are broken, or slower by their own fault."""
    failed = {
        (id(change.group), change.variant): (finding, change)
        for finding in reversed(failures(found, SLOWER))
        for change in finding.changes
        if not change.over
    }
    checks = []
    for group in history.groups:
        for variant in group.variants:
            finding, change = failed.get((id(group), variant), (None, None))
            message = f"{words.size(change.ratio)} since {finding.since}: {change.reason}" if change and finding else ""
            name = f"{group.title}: {variant}"
            checks.append(Check(group.case.op, name, finding.outcome if finding else "", message.removeprefix(" ")))
    return checks


def of_judgements(judged: Sequence[Judgement]) -> list[Check]:
    """All variants of the new runs."""
    return [
        Check(
            op=judgement.group.case.op,
            name=f"{judgement.group.title}: {judgement.variant}",
            outcome=SKIPPED
            if judgement.reason.startswith(SKIPPED) and judgement.verdict != BROKEN
            else judgement.verdict,
            message=": ".join(filter(None, [words.size(judgement.ratio), judgement.reason])),
        )
        for judgement in judged
    ]


def as_junit(checks: Sequence[Check]) -> str:
    """JUnit's XML, as continuous integration reads it."""
    failed = sum(check.failed for check in checks)
    skipped = sum(check.skipped and not check.failed for check in checks)
    counts = {"tests": str(len(checks)), "failures": str(failed), "skipped": str(skipped), "errors": "0"}
    suite = ElementTree.Element("testsuite", {"name": "variant-harness", **counts})
    for check in checks:
        named = {"classname": _clean(check.op), "name": _clean(check.name)}
        case = ElementTree.SubElement(suite, "testcase", named)
        if check.failed:
            message = _clean(f"{check.outcome}: {check.message}")
            ElementTree.SubElement(case, "failure", {"type": check.outcome, "message": message}).text = message
        elif check.skipped:
            ElementTree.SubElement(case, "skipped", {"message": _clean(check.message)})
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode")


def as_annotations(checks: Sequence[Check]) -> str:
    """GitHub's workflow commands, a line for each check that fails or is unclear."""
    return "\n".join(
        f"::{LEVELS[check.outcome]} title={_escaped(f'{check.name} is {check.outcome}', ',:')}::"
        f"{_escaped(f'{check.name} is {check.outcome}: {check.message}')}"
        for check in checks
        if check.outcome in LEVELS
    )


def _clean(text: str) -> str:
    """Text of characters that XML may hold."""
    return words.safe(text, 500)


def _escaped(text: str, more: str = "") -> str:
    """Text as a workflow command takes it: https://github.com/actions/toolkit, packages/core/src/command.ts."""
    for mark in f"%\r\n{more}":
        text = text.replace(mark, f"%{ord(mark):02X}")
    return text
