"""What changes do that kscope prints for public kernels: pasted as printed, checked by the programs themselves, timed.

    python tools/field/changes.py [--out reports/public_changes.md]      (the page, from labels/changes.toml)
    python tools/field/changes.py --reports FOLDER --sources FOLDER      (what is printed now; needs no GPU)

FOLDER of reports: what tools/field/capture.py filled; of sources: a folder a program, named as its report, with the
files that the program was built of.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from kscope.engine.code.programs import sources_below  # noqa: E402
from kscope.engine.kernels.kernel import analyze_kernel  # noqa: E402
from kscope.model.contract.fixes import Fix  # noqa: E402
from kscope.parsers.ncu.kernels import read_kernels  # noqa: E402

LABELS = Path(__file__).resolve().parent / "labels" / "changes.toml"
COUNTS = (
    "kernels", "printed_first", "printed_then", "printed", "held", "held_before", "held_now", "new", "new_first",
    "new_now",
)  # fmt: skip
SLOWER, GAIN = 0.99, 1.1  # of the time before over the time after: what is below is slower, what is worth it
INTRO = """# Changes to public kernels

Made by `python tools/field/changes.py` from tools/field/labels/changes.toml. Changes were pasted as printed into
programs that run one kernel of a public library each and check its results; timed on one NVIDIA H200.
"""


def page(read: Mapping[str, Any]) -> str:
    rows = sorted(read["changes"], key=lambda r: (r["made"], not r["first"], r["program"], r["rule"]))
    of = {(made, first): [r for r in rows if (r["made"], r["first"]) == (made, first)]
          for made in (1, 2, 3) for first in (True, False)}  # fmt: skip
    kernels, before, between, now, held, held_before, held_now, new, new_first, new_now = (read[n] for n in COUNTS)
    out = [
        INTRO,
        f"Of {kernels} kernels of four lists {before} had a change in code by makers that were written before anybody",
        f"looked at them for one (1), {between} with those written then (1, with these kernels at hand), {now} with",
        f"those written since with the kernels of the first two lists at hand (2). Of the {held} kernels of the other",
        f"two, which nobody looked at for these, {held_before} had a change before and {held_now} have one. Of {new}",
        f"kernels of a fifth list, of which nothing was known, {new_first} had one (3); {new_now} have one since, with",
        "these kernels at hand.",
        "",
        f"At first sight (1): {said(of[1, True])}",
        "",
        f"With these kernels at hand (1): {said(of[1, False])}",
        "",
        f"At first sight (2): {said(of[2, True])}",
        "",
        f"With these kernels at hand (2): {said(of[2, False])}",
        "",
        f"At first sight (3): {said(of[3, True])}",
        "",
        *([f"With these kernels at hand (3): {said(of[3, False])}", ""] if of[3, False] else []),
        *(line for note in read["notes"] for line in (note, "")),
        "| program | rule | change | made | at first sight | promised | delivered | in bounds | its check |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        p, gain = r.get("promised"), r["before_us"] / r["after_us"]
        promise = f"{p[0]:.2f}x ({p[1]:.2f} - {p[2]:.2f})" if p else "nothing"
        bounds = "" if not p or not r["passes"] else "yes" if p[1] <= gain <= p[2] else "no"
        gone = "" if r.get("printed", True) else " (not printed any more)"
        out.append(
            f"| {r['program']} | {r['rule']} | {r['kind']}{gone} | {r['made']} | {'yes' if r['first'] else 'no'} | "
            f"{promise} | "
            f"{gain:.2f}x | {bounds} | {'passes' if r['passes'] else 'fails'} |"
        )
    return "\n".join(out) + "\n"


def said(rows: Sequence[Mapping[str, Any]]) -> str:
    """What fails its check has gained nothing."""
    right = [r for r in rows if r["passes"]]
    gains = [r["before_us"] / r["after_us"] for r in right]
    priced = [(r["promised"], g) for r, g in zip(right, gains, strict=True) if "promised" in r]
    kept = sum(p[1] <= g <= p[2] for p, g in priced)
    slower = [g for g in gains if g < SLOWER]
    least = f" (least {min(slower):.2f}x)" if slower else ""
    return (
        f"{len(rows)} built, {sum(g >= GAIN for g in gains)} bring a tenth and more, {len(slower)} are slower{least}, "
        f"{kept} of {len(priced)} promises are in bounds, {len(rows) - len(right)} fail their program's check."
    )


def printed(report: Path, sources: Path) -> list[tuple[str, Fix]]:
    """Rule and change of a report's first kernel, refusals apart."""
    kernel = next(iter(read_kernels(str(report))))
    found = analyze_kernel(kernel, report.stem, lines=sources_below(sources)).findings
    return [(f.code, fix) for f in found for fix in f.fixes if not fix.refused]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--reports", type=Path)
    parser.add_argument("--sources", type=Path)
    args = parser.parse_args()
    if args.reports and args.sources:
        for report in sorted(args.reports.glob("*.ncu-rep")):
            for code, fix in printed(report, args.sources / report.stem):
                print(report.stem, code, fix.kind, fix.title)
        return
    text = page(tomllib.loads(LABELS.read_text("utf-8")))
    if args.out:
        args.out.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
