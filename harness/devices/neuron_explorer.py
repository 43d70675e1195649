"""neuron-explorer: has the program, if installed, summarize a capture; never fails a run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.configuration.errors import one_line
from harness.devices.base import Summary

PROGRAM = "neuron-explorer"
RAW = "neuron-explorer-summary.txt"  # what it printed

# A column, and its key in the summary, whose values are shares of one whatever their name says
PERCENT = {
    "tensor_engine_pct": "tensor_engine_active_time_percent",
    "vector_engine_pct": "vector_engine_active_time_percent",
    "scalar_engine_pct": "scalar_engine_active_time_percent",
    "gpsimd_engine_pct": "gpsimd_engine_active_time_percent",
    "dma_pct": "dma_active_time_percent",
    "mfu_pct": "mfu_estimated_percent",
}
AMOUNT = {"hbm_read_bytes": "hbm_read_bytes", "hbm_write_bytes": "hbm_write_bytes"}


def installed() -> str | None:
    """The program's path, or None if there is none."""
    return shutil.which(PROGRAM)


def summarize(folder: Path, timeout_s: float) -> Summary:
    """Sums up the capture in `folder`, and keeps there what the program printed."""
    program = installed()
    if program is None:
        return Summary(problem=f"{PROGRAM} is not on the PATH; it comes with aws-neuronx-tools, in /opt/aws/neuron/bin")
    # a file keeps the output after a time-out, and no child process can hold it open as it could a pipe
    with (folder / RAW).open("w+b") as output, tempfile.TemporaryDirectory() as scratch:
        command = [program, "view", "-d", str(folder.absolute()), "--output-format", "summary-json"]
        try:
            status = _run(command, output, scratch, timeout_s)
        except OSError as error:
            return Summary(problem=f"{PROGRAM} does not start: {one_line(error)}")
        output.seek(0)
        text = output.read().decode(errors="replace")
    metrics = parse(text)
    if metrics:
        return Summary(metrics)
    if status is None:
        return Summary(
            problem=f"{PROGRAM} gave no summary within {timeout_s:g} s; raise neuron.explorer_timeout_s", timed_out=True
        )
    if status:
        last = text.strip().splitlines()[-1:] or ["no message"]
        return Summary(problem=f"{PROGRAM} ended with exit status {status}: {last[0]}")
    return Summary(problem=f"{PROGRAM} gave a summary in a form that is not known; it is kept in {RAW}")


def parse(text: str) -> dict[str, float]:
    """The known figures of a summary, whether its root is a dict by core, a flat dict or a list; {} if there are none.

    Over several cores shares are averaged and amounts added up; shares become percentages from 0 to 100.
    """
    groups = list(_groups(_json(text)))
    metrics = {}
    for column, key in PERCENT.items():
        values = [value for group in groups if (value := _number(group.get(key))) is not None]
        if values:
            metrics[column] = 100 * sum(values) / len(values)
    for column, key in AMOUNT.items():
        values = [value for group in groups if (value := _number(group.get(key))) is not None]
        if values:
            metrics[column] = sum(values)
    return metrics


def _run(command: list[str], output: Any, folder: str, timeout_s: float) -> int | None:
    """The exit status, or None if it took too long and was ended with all that it had started."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _json(text: str) -> Any:
    """The JSON in a program's output, with or without lines of its log around it."""
    decoder = json.JSONDecoder()
    for position, letter in enumerate(text):
        if letter in "{[" and text[:position].rpartition("\n")[2].strip() == "":
            with contextlib.suppress(ValueError):
                value, _ = decoder.raw_decode(text, position)
                if isinstance(value, (dict, list)) and value:
                    return value
    return None


def _groups(value: Any) -> Iterator[Mapping[str, Any]]:
    """The innermost mappings that hold a known key: one for each core."""
    known = {*PERCENT.values(), *AMOUNT.values()}
    if isinstance(value, Mapping):
        if known & value.keys():
            yield value
        else:
            for inner in value.values():
                yield from _groups(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _groups(inner)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
