"""The command line of models: from a model to a decision. Imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from harness.configuration import compose
from harness.configuration.command_line import Parser, exit_status
from harness.configuration.errors import CaseError, UsageError
from harness.configuration.overrides import key_of

EXAMPLES = """\
examples:
  python -m harness.model my_model.build
  python -m harness.model my_model.build 'replace=[{of: my_model.Gelu, by: my_model.fused_gelu}]'
  python -m harness.model my_model.build mode=forward_backward --hotspots

exit status: 0 all that was asked for is right; 1 something is not, or could not be measured; 2 the command is at fault
"""


@exit_status
def main(arguments: Sequence[str]) -> int:
    """Runs the program; returns its exit status."""
    parser = Parser(
        "model",
        "Takes a model's step apart, measures its parts, and says which replacements are worth it.",
        EXAMPLES,
        usage="%(prog)s [options] BUILDER [KEY=VALUE ...]",
    )
    parser.add_argument(
        "arguments", metavar="BUILDER, KEY=VALUE", nargs="+",
        help="dotted path of a function that returns (module, inputs); keys as of a run, and replace=[{of: …, by: …}]",
    )  # fmt: skip
    parser.add_argument("--inputs", metavar="FUNCTION", help="makes the inputs, if BUILDER gives the module alone")
    parser.add_argument("--hotspots", action="store_true", help="only records the step: no case is measured")
    parser.add_argument("--levels", action="store_true", help="also lists the groups of all other levels")
    parser.add_config_dir()
    args = parser.parse_intermixed_args(arguments)
    overrides = [argument for argument in args.arguments if "=" in argument]
    builders = [argument for argument in args.arguments if "=" not in argument]
    if len(builders) != 1:
        parser.error(f"{' '.join(builders) or 'no builder'}: expected one BUILDER, and KEY=VALUE for all else")
    for override in overrides:
        if key_of(override).partition(".")[0] in NOT_OF_A_MODEL:
            raise UsageError(f"{override}: not for a model, whose cases are its own")
    plain, folder = compose.composed_run(list(map(_added, overrides)), args.config_dir)
    from harness.model import door

    asked = door.asked(builders[0], args.inputs, plain, folder, overrides, args.config_dir)
    try:
        return door.run(asked, measured=not args.hotspots, levels=args.levels)
    except CaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


NOT_OF_A_MODEL = ("op", "resume", "sweep")


def _added(override: str) -> str:
    """`replace` is a key of models alone, which the configuration of cases does not have."""
    return f"+{override}" if override.startswith("replace=") else override


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
