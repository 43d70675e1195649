"""environment, baseline: a tracing function waits whenever the baseline is called.

Not reported; a turn of a reported kind.
"""

from __future__ import annotations

import sys
import threading
import time

import torch

FOUND = "the tracing function|the tools of sys.monitoring"


def rms(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)


def _wait(frame, event, arg):
    if frame.f_code.co_name == "naive":
        time.sleep(0.0002)


def candidate(x, weight):
    if hasattr(sys, "monitoring"):  # Python 3.12
        tools = sys.monitoring
        if tools.get_tool(tools.DEBUGGER_ID) is None:
            tools.use_tool_id(tools.DEBUGGER_ID, "waits")
            waits = lambda code, offset: time.sleep(0.0002 * (code.co_name == "naive"))  # noqa: E731
            tools.register_callback(tools.DEBUGGER_ID, tools.events.PY_START, waits)
            tools.set_events(tools.DEBUGGER_ID, tools.events.PY_START)
    else:
        sys.settrace(_wait)
        threading.settrace(_wait)
    return rms(x, weight)
