"""The list of operations, with dims, variants, and what would be skipped here; `python -m harness.list`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.configuration import compose
from harness.configuration.command_line import Parser, exit_status
from harness.configuration.devices import device_configs
from harness.configuration.errors import UsageError
from harness.configuration.folders import options
from harness.configuration.operation import Case, resolve
from harness.configuration.schema import parse
from harness.devices import choose
from harness.report import rendering
from harness.report.tables import Table

EXAMPLES = """\
examples:
  python -m harness.list
  python -m harness.list device=cuda
  python -m harness.list --config-dir conf

exit status: 0 they are listed; 2 the command is at fault
"""


@exit_status
def main(arguments: Sequence[str]) -> int:
    """Prints the table; returns the exit status."""
    parser = Parser(
        "list", "Lists the operations, with their dims and variants, and what would be skipped here.", EXAMPLES
    )
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*", help="as of a run, such as device=cpu")
    parser.add_config_dir()
    args = parser.parse_intermixed_args(arguments)
    for override in args.overrides:
        if "=" not in override:
            parser.error(f"{override}: expected KEY=VALUE")
    device, rows = listed(args.overrides, args.config_dir)
    headers = ["Operation", "Dims", "Variants, the baseline first", f"Skipped on {device}"]
    rendering.show(rendering.console(), Table("Operations: op=NAME", headers, [False] * len(headers), rows), whole=True)
    return 0


def listed(overrides: Sequence[str], folder: Path | None) -> tuple[str, list[list[str]]]:
    """The device that would measure, and a row for each operation; a preset stands below its operation.

    Raises UsageError if the overrides are at fault; an operation that is, says so in its row.
    """
    unused: dict[str, None] = {}  # each sentence once, not for each operation
    plain = compose.composed(overrides, folder, unused.setdefault)
    device = choose(plain["device"], device_configs(plain))
    names = sorted(
        options("op", [] if folder is None else [folder]), key=lambda name: (Path(name).name, name.count("/"))
    )
    rows = []
    for name in names:
        try:
            case, _ = parse(compose.composed([f"op={name}", *overrides], folder, unused.setdefault))
            rows.append([name, _dims(case), _variants(case), _skipped(case, device)])
        except UsageError as error:
            rows.append([name, "", "", f"cannot be used: {error}"])
    for sentence in unused:
        print(f"warning: {sentence}", file=sys.stderr)
    return device.name, rows


def _dims(case: Case) -> str:
    return " ".join(f"{name}={size}" for name, size in case.operation.dims.items())


def _variants(case: Case) -> str:
    names = [variant.name for variant in case.operation.variants]
    return ", ".join(sorted(names, key=lambda name: name != case.operation.baseline))


def _skipped(case: Case, device: Any) -> str:
    """Each reason for which variants would not be measured; raises UsageError for a function that is not there."""
    operation = case.operation
    skipped: dict[str, list[str]] = {}
    for key, function in (("inputs", operation.inputs), ("reference", operation.reference), ("work", operation.work)):
        if function is not None:
            resolve(function, f"op.{key}")
    for variant in operation.variants:
        reason = variant.unmet(device.name)
        if reason is None:
            variant.function()
        else:
            skipped.setdefault(reason, []).append(variant.name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in skipped.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
