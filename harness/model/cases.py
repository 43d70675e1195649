"""Cases: each group as an operation of its own, with a YAML file by which it runs alone, later and elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.model import whole
from harness.model.groups import Group
from harness.model.names import short
from harness.model.plain import DICT, TUPLE, others, tensors
from harness.model.replacements import Replacement
from harness.model.step import FUNCTION
from harness.model.whole import AS_IS, COMPILED, Model
from harness.results import storage

FOLDER = "cases"
LIBRARY_VARIANTS = ("naive", "fused")  # those of the library that take nothing but the inputs
RECORDED = "harness.model.replay.recorded"
CALLED = "harness.model.replay.function"
ENGINE = "it runs autograd's engine, over a graph that is none of its arguments"
BESIDE = {  # functions that do something with more than their arguments, by their last name
    "backward": ENGINE,
    "grad": ENGINE,
    "as_strided": "it reads memory beside what it is given",
}


class NoCaseError(Exception):
    """A group that cannot run alone, and why."""


def operation(
    model: Model, group: Group, replacements: Sequence[Replacement], compile: Mapping[str, Any]
) -> dict[str, Any]:
    """A group as an operation, as the configuration holds one: as it is, compiled, the library's variants, replaced.

    `replacements` are those that replace its module; `compile` is what torch.compile takes. Raises NoCaseError if its
    arguments cannot be given again.
    """
    given = group.signature[DICT]
    args, kwargs = given["args"][TUPLE], given["kwargs"][DICT]
    unknown = others(group.signature)
    if unknown:
        raise NoCaseError(f"it is called with {', '.join(dict.fromkeys(unknown))}, of which nothing is recorded")
    if group.first.writes:
        raise NoCaseError("it writes into what it is given, so that no two calls of it are alike")
    if not tensors(group.signature):
        raise NoCaseError("it is called with no tensor")
    if group.first.kind == FUNCTION:
        beside = BESIDE.get(short(group.first.function))
        if beside:
            raise NoCaseError(beside)
        by_name = {name: value for name, value in kwargs.items() if tensors(value)}
        variants = _function(group, list(by_name), {k: v for k, v in kwargs.items() if k not in by_name}, compile)
        args, kwargs = [*args, *by_name.values()], {}
    elif args and kwargs:
        raise NoCaseError("it is called with arguments by position and by name")
    else:
        variants = _module(model, group, replacements, compile)
    call = {DICT: {"args": {TUPLE: args}, "kwargs": {DICT: kwargs}}}
    return whole.operation(group.name, {"fn": RECORDED, "args": {"call": call}}, variants)


def _module(
    model: Model, group: Group, replacements: Sequence[Replacement], compile: Mapping[str, Any]
) -> dict[str, Any]:
    as_is = model.as_it_is(group.first.path)
    as_is["args"] |= _called(group.signature[DICT])
    variants = {AS_IS: as_is, COMPILED: {**as_is, "compile": dict(compile)}}
    library = {
        f"{operation}_{name}": {"by": f"variants.{operation}.{name}", "at": [""]}
        for operation in group.first.known
        for name in LIBRARY_VARIANTS
    }
    asked = {replacement.name: {"by": replacement.by, "at": [""]} for replacement in replacements}
    for name, replacement in (library | asked).items():
        variants[name] = {"fn": as_is["fn"], "args": {**as_is["args"], "replace": [replacement]}}
    for name in library | asked:  # what each gains in the model if that is compiled
        variants[f"{name}_{COMPILED}"] = {**variants[name], "compile": dict(compile)}
    return variants


def _called(given: Mapping[str, Any]) -> dict[str, Any]:
    """How a model calls a module, as harness.model.replay.module takes it."""
    found = {key: given[key] for key in ("by_position", "same") if key in given}
    return found | ({"same": found["same"][DICT]} if "same" in found else {})


def _function(
    group: Group, by_name: Sequence[str], kwargs: Mapping[str, Any], compile: Mapping[str, Any]
) -> dict[str, Any]:
    """The variants of a function of torch: `by_name` are inputs that have to be named, `kwargs` what is no input."""
    how = ({"by_name": by_name} if by_name else {}) | ({"kwargs": kwargs} if kwargs else {})
    called = {"fn": CALLED, "args": {"function": group.first.function, **how}} if how else {"fn": group.first.function}
    variants: dict[str, Any] = {AS_IS: called, COMPILED: {**called, "compile": dict(compile)}}
    for operation in group.first.known:
        for name in LIBRARY_VARIANTS:
            args = {"function": f"variants.{operation}.{name}", **how}
            variants[f"{operation}_{name}"] = {"fn": CALLED, "args": args}
    return variants


class _Dumper(yaml.SafeDumper):
    """Writes each value where it stands: references to others are hard to read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def write(folder: Path, name: str, operation: Mapping[str, Any], what: str, command: str) -> None:
    """Writes an operation's YAML file of this name below `folder`; `what` says what it is, `command` runs it.

    None is written of an operation that holds objects, which have no name to find them by.
    """
    try:
        text = yaml.dump(dict(operation), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    except yaml.representer.RepresenterError:
        return
    with storage.atomic(folder / FOLDER / "op" / f"{name}.yaml") as file:
        file.write(f"# {what}.\n# {command}\n{text}")
