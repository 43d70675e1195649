"""Sweeps: one table of all cases of a sweep, from its folder, at any time, also while it runs."""

from __future__ import annotations

import csv
import json
import re
import shutil
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.configuration.errors import CaseError, UsageError, one_line, some
from harness.results import columns, plan, storage
from harness.results.column import Row
from harness.results.comparison import Comparison
from harness.results.measurement import DEGRADED, FAILED, WRONG
from harness.results.plan import Plan, Planned

FILE = "sweep.csv"
MISSING = "missing"  # the status of a row whose case has not been measured
NUMBER = re.compile(r"[-+]?\b\d[\d.e+-]*")
MOST_NAMED = 4  # cases in a sentence
ENOUGH = 256  # bytes from each end of results.json that show its version, and that it is whole


@dataclass(frozen=True)
class Failure:
    """Why a case has no results."""

    status: int  # the exit status that it calls for
    reason: str


@dataclass(frozen=True)
class CollectedCase:
    """One case of a sweep, with what its folder holds now."""

    planned: Planned
    rows: list[Row]  # one a variant, of status failed or missing if there are no results
    missing: str | None = None  # why there are no results; None: there are
    started: bool = True
    status: int = 0  # the exit status that the case calls for

    @property
    def again(self) -> bool:
        """Whether a resumed sweep measures the case again."""
        return self.missing is not None or any(row["status"] == FAILED for row in self.rows)


@dataclass(frozen=True)
class Sweep:
    """A sweep as its folder shows it."""

    folder: Path
    plan: Plan
    cases: list[CollectedCase]

    @property
    def rows(self) -> list[Row]:
        """The rows of sweep.csv: every one has every column."""
        empty = dict.fromkeys(self.columns)
        return [{**empty, **row} for case in self.cases for row in case.rows]

    @property
    def columns(self) -> list[str]:
        """The columns of comparison.csv with the dims of all operations, then the swept keys beyond these."""
        dims = list(dict.fromkeys(dim for case in self.cases for dim in case.planned.dims))
        swept = list(dict.fromkeys(key for case in self.cases for key in case.planned.columns))
        return [*columns.names(columns.of_case(dims)), *swept, *columns.names(columns.SWEEP)]

    @property
    def status(self) -> int:
        """The exit status: the worst of the cases."""
        return max((case.status for case in self.cases), default=0)


def read(folder: Path) -> Sweep:
    """Reads a sweep's folder, and writes nothing."""
    cases = plan.read(folder)
    return Sweep(folder, cases, [look(folder, planned) for planned in cases.cases])


def look(folder: Path, planned: Planned) -> CollectedCase:
    """Reads one case, as far as it has got."""
    path = folder / planned.folder
    unfinished = _unfinished(path)
    if unfinished is None:
        rows = _rows(path, planned)
        worst = any(row["status"] in (WRONG, FAILED, DEGRADED) for row in rows)
        return CollectedCase(planned, rows, status=int(worst))
    failure = read_failure(path)
    if failure is not None:
        return CollectedCase(planned, _stand_in(planned, FAILED, failure.reason), failure.reason, status=failure.status)
    started = path.is_dir()
    reason = unfinished if started else "not started"
    return CollectedCase(planned, _stand_in(planned, MISSING, reason), reason, started, status=1)


def version_complaint(path: Path) -> str | None:
    """The complaint about a case's results, if another version of the harness wrote them."""
    try:
        with (path / storage.FILE).open("rb") as file:
            head = file.read(ENOUGH)
    except OSError:
        return None
    match = re.search(rb'"schema_version":\s*([^,\s}]+)', head)
    version = match[1].decode(errors="replace") if match else "none"
    if version == str(storage.SCHEMA_VERSION):
        return None
    return f"{storage.FILE} has schema_version {version}, where this harness reads {storage.SCHEMA_VERSION}"


def _unfinished(path: Path) -> str | None:
    """Why a case does not count as done; only both ends of its results are read."""
    try:
        with (path / storage.FILE).open("rb") as file:
            file.seek(max(file.seek(0, 2) - ENOUGH, 0))
            whole = file.read().rstrip().endswith(b"\n}")
    except OSError:
        return "started, not finished"
    return version_complaint(path) or (None if whole else f"{storage.FILE} is cut off")


def _rows(path: Path, planned: Planned) -> list[Row]:
    """The rows of a finished case's comparison.csv; made again from its results if that is gone or damaged."""
    own = {**planned.columns, "case": planned.folder}
    try:
        with (path / "comparison.csv").open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file)
            return [row | own for row in columns.read_rows(lines, lines.fieldnames or ())]
    except (FileNotFoundError, ValueError, KeyError):
        return [row | own for row in Comparison(storage.read(path)).rows]


def _stand_in(planned: Planned, status: str, reason: str) -> list[Row]:
    """Rows for a case without results: a missing case must not look like one that was never planned."""
    case = {
        "op": planned.op,
        "status": status,
        "reason": reason,
        "device": None if planned.device == "auto" else planned.device,
        "dtype": planned.dtype,
        "mode": planned.mode,
        **{f"dim_{dim}": size for dim, size in planned.dims.items()},
        **planned.columns,
        "case": planned.folder,
    }
    empty = dict.fromkeys(columns.names(columns.of_case([])))
    return [{**empty, **case, "variant": name} for name in planned.variants]


def _verb(status: str) -> str:
    return status if status == FAILED else f"is {status}"


def failures(cases: Sequence[CollectedCase], folder: Path) -> list[str]:
    """A sentence for each variant that is not right, and for each case that has no results.

    What differs in numbers alone from case to case is told once, with the names of the other cases.
    """
    alike: dict[str, list[tuple[str, str]]] = {}
    for case in cases:
        name = case.planned.folder
        for text in _faults(case):
            alike.setdefault(NUMBER.sub("", text.replace(name, "")), []).append((name, text))
    sentences = []
    for (name, text), *others in alike.values():
        log = folder / name / "worker.log"
        also = f"; likewise {some([other for other, _ in others], MOST_NAMED)}" if others else ""
        see = f"; see {log}" if log.exists() and str(log) not in text else ""
        sentences.append(f"{name}: {text}{also}{see}")
    return sentences


def _faults(case: CollectedCase) -> list[str]:
    """What is wrong with each variant of a case that is not right, or why the case has no results."""
    if case.missing is not None:
        return [case.missing]
    wrong = [row for row in case.rows if row["status"] in (WRONG, FAILED, DEGRADED)]
    return [f"{row['variant']} {_verb(row['status'])}: {row['reason']}" for row in wrong]


def remaining(folder: Path, current: Plan) -> list[int]:
    """The numbers of the cases of a sweep that are missing or failed.

    Raises UsageError if `folder` holds another sweep than `current`, or results of another version of the harness.
    """
    try:
        before = plan.read(folder)
    except UsageError as error:
        raise UsageError(f"resume={error}") from error
    plan.check_same(folder, before, current)
    sweep = read(folder)
    for case in sweep.cases:
        complaint = version_complaint(folder / case.planned.folder)
        if complaint:
            raise UsageError(f"resume={folder / case.planned.folder}: {complaint}; start a new sweep without resume")
    return [number for number, case in enumerate(sweep.cases) if case.again]


def record_failure(folder: Path, error: Exception) -> int:
    """Writes failure.json and returns its status; also prints the traceback of an unexpected error."""
    reason = one_line(error)
    status = 2 if isinstance(error, UsageError) else 1
    if not isinstance(error, (UsageError, CaseError)):
        traceback.print_exception(error)
        reason = f"{type(error).__name__}: {reason}"
    with storage.atomic(folder / storage.FAILURE) as file:
        json.dump({"status": status, "reason": reason}, file, ensure_ascii=False)
    return status


def read_failure(folder: Path) -> Failure | None:
    """The content of failure.json; None if there is none that can be read."""
    try:
        content = json.loads((folder / storage.FAILURE).read_text(encoding="utf-8"))
        return Failure(int(content["status"]), str(content["reason"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def clear_attempt(folder: Path) -> None:
    """Removes what an earlier attempt left, before the case is measured again; whole results stay until then.

    Their tables and charts can be made from them again, and must not be mixed with those of this attempt.
    """
    whole = _unfinished(folder) is None
    for path in folder.iterdir():
        if path.name == ".hydra" or (path.name == storage.FILE and whole):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
