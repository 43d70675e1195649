"""Verification: replacements put into the model, each alone and all together, and decided on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.configuration.errors import CaseError, UsageError
from harness.model.analysis import Analysis, Way
from harness.model.cases import FOLDER
from harness.model.decide import JOINED, Decision, agreed, decide, overtaken
from harness.model.groups import Group
from harness.model.measure import run, warn_of_faults
from harness.model.predict import Saving, saving, speedup
from harness.model.replacements import COMPILE, Replacement
from harness.model.step import MODULE
from harness.model.whole import AS_IS, COMPILED
from harness.results.comparison import Comparison
from harness.results.measurement import OK

TOGETHER = "all together"
WHOLE = "whole"  # the name of the case
COMPILED_WHOLE = "compiled whole"  # the decision on it
MOST_WINNERS = 4  # put into the model without being asked for


def verify(analysis: Analysis) -> None:
    """Measures whole models with what is asked for and what won in its group's case, and decides."""
    replacements = [*analysis.asked.replacements, *winners(analysis)]
    together = _compatible(analysis, [each for each in replacements if _promising(analysis, each)])
    as_built = _whole(analysis, AS_IS, replacements, together)
    if as_built is None:
        return
    analysis.ways.append(as_built)
    lasting = [replacement for replacement in replacements if replacement.by != COMPILE]
    entries = as_built.comparison.entries
    gains = any(each.name in entries and entries[each.name].host.verdict == "faster" for each in lasting)
    compiling = _compiling(analysis)
    if lasting and (compiling == "faster" or (compiling == "unclear" and gains)):
        way = _whole(analysis, COMPILED, lasting, [each for each in together if each in lasting])
        analysis.ways += [] if way is None else [way]
    analysis.decisions = _decisions(analysis, replacements, together)


def _compiling(analysis: Analysis) -> str | None:
    """The verdict on the model compiled whole, beside the model as it is; one that comes compiled stays so."""
    compiled = analysis.ways[0].comparison.entries.get(COMPILED)
    if analysis.recording.step.compiled:
        return "faster"
    return None if compiled is None else compiled.host.verdict


def _whole(
    analysis: Analysis, base: str, replacements: Sequence[Replacement], together: Sequence[Replacement]
) -> Way | None:
    """The whole model with each replacement and with some together, beside `base`; None if it could not be measured."""
    asked = analysis.asked
    as_it_is = asked.model.as_it_is()
    compiled: dict[str, Any] = {} if base == AS_IS else {"compile": analysis.spots.compile}
    variants = {base: {**as_it_is, **compiled}}
    if base == AS_IS:
        variants[COMPILED] = {**as_it_is, "compile": analysis.spots.compile}
    sets: dict[str, Sequence[Replacement]] = {replacement.name: [replacement] for replacement in replacements}
    if len(together) > 1:
        sets[TOGETHER] = together
    for name, chosen in sets.items():
        args = {**as_it_is["args"], "replace": [replacement.plain for replacement in chosen]}
        variants[name] = {**as_it_is, "args": args, **compiled}
    name = WHOLE if base == AS_IS else f"{WHOLE}_{base}"
    try:
        whole = asked.model.operation(variants)
        comparison = run(analysis, whole, f"The whole model, {base}", name, asked.plain["mode"])
        warn_of_faults(analysis, comparison, {base})
    except (UsageError, CaseError) as error:
        analysis.warn("the whole model", f"could not be measured: {error}")
        analysis.failed = True
        return None
    return Way(base, comparison, f"{FOLDER}/{name}")


def winners(analysis: Analysis) -> list[Replacement]:
    """The fastest variants of groups that can be put into the model and gain most of a step, the best first."""
    found: list[tuple[float, Replacement]] = []
    own = {replacement.name for replacement in analysis.asked.replacements}
    for measured in analysis.measured.values():
        group, comparison = measured.group, measured.comparison
        if comparison is None or group.first.kind != MODULE or not group.paths[0]:
            continue
        others = own | {f"{name}_{COMPILED}" for name in comparison.entries}  # which are for the compiled model
        rows = [row for row in comparison.rows if row["verdict"] == "faster" and row["variant"] not in others]
        best = max(rows, key=lambda row: row["speedup"], default=None)
        gain = group.share * (1 - 1 / best["speedup"]) if best is not None else 0.0
        if best is not None and gain >= comparison.settings.min_effect:
            name = f"{best['variant']} {group.name}"
            found.append((gain, Replacement(name, _by(best["variant"]), at=group.paths, variant=best["variant"])))
    return [replacement for _, replacement in sorted(found, key=lambda each: -each[0])[:MOST_WINNERS]]


def _by(variant: str) -> str:
    """What a variant of a group's case puts in a module's place."""
    operation, _, name = variant.rpartition("_")
    return COMPILE if variant == COMPILED else f"variants.{operation}.{name}"


def _promising(analysis: Analysis, replacement: Replacement) -> bool:
    """Whether nothing that was seen of it alone speaks against it."""
    entries = [part.comparison.entries[part.as_built] for part in alone(analysis, replacement, AS_IS)]
    return all(entry.measurement.status == OK and entry.host.verdict != "slower" for entry in entries)


def _compatible(analysis: Analysis, replacements: Sequence[Replacement]) -> list[Replacement]:
    """Those that can be put in together: of two that replace the same module, or one inside it, the first."""
    taken: list[str] = []
    chosen = []
    for replacement in replacements:
        paths = replacement.at or analysis.recording.step.targets[replacement.name]
        if not any(_overlap(path, other) for path in paths for other in taken):
            taken += paths
            chosen.append(replacement)
    return chosen


def _overlap(left: str, right: str) -> bool:
    return not left or not right or f"{left}.".startswith(f"{right}.") or f"{right}.".startswith(f"{left}.")


def _decisions(
    analysis: Analysis, replacements: Sequence[Replacement], together: Sequence[Replacement]
) -> list[Decision]:
    decisions = []
    for replacement in replacements:
        names = JOINED.join(group.name for group in analysis.groups_of(replacement))
        decisions += _decided(analysis, replacement.name, names, [replacement])
    decisions += _decided(analysis, TOGETHER, "", together)
    first = analysis.ways[0].comparison
    compiled = first.entries.get(COMPILED)
    if compiled is not None:
        decisions.append(decide(COMPILED_WHOLE, "", None, compiled, first.baseline))
    return decisions


def _decided(analysis: Analysis, name: str, group: str, replacements: Sequence[Replacement]) -> list[Decision]:
    """The decision on replacements that were put in together under a name; none if they were not.

    It is that of the compiled model if this is the faster one; if it is unclear whether it is, that of both.
    """
    ways = [way for way in analysis.ways if name in way.comparison.entries]
    compiling = _compiling(analysis)
    if compiling == "faster":
        ways = ways[-1:]
    decisions = [_in_way(analysis, way, name, group, replacements) for way in ways]
    if not decisions:
        return []
    entries = ways[-1].comparison.entries
    if compiling == "faster" and ways[-1].base == AS_IS and COMPILED in entries:
        return [overtaken(decisions[-1], entries[name], entries[COMPILED])]
    return [agreed(decisions)]


def _in_way(analysis: Analysis, way: Way, name: str, group: str, replacements: Sequence[Replacement]) -> Decision:
    entry, base = way.comparison.entries[name], way.comparison.entries[way.base]
    parts = [part for each in replacements for part in alone(analysis, each, way.base)]
    savings = {part.group.name: part.saving for part in parts if part.saving is not None}
    known = len(savings) == sum(len(analysis.groups_of(each)) for each in replacements)
    predicted = speedup(base.latency, list(savings.values())) if known and savings and base.latency else None
    saved = {name: each.seconds.value for name, each in savings.items()}
    entries = [part.comparison.entries[part.as_built] for part in parts]
    differs = [analysis.recording.step.differs.get(each.name) for each in replacements]
    return decide(name, group, predicted, entry, base, entries, saved, next(filter(None, differs), None))


@dataclass(frozen=True)
class Alone:
    """A replacement in the case of one of its groups: its variant that is not compiled, and what it saves in a step.

    The saving is that of the way in which the model is run; None if it is not known.
    """

    group: Group
    comparison: Comparison
    as_built: str
    saving: Saving | None


def alone(analysis: Analysis, replacement: Replacement, base: str) -> list[Alone]:
    """A replacement in its groups' cases, as far as these were measured, for a model that is run as `base`."""
    found = []
    for group in analysis.groups_of(replacement):
        measured = analysis.measured.get(group.name)
        name = replacement.alone
        if measured is None or measured.comparison is None or name not in measured.comparison.entries:
            continue
        variant = name if base == AS_IS else f"{name}_{COMPILED}"
        found.append(Alone(group, measured.comparison, name, saving(group, measured.comparison, base, variant)))
    return found
