"""Compiling, each time in a process of its own: graphs that fail, what they leave, caches, and what is reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from first_checks import Check
from harness.devices.neuron import PERMISSION
from harness.devices.neuron_compiles import CACHES, reporting

TIMEOUT_S = 1800
FAILING = {"NEURON_CC_FLAGS": "--no-such-option"}  # with which no graph compiles
SCRIPT = """
import json, sys
import torch

def outcome(action):
    try:
        action()
        torch.neuron.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]

x = torch.ones(3, 5).to("neuron")
compiled = torch.compile(lambda t: (t * 3).sum(-1), backend="neuron", fullgraph=True, dynamic=False)
first = outcome(lambda: compiled(x))
then = outcome(lambda: torch.ones(2).to("neuron") + 1)
listed = getattr(torch.neuron, "get_dynamo_metrics", list)()
print("ANSWER" + json.dumps({"compiled": first, "next": then, "listed": len(listed)}))
"""


def compiles() -> Check:
    """A graph that compiles and one that does not, under each value of the variable, with empty caches."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        caches = {name: str(folder / name) for name in CACHES}
        good = _compiled({**caches, **reporting(folder)})
        filled = {name: len(list(Path(path).rglob("*"))) for name, path in caches.items()}
        neffs = any(filled[name] for name in CACHES if "NEFF" in name)
        yield "a graph compiles", good.get("compiled", "no answer") is None, good
        yield "the variables of the caches are heeded", neffs, filled
        yield "get_dynamo_metrics() has a row for a graph that was built", good.get("listed") == 1, good.get("listed")
        written = [path.name for path in folder.glob("*.csv")]
        yield "the table of what was built is written", bool(written), written
        again = _compiled({**caches, **reporting(folder)})
        yield "a graph from a cache is not built again", again.get("listed") == 0, again.get("listed")
    with tempfile.TemporaryDirectory() as scratch:
        caches = {name: str(Path(scratch, name)) for name in CACHES}
        failed = _compiled({**caches, **FAILING, PERMISSION: "1"})
        yield f"a graph that does not compile raises under {PERMISSION}=1", bool(failed.get("compiled")), failed
        left = bool(failed.get("next"))
        yield "and leaves an error that the next operation raises", left or None, failed.get("next") or "nothing"
    with tempfile.TemporaryDirectory() as scratch:
        caches = {name: str(Path(scratch, name)) for name in CACHES}
        eager = _compiled({**caches, **FAILING, PERMISSION: "0"})
        yield f"and runs eagerly under {PERMISSION}=0", eager.get("compiled", "no answer") is None, eager


def _compiled(variables: dict[str, str]) -> dict[str, Any]:
    """What SCRIPT answers under these variables; {} with its last words if it does not."""
    for name, path in variables.items():
        if name in CACHES:
            Path(path).mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    answers = [line.removeprefix("ANSWER") for line in done.stdout.splitlines() if line.startswith("ANSWER")]
    return json.loads(answers[-1]) if answers else {"died": done.stderr[-300:]}
