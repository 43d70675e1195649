"""Plan: the cases of a sweep, all checked and each given a folder before anything runs; a run's folder likewise."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from harness.configuration.errors import Refused, UsageError
from harness.configuration.overrides import assignment
from harness.configuration.schema import parse, resolved
from harness.results import columns, storage

SCHEMA_VERSION = 1
LONGEST_NAME = 60
OWN_COLUMNS = tuple(column.name for column in columns.CASE if column.swept)  # every row of a comparison holds them
LAST = "last"
ABOUT_THE_RUN = ("resume", "lock", "report")  # keys that do not change what is measured

Compose = Callable[[list[str]], DictConfig]


@dataclass(frozen=True)
class Job:
    """One case as the command line asks for it."""

    overrides: tuple[str, ...]
    swept: Mapping[str, str]  # the text of the value of each swept key, in the order of the command line


@dataclass(frozen=True)
class Planned:
    """One case of a sweep, before it is measured."""

    folder: str  # below the sweep's
    overrides: tuple[str, ...]  # of the command line that makes this case alone
    swept: Mapping[str, Any]  # the values of the swept keys, in the order of the command line
    digest: str  # of the configuration, to recognize the case
    op: str
    dims: Mapping[str, int]
    dtype: str
    device: str
    mode: str
    variants: tuple[str, ...]

    @property
    def name(self) -> str:
        """For people: `hidden=512 dtype=float32`."""
        return " ".join(f"{_short(key)}={value}" for key, value in self.swept.items()) or self.op

    @property
    def columns(self) -> dict[str, Any]:
        """The swept keys that no column of a comparison holds, with their values."""
        return {
            key: value for key, value in self.swept.items() if key not in OWN_COLUMNS and not key.startswith("op.dims.")
        }


@dataclass(frozen=True)
class Plan:
    """All cases of a sweep, and the command that asks for them."""

    command: str  # without resume=…
    config: Mapping[str, Any]  # the resolved configuration of the first case
    cases: tuple[Planned, ...]

    def resuming(self, folder: Path) -> str:
        """The command that continues the sweep in `folder`."""
        return f"{self.command} {shlex.quote(assignment('resume', folder))}"

    def write(self, folder: Path) -> None:
        """Writes sweep.json."""
        content = {"schema_version": SCHEMA_VERSION, **asdict(self)}
        with storage.atomic(folder / storage.SWEEP) as file:
            json.dump(storage.strict(content), file, allow_nan=False, ensure_ascii=False, indent=1)


class FreshFolder(Callback):
    """Hydra calls it at the start of a run, before it writes its own files; conf/config.yaml names it."""

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Raises Refused for a folder that holds a run or a sweep."""
        folder = Path(str(config.hydra.run.dir))
        if storage.holds_run(folder) or (folder / storage.SWEEP).exists():
            raise Refused(
                UsageError(f"hydra.run.dir={folder}: holds earlier results; choose another folder, or remove it")
            )


def read(folder: Path) -> Plan:
    """The plan in a sweep's folder.

    Raises UsageError if there is none, or if another version of the harness wrote it.
    """
    content = storage.versioned(
        folder / storage.SWEEP, SCHEMA_VERSION, f"{folder}: no {storage.SWEEP} there; not the folder of a sweep"
    )
    cases = tuple(
        Planned(**{**case, "overrides": tuple(case["overrides"]), "variants": tuple(case["variants"])})
        for case in content["cases"]
    )
    return Plan(content["command"], content["config"], cases)


def make(jobs: Sequence[Job], compose: Compose, command: str) -> Plan:
    """Composes and validates every case; `compose` raises UsageError.

    Raises UsageError for the first case that cannot be measured as asked, with what is wrong and in which case.
    """
    cases = []
    first = None
    width = max(3, len(str(len(jobs) - 1)))
    for number, job in enumerate(jobs):
        try:
            plain = resolved(compose(list(job.overrides)))
            case, _ = parse(plain)
        except UsageError as error:
            where = " ".join(f"{key}={value}" for key, value in job.swept.items())
            raise UsageError(f"{error} (in the case {where})" if len(job.swept) > 1 else str(error)) from error
        first = first or plain
        values = {key: _typed(plain, key, text) for key, text in job.swept.items()}
        cases.append(
            Planned(
                folder=_folder(number, width, values or {"op": case.operation.name}),
                overrides=job.overrides,
                swept=values,
                digest=digest(plain),
                op=case.operation.name,
                dims=dict(case.operation.dims),
                dtype=case.dtype,
                device=case.device,
                mode=case.mode,
                variants=tuple(variant.name for variant in case.operation.variants if not variant.optional),
            )
        )
    return Plan(command, first or {}, tuple(cases))


def locate(resume: str, fresh: Path) -> Path:
    """The folder that `resume` names; `fresh` is the one that a new sweep would get, outputs/DATE/TIME.

    Raises UsageError if that is not the folder of a sweep.
    """
    if resume != LAST:
        return Path(resume)
    outputs = fresh.parent.parent  # outputs/DATE/TIME
    sweeps = sorted(outputs.glob(f"*/*/{storage.SWEEP}"), key=lambda path: path.stat().st_mtime)
    if not sweeps:
        raise UsageError(f"resume={LAST}: no sweep under {outputs}")
    return sweeps[-1].parent


def check_same(folder: Path, before: Plan, current: Plan) -> None:
    """Raises UsageError if two plans differ: results measured under other settings must not end up in one table."""
    if len(before.cases) != len(current.cases):
        raise UsageError(
            f"resume={folder}: has {len(before.cases)} cases, and this command has {len(current.cases)}; "
            f"continue it by {before.resuming(folder)}"
        )
    for old, new in zip(before.cases, current.cases, strict=True):
        if old.digest != new.digest:
            where = f"for {old.folder}" if old.name == new.name else f"{new.name} where the sweep has {old.name}"
            raise UsageError(
                f"resume={folder}: this command has other settings, {where}; continue the sweep by "
                f"{before.resuming(folder)}, or start a new one without resume"
            )


def digest(plain: Mapping[str, Any]) -> str:
    """A text that two configurations share only if they ask for the same measurement."""
    measured = {key: value for key, value in plain.items() if key not in ABOUT_THE_RUN}
    return hashlib.sha256(json.dumps(measured, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _typed(plain: Mapping[str, Any], key: str, text: str) -> Any:
    """The value that the configuration holds under a swept key, or the text that chose it: a group's option."""
    value: Any = plain
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, (bool, int, float, str)) else text


def _folder(number: int, width: int, values: Mapping[str, Any]) -> str:
    """`003-hidden_512-float32`: short, and safe in every file system and on a command line."""
    parts = [str(value) if key in OWN_COLUMNS else f"{_short(key)}_{value}" for key, value in values.items()]
    name = f"{number:0{width}}-{'-'.join(parts)}"
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)[:LONGEST_NAME].rstrip("._-")


def _short(key: str) -> str:
    return key.rpartition(".")[2]
