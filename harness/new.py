"""The files of a new operation, ready to run and to be filled in; `python -m harness.new my_op`, `… my_op --nki`."""

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
KERNEL = "_nki"  # ends the name of the module that holds a kernel

EXAMPLES = """\
examples:
  python -m harness.new my_op
  python -m harness.new my_op --nki

exit status: 0 they are written; 1 they cannot be; 2 the command is at fault
"""


@exit_status
def main(arguments: Sequence[str]) -> int:
    """Writes the files and prints what to do next; returns the exit status."""
    parser = Parser("new", "Writes the files of a new operation, ready to run and to be filled in.", EXAMPLES)
    parser.add_argument("name", metavar="NAME", help="of the operation: NAME.py and conf/op/NAME.yaml are written here")
    parser.add_argument("--nki", action="store_true", help="with an NKI kernel, for Trainium, in NAME_nki.py")
    args = parser.parse_args(arguments)
    for path, holds in write(args.name, Path(), args.nki).items():
        print(f"wrote {path}: {holds}")
    print(f"run it: python -m harness --config-dir conf op={args.name}")
    return 0


def write(name: str, folder: Path, nki: bool = False) -> dict[Path, str]:
    """Writes an operation's modules and configuration below `folder`; returns their paths, and what each holds.

    Raises UsageError if the name is not one that can be imported, or stands for something already.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name}: a module is named after it; expected letters, digits and _, such as my_op")
    config = folder / "conf" / "op" / f"{name}.yaml"
    files = {folder / f"{name}.py": "inputs, reference, work and variants", config: "dims and variants"}
    if nki:
        files[folder / f"{name}{KERNEL}.py"] = "an NKI kernel"
    for path in files:
        if path.exists():
            raise UsageError(f"{path} is there already; choose another name, or remove it")
    if name in options("op", []):
        raise UsageError(f"{name} is an operation of the library; choose another name")
    for module in (path.stem for path in files if path is not config):
        if importlib.util.find_spec(module) is not None:
            raise UsageError(f"{module} is a module that can be imported already; choose another name")
    config.parent.mkdir(parents=True, exist_ok=True)
    for path in files:
        text = TEMPLATES.joinpath(path.name.replace(name, PLACEHOLDER)).read_text(encoding="utf-8")
        if not nki:
            text = "".join(line for line in text.splitlines(keepends=True) if PLACEHOLDER + KERNEL not in line)
        path.write_text(text.replace(PLACEHOLDER, name), encoding="utf-8")
    return files


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
