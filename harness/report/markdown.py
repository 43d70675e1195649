"""Markdown: tables to paste into a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.tables import Table


def table(content: Table) -> str:
    """A pipe table; what would end a cell is escaped."""
    lines = [_line(content.headers), _line(["---:" if right else "---" for right in content.right])]
    return "\n".join([*lines, *(_line([_escape(cell) for cell in row]) for row in content.rows)])


def page(title: str, sentences: Sequence[str], tables: Sequence[Table], warnings: Sequence[str], footer: str) -> str:
    """A whole comparison.md."""
    parts = [f"# {_escape(title)}"]
    if sentences:
        parts.append("\n".join(f"- {_escape(sentence)}" for sentence in sentences))
    for content in tables:
        parts.append(f"## {_escape(content.title)}\n\n{table(content)}")
    if warnings:
        parts.append("## Warnings\n\n" + "\n".join(f"- {_escape(warning)}" for warning in warnings))
    parts.append(footer)
    return "\n\n".join(parts) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    for mark in "\\|<>*_`[]":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")
