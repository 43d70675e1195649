"""Progress on stderr: silent where nobody looks."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

from rich.console import Console


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """Shows what is being done, on a terminal and outside CI; yields a function to tell it."""
    if not sys.stderr.isatty() or os.environ.get("CI"):
        yield lambda text: None
        return
    console = Console(stderr=True)
    with console.status(title, spinner="dots") as status:
        yield lambda text: status.update(f"{title}  {text}")
