"""The rows of a listing: address, samples, live registers, scheduling, instruction by loop depth, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.phrases.loops import bounds
from kscope.reports.terminal import Page, Segment, cells, wrap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kscope.model.contract.analysis import FunctionAnalysis
    from kscope.model.contract.programs import ControlView, InstructionView, LoopView

LEGEND = (
    "pc: offset from the entry, `:` where a branch arrives · live: registers · st4: stall 4 cycles, y: yield to "
    "another warp · w01: waits for scoreboards 0 and 1 · ->SB2: set until the result is there · r>SB2: until the "
    "operands are read"
)
RUNS_LEGEND = " · runs: executions by warps"
STALLS = {
    "long_scoreboard": "long sb", "short_scoreboard": "short sb", "math_pipe_throttle": "math pipe",
    "mio_throttle": "mio queue", "lg_throttle": "lg queue", "tex_throttle": "tex queue", "not_selected": "not sel.",
    "no_instructions": "no instr.", "branch_resolving": "branch", "dispatch_stall": "dispatch",
    "imc_miss": "imc miss", "warpgroup_arrive": "wgmma",
    "gmma": "wgmma", "selected": "issues",
}  # fmt: skip
INDENT, DEEPEST = 2, 6
NARROW = 100  # below it the scheduling fields make room for the notes
NOTES = 34  # least columns of the notes beside the instruction
WIDE, WIDEST = 130, 140  # from which executions, and pipes with latencies, have room
SAMPLED, RUNS, FIELDS, PIPE, TEXT = 17, 6, 18, 9, (28, 64)  # widths; of the fields at most, of the text least and most
GUARD = 6


class Columns(Struct, frozen=True):
    """Widths; 0 where a column is not shown."""

    pc: int
    samples: int
    runs: int
    live: int
    control: int
    pipe: int
    text: int


def rows(page: Page, function: FunctionAnalysis, *, control: bool, source: bool, notes: bool = True) -> None:
    """The listing of one function."""
    code = function.listing
    columns = _columns(page.width, code, control=control, profiled=bool(function.samples))
    if not notes and not control:
        columns = structs.replace(columns, control=0, live=0, pipe=0)
    arrives = _targets(code)
    loops = {loop.number: loop for loop in function.loops}
    heads = {loop.start: loop for loop in function.loops}
    slugs = {finding.code: finding.rule for finding in function.findings}
    _head(page, columns)
    place: tuple[str | None, int | None] = (None, None)
    inside: int | None = None
    for one in code[: _end(code)]:
        if one.symbol:
            page.blank()
            page.line("  ", (f"{one_line(one.symbol)}:", "bold"))
        if one.loop != inside or one.pc in heads:
            _loop_line(page, columns, one, heads.get(one.pc), loops, detailed=notes)
            inside = one.loop
        if source and (one.file, one.line) != place and one.line is not None:
            _source_line(page, columns, one, function.sources)
            place = (one.file, one.line)
        marks = _marks(one, slugs) if notes else ""
        shown = one if notes else structs.replace(one, notes=[])
        _row(page, columns, shown, function, marks, arrives=one.pc in arrives)


def _end(code: Sequence[InstructionView]) -> int:
    """Where the padding begins: NOPs behind the last instruction."""
    end = len(code)
    while end and code[end - 1].role == "nop" and code[end - 1].sass.strip() == "NOP":
        end -= 1
    return end


def _columns(width: int, code: Sequence[InstructionView], *, control: bool, profiled: bool) -> Columns:
    pc = max(4, len(f"{code[-1].pc:x}")) if code else 4
    wide = width >= NARROW or control
    fields = max((len(scheduling(o.control)) for o in code if o.control is not None), default=0) if wide else 0
    longest = max((_text_cells(o) for o in code), default=0)
    live = any(o.live is not None for o in code)
    bare = Columns(
        pc, SAMPLED if profiled else 0, RUNS if profiled and width >= WIDE else 0, 4 if live else 0,
        min(fields, FIELDS), PIPE if width >= WIDEST else 0, 0,
    )  # fmt: skip
    return structs.replace(bare, text=max(TEXT[0], min(longest, TEXT[1], width - _left(bare) - 2 - NOTES)))


def _text_cells(one: InstructionView) -> int:
    return INDENT * min(one.depth, DEEPEST) + GUARD + cells(_body(one)[1])


def _body(one: InstructionView) -> tuple[str, str]:
    """Guard and the rest of the instruction."""
    text = one_line(one.sass)
    if text.startswith("@"):
        guard, _, rest = text.partition(" ")
        return guard, rest.lstrip()
    return "", text


def scheduling(control: ControlView | None) -> str:
    """`st4y w01 ->SB2 r>SB0`."""
    if control is None:
        return ""
    parts = [f"st{control.stall}{'y' if control.yields else ''}"]
    if control.waits:
        parts.append("w" + "".join(map(str, control.waits)))
    if control.write_barrier is not None:
        parts.append(f"->SB{control.write_barrier}")
    if control.read_barrier is not None:
        parts.append(f"r>SB{control.read_barrier}")
    return " ".join(parts)


def _head(page: Page, c: Columns) -> None:
    text = f"  {'pc':{c.pc}}  "
    if c.samples:
        text += f"{'samples  mostly':{c.samples}}  "
    if c.runs:
        text += f"{'runs':>{c.runs}}  "
    if c.live:
        text += f"{'live':>{c.live}}  "
    if c.control:
        text += f"{'control':{c.control}}  "
    if c.pipe:
        text += f"{'pipe':{c.pipe}}  "
    text += f"{'':{GUARD}}{'instruction':{c.text - GUARD}}  notes"
    page.line((text, "dim"))


def _left(c: Columns) -> int:
    """Columns in front of the instruction."""
    return 2 + c.pc + 2 + sum(w + 2 for w in (c.samples, c.runs, c.live, c.control, c.pipe) if w)


def _row(
    page: Page, c: Columns, one: InstructionView, function: FunctionAnalysis, marks: str, *, arrives: bool
) -> None:
    left = f"  {one.pc:0{c.pc}x}{':' if arrives else ' '} "
    segments: list[Segment] = [(left, "dim")]
    if c.samples:
        segments.append(_sampled(c, one, function.samples or 0))
    if c.runs:
        runs = one.measured.executed if one.measured is not None else 0
        segments.append((f"{words.si(runs, '').rstrip().replace(' ', '') if runs else '':>{c.runs}}  ", "dim"))
    if c.live:
        segments.append((f"{one.live if one.live is not None else '':>{c.live}}  ", "dim"))
    if c.control:
        segments.append((f"{scheduling(one.control):{c.control}}  ", "dim"))
    if c.pipe:
        segments.append((f"{_pipe(one):{c.pipe}}  "[: c.pipe + 2], "dim"))
    guard, body = _body(one)
    indent = " " * (INDENT * min(one.depth, DEEPEST))
    text = f"{indent}{guard:>{GUARD - 1}} {body}"
    segments.append((f"{text:{c.text}}", _style(one)))
    note = " · ".join(one_line(n) for n in one.notes)
    used = sum(cells(s) for s, _ in segments)
    _noted(page, c, segments, used, marks, note)


def _noted(page: Page, c: Columns, segments: list[Segment], used: int, marks: str, note: str) -> None:
    """The row with its notes: beside the instruction where they fit, else wrapped at their own column, else below."""
    text = f"{marks} · {note}" if marks and note else marks or note
    column = _left(c) + c.text + 2
    room = page.width - used - 2
    below = cells(text) > room and (page.width - column < NOTES or room < NOTES // 2)
    if below:
        column = _left(c) + GUARD + 4
        page.line(*segments)
        segments, room = [(" " * column, "")], page.width - column
    elif text:
        segments = [*segments, ("  ", "")]
    left = len(marks)  # of the codes, which stand first
    for n, line in enumerate(wrap(text, max(room, 8), max(page.width - column, 8))):
        lead = line[:left]
        left = max(0, left - len(line) - 1)
        page.line(*(segments if n == 0 else [" " * column]), (lead, "major"), (line[len(lead) :], "note"))


def _sampled(c: Columns, one: InstructionView, every: int) -> Segment:
    measured = one.measured
    if measured is None or not measured.samples:
        never = measured is not None and not measured.executed
        return (f"{'':7}{'never runs' if never else '':10}  ", "dim")
    share = measured.samples / every if every else 0.0
    main = one_line(measured.stalls[0].reason)
    if one.role == "tensor wait" and main == "barrier":
        main = "warpgroup_arrive"  # the sampler calls the wait for wgmma results a barrier
    reason = STALLS.get(main, main.replace("_", " "))[:9]
    figure = f"{100 * share:.1f}" if share >= 0.0005 else "<.1"
    style = "critical" if share >= 0.1 else "major" if share >= 0.02 else "dim"
    return (f"{figure:>5} % {reason:9}  "[: c.samples + 2], style)


def _pipe(one: InstructionView) -> str:
    """`fma 4`, `lsu long`: the pipe, and cycles to the result or the scoreboard that tells of it."""
    pipe = {"fmaheavy": "fmaH", "uniform": "uni", "none": "", "unknown": "?"}.get(one.pipe, one.pipe)
    when = one.scoreboard or (f"{one.latency:.0f}" if one.latency is not None else "")
    return f"{pipe} {when}".strip()


def _style(one: InstructionView) -> str:
    if one.stack.startswith("spill"):
        return "major"
    return {"tensor": "compute", "TMA": "memory"}.get(one.role, "")


def _loop_line(
    page: Page,
    c: Columns,
    one: InstructionView,
    head: LoopView | None,
    loops: Mapping[int, LoopView],
    *,
    detailed: bool,
) -> None:
    """A line where a loop begins, or where the listing comes back into one."""
    column = _left(c) - 2
    if head is not None:
        text = f"loop {head.number}" + (f", {head.kind}" if head.kind else "")
        if head.parent is not None:
            text += f", in loop {head.parent}"
        text += f", to {head.end:04x}"
        detail = f"   {bounds(head, 3)}" if detailed and not head.kind else ""
        page.line(" " * column, (text, "bold"), (detail, "dim"))
    elif one.loop is not None and one.loop in loops:
        page.line(" " * column, (f"loop {one.loop} again (its head is {loops[one.loop].start:04x})", "bold"))
    else:
        page.line(" " * column, ("outside loops", "bold"))


def _source_line(
    page: Page, c: Columns, one: InstructionView, sources: Mapping[str, Mapping[int, str]]
) -> None:
    file, line = one.file or "", one.line or 0
    text = sources.get(file, {}).get(line, "")
    chain = "".join(f" < {_base(name)}:{number}" for name, number in one.inlined[:3])
    page.line(" " * (c.pc + 4), (f"{_base(file)}:{line}{chain}   ", "source"), (one_line(text), "source"))


def _base(file: str) -> str:
    return one_line(file.replace("\\", "/").rsplit("/", 1)[-1])


def _marks(one: InstructionView, slugs: dict[str, str]) -> str:
    """Codes of the findings here; with its name where a finding is met for the first time."""
    names = [(code, slugs.pop(code, "")) for code in one.findings]
    return ", ".join(f"{code} {one_line(name)}".rstrip() for code, name in names)


def _targets(code: Sequence[InstructionView]) -> set[int]:
    """Addresses that a branch names."""
    found: set[int] = set()
    for one in code:
        if one.role in ("branch", "call"):
            for word in one.sass.replace(",", " ").split(" "):
                if word.startswith("0x"):
                    try:
                        found.add(int(word, 16))
                    except ValueError:
                        continue
    return found
