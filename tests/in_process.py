"""The program run within the tests' own process up to where it would measure: composed, checked and planned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from cli import in_process

from harness.configuration.errors import CaseError
from harness.report import sweep_report

STUB = "here it would be measured"


@dataclass
class Said:
    """What the program printed for a command line in place of measuring."""

    measured: int  # cases that would have been
    err: str

    @property
    def refusal(self) -> str:
        """The one line of a refusal; fails where it was none."""
        assert not self.measured, self.err
        return self.err


def say(arguments: list[str], folder: Path) -> Said:
    """Starts the program in a folder; fails where it neither measures nor refuses in one line with exit status 2."""
    cases = []

    def measure(*arguments: Any, **_: Any) -> Any:
        cases.append(arguments)
        raise CaseError(STUB)

    with (
        mock.patch("harness.execution.run_case.run_case", measure),
        mock.patch.object(sweep_report, "close", lambda folder, status: status),
    ):
        ran = in_process(*arguments, cwd=folder)
    message = ran.err.strip()
    assert "Traceback" not in message, message
    if cases:
        assert ran.status == 1 and STUB in message, (ran.status, message)
    else:
        assert ran.status == 2, (ran.status, message)
        assert message.startswith("error: ") and len(message.splitlines()) == 1, message
    return Said(len(cases), message)
