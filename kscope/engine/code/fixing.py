"""The changes of a report or a binary, and whether a new version has them (`kscope fix`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.engine.code.lint import lint
from kscope.engine.findings.mended import of_code, setting_of
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.facts import Facts
from kscope.features.sass.listing import Listing
from kscope.fixes.given.setting import Setting
from kscope.fixes.left import left
from kscope.model.contract.fixes import Checked, Fix, Proposal
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.model.faults import fenced
from kscope.model.quoted import quoted
from kscope.parsers.files.inputs import HEAD, open_input, sniff

if TYPE_CHECKING:
    from kscope.fixes.given.source import Lines
    from kscope.model.contract.analysis import Finding


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
    """Changes in the order of the findings; `code`: of one rule alone."""
    return [
        Proposal(kernel=s.name, code=f.code, rule=f.rule, why=f.why, fix=fix)
        for s in found for f in s.findings for fix in f.fixes if code in (None, f.code)
    ]  # fmt: skip


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
        new = next((s for s in after if _base(s.name) == _base(old.name)), None)
        new = new or (after[0] if len(after) == 1 and len(before) == 1 else None)
        if new is None:
            unpaired.append(old.name)
            continue
        seen: set[tuple[str, str]] = set()
        for finding, fix in changes:
            counted = left(fix.kind, old.setting)
            what = counted[0] if counted is not None else fix.kind
            if (finding.code, what) not in seen:  # padding and swizzle answer the same question
                seen.add((finding.code, what))
                out.append(_checked(old, new, finding, fix))
    if unpaired and not out:
        message = f"no kernel of the new version is called {quoted(unpaired[0])}"
        raise KscopeError("no_match", message, "name it with --function", EXIT_USAGE)
    return out


def _checked(old: Subject, new: Subject, finding: Finding, fix: Fix) -> Checked:
    was, now = left(fix.kind, old.setting), left(fix.kind, new.setting)
    ratio = old.us / new.us if old.us and new.us else None
    kept = None
    if ratio is not None and fix.price is not None:
        kept = fix.price.low <= ratio <= fix.price.high
    base = Checked(
        kernel=old.name, code=finding.code, kind=fix.kind, what="", old=0, new=0, has="unknown", old_us=old.us,
        new_us=new.us, delivered=round(ratio, 3) if ratio is not None else None, promised=fix.price, kept=kept,
    )  # fmt: skip
    if was is None or now is None:
        return base
    import msgspec

    whole = fix.kind != "math_function"  # of which the shorter code is all that shows
    has = "no" if now[1] >= was[1] else "yes" if now[1] == 0 or not whole else "partly"
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
