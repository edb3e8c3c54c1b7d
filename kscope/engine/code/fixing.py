"""The changes of a report or a binary, and whether a new version has them (`kscope fix`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from kscope.engine.code.lint import lint
from kscope.engine.findings.mended import of_code, setting_of
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.facts import Facts
from kscope.features.sass.listing import Listing
from kscope.fixes.given.setting import Setting
from kscope.fixes.left import left
from kscope.fixes.unprinted import unprinted
from kscope.model.contract.fixes import Checked, Fix, Proposal
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.model.faults import fenced
from kscope.model.quoted import quoted
from kscope.parsers.files.inputs import HEAD, open_input, sniff

if TYPE_CHECKING:
    from kscope.fixes.given.source import Lines
    from kscope.model.contract.analysis import Finding


LIMITS = ("MEM107", "CMP208")  # findings that say what is full: there is nothing to mend
LEAST = {"math_function": 1.0, "lane_mapping": 0.5, "tile": 0.25, "reciprocal": 0.25, "register": 0.25, "jam": 0.5}
"""The share that may be left of what a change takes away; nothing, of kinds that are not here. The shorter code is all
that shows of a function; half of the sectors is what an exchange of indices is proposed from; a tile serves several
products; other reciprocals and other arrays of the kernel stay."""


_KERNEL = re.compile(r"__global__[^;{}]*?\b(\w+)\s*\([^()]*\)\s*\{", re.ASCII)


class Subject(Struct, frozen=True):
    """One kernel with its findings and their changes; `us`: its time, where it was profiled."""

    name: str
    setting: Setting
    findings: Sequence[Finding]
    us: float | None = None


def subjects(path: str, function: str | None = None, lines: Lines | None = None) -> list[Subject]:
    """Kernels of a report, longest first, or functions of a binary, whose name matches. Raises KscopeError: the input
    is unreadable, or nothing matches."""
    wanted = re.compile(function or "")
    with fenced(path):
        found = _profiled(path, lines) if _is_report(path) else _bare(path, function, lines)
    chosen = [s for s in found if wanted.search(s.name) or wanted.search(s.setting.name)]
    if not chosen:
        what = f"no kernel matches {quoted(function)}" if function else "no kernel with machine code"
        raise KscopeError("no_match", f"{path}: {what}", "see kscope analyze, kscope sass", EXIT_USAGE)
    return sorted(chosen, key=lambda s: -(s.us or 0.0))


def proposals(found: Iterable[Subject], code: str | None = None) -> list[Proposal]:
    """Changes in the order of the findings, and behind them findings without one, each with the reason why no code is
    printed; `code`: of one rule alone."""
    asked = [(s, f) for s in found for f in s.findings if code in (None, f.code)]
    made = [Proposal(kernel=s.name, code=f.code, rule=f.rule, why=f.why, fix=fix) for s, f in asked for fix in f.fixes]
    bare = [
        Proposal(kernel=s.name, code=f.code, rule=f.rule, why=f.why, fix=_unprinted(f))
        for s, f in asked if not f.fixes and f.code not in LIMITS and (f.severity != "info" or code is not None)
    ]  # fmt: skip
    return made + bare


def merged(found: Iterable[Proposal]) -> list[Proposal]:
    """Each change once, at its first finding; the others that it answers too are named there. Those without code stay:
    each has its own reason."""
    kept: dict[object, Proposal] = {}
    for n, one in enumerate(found):
        key = n if one.fix.refused else (one.kernel, one.fix.identity)
        first = kept.setdefault(key, one)
        if first is not one and one.code not in (first.code, *first.also):
            kept[key] = structs.replace(first, also=[*first.also, one.code])
    return list(kept.values())


def _unprinted(finding: Finding) -> Fix:
    return Fix(kind="none", title=finding.fix, refused=unprinted(finding.code))


def check(before: Sequence[Subject], after: Sequence[Subject], code: str | None = None) -> list[Checked]:
    """Whether the kernels of a new version have what was proposed for those of the old one, and what it brought. A
    kernel is found again by its name without template arguments, or as the only one. Raises KscopeError where none
    is."""
    out = []
    unpaired = []
    for old in before:
        changes = [(f, fix) for f in old.findings for fix in f.fixes if code in (None, f.code) and not fix.refused]
        if not changes:
            continue
        seen: set[tuple[str, str]] = set()
        for finding, fix in changes:
            new = _again(old, after, fix, alone=len(before) == 1)
            if new is None:
                unpaired.append(old.name)
                continue
            counted = left(fix.kind, old.setting, finding.code)
            what = counted[0] if counted is not None else fix.kind
            if (finding.code, what) not in seen:  # padding and swizzle answer the same question
                seen.add((finding.code, what))
                out.append(_checked(old, new, finding, fix))
    if unpaired and not out:
        message = f"no kernel of the new version is called {quoted(unpaired[0])}"
        raise KscopeError("no_match", message, "name it with --function", EXIT_USAGE)
    return out


def lacking(found: Iterable[Checked]) -> bool:
    """Whether the new version has none of the changes of some finding: one of several ways is enough."""
    ways: dict[tuple[str, str], set[str]] = {}
    for one in found:
        ways.setdefault((one.kernel, one.code), set()).add(one.has)
    return any("yes" not in has and has & {"no", "partly"} for has in ways.values())


def _again(old: Subject, after: Sequence[Subject], fix: Fix, *, alone: bool) -> Subject | None:
    """The kernel in a new version: of the same name with its template arguments, or without them, or the only one. A
    bare one is taken for launched as the old one was, but for what the change says of its block."""
    made = [] if fix.edits else _KERNEL.findall(fix.code)  # of its own, beside the old one: the last
    found = [s for name in reversed(made) for s in after if _base(s.name) == name]
    found = found[:1] or [s for s in after if _base(s.name) == _base(old.name)]
    new = next((s for s in found if _plain(s.name) == _plain(old.name)), found[0] if found else None)
    new = new or (after[0] if len(after) == 1 and alone else None)
    if new is None or new.setting.launch is not None or old.setting.launch is None:
        return new
    import msgspec

    block = list(old.setting.launch.block)
    for n, axis in enumerate("xyz"):
        size = fix.parameters.get(f"block.{axis}", block[n])
        block[n] = size if isinstance(size, int) else block[n]
    launch = msgspec.structs.replace(old.setting.launch, block=(block[0], block[1], block[2]))
    return msgspec.structs.replace(new, setting=msgspec.structs.replace(new.setting, launch=launch))


def _plain(name: str) -> str:
    """A name without the types of its template arguments and blanks: `f<(int)2>(..)` as `f<2>(..)`."""
    return re.sub(r"\((?:int|bool|unsigned int)\)(?=[\w-])|\s", "", name)


def _checked(old: Subject, new: Subject, finding: Finding, fix: Fix) -> Checked:
    was, now = left(fix.kind, old.setting, finding.code), left(fix.kind, new.setting, finding.code)
    ratio = old.us / new.us if old.us and new.us else None
    kept = None
    if ratio is not None and fix.price is not None:
        kept = fix.price.low <= ratio <= fix.price.high
    base = Checked(
        kernel=old.name, code=finding.code, kind=fix.kind, what="", old=0, new=0, has="unknown", old_us=old.us,
        new_us=new.us, delivered=round(ratio, 3) if ratio is not None else None, promised=fix.price, kept=kept,
    )  # fmt: skip
    if was is None or now is None or not was[1]:  # where there is none of it, its going shows nothing
        return base
    import msgspec

    own = fix.proof[0].after / fix.proof[0].before if fix.kind == "tile" and fix.proof and fix.proof[0].before else 0.0
    enough = max(LEAST.get(fix.kind, 0.0), own) * was[1]  # of tiles that are made larger the proposal says what is left
    has = "no" if now[1] >= was[1] else "yes" if now[1] <= enough else "partly"
    return msgspec.structs.replace(base, what=was[0], old=was[1], new=now[1], has=has)


def _base(name: str) -> str:
    """`void f<true>(float*)` as `f`."""
    plain = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", name))
    head = plain.partition("(")[0].split()
    return head[-1].rpartition("::")[2] if head else name


def _is_report(path: str) -> bool:
    if Path(path).is_dir():
        return False
    with open_input(path) as plain, open(plain, "rb") as file:
        return sniff(file.read(HEAD)) == "ncu"


def _profiled(path: str, lines: Lines | None) -> list[Subject]:
    from kscope.parsers.ncu.kernels import read_kernels

    out = []
    with open_input(path) as real:
        for kernel in read_kernels(str(real)):
            facts = Facts(kernel)
            if facts.code is None:
                continue
            findings = analyze_kernel(kernel, str(kernel.index), lines=lines).findings
            took = kernel.duration_ns / 1e3 if kernel.duration_ns else None
            name = kernel.demangled or kernel.name
            out.append(Subject(name, setting_of(facts, lines), findings, took))
    return out


def _bare(path: str, function: str | None, lines: Lines | None) -> list[Subject]:
    from kscope.parsers.cubin.programs import read_programs

    out = []
    for cubin in read_programs(path, None, function):
        for program in cubin.functions:
            if program.entry:
                code = Listing(program)
                findings = of_code(code, lint(code).findings, lines)
                setting = Setting(code, lines or (lambda file: ()), None, program.name)
                out.append(Subject(program.demangled or program.name, setting, findings))
    return out
