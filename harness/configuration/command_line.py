"""The command lines of the small programs: argparse, with errors of one line and their exit status."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec

from harness.configuration.errors import UsageError

P = ParamSpec("P")


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are UsageErrors, as all of the harness's are."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        raise UsageError(f"{message}; see {self.prog} --help")


def exit_status(main: Callable[P, int]) -> Callable[P, int]:
    """A main function that ends in an exit status, whatever it raises: a line on stderr says what went wrong.

    2 where the command is at fault, 1 where a file or folder is, 130 on Ctrl-C; else what the function returns.
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
    """Opens those of stdin, stdout and stderr that the shell has closed, and lets none refuse a character.

    Else the next files that are opened would take their numbers, and a text without an encoding would end the program.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def usage_fault(error: UsageError) -> int:
    """Says what is wrong with the command, in one line; returns the exit status, 2."""
    print(f"error: {' '.join(str(error).splitlines())}", file=sys.stderr)
    return 2


def flushed(status: int) -> int:
    """The status, when all that was printed has been written: else 1, and what is wrong is said."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return max(status, cannot_write(error))
    return status


def cannot_write(error: OSError) -> int:
    """Says what could not be read or written, `outputs/…: No space left on device`; returns the exit status, 1.

    What has no name is stdout: whatever the harness writes into a folder names its file.
    """
    if not isinstance(error, BrokenPipeError):  # as of `| head`, which says nothing of it either
        print(f"error: {error.filename or 'stdout'}: {error.strerror or error}", file=sys.stderr)
    if error.filename is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else its last flush complains once more
    return 1
