"""The gate between two runs: how often it fails on the same code, and how often it detects a fifth more work.

Fresh runs of RMSNorm at (4, 512) bfloat16 on the CPU, alternating: in one the variant `more` does the work of five
calls, in the next of six. Consecutive runs of the same code are compared for false alarms, consecutive runs of
different code for power. With --folder the runs are kept, and a run that is there is not repeated.
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
    """The fused variant, `calls` times; only the measuring process has this module on its path."""
    from variants.rmsnorm import fused

    for _ in range(calls):
        result = fused(x, weight)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="fresh runs of each code (default: %(default)s)")
    parser.add_argument("--variants", default="naive,fused", help="measured with it (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="keep the runs here")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("overrides", nargs="*", help="further keys of each run, such as latency.seconds=2")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        runs: dict[str, list[Path]] = {code: [] for code in CALLS}
        for number in range(args.runs):
            for code in CALLS:
                runs[code].append(measure(folder.resolve() / f"{code}-{number}", code, args.variants, args.overrides))
                progress(f"run {number + 1}/{args.runs}: {code}")
        figures = {
            "same code": compared([pair for code in CALLS for pair in pairwise(runs[code])]),
            "a fifth more work": compared(list(zip(runs["same"], runs["slower"], strict=True))),
        }
    report(figures, args.json)


def measure(folder: Path, code: str, variants: str, overrides: list[str]) -> Path:
    """One fresh run, unless the folder has one."""
    if not (folder / "results.json").exists():
        more = [f"+op.variants.{SLOWED}.fn=gate.repeated", f"+op.variants.{SLOWED}.args.calls={CALLS[code]}"]
        chosen = f"variants=[{variants},{SLOWED}]"
        command = [sys.executable, "-m", "harness", *CASE, *more, chosen, f"hydra.run.dir={folder}", *overrides]
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
    """The gate's exit status, and its JSON."""
    command = [sys.executable, "-m", "harness.diff", str(old), str(new), "--fail-on", "slower", "--format", "json"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.returncode, json.loads(done.stdout)


if __name__ == "__main__":
    main()
