"""Doubts: what besides the code may have changed a latency between two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.diff.runs import Pair, Run, flat
from harness.report import formatting

SETTINGS = ("seed", "latency.", "worker.", "op.inputs", "op.reference", "op.baseline", "op.tolerance", "op.variants.")
SAME_CPU = ("name", "cores", "threads")  # of a cpu, the environment says these too
NO_MATTER = ("_DIR",)  # variables that only say where files are
MEASURED = "peaks."  # of a device: figures that differ from run to run on the same machine


@dataclass(frozen=True)
class Doubt:
    """A difference of environment or configuration."""

    what: str
    old: str
    new: str
    cases: int  # in so many of the cases that are in both sides

    def sentence(self, of: int) -> str:
        """`torch: 2.12.0, now 2.13.0`."""
        where = "" if self.cases == of else f" (in {self.cases} of {of} cases)"
        return f"{self.what}: {self.old}, now {self.new}{where}"


def doubts(pairs: Sequence[Pair]) -> list[Doubt]:
    """All differences, each once; the machine first."""
    counts: dict[tuple[str, str, str], int] = {}
    for pair in pairs:
        if pair.old is None or pair.new is None:
            continue
        old, new = _circumstances(pair.old), _circumstances(pair.new)
        for what in dict.fromkeys([*old, *new]):
            before, after = old.get(what, "unset"), new.get(what, "unset")
            if before != after and not _only_there(what, pair):
                counts[what, before, after] = counts.get((what, before, after), 0) + 1
    return [Doubt(what, before, after, count) for (what, before, after), count in counts.items()]


def troubles(pairs: Sequence[Pair]) -> list[str]:
    """For each side, that the machine was disturbed while it measured: the first case's first warning, and a count."""
    found = []
    for side in ("old", "new"):
        runs = [run for pair in pairs if (run := getattr(pair, side)) is not None and run.document["warnings"]]
        if runs:
            total = sum(len(run.document["warnings"]) for run in runs)
            more = f" (the first of {total} warnings)" if total > 1 else ""
            found.append(f"{side.upper()} was disturbed: {runs[0].document['warnings'][0]}{more}")
    return found


def _circumstances(run: Run) -> dict[str, str]:
    """What may change a latency, as texts by name."""
    document = run.document
    environment = dict(document["environment"])
    variables = {f"variable {name}": value for name, value in environment.pop("variables", {}).items()}
    memory = environment.pop("memory_bytes", None)
    own = {f"variable {name}" for name in document["config"]["worker"]["env"]}  # said by worker.env.NAME
    on_host = not document["device"].get("accelerator")
    told: dict[str, Any] = {
        "harness": document["harness"],
        **flat(environment),
        **({"memory": formatting.size(memory)} if memory else {}),
        **{
            f"device {name}": value
            for name, value in flat(document["device"]).items()
            if not (on_host and name in SAME_CPU) and not name.startswith(MEASURED)
        },
        **{name: value for name, value in variables.items() if name not in own and not name.endswith(NO_MATTER)},
        **{name: value for name, value in run.settings.items() if name.startswith(SETTINGS)},
    }
    return {name: _text(value) for name, value in told.items()}


def _only_there(what: str, pair: Pair) -> bool:
    """Whether it says how a variant is made that only one side has, which is told elsewhere."""
    if not what.startswith("op.variants."):
        return False
    names = [_variants(run) for run in (pair.old, pair.new)]
    return not any(what.startswith(f"op.variants.{name}.") for name in names[0] & names[1])


def _variants(run: Run | None) -> set[str]:
    return set(run.variants) if run else set()


def _text(value: Any) -> str:
    if value is None or value == {} or value == []:
        return "unset"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={inner}" for name, inner in value.items())
    return str(value)
