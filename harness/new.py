"""The files of a new operation, ready to run and to be filled in; `python -m harness.new my_op`."""

from __future__ import annotations

import importlib.util
import keyword
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.configuration.command_line import Parser, exit_status
from harness.configuration.errors import UsageError
from harness.configuration.folders import options

TEMPLATES = Path(__file__).parent / "configuration" / "templates"
PLACEHOLDER = "my_op"  # the name that the templates go by


@exit_status
def main(arguments: Sequence[str]) -> int:
    """Writes the files and prints what to do next; returns the exit status."""
    parser = Parser(
        prog="python -m harness.new",
        description="Writes the files of a new operation, ready to run and to be filled in.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="NAME", help="of the operation: NAME.py and conf/op/NAME.yaml are written here")
    name = parser.parse_args(arguments).name
    written = write(name, Path())
    for path, holds in zip(written, ("inputs, reference, work and variants", "dims and variants"), strict=True):
        print(f"wrote {path}: {holds}")
    print(f"run it: python -m harness --config-dir conf op={name}")
    return 0


def write(name: str, folder: Path) -> list[Path]:
    """Writes an operation's module and configuration below `folder`, and returns their paths.

    Raises UsageError if the name is not one that can be imported, or stands for something already.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name}: a module is named after it; expected letters, digits and _, such as my_op")
    module, config = folder / f"{name}.py", folder / "conf" / "op" / f"{name}.yaml"
    for path in (module, config):
        if path.exists():
            raise UsageError(f"{path} is there already; choose another name, or remove it")
    if name in options("op", []):
        raise UsageError(f"{name} is an operation of the library; choose another name")
    if importlib.util.find_spec(name) is not None:
        raise UsageError(f"{name} is a module that can be imported already; choose another name")
    config.parent.mkdir(parents=True, exist_ok=True)
    for path in (module, config):
        text = TEMPLATES.joinpath(f"{PLACEHOLDER}{path.suffix}").read_text(encoding="utf-8")
        path.write_text(text.replace(PLACEHOLDER, name), encoding="utf-8")
    return [module, config]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
