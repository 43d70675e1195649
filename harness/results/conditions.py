"""Conditions: what a run was measured under, apart from the code, that may change its times; as texts by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.results.storage import Document

SETTINGS = (
    "seed",
    "latency.",
    "worker.",
    "op.inputs",
    "op.reference",
    "op.baseline",
    "op.tolerance",
    "op.variants.",
    "environments",
)
SAME_CPU = ("name", "cores", "threads")  # of a device that is the host, the environment lists these too
IGNORED_VARIABLES = ("_DIR",)  # endings of those that only name folders
MEASURED = "peaks."  # of a device: figures that differ from run to run on the same machine


def of(document: Document) -> dict[str, str]:
    """The conditions of a run.

    Named are the harness, versions and machine, `device …` what the device says of itself, `variable …` an environment
    variable, and by its dotted key a setting.
    """
    environment = dict(document["environment"])
    variables = {f"variable {name}": value for name, value in environment.pop("variables", {}).items()}
    memory = environment.pop("memory_bytes", None)
    settings = flat(document["config"])
    configured = {f"variable {name}" for name in document["config"]["worker"]["env"]}  # listed as worker.env.NAME
    on_host = not document["device"].get("accelerator")
    chosen = SETTINGS if on_host else (*SETTINGS, "profile.")  # device time is that of profiled calls
    values: dict[str, Any] = {
        "harness": document["harness"],
        **flat(environment),
        **_environments(document),
        **({"memory": f"{memory / 2**30:.3g} GiB"} if memory else {}),
        **{
            f"device {name}": value
            for name, value in flat(document["device"]).items()
            if not (on_host and name in SAME_CPU) and not name.startswith(MEASURED)
        },
        **{
            name: value
            for name, value in variables.items()
            if name not in configured and not name.endswith(IGNORED_VARIABLES)
        },
        **{name: value for name, value in settings.items() if name.startswith(chosen)},
    }
    return {name: _text(value) for name, value in values.items()}


def _environments(document: Document) -> dict[str, Any]:
    """The versions in environments that have another interpreter, by the name of the environment or of a variant."""
    found: dict[str, Any] = {}
    for number, other in enumerate(document.get("environments", [])):
        if other["python"] and other["seen"]:
            alone = (each["variant"] for each in document["measurements"] if each["environment"] == number)
            name = other["name"] or next(alone)
            found |= {f"environment {name} {what}": other["seen"][what] for what in ("python", "torch")}
    return found


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, by dotted key."""
    values: dict[str, Any] = {}
    for name, value in settings.items():
        key = f"{prefix}{name}"
        values |= flat(value, f"{key}.") if isinstance(value, Mapping) and value else {key: value}
    return values


def _text(value: Any) -> str:
    if value is None or value == {} or value == []:
        return "unset"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={inner}" for name, inner in value.items())
    return str(value)
