"""Rendering: tables and sentences for a terminal, in Markdown and in a notebook's HTML."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from harness.report.tables import NAMES, Table

COLOURS = {
    **dict.fromkeys(("faster", "use"), "green"),
    **dict.fromkeys(("slower", "do not use", "wrong", "failed"), "red"),
    "degraded": "yellow",
}
PIPE_WIDTH = 160  # of a table that goes to a file or a pipe
NAME_WIDTH = 12  # the first column may be folded down to this; the others are never broken
FRAME = 3  # what a column's border and padding take


def console() -> Console:
    """The console that tables go to."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=max(terminal.width, PIPE_WIDTH))


def show(out: Console, table: Table, whole: bool = False, elsewhere: str = "the files") -> None:
    """Prints one table; if it is too wide, without its last columns, or with folded cells if it is to be `whole`.

    `elsewhere` is where the columns that are left out can be seen.
    """
    if _fitting(table, out.width) < len(table.headers):
        table = replace(table, headers=_folded(table))
    fitting = len(table.headers) if whole else _fitting(table, out.width)
    left_out = table.headers[fitting:]
    drawn = RichTable(title=Text(table.title), title_justify="left", title_style="bold", header_style="bold")
    for index, header in enumerate(table.headers[:fitting]):
        justify = "right" if table.right[index] else "left"
        drawn.add_column(header, justify=justify, overflow="fold", no_wrap=index > 0 and not whole)  # type: ignore[arg-type]
    coloured = [{} if " ".join(header.split()) in NAMES else COLOURS for header in table.headers]
    for row in table.rows:
        # plain Text: a variant's name is not markup
        drawn.add_row(*(Text(cell, of.get(cell, "")) for cell, of in zip(row[:fitting], coloured, strict=False)))
    out.print(drawn)
    if left_out:
        names = ", ".join(" ".join(header.split()) for header in left_out)
        out.print(f"(too wide for {names}: see {elsewhere})", markup=False, soft_wrap=True)


def _fitting(table: Table, width: int) -> int:
    """How many columns fit."""
    widths = [
        max(map(cell_len, [*header.split("\n"), *cells]))
        for header, *cells in zip(table.headers, *table.rows, strict=True)
    ]
    used = 1 + FRAME + min(widths[0], NAME_WIDTH)
    for index, wide in enumerate(widths[1:], start=1):
        used += FRAME + wide
        if used > width:
            return max(index, 2)
    return len(widths)


def _folded(table: Table) -> list[str]:
    """Headers in several lines, each as wide as its column's cells, or as its longest word."""
    return [
        "\n".join(textwrap.wrap(header, max(map(cell_len, [*header.split(), *cells, " "])), break_long_words=False))
        for header, *cells in zip(table.headers, *table.rows, strict=True)
    ]


def markdown_table(table: Table) -> str:
    """A pipe table; what would end a cell is escaped."""
    lines = [_line(table.headers), _line(["---:" if right else "---" for right in table.right])]
    return "\n".join([*lines, *(_line([escape(cell) for cell in row]) for row in table.rows)])


def markdown_page(
    title: str, sentences: Sequence[str], tables: Sequence[Table], warnings: Sequence[str], footer: str
) -> str:
    """A whole comparison.md."""
    parts = [f"# {escape(title)}"]
    if sentences:
        parts.append("\n".join(f"- {escape(sentence)}" for sentence in sentences))
    for table in tables:
        parts.append(f"## {escape(table.title)}\n\n{markdown_table(table)}")
    if warnings:
        parts.append("## Warnings\n\n" + "\n".join(f"- {escape(warning)}" for warning in warnings))
    parts.append(footer)
    return "\n\n".join(parts) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape(text: str) -> str:
    """Text whose marks mean nothing in Markdown, in one line."""
    for mark in "\\|<>*_`[]":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")


def html_table(table: Table) -> str:
    """A table for a notebook, which brings a style of its own."""
    align = [f' style="padding: 2px 8px; text-align: {"right" if right else "left"}"' for right in table.right]
    head = "".join(f"<th{style}>{html.escape(text)}</th>" for style, text in zip(align, table.headers, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{style}>{html.escape(text)}</td>" for style, text in zip(align, row, strict=True))
        + "</tr>"
        for row in table.rows
    )
    title = f'<caption style="padding: 2px 8px; text-align: left"><b>{html.escape(table.title)}</b></caption>'
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_list(texts: Sequence[str]) -> str:
    """A list for a notebook; nothing if there are no texts."""
    return f"<ul>{''.join(f'<li>{html.escape(text)}</li>' for text in texts)}</ul>" if texts else ""


def html_folded(title: str, content: str) -> str:
    """Content that a click unfolds; nothing if there is none."""
    return f"<details><summary>{title}</summary>{content}</details>" if content else ""
