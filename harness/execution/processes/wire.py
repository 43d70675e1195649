"""The wire: messages in a pipe's bytes, read as they come, and told from those that a variant writes into it.

They are framed as multiprocessing's connections do it: the length in four bytes, or -1 and the length in eight. Only
the standard library is imported, so that an interpreter that lacks something can say so.
"""

from __future__ import annotations

import os
import secrets
import struct
from multiprocessing import connection

TOKEN = 16  # bytes: each message that a process sends begins with them
CHUNK = 1 << 20  # bytes read at a time
LONGEST = 1 << 28  # of what is held; no message is as long


def new_token() -> bytes:
    """One for a process; its task is sent after it, and it sends each of its messages after it."""
    return secrets.token_bytes(TOKEN)


def token(task: bytes) -> bytes:
    """The token of a process, from what it was sent."""
    return task[:TOKEN]


def content(sent: bytes) -> bytes:
    """What was sent after a token."""
    return sent[TOKEN:]


class Frames:
    """The messages that come by a connection, of which nothing else reads; one never whole keeps nobody waiting."""

    def __init__(self, pipe: connection.Connection):
        self._pipe = pipe
        self._bytes = bytearray()

    def read(self) -> bool:
        """Reads what there is, and waits if there is nothing; False at the end, or if nothing sensible comes.

        Raises OSError if it is broken.
        """
        chunk = os.read(self._pipe.fileno(), CHUNK)
        self._bytes += chunk
        return bool(chunk) and len(self._bytes) <= LONGEST

    def next(self) -> bytes | None:
        """The next message, None if it is not yet whole."""
        start = struct.calcsize("!i")
        if len(self._bytes) < start:
            return None
        (size,) = struct.unpack_from("!i", self._bytes)
        if size < 0:
            start, at = start + struct.calcsize("!Q"), start
            if len(self._bytes) < start:
                return None
            (size,) = struct.unpack_from("!Q", self._bytes, at)
        if len(self._bytes) < start + size:
            return None
        message = bytes(self._bytes[start : start + size])
        del self._bytes[: start + size]
        return message
