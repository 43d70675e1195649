"""Models: the share of a step that is attributed and runs in cases, and decisions on planted replacements.

Parts a and b record the models of tests/model_zoo.py and measure their groups. Parts c, d and e take the models of
benchmarks/planted.py: replacements with more or less work, opaque to the compiler, or wrong. Part f times whole jobs,
and part g recordings.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planted import ROUNDS, ROUNDS_OF, WRONG
from programs import HERE, ROOT, environment, progress, report

MODELS = ("larger_llama", "larger_bert", "resnet")
MODES = ("forward", "forward_backward")
QUICK = ("latency.processes=1", "latency.max_processes=1", "latency.seconds=0.05", "report.charts=[]")
PATH = ":".join(map(str, (ROOT, HERE, ROOT / "tests")))  # the zoo of models is the tests'
CPU = ("device=cpu", "worker.threads=1", "report.charts=[]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="abcdefg", help="those to run (default: %(default)s)")
    listed = {"type": lambda text: text.split(",")}
    parser.add_argument("--models", **listed, default=MODELS, help="for a and b (default: all)")
    parser.add_argument("--modes", **listed, default=MODES, help="for a and b (default: all)")
    parser.add_argument("--runs", type=int, default=10, help="of d (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="of every run")
    args = parser.parse_args()
    figures: dict[str, Any] = {}
    for part, function in PARTS.items():
        if part in args.parts:
            start = time.perf_counter()
            figures[function.__name__] = function(args)
            figures[function.__name__]["took_s"] = round(time.perf_counter() - start)
            progress(json.dumps({function.__name__: figures[function.__name__]}))
    report(figures, args.json)


def attributed(args: argparse.Namespace) -> dict[str, Any]:
    """The share of a step that is that of calls or of autograd, for each model and mode: at least 95 %."""
    found = {}
    for name in args.models:
        for mode in args.modes:
            with tempfile.TemporaryDirectory() as folder:
                run(folder, f"model_zoo.{name}", "--hotspots", f"mode={mode}", *CPU, *args.overrides)
                content = json.loads((Path(folder) / "run" / "model.json").read_text())
                groups = sum(row["share"] for row in content["rows"] if row["is_group"])
                rest = {row["group"]: row["share"] for row in content["rows"] if row["group"].startswith("(")}
                found[f"{name} {mode}"] = {
                    "attributed": content["attributed"], "groups": groups, **rest, "steps": content["step"]["steps"],
                }  # fmt: skip
    return {"shares": found, "least": min(each["attributed"] for each in found.values())}


def in_cases(args: argparse.Namespace) -> dict[str, Any]:
    """The share of the step in groups whose cases ran without a hand: at least 80 %."""
    found = {}
    for name in args.models:
        for mode in args.modes:
            arguments = (f"model_zoo.{name}", f"mode={mode}", "variants=[as_is]", *CPU, *QUICK)
            found[f"{name} {mode}"] = round(job(*arguments, *args.overrides)["measured_share"], 3)
    return {"shares": found, "least": min(found.values())}


def predictions(args: argparse.Namespace) -> dict[str, Any]:
    """Replacements that do less or more work by known amounts: whether the measured gain is within the predicted."""
    rows = []
    for part in (ROUNDS_OF[::2], ROUNDS_OF[1::2]):
        names = [f"Work{rounds}" for rounds in part]
        replace = ",".join(f"{{of: planted.Work, by: planted.{name}}}" for name in names)
        chosen = f"variants=[as_is,{','.join(names)}]"
        content = job("planted.working", f"replace=[{replace}]", chosen, "latency.seconds=10", *CPU, *args.overrides)
        rows += [row for row in content["decisions"] if row["replacement"] in names]
    lines = []
    for row in rows:
        rounds = int(row["replacement"].removeprefix("Work"))
        predicted, measured = row["predicted"], row["measured"]
        inside = bool(predicted and measured and predicted["low"] <= measured["value"] <= predicted["high"])
        right = {"use": rounds < ROUNDS, "do not use": rounds > ROUNDS}.get(row["decision"])
        lines.append({"rounds": rounds, "predicted": values(predicted), "measured": values(measured), "inside": inside,
                      "decision": row["decision"], "right": right})  # fmt: skip
    clear = [line["right"] for line in lines if line["right"] is not None]
    return {"inside": sum(line["inside"] for line in lines), "of": len(lines), "clear": len(clear), "right": sum(clear),
            "lines": sorted(lines, key=lambda line: line["rounds"])}  # fmt: skip


def refusals(args: argparse.Namespace) -> dict[str, Any]:
    """A replacement that is faster alone, and in the compiled model slower, since the compiler cannot look into it."""
    rows = []
    for number in range(args.runs):
        replace = "replace=[{of: planted.Activation, by: planted.OpaqueActivation}]"
        content = job("planted.elementwise", replace, *CPU, *args.overrides)
        (row,) = [row for row in content["decisions"] if row["replacement"] == "OpaqueActivation"]
        rows.append({"decision": row["decision"], "measured": values(row["measured"]), "reason": row["reason"]})
        progress(f"{number + 1}/{args.runs}: {rows[-1]}")
    return {"refused": sum(row["decision"] == "do not use" for row in rows), "of": len(rows), "rows": rows}


def wrong(args: argparse.Namespace) -> dict[str, Any]:
    """Replacements with wrong results or gradients: none is recommended."""
    found = {}
    for mode, kinds in WRONG.items():
        replace = ",".join(f"{{of: planted.Activation, by: planted.{name}}}" for name in kinds)
        arguments = ("planted.elementwise", f"replace=[{replace}]", f"variants=[as_is,{','.join(kinds)}]")
        content = job(*arguments, f"mode={mode}", *CPU, *args.overrides)
        found |= {row["replacement"]: [row["status"], row["decision"], row["reason"]] for row in content["decisions"]
                  if row["replacement"] in kinds}  # fmt: skip
    return {
        "recommended": sum(decision == "use" for _, decision, _ in found.values()),
        "refused": sum(decision == "do not use" for _, decision, _ in found.values()),
        "of": sum(map(len, WRONG.values())),
        "found": found,
    }


def durations(args: argparse.Namespace) -> dict[str, Any]:
    """The seconds of a whole job and of its cases as a sweep: at most 10 % more."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        run(folder, "model_zoo.larger_llama", *CPU, *args.overrides)
        whole_s = time.perf_counter() - start
        cases = Path(folder) / "run" / "cases"
        names = ",".join(sorted(path.stem for path in (cases / "op").glob("*.yaml")))
        start = time.perf_counter()
        command = ["-m", f"--config-dir={cases}", f"op={names}", "dtype=float32", f"hydra.sweep.dir={folder}/sweep"]
        program("harness", *command, *CPU, *args.overrides, cwd=folder)
        sweep_s = time.perf_counter() - start
    return {"job_s": whole_s, "sweep_s": sweep_s, "ratio": whole_s / sweep_s, "cases": names.count(",") + 1}


def recordings(args: argparse.Namespace) -> dict[str, Any]:
    """The seconds and memory of recording long steps, and of 1,000 calls of modules with 10,000 operators."""
    found = {}
    for name in ("planted.heavy", "planted.many"):
        command = [sys.executable, str(HERE / "recording.py"), name]
        done = subprocess.run(command, env=environment() | {"PYTHONPATH": PATH}, capture_output=True, check=True)
        found[name] = json.loads(done.stdout)
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            run(folder, name, "--hotspots", *CPU, *args.overrides)
            found[name]["command_s"] = time.perf_counter() - start
    return found


PARTS = {"a": attributed, "b": in_cases, "c": predictions, "d": refusals, "e": wrong, "f": durations, "g": recordings}


def job(*arguments: str) -> dict[str, Any]:
    """The model.json of a run."""
    with tempfile.TemporaryDirectory() as folder:
        run(folder, *arguments)
        content: dict[str, Any] = json.loads((Path(folder) / "run" / "model.json").read_text())
        return content


def run(folder: str, *arguments: str) -> None:
    """Runs the program on a model; its results are in `run` below the folder."""
    program("harness.model", *arguments, f"hydra.run.dir={folder}/run", cwd=folder)


def program(module: str, *arguments: str, cwd: str) -> None:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        command, cwd=cwd, env=environment() | {"PYTHONPATH": PATH}, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):  # 1: a variant is not right, which is not the benchmark's matter
        raise SystemExit(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stderr}")


def values(interval: dict[str, float] | None) -> Sequence[float] | None:
    return None if interval is None else [round(interval[key], 3) for key in ("value", "low", "high")]


if __name__ == "__main__":
    main()
