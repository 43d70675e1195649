"""Errors that the user can fix: one line that names the key, the value and the choices."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

LONGEST = 300  # characters of a message; the rest is in the log
MOST_NAMES = 40  # of what a module has: torch has hundreds


class UsageError(Exception):
    """The command, the configuration or an operation's own files are at fault; the program exits 2."""


class CaseError(Exception):
    """A case could not be measured at all, for a reason outside the command (a lost device, a full disk)."""


class Refused(BaseException):
    """Carries a UsageError past Hydra, which goes on after any Exception of a callback."""

    def __init__(self, error: UsageError):
        super().__init__(str(error))
        self.error = error


def nearest(name: str, choices: Iterable[str], prefix: str = "") -> str:
    """`did you mean cpu? ` for the choice that is nearest to a misspelt name; empty if none is near.

    Words are short, so that two thirds of the letters are in common by chance (tpu and cpu): that many are enough only
    where the first letter is right.
    """
    names = list(choices)
    alike = [choice for choice in names if choice[:1] == name[:1]]
    found = difflib.get_close_matches(name, names, 1, 0.7) or difflib.get_close_matches(name, alike, 1, 0.6)
    return f"did you mean {prefix}{found[0]}? " if found else ""


def with_article(noun: str) -> str:
    """`a str`, `an int`."""
    return f"{'an' if noun[:1] in 'aeiouAEIOU' else 'a'} {noun}"


def some(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first `most` of the texts, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def unknown(key: str, value: object, choices: Iterable[str], what: str = "choices") -> UsageError:
    """An error for a value that is not among `choices`: names the nearest, then all of them."""
    names = sorted(str(choice) for choice in choices)
    return UsageError(f"{key}={value}: unknown; {nearest(str(value), names)}{what}: {', '.join(names) or 'none'}")


def unknown_key(prefix: str, missing: str, names: Iterable[str]) -> UsageError:
    """An error for a key that does not exist below `prefix`, where `names` do."""
    known = sorted(names)
    dotted = f"{prefix}." if prefix else ""
    hint = nearest(missing, known, dotted)
    return UsageError(f"{dotted}{missing}: no such key; {hint}keys there: {', '.join(known) or 'none'}")


def one_line(error: BaseException | str) -> str:
    """The first non-empty line of a message, made printable and cut to LONGEST characters."""
    try:
        text = str(error)
    except BaseException:  # an exception's own __str__ may raise
        text = ""
    lines = ("".join(mark if mark.isprintable() else " " for mark in line).strip() for line in text.splitlines())
    line = next(filter(None, lines), type(error).__name__ if isinstance(error, BaseException) else "no message")
    line = line.encode("utf-8", "replace").decode()
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
