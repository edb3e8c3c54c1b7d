"""Which captures get a change, and what came of those that were built as printed.

    python tools/fixes.py [--out reports/fixes.md]
    python tools/fixes.py --beside cuxray        (the table of layouts anew: that program must be installed)
    python tools/fixes.py --take rows.json       (times of changes that were built: into fixtures/fixes/measured.toml)

Captures: those of fixtures/h200 whose better version was timed (`fixed_by` or `next` in its tables). Built: the rows
of fixtures/fixes/measured.toml. Layouts: the kernels of fixtures/fixes/layouts.cu.
"""

from __future__ import annotations

import argparse
import json
import lzma
import subprocess
import sys
import tempfile
import time
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kscope.engine.code.fixing import subjects  # noqa: E402
from kscope.engine.code.programs import sources_below  # noqa: E402
from kscope.engine.kernels.kernel import analyze_kernel  # noqa: E402
from kscope.model.contract.analysis import Estimate, Fix, KernelAnalysis  # noqa: E402
from kscope.parsers.files.inputs import open_input  # noqa: E402
from kscope.parsers.ncu.kernels import read_kernels  # noqa: E402
from tests.support import captures, reports  # noqa: E402

HERE = ROOT / "fixtures" / "fixes"
KERNELS = ROOT / "fixtures" / "kernels"
BESIDE = HERE / "beside.toml"
SLOWER = 0.99  # of the original's time over the change's: what is below is slower, not noise (medians of 31)
SHAPES = ("256", "32,8")  # of the blocks that the kernels of layouts.cu are launched with


@cache
def diagnosed(case: str) -> KernelAnalysis:
    """The analysis of a capture, with the text of its kernel."""
    above, below = sources_below(KERNELS), sources_below(KERNELS / "unseen")
    with open_input(reports.fixture(case)) as path:
        return analyze_kernel(next(iter(read_kernels(path))), case, lines=lambda file: above(file) or below(file))


def chosen(analysis: KernelAnalysis, accept: list[str]) -> tuple[str, Fix] | None:
    """The first change of a finding that names the planted cause; a refusal where there is nothing else."""
    found = [(f.code, fix) for f in analysis.findings if f.rule in accept for fix in f.fixes]
    return next((row for row in found if not row[1].refused), found[0] if found else None)


def covered() -> tuple[list[str], int, int]:
    """Rows of the table, how many of the captures have a change, and how many captures there are."""
    tables = captures.tables(reports.FIXTURES)
    labels, times = captures.labels(tables), captures.times(tables)
    rows, with_change, every = [], 0, 0
    for case, label in labels.items():
        better = label.get("fixed") or label.get("next")
        if better not in times or case not in times:
            continue
        every += 1
        head = f"| {case} | {label['accept'][0]} | {times[case] / times[better]:.2f}x |"
        one = chosen(diagnosed(case), label["accept"])
        if one is None:
            rows.append(f"{head} | none |")
            continue
        code, fix = one
        with_change += not fix.refused
        rows.append(f"{head} {code} {said(fix)} |".replace("\n", " "))
    return rows, with_change, every


def said(fix: Fix) -> str:
    if fix.refused:
        return f"refused: {fix.refused} |"
    figure = next(iter(fix.proof))
    return f"{fix.title} | {figure.what}: {figure.before:,.4g} to {figure.after:,.4g}"


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
        what = "laid out anew" if p.get("laid_out_anew") else "" if share is None else f"{share:.2%}"
        what += f", by {most:.0e} at most" if most else ""
        rows.append(f"| {p['case']} | {p['rule']} | {p['kind']} | {promised} | {gain:.2f}x | {inside} | {what} |")
        kept.append((gain, price))
    return rows, kept


def page() -> str:
    rows, with_change, every = covered()
    table, kept = built()
    device = tomllib.loads((HERE / "measured.toml").read_text("utf-8"))["device"]["gpu"]
    priced = [(gain, price) for gain, price in kept if price is not None]
    inside = sum(price.low <= gain <= price.high for gain, price in priced)
    lines = [
        "# Changes", "",
        "Made by `python tools/fixes.py` from fixtures/h200 and fixtures/fixes. The makers of these changes were",
        "written with these captures at hand: what they reach on known faults, not on those of others.", "",
        f"{with_change} of {every} captures whose better version was timed get a change.",
        f"{len(kept)} changes were built as printed and timed beside the original on one {device}",
        "(in turn within one program, but for gemm_bf16.mma and build.debug):",
        f"{sum(gain > 1 for gain, _ in kept)} are faster, {sum(gain < SLOWER for gain, _ in kept)} slower; "
        f"{inside} of {len(priced)} promises are in bounds.",
        "", "## Built as printed", "",
        "| capture | rule | change | promised | delivered | in bounds | words of the results that differ |",
        "|---|---|---|---|---|---|---|", *table,
        "", "## Every capture", "", "| capture | cause | better version | change | figures |",
        "|---|---|---|---|---|", *rows,
    ]  # fmt: skip
    if BESIDE.exists():
        lines += ["", *beside_table(tomllib.loads(BESIDE.read_text("utf-8")))]
    return "\n".join(lines) + "\n"


def beside_table(data: dict[str, Any]) -> list[str]:
    out = [
        "## Layouts beside cuxray", "",
        f"cuxray {data['version']} (`solve`: {data['seconds_theirs']:.1f} s for the kernels of one block shape) and",
        f"`kscope fix` ({data['seconds_ours']:.1f} s for all) on the kernels of fixtures/fixes/layouts.cu, without a",
        "profile: so neither prices them. Cleared: a layout under which no access of the kernel conflicts. Edits:",
        "lines of the source.",
        "", "| kernel | cuxray: cleared | kscope: cleared by padding | by XOR | edits | wavefronts by ncu after it |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, row in data["kernels"].items():
        edits = "yes" if row["edits"] else "no"
        out.append(f"| {name} | {row['theirs']} | {row['pad']} | {row['swizzle']} | {edits} | {row['counted']} |")
    return out


def beside(program: str) -> None:
    """Run both and keep what they said."""
    measured: dict[str, Any] = tomllib.loads((HERE / "measured.toml").read_text("utf-8"))["layouts"]
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "layouts.cubin"
        cubin.write_bytes(lzma.decompress((HERE / "layouts.sm_90.cubin.xz").read_bytes()))
        begun = time.perf_counter()
        found = subjects(str(cubin), None, sources_below(HERE))
        ours = {s.name: [x for f in s.findings for x in f.fixes] for s in found}
        seconds_ours = time.perf_counter() - begun
        theirs: dict[str, str] = {}
        seconds_theirs = 0.0
        for shape in SHAPES:
            begun = time.perf_counter()
            command = [sys.executable, "-m", program, "solve", str(cubin), "--threads", shape, "--json"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            seconds_theirs = max(seconds_theirs, time.perf_counter() - begun)
            for one in json.loads(done.stdout)["results"]:
                flat = "threadIdx.y" not in _source(one["kernel"])
                if flat == (shape == "256"):
                    theirs[one["kernel"]] = "yes" if one.get("global") else "no"
        asked = [sys.executable, "-m", program, "--version"]
        version = subprocess.run(asked, capture_output=True, text=True, check=False)
    lines = [
        "# Written by tools/fixes.py --beside: what another program says of the kernels of layouts.cu.",
        f'version = "{version.stdout.split()[-1]}"', f"seconds_theirs = {seconds_theirs:.2f}",
        f"seconds_ours = {seconds_ours:.2f}", "",
    ]  # fmt: skip
    for name, row in measured.items():
        fixes = {x.kind: x for x in ours.get(name, ()) if not x.refused}
        said = {k: ("yes" if k in fixes and cleared(fixes[k]) else "no") for k in ("pad", "swizzle")}
        edits = str(any(x.edits for x in fixes.values())).lower()
        after = min(v["wavefronts"] for k, v in row.items() if k != "plain")
        ideal = row["plain"]["ideal"]
        lines += [
            f"[kernels.{name}]", f'theirs = "{theirs.get(name, "no answer")}"', f'pad = "{said["pad"]}"',
            f'swizzle = "{said["swizzle"]}"', f"edits = {edits}", f'counted = "{after:,} of at least {ideal:,}"', "",
        ]  # fmt: skip
    BESIDE.write_text("\n".join(lines), encoding="utf-8")


def take(path: Path) -> None:
    """Rows of case, rule, kind, before_us, after_us, words_that_differ (a share), largest_difference (relative to the
    largest value), or laid_out_anew: in place of those of the same change, or beside them."""
    file = HERE / "measured.toml"
    text = file.read_text("utf-8")
    known = {(p["case"], p["rule"], p["kind"]): p for p in tomllib.loads(text)["proposals"]}
    known |= {(p["case"], p["rule"], p["kind"]): p for p in json.loads(path.read_text("utf-8"))}
    out = [text[: text.index("[[proposals]]")].rstrip(), ""]
    for key in sorted(known):
        p = known[key]
        out += ["[[proposals]]", *(f'{name} = "{p[name]}"' for name in ("case", "rule", "kind"))]
        out += [f"{name} = {p[name]:.2f}" for name in ("before_us", "after_us")]
        if p.get("laid_out_anew"):
            out += ["laid_out_anew = true  # data that lie elsewhere: results are not comparable word by word", ""]
            continue
        if p.get("words_that_differ") is not None:
            out.append(f"words_that_differ = {p['words_that_differ']:.4f}")
        if p.get("largest_difference") is not None:
            out.append(f"largest_difference = {p['largest_difference']:.2e}  # relative to the largest value")
        out.append("")
    file.write_text("\n".join(out), encoding="utf-8")


def cleared(fix: Fix) -> bool:
    return any(c.holds == "no access conflicts" and c.state == "proved" for c in fix.conditions)


def _source(kernel: str) -> str:
    text = (HERE / "layouts.cu").read_text("utf-8")
    return text[text.index(f"void {kernel}(") :].partition("\n}")[0]


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
