"""Source: the code of a problem, its name as an operation has one, and files of it unpacked. Imports no torch."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import re
import tempfile
from pathlib import Path

from platformdirs import user_cache_path

from harness.configuration.errors import UsageError, one_line

Sources = tuple[tuple[str, str], ...]  # paths and contents


def parsed(text: str | bytes, key: str, file: str = "<problem>") -> ast.Module:
    """The syntax tree of code that `key` names; raises UsageError if it is not Python."""
    try:
        return ast.parse(text, file)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        raise UsageError(f"{key}: not Python: {where}{error.msg}") from error
    except (TypeError, ValueError, RecursionError, MemoryError) as error:  # no text, a null byte, nested too deep
        raise UsageError(f"{key}: not Python: {one_line(error)}") from error


def as_name(text: str) -> str:
    """In lower case, of letters, digits and _, without a number in front: `19_ReLU` is `relu`."""
    return re.sub(r"\W+", "_", re.sub(r"^\d+_", "", text)).strip("_").lower() or "problem"


def unpacked(sources: Sources) -> Path:
    """The folder in the user's cache that holds these files, whose name depends on what is in them.

    Raises UsageError if a path leads out of it, OSError if it cannot be written.
    """
    digest = hashlib.sha256(json.dumps(sources).encode()).hexdigest()[:16]
    folder = user_cache_path("variant-harness") / "problems" / digest
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        for name, content in sources:
            file = Path(made, "files", name)
            if ".." in file.parts or not file.is_relative_to(made):
                raise UsageError(f"{name}: leads out of the folder of its solution")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        with contextlib.suppress(OSError):  # another process has been faster
            Path(made, "files").rename(folder)
    return folder


def unpack(path: Path) -> None:
    """Unpacks a solution for processes that may write nothing; what is wrong with it is found when it is made."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, UsageError):
        sources = json.loads(path.read_text(encoding="utf-8"))["sources"]
        unpacked(tuple((each["path"], each["content"]) for each in sources))
