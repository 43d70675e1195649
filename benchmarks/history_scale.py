"""What a thousand runs of 50 cases take: made results are read, beside pandas, a run is added, and all is shown."""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from history import LATENCIES, SHARED, TENTH, THRESHOLD
from programs import ROOT, environment, progress, report

sys.path.insert(0, str(ROOT / "tests"))

import synthetic_runs

from harness.history import history, page, table
from harness.history.history import Settings

ADDED = 5  # runs that are added one by one
STORE = "store.sqlite"
COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}  # as an installed program is, whatever the environment says


def scale(runs: int, cases: int, folder: Path) -> dict[str, Any]:
    """Writes results, reads them, beside pandas a sample of them, and adds runs of all cases."""
    rng = np.random.default_rng(0)
    heads = {case: head(case) for case in range(cases)}
    size = sum(write_run(folder / "runs", number, heads, rng) for number in range(runs))
    progress(f"{runs * cases:,} results of {size / 2**20:,.0f} MiB are written")
    first = command(folder)
    files = list((folder / "runs").rglob("results.json"))
    sample = random.Random(0).sample(files, min(len(files), 2000))
    pandas, pandas_cpu = (seconds / len(sample) * len(files) for seconds in of_pandas(sample))
    return {
        "results": len(files),
        "MiB": size / 2**20,
        "first reading, s": first["read"],
        "pandas, s (of a sample, scaled up)": pandas,
        "first reading / pandas": first["read"] / pandas,
        "the same in processor time": first["processor"] / pandas_cpu,
        "series.csv for the first time, s": first["table"],
        **added(cases, folder),
    }


def added(cases: int, folder: Path) -> dict[str, Any]:
    """Adds runs of all cases to those in a folder, one by one, and makes the page after each."""
    heads = {case: head(case) for case in range(cases)}
    number = len(list((folder / "runs").iterdir()))
    rng = np.random.default_rng(number)
    write_run(folder / "runs", number, heads, rng)
    steps = command(folder)
    again = command(folder)
    whole = []
    for turn in range(1, ADDED + 1):
        write_run(folder / "runs", number + turn, heads, rng)
        whole.append(program(folder))
    return {
        "an added run of all cases, s (reading it, and the others from the store)": steps["read"],
        "of that without any new, s": again["read"],
        "series and changes, s": steps["analyse"],
        "series.csv, s": steps["table"],
        "page, s": steps["page"],
        "page, MiB": steps["bytes"] / 2**20,
        "store, MiB": (folder / STORE).stat().st_size / 2**20,
        "the whole command with an added run, s": whole,
        "the median of these": float(np.median(whole)),
    }


def head(case: int) -> tuple[str, list[str]]:
    """The text of a case's results, with places for what differs from run to run."""
    made = json.loads(json.dumps(synthetic_runs.template(f"op.dims.hidden={64 * (case + 1)}")))
    made |= {"created": "@created", "commit": {"id": "@commit", "time": "@created", "changed": False}}
    made["machine"] = {"remembered_s": 8e-6, "own_s": 8e-6, "others_cores": 0.0}
    made["samples"]["rows"] = ["@rows"]
    return json.dumps(made, indent=1), [*LATENCIES, "(control)"]


def write_run(folder: Path, number: int, heads: dict[int, tuple[str, list[str]]], rng: np.random.Generator) -> int:
    """Writes a run of all cases: five processes of 20 rounds; returns its bytes."""
    created = (synthetic_runs.START + timedelta(days=number)).isoformat(timespec="seconds")
    speed, size = float(np.exp(SHARED * rng.standard_normal())), 0
    for case, (text, names) in heads.items():
        rows = []
        for name in names:
            us = LATENCIES.get(name, LATENCIES["naive"]) * speed * float(np.exp(0.011 * rng.standard_normal()))
            if name == "fused" and case % 5 == 0 and number >= 300 + 10 * case:
                us *= TENTH
            seconds = us * 1e-6 * np.exp(0.02 * rng.standard_normal(100))
            rows += [
                f'["{name}", {turn // 20}, {turn % 20}, 50, {each:.12g}, 8.3e-06, 1e-07, 0]'
                for turn, each in enumerate(seconds)
            ]
        content = text.replace('"@rows"', ",\n".join(rows)).replace("@created", created)
        path = folder / f"{number:04d}" / f"{case:03d}" / "results.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.replace("@commit", synthetic_runs.commit(number)), encoding="utf-8")
        size += len(content)
    return size


def command(folder: Path) -> dict[str, float]:
    """The steps of `python -m harness.history` in a fresh process, one after the other, in seconds."""
    line = [sys.executable, __file__, "timed", str(folder)]
    done = subprocess.run(line, env=environment(**COMPILED), capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def program(folder: Path) -> float:
    """Seconds of the program itself, from its start to its end."""
    line = [sys.executable, "-m", "harness.history", str(folder / "runs")]
    written = ["--out", str(folder / "out"), "--store", str(folder / STORE)]
    start = time.perf_counter()
    subprocess.run([*line, *written], env=environment(**COMPILED), capture_output=True, check=True)
    return time.perf_counter() - start


def timed(folder: Path) -> None:
    """Prints the seconds of each step."""
    gc.disable()  # as the program does
    settings = Settings(folder / STORE, THRESHOLD, 0.99)
    clock = [time.perf_counter()]
    runs, told, new = history.read([folder / "runs"], None, settings)
    clock.append(time.perf_counter())
    processor = sum(os.times()[:4])  # of this process, and of those that helped it
    made = history.of_runs(runs, told, new, settings)
    clock.append(time.perf_counter())
    table.write(folder / "out", made.groups, made.changes, settings.store)
    clock.append(time.perf_counter())
    page.write(folder / "out", made, THRESHOLD, 30, None)
    clock.append(time.perf_counter())
    names = ("read", "analyse", "table", "page")
    seconds = dict(zip(names, np.diff(clock).tolist(), strict=True))
    print(json.dumps({**seconds, "processor": processor, "bytes": os.path.getsize(folder / "out" / page.FILE)}))


def of_pandas(files: Sequence[Path]) -> tuple[float, float]:
    """Seconds that pandas takes to read these files, in one process, and seconds of the processor."""
    import pandas as pd

    start = time.perf_counter(), time.process_time()
    for file in files:
        pd.read_json(file, typ="series")
    return time.perf_counter() - start[0], time.process_time() - start[1]


def main() -> None:
    if sys.argv[1:2] == ["timed"]:
        timed(Path(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="runs that are written (default: %(default)s)")
    parser.add_argument("--cases", type=int, default=50, help="cases of each (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where they are written, and kept")
    parser.add_argument("--added", action="store_true", help="add runs to those that a folder has, and no more")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    args = parser.parse_args()
    if args.added:
        report(added(args.cases, args.folder), args.json)
        return
    with tempfile.TemporaryDirectory() as temporary:
        report(scale(args.runs, args.cases, args.folder or Path(temporary)), args.json)


if __name__ == "__main__":
    main()
