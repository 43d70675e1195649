"""Encoding: messages as lines of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import get_args

from harness.execution.processes.messages import Message
from harness.measure.observations import from_plain

_KINDS = {kind.__name__: kind for kind in get_args(Message)}


def to_json(message: Message) -> bytes:
    """A message as one line of JSON."""
    return json.dumps([type(message).__name__, asdict(message)]).encode()


def from_json(line: bytes) -> Message:
    """The inverse of `to_json`."""
    name, plain = json.loads(line)
    message: Message = from_plain(_KINDS[name], plain)
    return message
