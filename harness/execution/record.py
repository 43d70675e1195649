"""Record: what a message about one variant changes in its row."""

from __future__ import annotations

from harness.execution.messages import (
    Checked,
    Compiled,
    LeftOut,
    Message,
    Note,
    Peak,
    Probed,
    Profiled,
    Recompiled,
    Status,
)
from harness.measure import kinds
from harness.results.measurement import Measurement

HANDS_BACK = "it hands back its input: nothing need have been computed"
NO_OPERATOR = "it runs no operator that torch sees, in any of its threads"


def record(rows: dict[str, Measurement], message: Message) -> None:
    """Writes a message about one variant into its row; any other message changes nothing."""
    match message:
        case Status(variant, status, reason, kind):
            rows[variant].escalate(status, reason, kind)
        case LeftOut(variant):
            rows.pop(variant, None)
        case Compiled(variant, cost):
            rows[variant].compiles.append(cost)
            if cost.graph_breaks:
                rows[variant].note(
                    f"graph breaks ({cost.graph_breaks}) split it into {cost.graphs} graphs: "
                    f"{'; '.join(cost.break_reasons)}; compile.fullgraph=true refuses what breaks"
                )
        case Checked(variant, finding):
            row = rows[variant]
            row.error = finding.error
            row.comparable = finding.not_comparable is None
            row.no_op = finding.no_op
            if finding.no_op:
                row.find(kinds.NO_WORK, HANDS_BACK)
            if finding.not_comparable is not None:
                row.reason = f"not comparable: {finding.not_comparable}"
                row.find(kinds.NON_DETERMINISM, row.reason)
            for note in finding.notes:
                row.note(note)
        case Recompiled(variant, count):
            rows[variant].recompiles = max(rows[variant].recompiles or 0, count)
        case Peak(variant, size):
            rows[variant].peak_memory_bytes = size
        case Profiled(variant, profile, timeline):
            row = rows[variant]
            row.profile = profile
            row.timeline = timeline
            if profile.operator_calls == 0:
                row.no_op = True
                row.find(kinds.NO_WORK, NO_OPERATOR)
            for note in profile.notes:
                row.note(note)
        case Probed(variant, values):
            rows[variant].probed.update(values)
        case Note(variant, text, kind):
            rows[variant].note(text, kind)
