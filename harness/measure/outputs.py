"""Outputs: what a call gives, what each value of it is, and which values of two calls belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

Outputs = tuple[Any, ...]
OUTPUT, INPUT, PARAMETER, BUFFER = "output {}", "grad of input {}", "grad of {}", "buffer {} after the call"
UNMATCHED = object()  # stands for a value that the other call does not have
SHOWN = 4  # names in a sentence


@dataclass(frozen=True)
class Label:
    """What a value is: an output, the gradient of an input or of a parameter, or the contents of a buffer."""

    kind: str
    name: str

    @property
    def by_name(self) -> bool:
        """Whether it belongs to the value of the same name, and not to the one at the same position."""
        return self.kind in (PARAMETER, BUFFER)

    def __str__(self) -> str:
        return self.kind.format(self.name).rstrip()


def arranged(
    outputs: Outputs, labels: Sequence[Label], wanted: Outputs, wanted_labels: Sequence[Label]
) -> list[Any] | None:
    """The outputs in the order of those that are wanted; None if there are more or fewer, names left aside.

    What goes by its name comes last, and is UNMATCHED if there is none of that name, or if its shape is another.
    """
    count = sum(not label.by_name for label in wanted_labels)
    extra = sum(label.by_name for label in labels)
    if len(outputs) - extra != count:
        return None
    given = list(outputs[:count])
    named = dict(zip(labels[count:], outputs[count:], strict=False))
    for label, value in zip(wanted_labels[count:], wanted[count:], strict=True):
        mine = named.get(label, UNMATCHED)
        given.append(mine if isinstance(mine, torch.Tensor) and mine.shape == value.shape else UNMATCHED)
    return given


def unmatched(outputs: Outputs, labels: Sequence[Label], wanted: Outputs, wanted_labels: Sequence[Label]) -> list[str]:
    """Sentences about what could not be compared since only one of the two has it, or has it in this shape."""
    pairs = zip(wanted_labels, arranged(outputs, labels, wanted, wanted_labels) or (), strict=False)
    missing = [label for label, value in pairs if value is UNMATCHED]
    own = [label for label in labels if label.kind == PARAMETER and label not in wanted_labels]
    sentences = []
    if missing and any(label.by_name for label in labels):
        sentences.append(f"gives no {few(missing)} of the reference's shape: not checked")
    elif missing:
        sentences.append(f"gives no {few(missing)}, as the reference does: neither checked nor computed while timed")
    if own:
        sentences.append(f"gives {few(own)}, of which the reference has none: not checked")
    return sentences


def few(names: Sequence[Any]) -> str:
    """The first of the names, and how many more there are."""
    shown = ", ".join(map(str, names[:SHOWN]))
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
