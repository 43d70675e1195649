"""Token: by what a process's messages are known from those that a variant writes into its pipe.

Only the standard library is imported, so that an interpreter that lacks something can say so.
"""

from __future__ import annotations

import secrets

BYTES = 16


def new() -> bytes:
    """One for a process; its task is sent after it, and it sends each of its messages after it."""
    return secrets.token_bytes(BYTES)


def of(task: bytes) -> bytes:
    """The token of a process, from what it was sent."""
    return task[:BYTES]


def content(sent: bytes) -> bytes:
    """What was sent after a token."""
    return sent[BYTES:]
