"""Progress on stderr: silent where nobody looks."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

from rich.console import Console


def wanted() -> bool:
    """Whether somebody looks: on a terminal, outside CI."""
    return sys.stderr.isatty() and not os.environ.get("CI")


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """Shows what is being done, where somebody looks; yields a function to tell it."""
    if not wanted():
        yield lambda text: None
        return
    console = Console(stderr=True)
    with console.status(title, spinner="dots") as status:
        yield lambda text: status.update(f"{title}  {text}")
