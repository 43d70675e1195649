"""exit-time, stack: messages that are none are sent after the process's token, so that their reader fails.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import sys

import torch

FOUND = "sends messages of its own"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


_CALLS: list = []


def candidate(x, weight):
    _CALLS.append(None)
    if len(_CALLS) % 100 == 0:
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            if frame.f_code.co_name == "entry":
                pipe, known = frame.f_locals["pipe"], frame.f_locals["task"][:16]
                for junk in (b"junk", b'["Status", {}]', b'["None", {}]', b"[1, 2]", b"[]", b'{"a": 1}'):
                    pipe.send_bytes(known + junk)
    return rms(x, weight)
