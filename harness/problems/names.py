"""A problem's name as an operation has one."""

from __future__ import annotations

import re


def as_name(text: str) -> str:
    """In lower case, of letters, digits and _, without a number in front: `19_ReLU` is `relu`."""
    return re.sub(r"\W+", "_", re.sub(r"^\d+_", "", text)).strip("_").lower() or "problem"
