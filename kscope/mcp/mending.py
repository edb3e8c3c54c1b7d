"""Changes that findings ask for, with their proof; and whether a new version has them (`kscope fix` as tools)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.engine.code.fixing import Subject, check, proposals, subjects
from kscope.mcp.answers import Absent, CheckedAnswer, FixesAnswer, FixRow
from kscope.mcp.arguments import CheckFix, ProposeFix
from kscope.mcp.desk import Desk
from kscope.mcp.keys import find, kernel_keys
from kscope.mcp.pages import LIST, page
from kscope.model.contract.fixes import Proposal
from kscope.model.errors import KscopeError
from kscope.reports.text.fix import patch

NONE = "changes: no finding here has one that was computed; `diagnose` with the key has the fixes in words"


def propose_fix(desk: Desk, asked: ProposeFix) -> FixesAnswer:
    path, code = desk.roots.file(asked.path), _code(asked.code)
    found = _of_binary(desk, asked, code) if desk.is_binary(path) else _of_report(desk, asked, code)
    rows = [_row(kernel, one) for kernel, one in found]
    kept, after = page(rows, asked.offset, asked.limit)
    absent = [] if rows else [Absent(what=NONE)]
    return FixesAnswer(rows=kept, total=len(rows), next_offset=after, absent=absent)


def check_fix(desk: Desk, asked: CheckFix) -> CheckedAnswer:
    code = _code(asked.code)
    found = check(_subjects(desk, asked.before, asked.name), _subjects(desk, asked.after, asked.name), code)
    kept, after = page(found, asked.offset, asked.limit)
    notes = [] if found else ["nothing was proposed for the old version that could be looked for in the new one"]
    return CheckedAnswer(rows=kept, total=len(found), next_offset=after, notes=notes)


def _code(text: str) -> str | None:
    from kscope.rules.registry import rule

    return rule(text).code if text else None


def _of_report(desk: Desk, asked: ProposeFix, code: str | None) -> list[tuple[str, Proposal]]:
    kernels = desk.analysis(desk.roots.file(asked.path)).kernels
    keyed = [find(kernels, asked.key)] if asked.key else list(zip(kernel_keys(kernels), kernels, strict=True))
    return [
        (key, Proposal(kernel=key, code=f.code, rule=f.rule, why=f.why, fix=fix))
        for key, kernel in keyed for f in kernel.findings for fix in f.fixes if code in (None, f.code)
    ]  # fmt: skip


def _of_binary(desk: Desk, asked: ProposeFix, code: str | None) -> list[tuple[str, Proposal]]:
    chosen = [s for s in _subjects(desk, asked.path, "") if asked.key in ("", s.setting.name, s.name)]
    if not chosen:
        raise KscopeError("no-kernel", "no function has this key", "diagnose gives the keys")
    return [(s.setting.name, one) for s in chosen for one in proposals([s], code)]


def _subjects(desk: Desk, name: str, part: str) -> Sequence[Subject]:
    path = desk.roots.file(name)
    return desk.kept(path, ("subjects", part), lambda: subjects(str(path), re.escape(part) if part else None))


def _row(kernel: str, one: Proposal) -> FixRow:
    fix = one.fix
    lines = [] if fix.refused else patch(fix)
    if len(lines) > LIST:  # half a change is none
        lines, refused = [], f"the change has {len(lines)} lines: kscope fix prints them"
    else:
        refused = fix.refused
    return FixRow(
        kernel=kernel, code=one.code, rule=one.rule, why=one.why, kind=fix.kind, title=fix.title, lines=lines,
        conditions=fix.conditions, proof=fix.proof, costs=fix.costs, price=fix.price, refused=refused,
    )  # fmt: skip
