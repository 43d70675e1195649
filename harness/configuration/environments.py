"""Environment: what a variant's measuring processes have of their own: variables, threads, an interpreter."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.errors import UsageError, unknown
from harness.configuration.settings import WorkerSettings, variables

KEYS = ("env", "threads", "python")
MARK = "@"  # between a variant's name and its environment's


@dataclass(frozen=True)
class Environment:
    """What the processes of some variants have of their own; the default is the run's own environment.

    Variants of equal environments are measured in the same processes.
    """

    name: str = ""  # of those under the key `environments`
    env: tuple[tuple[str, str | int | None], ...] = ()  # variables, set before torch is imported; None: unset
    threads: int | None = None
    python: str | None = None  # the path of an interpreter, of another virtual environment
    alone: str = ""  # the one variant that has it, as its processes are shared with no other

    def within(self, outer: Environment) -> Environment:
        """This one, completed by what another says of all its variants."""
        return Environment(
            outer.name,
            tuple(sorted({**dict(outer.env), **dict(self.env)}.items())),
            self.threads or outer.threads,
            self.python or outer.python,
        )

    def applied(self, worker: WorkerSettings) -> dict[str, Any]:
        """The fields of the settings of a process that it replaces."""
        return {"env": {**worker.env, **dict(self.env)}, "threads": self.threads or worker.threads}

    def differs(self, seen: Mapping[str, Any]) -> str:
        """What is of it alone, as `OMP_NUM_THREADS=1`; `seen` is what a process has said of it, if any has."""
        parts = [f"{name} unset" if value is None else f"{name}={value}" for name, value in self.env]
        parts += [f"threads={self.threads}"] if self.threads else []
        if self.python:
            parts += [f"Python {seen['python']}", f"torch {seen['torch']}"] if seen else []
            parts.append(f"python={self.python}")
        parts += ["processes of its own"] if self.alone else []
        return ", ".join(parts) or "no difference"

    @property
    def plain(self) -> dict[str, Any]:
        """What results.json holds of it."""
        return {"name": self.name, "env": dict(self.env), "threads": self.threads, "python": self.python}


OWN = Environment()  # the run's


def parse_all(value: Mapping[Any, Any]) -> list[Environment]:
    """The environments under the key `environments`; raises UsageError for what cannot be one."""
    found = []
    for name, content in value.items():
        key = f"environments.{name}"
        if not str(name).strip() or MARK in str(name):
            raise UsageError(f'environments: one cannot be called "{name}"; give it another name')
        if content is not None and not isinstance(content, Mapping):
            raise UsageError(f"{key}={content}: expected a mapping, such as {{threads: 1}}")
        for part in content or {}:
            if part not in KEYS:
                raise unknown(key, part, KEYS, "keys of an environment")
        found.append(parse(key, content or {}, str(name)))
    return found


def parse(key: str, value: Mapping[str, Any], name: str = "") -> Environment:
    """The environment that the KEYS of a mapping give; raises UsageError for a value that none can have."""
    env, threads, python = (value.get(part) for part in KEYS)
    if env is not None and not isinstance(env, Mapping):
        raise UsageError(f"{key}.env={env}: expected a mapping of variables, such as {{OMP_NUM_THREADS: 1}}")
    variables(f"{key}.env", env or {})
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise UsageError(f"{key}.threads={threads}: expected a whole number of 1 or more")
    own = tuple(sorted((str(variable), content) for variable, content in (env or {}).items()))
    return Environment(name, own, threads, None if python is None else _interpreter(f"{key}.python", python))


def _interpreter(key: str, value: Any) -> str:
    """The absolute path of an interpreter; a virtual environment's folder stands for its own."""
    if not isinstance(value, str) or not value:
        raise UsageError(f"{key}={value}: expected the path of a Python, such as /path/to/.venv/bin/python")
    path = Path(value).expanduser().absolute()
    if path.is_dir():
        path = path / "bin" / "python"
    if not path.is_file():
        raise UsageError(f"{key}={value}: no such file; expected a Python, such as {sys.executable}")
    if not os.access(path, os.X_OK):
        raise UsageError(f"{key}={value}: cannot be executed; expected a Python, such as {sys.executable}")
    return str(path)
