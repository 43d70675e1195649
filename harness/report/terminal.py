"""The terminal: rich tables on stdout."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from harness.report.cells import Table

COLOURS = {"faster": "green", "slower": "red", "wrong": "red", "failed": "red", "degraded": "yellow"}
LEAST_WIDTH = 100  # of a table that goes to a file or a pipe


def console() -> Console:
    """The console that tables go to."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=max(made.width, 160))


def show(out: Console, table: Table) -> None:
    """Prints one table."""
    drawn = RichTable(title=Text(table.title), title_justify="left", title_style="bold", header_style="bold")
    for header, right in zip(table.headers, table.right, strict=True):
        drawn.add_column(header, justify="right" if right else "left", overflow="fold")
    for row in table.rows:
        # plain Text: a variant's name is not markup
        drawn.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in row))
    out.print(drawn)
