"""Replacements as they are asked for: what to replace, by what. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.configuration.errors import UsageError, unknown

KEYS = ("of", "by")
COMPILE = "torch.compile"  # `by` of modules that are compiled, each alone
EXAMPLE = "[{of: torch.nn.RMSNorm, by: my_package.FastNorm}]"


@dataclass(frozen=True)
class Replacement:
    """Modules that are replaced: those of a class, or those at some paths."""

    name: str
    by: str  # dotted path of a class, of a function, or torch.compile
    of: str = ""  # dotted path of a class
    at: tuple[str, ...] = ()  # paths in the model, in place of a class

    @property
    def plain(self) -> dict[str, Any]:
        """The replacement as harness.model.replace takes it."""
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
                raise unknown("replace", key, KEYS, "keys of a replacement")
        for key in KEYS:
            if not isinstance(item.get(key), str) or not item[key]:
                raise UsageError(f"replace.{key}={item.get(key)}: expected a dotted path, as in {EXAMPLE}")
        name = item["by"].rpartition(".")[2]
        taken = [other.name for other in found]
        name = name if name not in taken else f"{name} for {item['of'].rpartition('.')[2]}"
        found.append(Replacement(name if name not in taken else f"{name} {len(found) + 1}", item["by"], item["of"]))
    return found
