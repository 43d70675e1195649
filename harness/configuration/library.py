"""The library's own functions, `variants.OP.NAME`, importable even if the user has a package of that name."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PACKAGE = "variants"
FOLDER = Path(__file__).parents[2] / PACKAGE


def import_library() -> None:
    """Lets the library's modules be imported from `variants`, before those of a package of the user's of that name.

    A folder or file called `variants` where Python looks first would hide them; its other modules stay importable.
    """
    try:
        package = importlib.import_module(PACKAGE)
    except ModuleNotFoundError:
        return
    path = [str(FOLDER), *(str(folder) for folder in getattr(package, "__path__", []))]
    package.__path__ = list(dict.fromkeys(path))


def hidden(op: Mapping[str, Any]) -> list[str]:
    """A sentence for each file of the user that is shadowed by a module of the library which an operation uses.

    `op` is the section of this name in the configuration.
    """
    variants = [value.get(key) for value in op["variants"].values() for key in ("fn", "nki")]
    functions = [str(function) for function in (op["inputs"], op["reference"], op.get("work"), *variants)]
    named = {path.split(".")[1] for path in functions if path.startswith(f"{PACKAGE}.") and path.count(".") > 1}
    searched = [Path(entry or ".").resolve() / PACKAGE for entry in sys.path]
    before = itertools.takewhile(lambda folder: folder != FOLDER.resolve(), searched)
    sentences = []
    for folder in dict.fromkeys(before):
        for name in sorted(named):
            own = folder / f"{name}.py"
            if own.is_file() and (FOLDER / f"{name}.py").is_file():
                sentences.append(
                    f"{PACKAGE}.{name}: {own} is not used, since the harness's own {PACKAGE}/{name}.py stands before "
                    "it; give yours another name"
                )
    return sentences
