"""The command lines of the small programs: argparse, with errors of one line and their exit status."""

from __future__ import annotations

import argparse
import io
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import NoReturn, ParamSpec

from harness.configuration.errors import UsageError, unknown

P = ParamSpec("P")

MARGIN = 2  # columns that argparse leaves free


class Parser(argparse.ArgumentParser):
    """The parser of `python -m harness.DOOR`, whose errors are UsageErrors, as everywhere in the harness.

    `epilog` ends the help as it is written: examples, and what the exit status says.
    """

    def __init__(self, door: str, description: str, epilog: str, usage: str | None = None):
        super().__init__(
            prog=f"python -m harness.{door}",
            usage=usage,
            description=textwrap.fill(description, shutil.get_terminal_size().columns - MARGIN),
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def add_config_dir(self) -> None:
        """Adds --config-dir, as of a run."""
        text = "a further folder of configuration, with operations or devices of your own"
        self.add_argument("--config-dir", "-cd", metavar="DIR", type=Path, help=text)

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        raise UsageError(f"{message}; see {self.prog} --help")


def choice(option: str, choices: Sequence[str]) -> Callable[[str], str]:
    """The type of an argument that is one of `choices`."""

    def read(text: str) -> str:
        if text not in choices:
            raise unknown(option, text, choices)
        return text

    return read


def share(option: str, example: str) -> Callable[[str], float]:
    """The type of an argument that is a fraction below 1, or a percentage; the example shows both."""

    def read(text: str) -> float:
        try:
            value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            value = math.nan
        if not 0 < value < 1:
            raise UsageError(f"{option}={text}: expected a share such as {example}")
        return value

    return read


def number(option: str, minimum: float, kind: type[int] | type[float] = int) -> Callable[[str], float]:
    """The type of an argument that is a number of at least `minimum`."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not minimum <= value < math.inf:
            raise UsageError(f"{option}={text}: expected a number of {minimum:g} or more")
        return value

    return read


def exit_status(main: Callable[P, int]) -> Callable[P, int]:
    """Wraps a main function so that errors become a line on stderr and an exit status.

    2 if the command is at fault, 1 if a file or folder is, 130 on Ctrl-C; else what the function returns.
    """

    @wraps(main)
    def ended(*arguments: P.args, **options: P.kwargs) -> int:
        open_streams()
        try:
            return flushed(main(*arguments, **options))
        except UsageError as error:
            return usage_fault(error)
        except OSError as error:
            return cannot_write(error)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130

    return ended


def open_streams() -> None:
    """Opens those of stdin, stdout and stderr that the shell has closed, and has all of them replace odd characters.

    Else the next files that are opened would take their numbers, and a text without an encoding would end the program.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            os.set_inheritable(number, True)  # processes that are started have it too, and not a file of theirs
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def usage_fault(error: UsageError) -> int:
    """Prints what is wrong with the command, in one line; returns the exit status, 2."""
    print(f"error: {' '.join(str(error).splitlines())}", file=sys.stderr)
    return 2


def flushed(status: int) -> int:
    """Flushes stdout; returns `status`, or at least 1 after an error, which is printed."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return max(status, cannot_write(error))
    return status


def cannot_write(error: OSError) -> int:
    """Prints what could not be read or written, `outputs/…: No space left on device`; returns the exit status, 1.

    An error without a file name is one of stdout: files that the harness writes are named in their errors.
    """
    if not isinstance(error, BrokenPipeError):  # as of `| head`, after which programs end silently
        print(f"error: {error.filename or 'stdout'}: {error.strerror or error}", file=sys.stderr)
    if error.filename is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else its last flush complains once more
    return 1
