"""The list of operations, with dims, variants, and what would be skipped here; `python -m harness.list`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.configuration import compose as library
from harness.configuration.command_line import exit_status
from harness.configuration.errors import UsageError
from harness.configuration.operation import Case, resolve
from harness.configuration.schema import parse
from harness.report import terminal
from harness.report.tables import Table

USAGE = "usage: python -m harness.list [--config-dir DIR] [KEY=VALUE …]   (such as device=cpu)"


@exit_status
def main(arguments: Sequence[str]) -> int:
    """Prints the table; returns the exit status."""
    if {"-h", "--help"} & set(arguments):
        print(USAGE)
        return 0
    folder, overrides = _read(arguments)
    device, rows = listed(overrides, folder)
    headers = ["Operation", "Dims", "Variants, the baseline first", f"Skipped on {device}"]
    terminal.show(terminal.console(), Table("Operations: op=NAME", headers, [False] * len(headers), rows), whole=True)
    return 0


def listed(overrides: Sequence[str], folder: Path | None) -> tuple[str, list[list[str]]]:
    """The device that would measure, and a row for each operation; a preset stands below its operation.

    Raises UsageError where the overrides are at fault; an operation that is, says so in its row.
    """
    from harness.devices import choose  # not above: the help needs no torch

    device = choose(library.composed(overrides, folder)["device"])
    names = sorted(library.names(folder), key=lambda name: (Path(name).name, name.count("/")))
    rows = []
    for name in names:
        try:
            case, _ = parse(library.composed([f"op={name}", *overrides], folder))
            rows.append([name, _dims(case), _variants(case), _skipped(case, device)])
        except UsageError as error:
            rows.append([name, "", "", f"cannot be used: {error}"])
    return device.name, rows


def _read(arguments: Sequence[str]) -> tuple[Path | None, list[str]]:
    folder, overrides, pending = None, [], list(arguments)
    while pending:
        argument = pending.pop(0)
        if argument in ("--config-dir", "-cd") and pending:
            folder = Path(pending.pop(0))
        elif argument.startswith("--config-dir="):
            folder = Path(argument.partition("=")[2])
        elif "=" in argument and not argument.startswith("-"):
            overrides.append(argument)
        else:
            raise UsageError(f"{argument}: not known; {USAGE}")
    return folder, overrides


def _dims(case: Case) -> str:
    return " ".join(f"{name}={size}" for name, size in case.operation.dims.items())


def _variants(case: Case) -> str:
    names = [variant.name for variant in case.operation.variants]
    return ", ".join(sorted(names, key=lambda name: name != case.operation.baseline))


def _skipped(case: Case, device: Any) -> str:
    """A reason for each variant that would not be measured, and for a function that is not there."""
    operation, found = case.operation, []
    for key, function in (("inputs", operation.inputs), ("reference", operation.reference), ("work", operation.work)):
        if function is not None:
            resolve(function, f"op.{key}")
    for variant in operation.variants:
        reason = variant.unmet(device.name)
        if reason is None:
            resolve(variant.fn, f"op.variants.{variant.name}.fn")
        else:
            found.append(f"{variant.name}: {reason}")
    return "; ".join(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
