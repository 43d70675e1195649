"""neuron-explorer: has the program, if installed, summarize captures; never fails a run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.configuration.errors import one_line
from harness.devices import neuron_summary
from harness.devices.base import Summary
from harness.devices.neuron_summary import COLUMNS, SCHEMA

PROGRAM = "neuron-explorer"
RAW = "neuron-explorer-summary.txt"  # what it printed
SUMMARY, TABLES = "summary-json", "parquet"  # output formats
NOTABLE = 1.0  # percent of a capture; throttling for less is not mentioned


class ProgramError(Exception):
    """The program gave nothing that can be read; the message says why and what to do."""


def installed() -> str | None:
    """The program's path, or None if there is none."""
    return shutil.which(PROGRAM)


class Explorer:
    """The program; a format that took longer than `timeout_s` for one capture is not asked for again."""

    def __init__(self, timeout_s: float):
        self._timeout_s = timeout_s
        self._slow: set[str] = set()

    def summarize(self, folder: Path) -> Summary:
        """Sums up the capture in `folder`, and keeps there what the program printed.

        What its summary lacks is taken from its Parquet tables, which alone tell of throttling.
        """
        if installed() is None:
            where = "it comes with aws-neuronx-tools, in /opt/aws/neuron/bin"
            return Summary(problems=(f"engine activity is not known: {PROGRAM} is not on the PATH; {where}",))
        if SUMMARY in self._slow:
            return Summary()
        printed: dict[str, float] = {}
        tabled: dict[str, float] = {}
        notes: tuple[str, ...] = ()
        causes = []
        problems = []
        try:
            printed = self._printed(folder)
        except ProgramError as error:
            causes.append(str(error))
        if not {SUMMARY, TABLES} & self._slow:
            try:
                tabled, notes = self._tabled(folder)
            except ProgramError as error:
                causes.append(str(error))
                problems = [f"throttling is not known: {error}"]
        metrics = {**tabled, **printed}
        lacking = [column for column in COLUMNS if column not in metrics]
        if len(lacking) == len(COLUMNS):
            problems = [f"engine activity is not known: {'; '.join(dict.fromkeys(causes))}"]
        elif lacking:
            also = f"; {causes[-1]}" if causes else ", and so do its tables"
            why = "lacks them, or gives more than 1 for a share of one"
            problems.append(f"not known: {', '.join(lacking)}: {PROGRAM}'s summary {why}{also}")
        return Summary(metrics, tuple(problems), notes)

    def _printed(self, folder: Path) -> dict[str, float]:
        """The figures in the summary that the program prints as JSON."""
        failure = ProgramError(f"{PROGRAM} gave a summary in a form that is not known; it is kept in {RAW}")
        # a file keeps the output after a time-out, and no child process can hold it open as it could a pipe
        with (folder / RAW).open("w+b") as output, tempfile.TemporaryDirectory() as scratch:
            try:
                self._run(["-d", str(folder.absolute()), "--output-format", SUMMARY], output, scratch)
            except ProgramError as error:  # it may have printed all the same
                failure = error
            output.seek(0)
            metrics = neuron_summary.of_text(output.read().decode(errors="replace"))
        if not metrics:
            raise failure
        self._slow.discard(SUMMARY)  # it had answered, and went on to serve its pages
        return metrics

    def _tabled(self, folder: Path) -> tuple[dict[str, float], tuple[str, ...]]:
        """The figures in the Parquet tables that the program writes, and notes on them."""
        if importlib.util.find_spec("pyarrow") is None:  # before the program does in vain what may take long
            raise ProgramError(f"to read {PROGRAM}'s Parquet tables, pip install pyarrow")
        with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory() as scratch:
            where = ["--data-path", scratch, "--display-name", "capture", "--ingest-only"]
            self._run(["-d", str(folder.absolute()), "--output-format", TABLES, *where], output, scratch)
            try:
                read = {name: neuron_summary.table(Path(scratch), name) for name in neuron_summary.TABLES}
            except Exception as error:  # whatever pyarrow raises for a file that is damaged
                raise ProgramError(f"{PROGRAM}'s Parquet tables cannot be read: {one_line(error)}") from error
        metrics = neuron_summary.of_value(read[neuron_summary.SUMMARY])
        throttling = read[neuron_summary.THROTTLING]
        metrics |= neuron_summary.of_throttling(throttling)
        if not metrics:
            version = next(
                (f" of schema {row[SCHEMA]}" for row in read[neuron_summary.METADATA] if row.get(SCHEMA)), ""
            )
            raise ProgramError(f"{PROGRAM} wrote no Parquet tables{version} with a known figure")
        return metrics, _throttled(metrics.get(neuron_summary.THROTTLED, 0.0), neuron_summary.lowest_limit(throttling))

    def _run(self, arguments: Sequence[str], output: Any, folder: str) -> None:
        """Runs the program; raises ProgramError if it fails, or takes too long and is ended with what it started."""
        command = [PROGRAM, "view", *arguments]
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ProgramError(f"{PROGRAM} does not start: {one_line(error)}") from error
        try:
            status = process.wait(self._timeout_s)
        except subprocess.TimeoutExpired as error:
            self._slow.add(arguments[arguments.index("--output-format") + 1])
            what = f"{PROGRAM} gave no summary within {self._timeout_s:g} s"
            raise ProgramError(f"{what}; raise neuron.explorer_timeout_s") from error
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if status:
            output.seek(0)
            last = output.read().decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
            raise ProgramError(f"{PROGRAM} ended with exit status {status}: {one_line(last[0])}")


def _throttled(share: float, limit: float | None) -> tuple[str, ...]:
    """A note on throttling for a percentage of the capture, if that is enough to spoil the figures beside it."""
    if share < NOTABLE:
        return ()
    held = "" if limit is None else f", to {limit:.2g}% of its capacity at most"
    return (
        f"the core was throttled for {share:.2g}% of the capture{held}: after a pause it starts slowly, and calls with "
        "pauses between them are timed so; a call with more work (op.dims) shows its full speed",
    )
