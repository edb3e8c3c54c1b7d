"""What recorded warps did: `kscope trace` as text, as JSON, and as Chrome trace events for Perfetto. Each a function of
KernelTraces alone; names in them are untrusted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from kscope._version import __version__
from kscope.features.specialized import recorded_roles
from kscope.model.errors import one_line
from kscope.model.trace import ISSUE, WAIT
from kscope.reports.terminal import Page, clip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kscope.features.specialized.recorded_roles import RoleShare, Share
    from kscope.model.trace import KernelTrace
    from kscope.reports import Options

COLUMNS = ("priming", "issued", "covered", "exposed", "drain")
NAME = 20


def to_text(traces: Sequence[KernelTrace], options: Options) -> str:
    """The breakdown by role, at `options.width` columns."""
    page = Page(max(options.width, 60), color=options.color, unicode=options.unicode)
    for trace in traces:
        page.blank()
        _trace(page, trace)
    return page.text()


def _trace(page: Page, trace: KernelTrace) -> None:
    cycles = trace.source == "proton"
    length = f"{trace.span_us * 1e3:,.0f} cycles" if cycles else f"{trace.span_us:,.1f} us"
    page.line((one_line(trace.kernel), "bold"), f"   {length}   {one_line(trace.device)}")
    roles = recorded_roles.roles(trace)
    for text, style in _facts(trace, roles):
        page.paragraph(text, lead=("  ", ""), indent=2, style=style)
    page.blank()
    names = [clip(one_line(r.role), 2 * NAME) for r in roles]
    width = max([13, *map(len, names)])
    page.line((f"  {'% of the role':{width}}  warps" + "".join(f"{c:>9}" for c in COLUMNS), "dim"))
    for role, name in zip(roles, names, strict=True):
        page.line(f"  {name:{width}}  {role.warps:5}" + "".join(_cell(s) for s in _shares(role)))
    page.blank()
    for role, name in zip(roles, names, strict=True):
        _scopes(page, role, name)
    page.blank()
    page.paragraph(_legend(roles), style="dim")


def _facts(trace: KernelTrace, roles: Sequence[RoleShare]) -> Iterator[tuple[str, str]]:
    blocks = len({w.block for w in trace.warps})
    of = f" of {trace.blocks}" if trace.blocks else ""
    clock = f", SM clock {trace.clock_ghz:.2f} GHz" if trace.clock_ghz else ""
    yield f"{blocks}{of} blocks recorded, {len(trace.warps)} warps, {len(trace)} spans{clock}", ""
    if (recording := max((r.recording for r in roles), default=0)) >= 1:
        yield f"up to {recording:.0f} % of a role's time went into records, and is left out below", ""
    if trace.lost:
        yield f"{trace.lost} records were overwritten: give each warp room for more", "major"
    if trace.unmatched:
        yield f"{trace.unmatched} begins or ends without their partner were left out", "major"
    if unit := recorded_roles.unit_share(trace):
        yield (
            f"{unit.unit} {unit.busy:.1f} % busy: {unit.fill:.1f} % of the time before its first work, "
            f"{unit.drain:.1f} % after its last, {unit.gap_share:.1f} % in {unit.gaps:.1f} gaps an SM of more than "
            f"{recorded_roles.GAP / 1e3:g} us"
        ), ""


def _scopes(page: Page, role: RoleShare, name: str) -> None:
    page.line((f"  {name:{NAME + 2}}", "bold"), (f"{'times':>10}{'%':>8}{'covered':>9}", "dim"))
    for scope in sorted(role.scopes, key=lambda s: -s.share):
        what = " ".join(filter(None, [scope.kind, f"on {scope.on}" if scope.on else ""]))
        covered = f"{scope.covered:9.1f}" if scope.covered is not None and scope.kind in (WAIT, ISSUE) else ""
        row = f"    {clip(one_line(scope.name), NAME):{NAME}}{scope.count:10,.0f}{scope.share:8.1f}{covered:9}  "
        page.line(row, (what, "dim"))


def _legend(roles: Sequence[RoleShare]) -> str:
    text = "Percent of the life of the role's blocks, mean of its warps. priming: before the warp's first work; "
    if any(r.covered is not None for r in roles):
        return (
            f"{text}covered: waiting while the unit works off what it has; exposed: waiting while it idles; drain: "
            "after its last work."
        )
    return (
        f"{text}exposed: all waiting, since no scope says how long its issues keep a unit busy; drain: after the "
        "warp's last scope."
    )


def _shares(role: RoleShare) -> tuple[Share | None, ...]:
    return role.priming, role.issued, role.covered, role.exposed, role.drain


def _cell(share: Share | None) -> str:
    return f"{share.mean:9.1f}" if share is not None else f"{'-':>9}"


def to_json(traces: Sequence[KernelTrace], path: str) -> str:
    """One line: {"schema": "kscope.trace/1", "traces": [...]}, the breakdown as `features/trace_roles.py` has it."""
    out = [
        {
            "kernel": t.kernel, "source": t.source, "device": t.device, "span_us": t.span_us,
            "unit_of_time": "SM cycles" if t.source == "proton" else "ns", "clock_ghz": t.clock_ghz,
            "blocks": t.blocks, "recorded_blocks": len({w.block for w in t.warps}), "warps": len(t.warps),
            "spans": len(t), "lost_records": t.lost, "unmatched": t.unmatched, "notes": t.notes,
            "unit": msgspec.to_builtins(recorded_roles.unit_share(t)),
            "roles": msgspec.to_builtins(recorded_roles.roles(t)),
        }
        for t in traces
    ]  # fmt: skip
    return json.dumps({"schema": "kscope.trace/1", "kscope": __version__, "input": path, "traces": out}) + "\n"


def to_chrome(traces: Sequence[KernelTrace]) -> str:
    """Chrome trace events (JSON object form): a process an SM, a thread a warp, the unit's busy time beside them.
    Opens in Perfetto and chrome://tracing. Times in us."""
    events: list[dict[str, Any]] = []
    for number, trace in enumerate(traces):
        base = number * 100_000
        for sm in sorted({w.sm for w in trace.warps}):
            label = f"SM {sm}" if len(traces) == 1 else f"{trace.kernel} SM {sm}"
            events.append(_named("process_name", base + sm, 0, label))
        for i, w in enumerate(trace.warps):
            events.append(_named("thread_name", base + w.sm, i + 1, f"block {w.block} warp {w.warp} {w.role}"))
        for row in zip(trace.warp, trace.scope, trace.begin, trace.end, trace.payload, strict=True):
            events.append(_event(trace, base, *row))
        unit, sms = recorded_roles.busy(trace)
        for sm, intervals in sms.items():
            events.append(_named("thread_name", base + sm, 0, f"{unit} busy"))
            for b, e in intervals:
                place = {"pid": base + sm, "tid": 0, "ts": b / 1e3, "dur": (e - b) / 1e3}
                events.append({"ph": "X", "name": f"{unit} busy", "cat": "unit", **place})
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}) + "\n"


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _event(
    trace: KernelTrace, base: int, warp: int, scope: int, begin: float, end: float, payload: int
) -> dict[str, Any]:
    about = trace.scopes[scope]
    event = {
        "name": about.name, "cat": about.kind or "scope", "pid": base + trace.warps[warp].sm, "tid": warp + 1,
        "ts": begin / 1e3, "args": {"payload": payload, "on": about.on},
    }  # fmt: skip
    return event | ({"ph": "X", "dur": (end - begin) / 1e3} if end > begin else {"ph": "i", "s": "t"})
