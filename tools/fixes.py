"""Which captures get a change, and what came of those that were built as printed.

    python tools/fixes.py [--out reports/fixes.md]
    python tools/fixes.py --beside cuxray        (the table of layouts anew: that program must be installed)
    python tools/fixes.py --take rows.json       (times of changes that were built: into fixtures/fixes/measured.toml)

Captures: those of fixtures/h200 whose better version was timed (`fixed_by` or `next` in its tables). Built: the rows
of fixtures/fixes/measured.toml. Layouts: the kernels of fixtures/fixes/layouts.cu.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kscope.fixes.unprinted import unprinted  # noqa: E402
from kscope.model.contract.analysis import Estimate, Fix, KernelAnalysis  # noqa: E402
from tests.support import captures, reports  # noqa: E402
from tests.support.with_sources import diagnosed  # noqa: E402
from tools.fixes_beside import BESIDE, beside, beside_table  # noqa: E402
from tools.fixes_pairs import TOLERATED, Judged, judged  # noqa: E402
from tools.fixes_pairs import built as of_builds  # noqa: E402

HERE = ROOT / "fixtures" / "fixes"
KERNELS = ROOT / "fixtures" / "kernels"
SLOWER = 0.99  # of the original's time over the change's: what is below is slower, not noise (medians of 31)


def chosen(analysis: KernelAnalysis, accept: list[str]) -> tuple[str, Fix] | None:
    """The first change of a finding that names the planted cause; a refusal where there is nothing else."""
    found = [(f.code, fix) for f in analysis.findings if f.rule in accept for fix in f.fixes]
    return next((row for row in found if not row[1].refused), found[0] if found else None)


class Row(Struct, frozen=True):
    """A capture whose better version was timed: its first change, judged against that version."""

    case: str
    better: str
    cause: str
    gain: float
    code: str
    fix: Fix | None
    judged: Judged


@cache
def pairs(cases: tuple[str, ...] | None = None) -> tuple[Row, ...]:
    """Every capture with a better version, or those of `cases`."""
    tables = captures.tables(reports.FIXTURES)
    labels, times = captures.labels(tables), captures.times(tables)
    rows = []
    for case, label in labels.items():
        better = label.get("fixed") or label.get("next")
        if better not in times or case not in times or (cases is not None and case not in cases):
            continue
        gain, one = times[case] / times[better], chosen(diagnosed(case), label["accept"])
        if one is None:
            found = [f.code for f in diagnosed(case).findings if f.rule in label["accept"]]
            why = unprinted(found[0]) if found else "the cause is not found"
            rows.append(Row(case, better, label["accept"][0], gain, "", None, Judged("none", "", reason=why)))
            continue
        code, fix = one
        rows.append(Row(case, better, label["accept"][0], gain, code, fix, judged(case, better, code, fix, gain)))
    return tuple(rows)


def compared(times: dict[tuple[str, str, str], float]) -> list[str]:
    """Rows of the table. times: what changes delivered that were built and timed."""
    out = []
    for r in pairs():
        j = r.judged
        title = r.fix.title if r.fix is not None and not r.fix.refused else ""
        shown = " | ".join("" if v is None else f"{v:,.4g}" for v in (j.before, j.after, j.better))
        got = times.get((r.case, r.code, r.fix.kind if r.fix is not None else ""))
        delivered = f"{got:.2f}x" if got else ""
        head = f"| {r.case} | {r.better} | {r.code} | {title} | {j.word} | {j.what} | {shown} |"
        out.append(f"{head} {delivered} | {r.gain:.2f}x | {j.reason} |".replace("\n", " "))
    return out


def counted_words() -> dict[str, int]:
    return dict(Counter(r.judged.word for r in pairs()))


def said_of_builds() -> list[str]:
    """How many of the changes that were pasted and compiled have what was proposed, and the table of those that have
    not."""
    rows = list(of_builds().values())
    has = Counter(r["has"] for r in rows)
    out = [
        "## Pasted and compiled", "",
        f"{len(rows)} changes that alter a kernel were pasted into its source as printed and compiled for sm_90a",
        f"(`python tools/fixes_built.py`). Of the new code `kscope fix --check` says: {has['yes']} have what was",
        f"proposed, {has['partly']} in part, {has['no']} not; {has['unknown']} cannot be seen in the code; "
        f"{has['no build']} do not compile.",
        "", "| capture | rule | change | has it | of what | before | in the new code |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for r in rows:
        if r["has"] != "yes":
            figures = f"{r['old']:.4g} | {r['new']:.4g}" if "new" in r else " | "
            out.append(f"| {r['case']} | {r['rule']} | {r['kind']} | {r['has']} | {r['what']} | {figures} |")
    return out


def built() -> tuple[list[str], list[tuple[float, Estimate | None]]]:
    """Rows of the table, and what each change delivered beside what is promised of it now."""
    rows, kept = [], []
    for p in tomllib.loads((HERE / "measured.toml").read_text("utf-8"))["proposals"]:
        findings = [f for f in diagnosed(p["case"]).findings if f.code == p["rule"]]
        found = [x for f in findings for x in f.fixes if x.kind == p["kind"]]
        price = next((x.price for x in found), None)
        gain = p["before_us"] / p["after_us"]
        promised = f"{price.speedup:.2f}x ({price.low:.2f} - {price.high:.2f})" if price else "nothing"
        inside = "" if price is None else "yes" if price.low <= gain <= price.high else "no"
        share, most = p.get("words_that_differ"), p.get("largest_difference")
        other = "laid out anew" if p.get("laid_out_anew") else "lists, in no order" if p.get("order_free") else ""
        what = other or ("" if share is None else f"{share:.2%}")
        what += f", by {most:.0e} at most" if most else ""
        rows.append(f"| {p['case']} | {p['rule']} | {p['kind']} | {promised} | {gain:.2f}x | {inside} | {what} |")
        kept.append((gain, price))
    return rows, kept


def page() -> str:
    table, kept = built()
    words, every = counted_words(), len(pairs())
    timed = tomllib.loads((HERE / "measured.toml").read_text("utf-8"))["proposals"]
    times = {(p["case"], p["rule"], p["kind"]): p["before_us"] / p["after_us"] for p in timed}
    device = tomllib.loads((HERE / "measured.toml").read_text("utf-8"))["device"]["gpu"]
    others = collections.Counter(p["gpu"] for p in timed if p.get("gpu"))
    device += "".join(f", {count} of them on one {gpu}" for gpu, count in sorted(others.items()))
    priced = [(gain, price) for gain, price in kept if price is not None]
    inside = sum(price.low <= gain <= price.high for gain, price in priced)
    lines = [
        "# Changes", "",
        "Made by `python tools/fixes.py` from fixtures/h200 and fixtures/fixes. The makers of these changes were",
        "written with these captures at hand: what they reach on known faults, not on those of others.", "",
        f"{every - words.get('none', 0)} of {every} captures whose better version was timed get a change:",
        f"{words.get('same', 0)} the same as that version, {words.get('as good', 0)} as good, "
        f"{words.get('less', 0)} less.",
        f"{len(kept)} changes were built as printed and timed beside the original on one {device}",
        "(in turn, in one program or in two, but for gemm_bf16.mma and build.debug):",
        f"{sum(gain > 1 for gain, _ in kept)} are faster, {sum(gain < SLOWER for gain, _ in kept)} slower; "
        f"{inside} of {len(priced)} promises are in bounds.",
        "", "## Built as printed", "",
        "| capture | rule | change | promised | delivered | in bounds | words of the results that differ |",
        "|---|---|---|---|---|---|---|", *table,
        "", "## Every capture", "",
        "The first change that is printed, against the version that was measured to be better: by what the change",
        "takes away, computed of the proposal (`after`) and counted in that version's report. Same: its launch, or",
        f"all of its instructions by opcode. As good: at most {TOLERATED:g} times what the better version needs.",
        "Delivered: of the proposal, where it was timed; possible: of the better version. Both compiled: the better",
        "version was not captured and the proposal not timed; what decides is in the code of both.",
        "", "| capture | better version | rule | change | judged | of what | before | after | better version's "
        "| delivered | possible | reason |", "|---|---|---|---|---|---|---|---|---|---|---|---|", *compared(times),
        "", *said_of_builds(),
    ]  # fmt: skip
    if BESIDE.exists():
        lines += ["", *beside_table(tomllib.loads(BESIDE.read_text("utf-8")))]
    return "\n".join(lines) + "\n"


def take(path: Path) -> None:
    """Rows of case, rule, kind, before_us, after_us, better_us (of the better version, where it was timed in the same
    run), beside (what was timed there, where it is not that version alone), gpu (where it is not the file's),
    words_that_differ (a share), largest_difference (relative to the largest value), or laid_out_anew, or order_free: in
    place of those of the same change, or beside them."""
    file = HERE / "measured.toml"
    text = file.read_text("utf-8")
    known = {(p["case"], p["rule"], p["kind"]): p for p in tomllib.loads(text)["proposals"]}
    known |= {(p["case"], p["rule"], p["kind"]): p for p in json.loads(path.read_text("utf-8"))}
    out = [text[: text.index("[[proposals]]")].rstrip(), ""]
    for key in sorted(known):
        p = known[key]
        out += ["[[proposals]]", *(f'{name} = "{p[name]}"' for name in ("case", "rule", "kind"))]
        out += [f"{name} = {p[name]:.2f}" for name in ("before_us", "after_us", "better_us") if p.get(name)]
        out += [f'{name} = "{p[name]}"' for name in ("gpu", "beside") if p.get(name)]
        if p.get("laid_out_anew"):
            out += ["laid_out_anew = true  # data that lie elsewhere: results are not comparable word by word", ""]
            continue
        if p.get("order_free"):
            out += ["order_free = true  # places in lists go to whoever comes first, before and after", ""]
            continue
        if p.get("words_that_differ") is not None:
            out.append(f"words_that_differ = {p['words_that_differ']:.4f}")
        if p.get("largest_difference") is not None:
            out.append(f"largest_difference = {p['largest_difference']:.2e}  # relative to the largest value")
        out.append("")
    file.write_text("\n".join(out), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--beside", metavar="PROGRAM")
    parser.add_argument("--take", type=Path, metavar="FILE")
    args = parser.parse_args()
    if args.take:
        take(args.take)
        return
    if args.beside:
        beside(args.beside)
        return
    text = page()
    if args.out:
        args.out.write_text(text, encoding="utf-8")
        print(f"Wrote {args.out}", file=sys.stderr)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
