"""The gate between two runs: how often it fails on the same code, and how often it catches a fifth more work.

Fresh runs of RMSNorm at (4, 512) bfloat16 on the CPU, one after the other: one with `more` at five calls' work, one
with `more` at six calls' work, and again. Each two consecutive runs of the same code are compared for false alarms,
each two neighbours of different code for power. Runs are kept in --folder: what is there already is not run again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from programs import environment, progress, report

if TYPE_CHECKING:
    import torch

CASE = ("op=rmsnorm", "device=cpu", "op.dims.rows=4", "op.dims.hidden=512", "dtype=bfloat16")
CALLS = {"same": 5, "slower": 6}  # a fifth more
SLOWED = "more"


def repeated(x: torch.Tensor, weight: torch.Tensor, calls: int = 1) -> torch.Tensor:
    """The fused variant, as often as told; only the measuring process has it on its path."""
    from variants.rmsnorm import fused

    for _ in range(calls):
        result = fused(x, weight)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="fresh runs of each code (default: %(default)s)")
    parser.add_argument("--variants", default="naive,fused", help="measured beside it (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where runs are kept (default: they are not)")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("overrides", nargs="*", help="of each run, such as latency.seconds=2")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        runs: dict[str, list[Path]] = {code: [] for code in CALLS}
        for number in range(asked.runs):
            for code in CALLS:
                runs[code].append(measure(folder.resolve() / f"{code}-{number}", code, asked.variants, asked.overrides))
                progress(f"run {number + 1}/{asked.runs}: {code}")
        figures = {
            "same code": compared([pair for code in CALLS for pair in pairwise(runs[code])]),
            "a fifth more work": compared(list(zip(runs["same"], runs["slower"], strict=True))),
        }
    report(figures, asked.json)


def measure(folder: Path, code: str, variants: str, overrides: list[str]) -> Path:
    """One fresh run, unless it is there."""
    if not (folder / "results.json").exists():
        own = [f"+op.variants.{SLOWED}.fn=gate.repeated", f"+op.variants.{SLOWED}.args.calls={CALLS[code]}"]
        chosen = f"variants=[{variants},{SLOWED}]"
        command = [sys.executable, "-m", "harness", *CASE, *own, chosen, f"hydra.run.dir={folder}", *overrides]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return folder


def compared(pairs: list[tuple[Path, Path]]) -> dict[str, Any]:
    """How many pairs the gate fails on, and how often on the variant that differs."""
    failed, caught, verdicts = 0, 0, Counter[str]()
    for old, new in pairs:
        status, content = diff(old, new)
        failed += status
        rows = content["cases"][0]["variants"]
        caught += any(row["variant"] == SLOWED and row["verdict"] == "slower" for row in rows)
        verdicts.update(f"{row['variant']} {row['verdict']}" for row in rows)
    return {
        "pairs": len(pairs),
        "failed": failed,
        f"{SLOWED} called slower": caught,
        "verdicts": dict(sorted(verdicts.items())),
    }


def diff(old: Path, new: Path) -> tuple[int, Any]:
    """The gate's exit status, and what it says."""
    command = [sys.executable, "-m", "harness.diff", str(old), str(new), "--fail-on", "slower", "--format", "json"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.returncode, json.loads(done.stdout)


if __name__ == "__main__":
    main()
