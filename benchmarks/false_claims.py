"""False claims: comparisons of a variant with itself at default settings, and the share called faster or slower."""

from __future__ import annotations

from collections import Counter

from programs import compare, options, progress, report

COPIES = tuple("abcdefgh")


def main() -> None:
    args = options(__doc__, runs=25)
    verdicts: Counter[str] = Counter()
    widths = []
    for run in range(args.runs):
        rows = compare(
            "op=rmsnorm",
            "device=cpu",
            f"variants=[naive,{','.join(COPIES)}]",
            *(f"+op.variants.{copy}.fn=variants.rmsnorm.naive" for copy in COPIES),
        )
        verdicts.update(rows[copy]["verdict"] for copy in COPIES)
        widths += [float(rows[copy]["speedup_hi"]) - float(rows[copy]["speedup_lo"]) for copy in COPIES]
        progress(f"{run + 1}/{args.runs}: {dict(verdicts)}")
    comparisons = sum(verdicts.values())
    claimed = verdicts["faster"] + verdicts["slower"]
    report(
        {
            "comparisons": comparisons,
            "verdicts": dict(verdicts),
            "claimed_share": claimed / comparisons,
            "median_interval_width": sorted(widths)[len(widths) // 2],
        },
        args.json,
    )


if __name__ == "__main__":
    main()
