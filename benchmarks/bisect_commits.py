"""Bisections: repositories of made commits, of which one makes a variant four times as slow, searched by measuring.

Whatever else runs on the machine meanwhile makes it harder; each search takes a minute or two on two idle cores.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
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
CASE = (
    "op=rmsnorm",
    "device=cpu",
    "+op.variants.mine.fn=kernel.fast",
    "variants=[naive,mine]",
    "latency.processes=3",
    "latency.max_processes=3",
    "latency.seconds=0.3",
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
    """Repositories of made commits, of which one makes a variant four times as slow; found by the program itself."""
    rng = random.Random(0)
    outcomes: list[dict[str, Any]] = []
    for number in range(tries):
        planted = rng.randrange(1, commits)
        place = folder / str(number)
        names = repository(place, [KERNEL.format(number=at, calls=4 if at >= planted else 1) for at in range(commits)])
        line = [sys.executable, "-m", "harness.bisect", "--good", names[0], "--bad", names[-1], "--", *CASE]
        done = subprocess.run(line, cwd=place, env=environment(), capture_output=True, text=True, check=False)
        first = done.stdout.partition("\n")[0]
        steps = int(first.split()[-2]) if done.returncode == 0 else None
        outcomes.append({"found": first.startswith(names[planted][:10]), "steps": steps, "said": first})
        progress(f"{number + 1}/{tries}: planted {planted}: {first}")
    return {
        "tries": tries,
        "commits": commits,
        "found": sum(outcome["found"] for outcome in outcomes),
        "wrong": sum(outcome["steps"] is not None and not outcome["found"] for outcome in outcomes),
        "not told": sum(outcome["steps"] is None for outcome in outcomes),
        "most steps": max((outcome["steps"] or 0 for outcome in outcomes), default=0),
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
