"""Judging: candidates measured beside an operation's baseline, within a budget, by processes that are shut in."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from platformdirs import user_cache_path

from harness.configuration import compose
from harness.configuration.errors import UsageError
from harness.configuration.schema import parse
from harness.execution.run_case import run_case
from harness.judge.candidate import Candidate, variant
from harness.results.comparison import Comparison

START_S = 8.0  # of the budget: torch is imported, variants are prepared, profiled and checked
SAMPLING = 0.3  # of the rest: processes are prepared besides
LEAST_S = 0.3  # of sampling


def judged(
    candidates: Sequence[Candidate],
    op: str,
    overrides: Sequence[str],
    config_dir: Path | None,
    seconds: float,
    folder: Path,
) -> tuple[Comparison | None, dict[str, str]]:
    """Measures the candidates that can be imported; returns the comparison, and what is wrong with the others.

    Files go into `folder`. Raises UsageError if the command is at fault, CaseError if nothing can be measured.
    """
    faults = {candidate.name: candidate.fault for candidate in candidates if candidate.fault}
    scratch, modules = folder / "scratch", folder / "modules"  # of which processes may write into the first
    scratch.mkdir(parents=True)
    modules.mkdir()
    plain = compose.composed([f"op={op}", *_settings(seconds, scratch, candidates), *overrides], config_dir)
    baseline = plain["op"]["baseline"]
    own = {baseline: plain["op"]["variants"][baseline]}
    taken = [candidate for candidate in candidates if candidate.name == baseline]
    if taken:
        raise UsageError(f"{taken[0].path}: is called as the baseline is, {baseline}; rename the file")
    variants = {each.name: variant(each, modules) for each in candidates if not each.fault}
    while variants:
        plain["op"]["variants"] = {**own, **variants}
        plain["variants"] = None
        try:
            case, settings = parse(plain)
            shown = nullcontext(lambda text: None)
            return run_case(case, settings, plain, "harness.judge", folder, shown, partial(_clear, scratch)), faults
        except UsageError as error:
            name = next((each for each, written in variants.items() if _blames(error, each, written)), None)
            if name is None or (len(candidates) == 1 and "solution" in variants[name]):
                raise
            faults[name] = str(error).partition(": ")[2]
            del variants[name]
    return None, faults


def _clear(scratch: Path, folder: Path, seen: Comparison) -> None:
    """Removes what candidates have left in the folder for temporary files, so that there is room for results."""
    shutil.rmtree(scratch, ignore_errors=True)


def _blames(error: UsageError, name: str, written: Mapping[str, str]) -> bool:
    """Whether an error is the fault of a candidate: of its key, or of its file."""
    return str(error).startswith((f"op.variants.{name}.", f"{written.get('solution')}: "))


def _settings(seconds: float, scratch: Path, candidates: Sequence[Candidate]) -> list[str]:
    """Overrides that keep within the budget, shut processes in, and give the compilers caches that others do not use.

    A candidate could leave compiled code there that is not what it seems.
    """
    content = hashlib.sha256(b"".join(sorted(each.path.read_bytes() for each in candidates))).hexdigest()[:16]
    caches = user_cache_path("variant-harness") / "judge" / content
    environment: Mapping[str, Path] = {
        "TMPDIR": scratch,
        "TORCHINDUCTOR_CACHE_DIR": caches / "inductor",
        "TORCH_EXTENSIONS_DIR": caches / "extensions",
    }
    for path in environment.values():
        path.mkdir(parents=True, exist_ok=True)
    return [
        f"latency.seconds={max(LEAST_S, SAMPLING * (seconds - START_S)):g}",
        "latency.max_processes=6",
        "latency.wait=0",
        "report.charts=[]",
        "worker.sandbox=true",
        f"worker.timeout_s={max(seconds, 1.0):g}",
        *(f"worker.env.{name}='{path}'" for name, path in environment.items()),
    ]
