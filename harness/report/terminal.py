"""The terminal: rich tables on stdout."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from harness.report.tables import Table

COLOURS = {"faster": "green", "slower": "red", "wrong": "red", "failed": "red", "degraded": "yellow"}
PIPE_WIDTH = 160  # of a table that goes to a file or a pipe
NAME_WIDTH = 12  # the first column may be folded down to this; the others are never broken
FRAME = 3  # what a column's border and padding take


def console() -> Console:
    """The console that tables go to."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=max(made.width, PIPE_WIDTH))


def show(out: Console, table: Table, whole: bool = False) -> None:
    """Prints one table; where it is too wide, without its last columns, or with folded cells if it is to be `whole`."""
    fitting = len(table.headers) if whole else _fitting(table, out.width)
    left_out = table.headers[fitting:]
    drawn = RichTable(title=Text(table.title), title_justify="left", title_style="bold", header_style="bold")
    for index, header in enumerate(table.headers[:fitting]):
        justify = "right" if table.right[index] else "left"
        drawn.add_column(header, justify=justify, overflow="fold", no_wrap=index > 0 and not whole)  # type: ignore[arg-type]
    for row in table.rows:
        # plain Text: a variant's name is not markup
        drawn.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in row[:fitting]))
    out.print(drawn)
    if left_out:
        out.print(f"(too wide for {', '.join(left_out)}: see the files)", markup=False, soft_wrap=True)


def _fitting(table: Table, width: int) -> int:
    """How many columns fit."""
    widths = [max(map(cell_len, column)) for column in zip(table.headers, *table.rows, strict=True)]
    used = 1 + FRAME + min(widths[0], NAME_WIDTH)
    for index, wide in enumerate(widths[1:], start=1):
        used += FRAME + wide
        if used > width:
            return max(index, 2)
    return len(widths)
