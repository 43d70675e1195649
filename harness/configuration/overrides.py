"""Overrides: command-line arguments in Hydra's grammar, quoted so that Hydra reads texts as texts."""

from __future__ import annotations

import re

PLAIN = re.compile(r"[A-Za-z_./][\w./-]*", re.ASCII)  # reads as itself, without quotes
RESERVED = ("null", "true", "false", "nan", "inf")
TEXTS = re.compile(r"\+{0,2}(variants|op\.baseline|worker\.env\.\w+)", re.ASCII)  # keys that hold names and texts
WORD = re.compile(r"(?<![\w.+:/-])[\w.+-]+(?![\w.+:/-])", re.ASCII)
LITERAL = re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)(e[-+]?\d[\d_]*)?|[-+]?(inf|nan)|true|false", re.IGNORECASE)


def quoted(text: object) -> str:
    """A text as a value of an override, in quotes if it needs them."""
    plain = str(text)
    if PLAIN.fullmatch(plain) and plain.lower() not in RESERVED:
        return plain
    escaped = re.sub(r"(\\+)(?='|$)", r"\1\1", plain).replace("'", "\\'")  # a backslash counts before a quote alone
    return f"'{escaped}'"


def key_of(argument: str) -> str:
    """The key of an override, without what Hydra's grammar puts around it; the argument itself if it has none."""
    return argument.partition("=")[0].lstrip("+~").partition("@")[0] or argument


def assignment(key: str, value: object) -> str:
    """An override that gives a key a text."""
    return f"{key}={quoted(value)}"


def as_written(argument: str) -> str:
    """An argument whose numbers and truth values are put in quotes, if its key holds names or texts.

    Hydra reads 1e5, 1_000 and true as values, and what was written is lost: worker.env.B=1e5 would set 100000.0.
    """
    key, equals, value = argument.partition("=")
    if not equals or not TEXTS.fullmatch(key) or re.search(r"['\"{}()$\\]", value):
        return argument
    return f"{key}={WORD.sub(lambda word: _literal(word[0]), value)}"


def _literal(word: str) -> str:
    return f"'{word}'" if LITERAL.fullmatch(word) and not re.fullmatch(r"0|[1-9]\d*", word) else word
