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
from harness.results.measurement import Measurement


def record(rows: dict[str, Measurement], message: Message) -> None:
    """Writes a message about one variant into its row; any other message changes nothing."""
    match message:
        case Status(variant, status, reason):
            rows[variant].escalate(status, reason)
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
            if finding.not_comparable is not None:
                row.reason = f"not comparable: {finding.not_comparable}"
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
            row.no_op = row.no_op or profile.operator_calls == 0
            for note in profile.notes:
                row.note(note)
        case Probed(variant, values):
            rows[variant].probed.update(values)
        case Note(variant, text):
            rows[variant].note(text)
