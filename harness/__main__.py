"""The command line: prints its help, or runs the program. Imports no torch, and for the help no Hydra either."""

from __future__ import annotations

import sys

from harness.configuration import help
from harness.configuration.command_line import exit_status, flushed, open_streams


def main() -> int:
    """Returns the exit status."""
    if help.wanted(sys.argv[1:]):
        return show_help()
    open_streams()
    from harness.report.program import main  # takes ten times as long to import as the help

    return main()


@exit_status
def show_help() -> int:
    """Prints the help; returns the exit status."""
    print(help.text(sys.argv[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(flushed(main()))
