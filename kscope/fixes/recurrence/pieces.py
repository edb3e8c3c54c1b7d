"""A recurrence along a sequence, one thread a channel, by many: each takes a piece, joins its rounds to one factor and
one rest, gets the state that the pieces before leave, and goes through its piece once more with it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kscope.fixes.given.conditions import not_written, proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import evaluated
from kscope.fixes.given.text import Span, shape
from kscope.fixes.recurrence.linear import bare
from kscope.fixes.recurrence.rewritten import Side, alike, edits, numbers, sized
from kscope.fixes.recurrence.serial import Serial, Update, serial
from kscope.fixes.rows.loaded import loaded
from kscope.model.contract.fixes import Condition, Fix, Proof

MOST, LEAST = 64, 4  # pieces of a sequence: the block goes through them one by one (judged)
ROUNDS = 8  # of a piece at least: what joining them costs (judged)
THREADS = 1024
WIDE = (32, 16, 8)  # channels of a block: rows of memory of 128, 64, 32 bytes of floats
FULL = 0.9  # of the SMs that should have a block (judged)
LENGTH = "length_n"


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    one = serial(setting)
    if one is None or launch is None or launch.block[1] * launch.block[2] * launch.grid[2] > 1 or not setting.sms:
        return []
    known = numbers(setting, one.fn)
    channels = launch.grid[0] * launch.block[0]
    fitting = [n for n in WIDE if launch.block[0] % n == 0]
    wide = next((n for n in fitting if channels // n * launch.grid[1] >= FULL * setting.sms), min(fitting, default=0))
    long = _long(setting, one, known)
    if not wide or (not one.stores and not one.factored):
        return []  # plain sums are no recurrence
    pieces = min(MOST, THREADS // wide, 1 << max(0, int(long // ROUNDS).bit_length() - 1))
    if pieces < LEAST:
        return []
    compared = _played(one, wide, pieces, launch.block[0], launch.grid[1], known)
    return [_fix(asked, one, wide, pieces, compared, long)] if compared else []


def _long(setting: Setting, one: Serial, known: dict[str, int]) -> float:
    """Rounds of a thread: as the text says, or as many as it loaded elements in the loop."""
    told = evaluated(f"({one.loop.end}) - ({one.loop.start})", known)
    launch, lanes = setting.launch, getattr(setting.code, "threads", None)
    assert launch is not None
    if told is not None or lanes is None:
        return float(told or 0)
    code = one.fn.code
    first, last = (one.fn.first + code.count("\n", 0, at) for at in (one.loop.span[0], one.loop.body[1]))
    most, _ = loaded(setting.code, one.fn.file, range(first, last + 1), lanes)
    return most / (launch.threads * launch.blocks)


def spans(one: Serial, wide: int, pieces: int, block: int, end: str = "") -> list[Span]:
    """The body anew, and its bound of threads. end: another end of the loop, to play it."""
    fn, times = one.fn, block // wide
    text = _body(one, wide, pieces, end)
    text = re.sub(r"\bblockDim\.x\b", str(block), text)
    if times > 1:
        text = re.sub(r"\b(blockIdx|gridDim)\.x\b", rf"(\1.x / {times})", text)
        text = re.sub(r"\bthreadIdx\.x\b", f"(blockIdx.x % {times} * {wide} + threadIdx.x)", text)
    text = text.replace("lane_n", "threadIdx.x").replace("piece_n", "threadIdx.y")
    bounds = re.search(r"__launch_bounds__\s*\([^)]*\)", fn.code[: fn.opened])
    name = re.search(rf"\b{re.escape(fn.name)}\s*\(", fn.code)
    at = bounds.span() if bounds is not None else (name.start(),) * 2 if name is not None else (0, 0)
    put = f"__launch_bounds__({wide * pieces})" + (" " if bounds is None else "")
    return [(at[0], at[1], put), (fn.opened, len(one.was.code), text)]


def _body(one: Serial, wide: int, pieces: int, other_end: str) -> str:
    loop, states, factored = one.loop, one.states, one.factored
    kind, start, end = loop.kind, bare(f"({loop.start})"), other_end or loop.end
    rest = end if start == "0" else f"({end}) - ({start})"
    arrays = [f"__shared__ {k} {s}_sums_n[{pieces}][{wide}];" for s, k in states.items()]
    arrays += [f"__shared__ {states[s]} {s}_factors_n[{pieces}][{wide}];" for s in factored]
    per = f"const {kind} per_n = (({rest}) + {pieces - 1}) / {pieces};"
    far = f"per_n * ({kind})piece_n" if start == "0" else f"({start}) + per_n * ({kind})piece_n"
    begun = f"const {kind} from_n = {far} < {end} ? {far} : {end};"
    last = f"const {kind} to_n = from_n + per_n < {end} ? from_n + per_n : {end};"
    went = [f"{n} += (size_t)(from_n - ({start})) * ({by});" for n, by in one.moved.items()]
    head = f"for ({kind} {loop.name} = from_n; {loop.name} < to_n; {loop.name}++)"
    zero = [f"{k} {s}_sum_n = 0;" for s, k in states.items()] + [f"{states[s]} {s}_factor_n = 1;" for s in factored]
    put = [f"{s}_sums_n[piece_n][lane_n] = {s}_sum_n;" for s in states]
    put += [f"{s}_factors_n[piece_n][lane_n] = {s}_factor_n;" for s in factored]
    back = [f"{n} -= (size_t)(to_n - from_n) * ({by});" for n, by in one.moved.items()] if one.stores else []
    joined = " ".join(joining(one))
    parts = [
        "{", one.head.strip(), *arrays, f"{per}\n  {begun}\n  {last}", " ".join([*went, *zero]),
        f"#pragma unroll 8\n  {head} {{ {joined} }}", " ".join([*put, "__syncthreads();", *back]), _carry(one, pieces),
        "__syncthreads();",
    ]  # fmt: skip
    if one.stores:
        unroll = one.fn.code[one.start : loop.span[0]].strip()
        again = " ".join(f"{s} = {s}_sums_n[piece_n][lane_n];" for s in states)
        parts += [again, unroll, f"{head} {one.fn.code[slice(*loop.body)]}"]
    if one.tail.strip():
        parts.append(f"if (piece_n == {pieces - 1 if one.stores else 0}) {{ {one.tail.strip()} }}")
    return "\n  ".join(p for p in parts if p) + "\n}"


def joining(one: Serial) -> list[str]:
    """A round that leaves the states alone: of each it joins the factor and the rest to those of the rounds before."""
    out = []
    for step in one.rounds:
        if not isinstance(step, Update):
            out.append(step)
            continue
        s, kind, factor, rest = step.form.state, one.states[step.form.state], step.form.factor, bare(step.form.rest)
        if factor == "1":
            out.append(f"{s}_sum_n += {rest};")
        else:
            out.append(f"{{ const {kind} by_n = {bare(factor)}; {s}_sum_n = by_n * {s}_sum_n + {rest}; "
                       f"{s}_factor_n *= by_n; }}")  # fmt: skip
    return out


def _carry(one: Serial, pieces: int) -> str:
    """The first piece's threads find the state that each piece begins with."""
    each = []
    for s, kind in one.states.items():
        at = "[step_n][lane_n]"
        next_ = f"{s}_factors_n{at} * {s} + own_n" if s in one.factored else f"{s} + own_n"
        keep = f"{s}_sums_n{at} = {s}; " if one.stores else ""
        each.append(f"{{ const {kind} own_n = {s}_sums_n{at}; {keep}{s} = {next_}; }}")
    return f"if (piece_n == 0) for (int step_n = 0; step_n < {pieces}; step_n++) {{ {' '.join(each)} }}"


def _played(one: Serial, wide: int, pieces: int, block: int, tall: int, known: dict[str, int]) -> int:
    """Results that were compared: two blocks of threads, and what they become."""
    fn, times, rows = one.fn, block // wide, min(2, tall)
    old, end, lengths = ended(one, known)
    others = sized(fn, known, 2 * block, block)
    (_, (_, _, new)) = spans(one, wide, pieces, block, end)
    return alike(fn, Side(old, (2, rows), (block, 1)), Side(new, (2 * times, rows), (wide, pieces)), lengths, others)


def ended(one: Serial, known: Mapping[str, int]) -> tuple[str, str, set[str]]:
    """The body, what its loop ends before, and the names that say how long it is: a number becomes one to play it, but
    where the loop counts down."""
    fn, words = one.fn, set(re.findall(r"[A-Za-z_]\w*", one.loop.end))
    end = one.loop.end if words else LENGTH
    lengths = (words & {*known, *fn.numbers} or set(fn.numbers)) if words else {LENGTH}
    if one.was is not fn:
        return one.was.body, one.loop.end, lengths
    begin = fn.code.index("<", fn.code.index(";", one.loop.span[0])) + 1
    at = fn.code.index(";", begin)
    return fn.code[fn.opened : begin] + f" {end}" + fn.code[at:], end, lengths


def _fix(asked: Asked, one: Serial, wide: int, pieces: int, compared: int, long: float) -> Fix:
    setting, launch, fn = asked.setting, asked.setting.launch, one.fn
    assert launch is not None
    times = launch.block[0] // wide
    grid = (launch.grid[0] * times, *launch.grid[1:])
    given = [shape(grid), f"dim3({wide}, {pieces})", *([str(launch.shared_dynamic)] if launch.shared_dynamic else [])]
    of, code = ", ".join(one.states), setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    fractions = any(k in ("float", "double") for k in one.states.values())
    rounding = [
        Condition(holds=f"{of} may be rounded another way", state="check", why="products and sums in another order"),
        *([Condition(holds="no product of a piece's factors overflows", state="check",
                     why="it does not where factors are 1 at most")] if one.factored else []),
    ]  # fmt: skip
    busy = min(launch.blocks, setting.sms)
    return Fix(
        kind="jam",
        title=f"the sequence in {pieces} pieces, each by a thread of its own, joined by what they do to {of}",
        language="cuda",
        code=f"{setting.name}<<<{', '.join(given)}>>>(...);",
        edits=edits(setting, fn, spans(one, wide, pieces, launch.block[0])),
        parameters={"pieces": pieces, "grid.x": grid[0], "block.x": wide, "block.y": pieces},
        conditions=[
            proved("every result is the same but for rounding", "values", compared,
                   "both versions played on numbers, with loops of several lengths, every result compared; no races"),
            reads(f"a round changes {of} by a factor and a term that are known without it", "its text taken apart"),
            *(not_written(code, loads) if loads else []),
            *(rounding if fractions else []),
            Condition(holds=f"every launch has blocks of {launch.block[0]} threads before, and {times} times as many "
                            f"of dim3({wide}, {pieces}) now", state="check", why="the host's code launches it"),
        ],
        proof=[
            Proof(what="rounds that one thread does behind each other", before=round(long),
                  after=round(long / pieces) * (1 + one.stores) + pieces, unit="rounds",
                  how=f"{pieces} pieces, {'gone through twice, ' if one.stores else ''}and one step for each to join"),
            Proof(what="SMs that have a block", before=busy, after=min(launch.blocks * times, setting.sms), unit="SMs",
                  how="blocks, at most one an SM"),
        ],
        costs=[f"{(len(one.states) + len(one.factored)) * wide * pieces} words of shared memory a block",
               *(["the sequence is loaded twice"] if one.stores else [])],
        price=asked.finding.estimate,
    )  # fmt: skip
