"""Replacements as they are asked for: what to replace, by what. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.configuration.errors import UsageError, unknown_key
from harness.configuration.operation import Function
from harness.model.names import short

KEYS = ("of", "by")
COMPILED = "compiled"
RESERVED = ("as_is", COMPILED)  # names of variants
COMPILE = "torch.compile"  # `by` of modules that are compiled, each alone
EXAMPLE = "[{of: torch.nn.RMSNorm, by: my_package.FastNorm}]"


@dataclass(frozen=True)
class Replacement:
    """Modules that are replaced: those of a class, or those at some paths."""

    name: str
    by: Function  # a class of modules, a function, or COMPILE
    of: Function | None = None  # a class of modules
    at: tuple[str, ...] = ()  # paths in the model, in place of a class
    variant: str = ""  # its name in the cases of its groups, if that is another

    @property
    def alone(self) -> str:
        """The name of its variant in the cases of its groups."""
        return self.variant or self.name

    @property
    def plain(self) -> dict[str, Any]:
        """The replacement as harness.model.recording.replace takes it."""
        return {"by": self.by} | ({"at": list(self.at)} if self.at else {"of": self.of})


def parse(value: Any) -> list[Replacement]:
    """The replacements of the key `replace`; raises UsageError for what is none."""
    if value is None:
        return []
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise UsageError(f"replace={value}: expected a list, such as {EXAMPLE}")
    found: list[Replacement] = []
    for item in value:
        if not isinstance(item, Mapping):
            raise UsageError(f"replace={item}: expected a mapping in a list, such as {EXAMPLE}")
        for key in item:
            if key not in KEYS:
                raise unknown_key("replace", str(key), KEYS)
        for key in KEYS:
            given = item.get(key)
            if not given or not (isinstance(given, str) or callable(given)):
                raise UsageError(f"replace.{key}={given}: expected a dotted path, as in {EXAMPLE}")
        found.append(Replacement(_name(item, [other.name for other in found]), item["by"], item["of"]))
    return found


def _name(item: Mapping[str, Any], taken: Sequence[str]) -> str:
    """The last part of what replaces, made different from the names that are taken, and from those of variants."""
    by, of = (re.sub(r"\W+", "", short(item[key])) or "other" for key in ("by", "of"))
    names = [by, f"{by} for {of}", f"{by} for {of} {len(taken) + 1}"]
    return next(name for name in names if not any(_alike(name, other) for other in (*taken, *RESERVED)))


def _alike(name: str, other: str) -> bool:
    """Whether two names are one, or the one is what the other is called where it is compiled."""
    return name == other or f"{name}_{COMPILED}" == other or f"{other}_{COMPILED}" == name
