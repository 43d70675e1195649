"""The main job's time relative to a plain script that does the same by hand, and of `--help` relative to bare Hydra.

All in one run, alternating: with a warm compile cache, with an empty one, and without torch.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from programs import HERE, options, progress, report, timed

BARE = "import hydra\n@hydra.main(config_path=None, version_base='1.3')\ndef main(config): pass\nmain()\n"


def main() -> None:
    args = options(__doc__, runs=5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bare.py").write_text(BARE)
        harness = [sys.executable, "-m", "harness"]
        job = [*harness, "op=rmsnorm", "device=cpu"]
        plain = [sys.executable, str(HERE / "plain_script.py"), str(folder)]
        bare = [sys.executable, str(folder / "bare.py")]
        figures = {
            "main job, warm cache": alternate(job, plain, args.runs, folder, cold=False),
            "main job, empty cache": alternate(job, plain, max(args.runs // 2, 1), folder, cold=True),
            "--help": alternate([*harness, "--help"], [*bare, "--help"], 3 * args.runs, folder, cold=False),
            "--cfg job": alternate(
                [*harness, "--cfg", "job"], [*bare, "--cfg", "job"], 3 * args.runs, folder, cold=False
            ),
        }
    report(figures, args.json)


def alternate(harness: list[str], other: list[str], runs: int, folder: Path, cold: bool) -> dict[str, float]:
    """Median seconds of both commands, and the median of the ratios of consecutive runs."""
    seconds: list[tuple[float, float]] = []
    for run in range(runs):
        pair = [
            timed(command, folder, TORCHINDUCTOR_CACHE_DIR=f"{folder}/cache{f'-{run}-{index}' if cold else ''}")
            for index, command in enumerate((harness, other))
        ]
        seconds.append((pair[0], pair[1]))
        progress(f"{' '.join(harness[1:])}: {pair[0]:.2f} s, {pair[1]:.2f} s")
    counted = seconds if cold or len(seconds) == 1 else seconds[1:]  # the first run fills the cache
    return {
        "harness_s": statistics.median(pair[0] for pair in counted),
        "other_s": statistics.median(pair[1] for pair in counted),
        "ratio": statistics.median(pair[0] / pair[1] for pair in counted),
    }


if __name__ == "__main__":
    main()
