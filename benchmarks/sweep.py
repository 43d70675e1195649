"""What a sweep costs beyond measuring: a process per case, the program around it, its memory, and collecting results.

- process: one process's part of a case in a fresh process, as the harness runs it, and within a process that has
  imported torch; alternating, the difference of the medians.
- sweep: a sweep of --cases cases within this process, with an empty compile cache, as for new shapes, and once more:
  the share of its time outside the measuring of cases, and the growth of resident memory after the first tenth of them.
- collecting: --finished copies of a finished case: sweep.csv, charts and page, relative to pandas reading their tables.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from programs import progress, report

CASE = ("device=cpu", "op=rmsnorm")
BRIEF = ("latency.processes=1", "latency.max_processes=1", "latency.seconds=0.05", "variants=[naive,fused]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="of the process (default: %(default)s)")
    parser.add_argument("--cases", type=int, default=64, help="of the sweep at default settings (default: %(default)s)")
    parser.add_argument("--brief", type=int, default=200, help="of the sweep for memory (default: %(default)s)")
    parser.add_argument("--finished", type=int, default=10_000, help="cases to collect (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    args = parser.parse_args()
    os.environ["CI"] = "true"
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/cache"
        if args.cases:
            figures["sweep"] = swept(args.cases)
            figures["sweep, once more"] = swept(args.cases)
        if args.brief:
            figures["brief sweep"] = swept(args.brief, *BRIEF)
        if args.runs:
            figures["process"] = process(args.runs)
        if args.finished:
            figures["collecting"] = collecting(args.finished)
    report(figures, args.json)


def sweep(cases: int, *overrides: str) -> Path:
    """Runs a sweep within this process; its folder."""
    from harness.__main__ import main as program

    folder = Path(tempfile.mkdtemp(dir=".")) / "sweep"
    hidden = ",".join(str(16 * number) for number in range(1, cases + 1))
    sys.argv = ["harness", "-m", *CASE, f"op.dims.hidden={hidden}", f"hydra.sweep.dir={folder}", *overrides]
    with contextlib.redirect_stdout(io.StringIO()):
        status = program()
    assert status == 0, f"the sweep ended with {status}: see {folder.resolve()}"
    return folder


def swept(cases: int, *overrides: str) -> dict[str, float]:
    """The time and the memory of a sweep, with measuring separate."""
    from harness.execution import measuring

    own = psutil.Process()
    seconds: list[float] = []
    memory: list[int] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def measure(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                seconds.append(time.perf_counter() - start)
                memory.append(own.memory_info().rss)
                progress(f"case {len(seconds)}/{cases}: {seconds[-1]:.2f} s, {memory[-1] / 2**20:.0f} MiB")

        return measure

    with replaced(measuring, "measure", timed):
        start = time.perf_counter()
        sweep(cases, *overrides)
        whole = time.perf_counter() - start
    settled = memory[len(memory) // 10 :]
    return {
        "cases": cases,
        "seconds": whole,
        "measuring_seconds": sum(seconds),
        "beyond_measuring_share": whole / sum(seconds) - 1,
        "beyond_measuring_seconds_per_case": (whole - sum(seconds)) / cases,
        "memory_growth_share": settled[-1] / settled[0] - 1,
    }


def process(runs: int) -> dict[str, float]:
    """One process's part of a case, in a fresh process and within this one."""
    from harness.configuration.settings import WorkerSettings
    from harness.devices.cpu import Cpu
    from harness.execution import sampling
    from harness.execution.processes.messages import Broken, Died, Done, Finish, Measure, Measured, Ready
    from harness.execution.processes.process import Process
    from harness.execution.worker import main
    from harness.results.measurement import CONTROL

    tasks: list[Any] = []

    def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
        def record(**arguments: Any) -> Any:
            tasks.append(function(**arguments))
            return tasks[-1]

        return record

    with replaced(sampling, "Task", recorded):
        sweep(1, *BRIEF)
    task = dataclasses.replace(tasks[0], settling_s=0.0, traces=Path("traces").resolve())
    told = (Measure(0.05), Finish())

    def fresh() -> None:
        child = Process(
            "harness.execution.worker.main:run",
            task,
            [*task.variants, CONTROL, *task.case.operation.imported],
            [Cpu()],
            WorkerSettings(),
            Path("worker.log"),
        )
        for order, until in zip((None, *told), (Ready, Measured, Done), strict=True):
            if order is not None:
                child.tell(order)
            for message in child.messages(until):
                assert not isinstance(message, (Died, Broken)), message
        child.end()

    def within() -> None:
        orders = iter(told)
        main.run(task, lambda message: None, lambda name: None, lambda: next(orders))

    took: dict[Callable[[], None], list[float]] = {fresh: [], within: []}
    for _ in range(runs + 1):  # the first warms up
        for way, seconds in took.items():
            start = time.perf_counter()
            way()
            seconds.append(time.perf_counter() - start)
    medians = {way.__name__: statistics.median(seconds[1:]) for way, seconds in took.items()}
    return {**medians, "cost_seconds": medians["fresh"] - medians["within"]}


def collecting(cases: int) -> dict[str, float]:
    """Collecting finished cases, relative to pandas reading their tables."""
    import pandas

    from harness.report.sweep_report import collect
    from harness.results import plan, sweeps

    folder = sweep(2, *BRIEF)
    planned = plan.read(folder)
    one = planned.cases[0]
    copies = [
        dataclasses.replace(
            one, folder=f"{number:05d}", swept={"op.dims.hidden": number}, dims={**one.dims, "hidden": number}
        )
        for number in range(1, cases + 1)
    ]
    text = (folder / one.folder / "comparison.csv").read_text()
    for copy in copies:
        (folder / copy.folder).mkdir()
        shutil.copy(folder / one.folder / "results.json", folder / copy.folder)
        (folder / copy.folder / "comparison.csv").write_text(
            text.replace("forward,4,16,", f"forward,4,{copy.dims['hidden']},")
        )
    dataclasses.replace(planned, cases=tuple(copies)).write(folder)
    progress(f"{cases:,} cases are there")

    def read() -> None:
        pandas.concat([pandas.read_csv(folder / copy.folder / "comparison.csv") for copy in copies])

    def seconds(work: Callable[[], Any]) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    read()  # into the cache of files
    figures = {
        "cases": float(cases),
        "pandas_seconds": seconds(read),
        "table_seconds": seconds(lambda: sweeps.read(folder).rows),
        "everything_seconds": seconds(lambda: collect(folder)),
    }
    return {**figures, "times_of_pandas": figures["everything_seconds"] / figures["pandas_seconds"]}


@contextlib.contextmanager
def replaced(module: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """A module with one of its functions wrapped."""
    before = getattr(module, name)
    setattr(module, name, wrap(before))
    try:
        yield
    finally:
        setattr(module, name, before)


if __name__ == "__main__":
    main()
