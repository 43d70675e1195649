"""The command lines of the small programs: argparse, with errors of one line."""

from __future__ import annotations

import argparse
from typing import NoReturn

from harness.errors import UsageError


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are UsageErrors, as all of the harness's are."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        raise UsageError(f"{message}; see {self.prog} --help")
