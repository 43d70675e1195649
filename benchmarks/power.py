"""Power: how often a variant that does a tenth more work than the baseline is called slower."""

from __future__ import annotations

from collections import Counter

from programs import compare, options, progress, report

SMALL = [
    "op.dims.rows=4",
    "op.dims.hidden=512",
    "dtype=bfloat16",
    "op.baseline=ten",
    "variants=[ten,more]",
    "+op.variants.ten.fn=workloads.ten",
    "+op.variants.more.fn=workloads.eleven",
]
LARGE = [
    "op.dims.rows=2048",
    "op.dims.hidden=2048",
    "dtype=float32",
    "variants=[naive,more]",
    "+op.variants.more.fn=workloads.tenth_more",
]


def main() -> None:
    args = options(__doc__, runs=40)
    figures = {}
    for name, overrides in {"(4, 512) bfloat16": SMALL, "(2048, 2048) float32": LARGE}.items():
        verdicts: Counter[str] = Counter()
        for run in range(args.runs):
            verdicts[compare("op=rmsnorm", "device=cpu", *overrides)["more"]["verdict"]] += 1
            progress(f"{name} {run + 1}/{args.runs}: {dict(verdicts)}")
        figures[name] = {
            "verdicts": dict(verdicts),
            "slower_share": verdicts["slower"] / args.runs,
            "faster_share": verdicts["faster"] / args.runs,
        }
    report(figures, args.json)


if __name__ == "__main__":
    main()
