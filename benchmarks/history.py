"""Histories of made runs: how often a step is found, a change explained, and what a thousand runs of 50 cases take.

`steps` and `causes` simulate series with the noise that was measured on two shared cores: latencies that all variants
of a run share with a standard deviation of 14 %, loud hours among them, ratios that scatter by 1 to 2 %. Nothing is
timed there; the figures depend on the seed alone. `scale` writes results and times how they are read, beside pandas,
and shown.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from programs import ROOT, environment, progress, report

sys.path.insert(0, str(ROOT / "tests"))

from harness.configuration.operation import CaseKey
from harness.history import history
from harness.history.history import History, Settings
from harness.history.record import LATENCY, RELATIVE, Result, Run, Setup
from harness.history.steps import largest, steps, threshold

TENTH = 1.1
THRESHOLD = 0.03
TAILS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "Student's t, 3 df": lambda rng, shape: rng.standard_t(3, shape) / np.sqrt(3),
    "one in ten five times as large": lambda rng, shape: (
        rng.standard_normal(shape) * np.where(rng.random(shape) < 0.1, 5, 1) / np.sqrt(3.4)
    ),
    "exponential": lambda rng, shape: rng.exponential(size=shape) - 1,
}
SHARED = 0.14  # standard deviation of the logarithms of a run's latencies, which its variants share
LOUD = 0.3  # what a loud hour adds to them; one run in ten begins one, and it holds for three more on average
NOISE = {"loud": (SHARED, LOUD), "quiet": (0.05, 0.1)}  # two shared cores; and runs that wait for a quiet machine
LATENCIES = {"naive": 20.0, "fused": 18.0, "compiled": 30.0}
RATIOS = {"naive": 0.008, "fused": 0.011, "compiled": 0.02}  # standard deviations beside what is shared

LENGTHS = (8, 15, 60, 250, 1000)
# What is planted: factors of fused, or of the machine's times, and conditions that change with it
PLANTED: dict[str, dict[str, Any]] = {
    "nothing": {"cause": None},
    "code: fused a tenth slower": {"cause": "code", "fused": TENTH},
    "machine: a jump by 50 %": {"cause": "machine", "machine": 1.5},
    "machine: a drift by 1 % a run": {"cause": "machine", "drift": 1.01},
    "method: the cache, and all by 30 %": {"cause": "method", "machine": 1.3, "conditions": {"latency.cache": "cold"}},
    "method: the harness, and fused by a tenth": {"cause": "method", "fused": TENTH, "conditions": {"harness": "0.2"}},
    "environment: torch, fused by a tenth": {"cause": "environment", "fused": TENTH, "conditions": {"torch": "2.14"}},
    "environment: torch, and all by 30 %": {"cause": "environment", "machine": 1.3, "conditions": {"torch": "2.14"}},
}


def detection(series: int, rng: np.random.Generator) -> dict[str, Any]:
    """Series of 60 runs, unchanged and with a step of a tenth at a random run with four on either side or more."""
    figures: dict[str, Any] = {}
    for tail, draw in TAILS.items():
        for deviation in (0.01, 0.015, 0.02):
            found = exact = false = 0
            for _ in range(series):
                values = deviation * draw(rng, (60,))
                false += bool(steps(values, np.log1p(THRESHOLD)))
                place = int(rng.integers(4, 57))
                values[place:] += np.log(TENTH)
                places = steps(values, np.log1p(THRESHOLD))
                found += any(abs(at - place) <= 1 for at in places)
                exact += places == [place]
            key = f"{tail}, sd {deviation:.1%}"
            figures[key] = {"found": found / series, "exactly": exact / series, "false": false / series}
    return figures


def false_steps(series: int, rng: np.random.Generator) -> dict[str, Any]:
    """The share of unchanged series that exceed the threshold, whatever the size of the step."""
    return {
        tail: {
            runs: float(np.mean(largest(draw(rng, (series, runs))) > threshold(runs)))
            for runs in (8, 15, 60, 250, 1000)
        }
        for tail, draw in TAILS.items()
    }


def causes(series: int, rng: np.random.Generator) -> dict[str, Any]:
    """Histories of three cases in 60 runs, each with one planted change at a random run."""
    figures = {}
    for (machine, noise), (name, plan) in itertools.product(NOISE.items(), PLANTED.items()):
        counts = {"found": 0, "right": 0, "series with a change of ratio that was not planted": 0}
        for _ in range(series):
            place = int(rng.integers(8, 53))
            made = history.of_runs(made_runs(rng, place, plan, *noise), [], 0, Settings(Path(), THRESHOLD, 0.99))
            tally(made, place, plan, counts)
        found = counts["found"]
        shares = {key: count / series for key, count in counts.items() if key != "right"}
        figures[f"{machine}: {name}"] = shares | {"right of those found": counts["right"] / found if found else None}
    return figures


def tally(made: History, place: int, plan: dict[str, Any], counts: dict[str, int]) -> None:
    """Counts one history: if the planted change was found, in all its causes right, and what else was."""
    planted = [change for change in made.changes if change.variant == "fused" or "fused" not in plan]
    ratio = "fused" in plan
    near = [
        change for change in planted if change.beside == ratio and (abs(change.place - place) <= 5 or "drift" in plan)
    ]
    counts["found"] += bool(near) and plan["cause"] is not None
    counts["right"] += bool(near) and all(change.cause == plan["cause"] for change in near)
    others = [change for change in made.changes if change.beside and change not in near]
    counts["series with a change of ratio that was not planted"] += bool(others)


def made_runs(rng: np.random.Generator, place: int, plan: dict[str, Any], scatter: float, louder: float) -> list[Run]:
    """60 runs of three cases, as if each had been read."""
    runs = []
    loud = False
    for number in range(60):
        loud = rng.random() < (0.75 if loud else 0.1)
        late = number >= place
        conditions = {"harness": "0.1", "torch": "2.13", "latency.cache": "warm", "host": "one"}
        conditions |= plan.get("conditions", {}) if late else {}
        speed = plan.get("machine", 1.0) if late else 1.0
        speed *= plan.get("drift", 1.0) ** number * np.exp(louder * loud)
        for case in range(3):
            shared = speed * np.exp(scatter * rng.standard_normal())
            latency = {
                name: us
                * shared
                * np.exp(RATIOS[name] * rng.standard_normal())
                * (plan.get(name, 1.0) if late else 1.0)
                for name, us in LATENCIES.items()
            }
            key = CaseKey("rmsnorm", (("hidden", 256 << case),), "bfloat16", "forward", "cpu")
            runs.append(made_run(number, key, latency, conditions))
    return runs


def made_run(number: int, case: CaseKey, latency: dict[str, float], conditions: dict[str, str]) -> Run:
    """One run, with no interval."""
    others = sorted(value for name, value in latency.items() if name != "naive")
    middle = float(np.sqrt(others[0] * others[1]))
    results = {
        name: Result(
            name,
            "ok",
            None,
            {
                LATENCY: (float(value), None, None),
                RELATIVE: (float(value / (middle if name == "naive" else latency["naive"])), None, None),
            },
        )
        for name, value in latency.items()
    }
    commit = f"{number + 1:040x}"
    setup = Setup(case, "naive", "one", conditions)
    return Run(f"{number}-{case.dims}", None, setup, 86_400.0 * number, None, commit, False, None, results)


def scale(runs: int, cases: int, folder: Path) -> dict[str, Any]:
    """Writes results, reads them, beside pandas a sample of them, adds a run of all cases, and makes the page."""
    rng = np.random.default_rng(0)
    heads = {case: head(case) for case in range(cases)}
    size = sum(write_run(folder / "runs", number, heads, rng) for number in range(runs))
    progress(f"{runs * cases:,} results of {size / 2**20:,.0f} MiB are written")
    store = folder / "store.sqlite"
    first = command(folder, store)
    write_run(folder / "runs", runs, heads, rng)
    added = command(folder, store)
    again = command(folder, store)
    write_run(folder / "runs", runs + 1, heads, rng)
    whole = program(folder, store)
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
        "an added run of all cases, s (reading it, and the others from the store)": added["read"],
        "of that without any new, s": again["read"],
        "added alone, s": added["read"] - again["read"],
        "the whole command with another added run, s": whole,
        "series and changes, s": again["analyse"],
        "series.csv, s": again["table"],
        "page, s": again["page"],
        "page, MiB": again["bytes"] / 2**20,
        "store, MiB": store.stat().st_size / 2**20,
    }


def head(case: int) -> tuple[str, list[str]]:
    """The text of a case's results, with places for what differs from run to run."""
    import synthetic_runs

    made = json.loads(json.dumps(synthetic_runs.template(f"op.dims.hidden={64 * (case + 1)}")))
    made |= {"created": "@created", "commit": {"id": "@commit", "time": "@created", "changed": False}}
    made["machine"] = {"remembered_s": 8e-6, "own_s": 8e-6, "others_cores": 0.0}
    made["samples"]["rows"] = ["@rows"]
    return json.dumps(made, indent=1), [*LATENCIES, "(control)"]


def write_run(folder: Path, number: int, heads: dict[int, tuple[str, list[str]]], rng: np.random.Generator) -> int:
    """Writes a run of all cases: five processes of 20 rounds; returns its bytes."""
    import synthetic_runs

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


def command(folder: Path, store: Path) -> dict[str, float]:
    """The steps of `python -m harness.history` in a fresh process, in seconds."""
    line = [sys.executable, __file__, "timed", str(folder), str(store)]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def program(folder: Path, store: Path) -> float:
    """Seconds of the program itself, from its start to its end."""
    line = [sys.executable, "-m", "harness.history", str(folder / "runs")]
    start = time.perf_counter()
    written = ["--out", str(folder / "out"), "--store", str(store)]
    subprocess.run([*line, *written], env=environment(), capture_output=True, check=True)
    return time.perf_counter() - start


def timed(folder: Path, store: Path) -> None:
    """Prints the seconds of each step."""
    from harness.history import page, table

    gc.disable()  # as the program does
    settings = Settings(store, THRESHOLD, 0.99)
    clock = [time.perf_counter()]
    runs, told, new = history.read([folder / "runs"], None, settings)
    clock.append(time.perf_counter())
    processor = sum(os.times()[:4])  # of this process, and of those that helped it
    made = history.of_runs(runs, told, new, settings)
    clock.append(time.perf_counter())
    table.write(folder / "out", made.groups, made.changes)
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
        timed(*map(Path, sys.argv[2:]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", default=["steps", "causes"], help="steps, causes, scale (default: the first two)"
    )
    parser.add_argument("--series", type=int, default=200, help="series of each kind (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=1000, help="runs that scale writes (default: %(default)s)")
    parser.add_argument("--cases", type=int, default=50, help="cases of each (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where scale writes, and keeps what it wrote")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    args = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for part in args.parts:
            if part == "steps":
                figures["a step of a tenth"] = detection(args.series, np.random.default_rng(0))
                figures["unchanged series above the threshold"] = false_steps(
                    10 * args.series, np.random.default_rng(1)
                )
            elif part == "causes":
                figures["causes"] = causes(args.series, np.random.default_rng(2))
            elif part == "scale":
                figures["scale"] = scale(args.runs, args.cases, args.folder or Path(temporary))
            else:
                parser.error(f"{part}: expected steps, causes or scale")
    report(figures, args.json)


if __name__ == "__main__":
    main()
