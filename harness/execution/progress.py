"""Progress on stderr, of a case and of a sweep: silent unless on a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from harness.results import storage, sweeps
from harness.results.plan import Plan

INTERVAL_S = 1.0  # rare enough not to slow what is measured meanwhile


def wanted() -> bool:
    """Whether anybody watches: on a terminal, outside CI."""
    return sys.stderr.isatty() and not os.environ.get("CI")


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """Shows what a case is doing; yields a function that updates it."""
    if not wanted():
        yield lambda text: None
        return
    console = Console(stderr=True)
    with console.status(title, spinner="dots") as status:
        yield lambda text: status.update(f"{title}  {text}")


@contextlib.contextmanager
def watch(folder: Path, plan: Plan, left: Sequence[int], elsewhere: bool) -> Iterator[Callable[[int], None]]:
    """Prints each failure as soon as its case has ended; on a terminal, also the progress of the sweep.

    If cases are measured `elsewhere`, a thread polls their files. Else there is no thread, which would run while a
    case is measured: the function that is yielded polls, and is called with the number of the case that comes next.
    """
    watcher = _Watch(folder, plan, left, elsewhere)
    thread = threading.Thread(target=watcher.poll, daemon=True) if elsewhere else None
    with watcher.progress:
        if thread is not None:
            thread.start()
        try:
            yield watcher.before
        finally:
            watcher.ended.set()
            if thread is not None:
                thread.join()
            watcher.update()


class _Watch:
    """A sweep's cases, as far as their files show them."""

    def __init__(self, folder: Path, plan: Plan, left: Sequence[int], elsewhere: bool):
        self.folder = folder
        self.open = {number: _stamps(folder / plan.cases[number].folder) for number in left}
        self.cases = plan.cases
        self.failed = 0
        self.ended = threading.Event()
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
            console=self.console,
            refresh_per_second=2,
            auto_refresh=elsewhere,
            disable=not wanted(),
            transient=True,
        )
        done = len(plan.cases) - len(left)
        self.task = self.progress.add_task("cases", total=len(plan.cases), completed=done, state="")

    def poll(self) -> None:
        while not self.ended.wait(INTERVAL_S):
            self.update()

    def before(self, number: int) -> None:
        """Updates, and shows the case that is about to start."""
        self.update()
        self._show([self.cases[number].name])

    def update(self) -> None:
        """Reports the cases that have started and ended since the last update."""
        running = []
        for number, before in list(self.open.items()):
            now = _stamps(self.folder / self.cases[number].folder)
            if now.ended and now.ended != before.ended:
                del self.open[number]
                self._ended(number)
            elif now.started != before.started:
                running.append(self.cases[number].name)
        self._show(running)

    def _ended(self, number: int) -> None:
        case = sweeps.look(self.folder, self.cases[number])
        failures = sweeps.failures([case], self.folder)
        self.failed += bool(failures)
        for sentence in failures:
            self.console.print(Text(sentence))
        self.progress.advance(self.task)

    def _show(self, running: Sequence[str]) -> None:
        parts = [f"{self.failed} failed"] if self.failed else []
        if running:
            parts.append(f"running: {running[0]}" if len(running) == 1 else f"{len(running)} running")
        self.progress.update(self.task, state="  ".join(parts), refresh=True)


@dataclass(frozen=True)
class _Stamps:
    """When a case was last started and ended, by the times of its files; 0: never."""

    started: int
    ended: int


def _stamps(folder: Path) -> _Stamps:
    ended = max(_written(folder / storage.FILE), _written(folder / storage.FAILURE))
    return _Stamps(_written(folder / ".hydra" / "config.yaml"), ended)


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
