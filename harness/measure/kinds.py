"""Kinds: what tells against a variant, by kind; each finding has one, said by what finds it."""

from __future__ import annotations

TAMPERING = "tampering"
TIMER = "timer"
CACHE = "cache"
LAZINESS = "laziness"
THREADS = "threads"
ALIASING = "aliasing"
IN_PLACE = "in-place"
VALUES = "values"
FORM = "form"
NON_DETERMINISM = "non-determinism"
NO_WORK = "no work"
PROFILER = "profiler"
EXIT = "exit"
TIME = "time"
ENVIRONMENT = "environment"
REPLACEMENT = "replacement"
FAILED = "failed"
DEGRADED = "degraded"

KINDS = {
    TAMPERING: "it replaced the clock, the harness's functions, classes or constants, or the operation's reference, "
    "inputs or baseline, or sent messages of its own",
    TIMER: "its calls take longer by the clock of another process than by that of its own",
    CACHE: "contents that it has not seen take it longer than others; or it returns what was right for others",
    LAZINESS: "it returns a tensor that is computed when it is looked at",
    THREADS: "its output changes after it has returned",
    ALIASING: "each call returns the same memory",
    IN_PLACE: "it changes its inputs, or memory of others",
    VALUES: "it is wrong by its values: precision, NaN, skipped work",
    FORM: "it is wrong by shape, dtype, device or number of outputs",
    NON_DETERMINISM: "it draws random numbers, so that nothing is known of it",
    NO_WORK: "it hands back its input, or no operator was seen in any of its threads",
    PROFILER: "it opens a profiler of its own",
    EXIT: "it ended its process, or its pipe",
    TIME: "it did not end in time",
    ENVIRONMENT: "it left global state changed, which was put back",
    REPLACEMENT: "it left a function of torch replaced, which was put back: it is not valid",
    FAILED: "it raised, or cannot be measured for another reason",
    DEGRADED: "it ran, but not as declared",
}
