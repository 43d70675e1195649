"""Source: the code of a problem, and its name as an operation has one."""

from __future__ import annotations

import ast
import re

from harness.configuration.errors import UsageError, one_line


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
