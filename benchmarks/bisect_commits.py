"""Bisections: repositories of made commits, of which one makes a variant 1.3 times as slow, searched by measuring.

Whatever else runs on the machine meanwhile makes it harder.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from programs import environment, progress, report

KERNEL = '''"""A kernel, {number}."""
import torch


def fast(x, weight):
    for _ in range({calls}):
        result = torch.rms_norm(x, x.shape[-1:], weight, 1e-6)
    return result
'''
USUAL, SLOWER = 10, 13  # calls
PAIRS = re.compile(r"^step .* in (\d+) pairs? of runs$", re.M)
CASE = (
    "op=rmsnorm",
    "device=cpu",
    "+op.variants.mine.fn=kernel.fast",
    "variants=[naive,mine]",
    "latency.processes=5",
    "latency.max_processes=5",
    "latency.seconds=0.5",
    "roofline.flops_per_s=1e15",
    "roofline.bytes_per_s=1e15",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=20, help="searches (default: %(default)s)")
    parser.add_argument("--commits", type=int, default=8, help="commits of each (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        report(search(args.tries, args.commits, Path(temporary)), args.json)


def search(tries: int, commits: int, folder: Path) -> dict[str, Any]:
    """Repositories of made commits, of which one makes a variant 1.3 times as slow; found by the program itself."""
    rng = random.Random(0)
    outcomes: list[dict[str, Any]] = []
    for number in range(tries):
        planted = rng.randrange(1, commits)
        place = folder / str(number)
        kernels = [KERNEL.format(number=at, calls=SLOWER if at >= planted else USUAL) for at in range(commits)]
        names = repository(place, kernels)
        line = [sys.executable, "-m", "harness.bisect", "--good", names[0], "--bad", names[-1], "--", *CASE]
        start = time.perf_counter()
        done = subprocess.run(line, cwd=place, env=environment(), capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - start
        first = done.stdout.partition("\n")[0]
        told = done.returncode == 0
        outcomes.append(
            {
                "found": told and first.startswith(names[planted][:10]),
                "told": told,
                "steps": len(PAIRS.findall(done.stderr)),
                "pairs": sum(map(int, PAIRS.findall(done.stderr))),
                "seconds": seconds,
            }
        )
        progress(f"{number + 1}/{tries}: planted {planted}, {seconds:.0f} s: {first or done.stderr}")
    return {
        "tries": tries,
        "commits": commits,
        "found": sum(outcome["found"] for outcome in outcomes),
        "wrong": sum(outcome["told"] and not outcome["found"] for outcome in outcomes),
        "not told": sum(not outcome["told"] for outcome in outcomes),
        "most steps": max(outcome["steps"] for outcome in outcomes),
        "pairs of runs a step": sum(each["pairs"] for each in outcomes) / sum(each["steps"] for each in outcomes),
        "seconds a search": statistics.median(outcome["seconds"] for outcome in outcomes),
    }


def repository(folder: Path, contents: Sequence[str]) -> list[str]:
    """A repository with a commit for each content of kernel.py; returns the commits, the first one first."""
    folder.mkdir(parents=True)
    git = ["git", "-C", str(folder), "-c", "user.name=Some One", "-c", "user.email=one@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    for content in contents:
        (folder / "kernel.py").write_text(content, encoding="utf-8")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", "--message", "A change"], check=True)
    listed = subprocess.run([*git, "rev-list", "--reverse", "HEAD"], capture_output=True, text=True, check=True)
    return listed.stdout.split()


if __name__ == "__main__":
    main()
