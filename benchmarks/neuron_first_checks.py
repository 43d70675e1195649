"""The first checks on real Trainium: whether the assumptions of docs/neuron.md hold on this machine.

A line for each assumption: `holds`, `DIFFERS` or `unseen`, and what was observed. The profiler's artefacts and all
observations (`first_checks.json`) stay in FOLDER. The exit status is 0 if nothing differs, 1 if something does, and 2
if there is no device.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from first_checks import Check
from first_checks.compiles import compiles
from first_checks.explorer import summary, tables
from first_checks.kernels import indices, kernels
from first_checks.names import instance, package
from first_checks.profiles import executions, profiler

from harness.devices.neuron import Neuron


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="for the artefacts")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    device = Neuron()
    absence = device.absence()
    if absence is not None:
        print(f"device=neuron: {absence}", file=sys.stderr)
        return 2
    seen: dict[str, Any] = {
        "torch": torch.__version__,
        "torch-neuronx": importlib.metadata.version("torch-neuronx"),
        "NEURON_LOGICAL_NC_CONFIG": os.environ.get("NEURON_LOGICAL_NC_CONFIG"),
    }
    print("\n".join(f"{name} {version}" for name, version in seen.items()))
    differs = 0
    checks: list[Callable[[], Check]] = [
        instance,
        compiles,  # before this process opens the core
        package,
        lambda: profiler(device, folder),
        lambda: executions(device, folder / "executions"),
        lambda: summary(folder / "naive"),
        lambda: tables(folder / "naive", folder / "tables"),
        lambda: kernels(device, folder),
        lambda: indices(device),
    ]
    for check in checks:
        for assumption, holds, found in _seen(check):
            mark = "unseen" if holds is None else "holds" if holds else "DIFFERS"
            differs += holds is False
            seen[assumption] = {"mark": mark, "seen": found}
            print(f"{mark:<8}{assumption}: {found}", flush=True)
    (folder / "first_checks.json").write_text(json.dumps(seen, indent=1, default=str))
    return int(differs > 0)


def _seen(check: Callable[[], Check]) -> Check:
    """What a check yields, and what ended it early, if anything did."""
    try:
        yield from check()
    except Exception as error:
        traceback.print_exc()
        name = getattr(check, "__name__", "<lambda>")
        yield f"the check {name} runs to its end", False, repr(error)


if __name__ == "__main__":
    sys.exit(main())
