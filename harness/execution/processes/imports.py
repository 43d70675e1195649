"""Imported by the server that measuring processes are forked from: imports what they need, whatever one of it does.

Among it may be modules of the user's, which the server could not import by itself: it does not inherit sys.path, and
ends at any error but ImportError.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import sys
from collections.abc import Iterator, Sequence

VARIABLE = "HARNESS_IMPORTS"  # of the server alone: the modules to import, and where to find them
STRANGERS: list[str] = []  # folders with code that nobody trusts: measuring processes alone import from there


def variables(modules: Sequence[str]) -> dict[str, str]:
    """The variable that tells the server what to import."""
    return {VARIABLE: json.dumps({"modules": list(modules), "path": sys.path})}


@contextlib.contextmanager
def strangers() -> Iterator[None]:
    """A context in which modules are found in the folders of strangers as well, after everything else."""
    before = list(sys.path)
    sys.path += [folder for folder in STRANGERS if folder not in before]
    try:
        yield
    finally:
        sys.path[:] = before


def import_all(modules: Sequence[str], path: Sequence[str]) -> None:
    """Imports modules, and finds them in `path` besides."""
    gc.disable()  # its passes over what is imported would take a quarter of the time; each fork turns it on again
    sys.path += [entry for entry in path if entry not in sys.path]
    for module in modules:
        with contextlib.suppress(Exception, SystemExit):  # who needs it will import it again, and be told
            importlib.import_module(module)


if VARIABLE in os.environ:
    import_all(**json.loads(os.environ.pop(VARIABLE)))
