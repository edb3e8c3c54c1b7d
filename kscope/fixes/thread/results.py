"""Neighbouring threads that read nearly the same window of a tile: several neighbouring results a thread, whose windows
are loaded once, four values at a time, into registers. Each result's own operations stay in their order."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import Kernel, kernel_of
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import shape
from kscope.fixes.rows.compared import Same, Side, same
from kscope.fixes.rows.function import constants, function
from kscope.fixes.thread.halves import WIDE, Halves, Window, halves, window
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

RESULTS = 4  # a thread: as many as one load of 16 bytes brings, so that lanes' loads lie side by side
LEAST, MOST = 8, 61  # values of a window: of fewer little is shared, of more registers do not hold all (judged)
WAVES = 2  # of blocks that must be left, so that the last one is not half of the time (judged)
PART, THREAD = "part", "thread"
LOADS = "warp loads of shared memory"


def fixes(asked: Asked) -> list[Fix]:
    setting, kernel = asked.setting, kernel_of(asked.setting)
    launch, loads = setting.launch, _loads(setting)
    at = {x.pc for x in asked.finding.locations}
    if launch is None or kernel is None or not any(setting.code[i].pc in at for i in loads):
        return []
    block, words = launch.block[0], set(re.findall(r"\w+", kernel.text.code))
    known = constants(setting.lines(kernel.text.file), kernel.text.code)
    if not _enough(setting) or {PART, THREAD} & words:
        return []
    one = halves(scaled(kernel.body, block, known), kernel.parameters, known | {"blockDim.x": block})
    seen = window(one) if one is not None else None
    if one is None or seen is None or not LEAST <= seen.last - seen.first + 1 <= MOST or not _fits(setting, one, seen):
        return []
    body = written(one, seen, block, words)
    alike = _alike(setting, kernel, body, known) if body is not None else None
    return [_fix(asked, one, seen, loads, alike, _edits(setting, kernel, body))] if body and alike else []


def _enough(setting: Setting) -> bool:
    """Whether the blocks come out even, and waves of them are left."""
    launch, held = setting.launch, setting.occupancy()
    if launch is None or held is None or max(launch.block[1:]) > 1 or launch.grid[0] % RESULTS:
        return False
    return launch.blocks // RESULTS >= WAVES * held.blocks * setting.sms


def _alike(setting: Setting, kernel: Kernel, body: str, known: Mapping[str, int]) -> Same | None:
    """Both texts played; None where a result is another one."""
    fn, launch = function(setting), setting.launch
    if fn is None or launch is None or fn.call is not None or fn.values:
        return None
    was = kernel.text.code[kernel.opening : kernel.closing + 1]
    texts = ((was, (RESULTS, 2 * RESULTS)), (f"{{{body}}}", (1, 2)))
    old, new = ([Side(text, (n, 1), (launch.block[0], 1), {}) for n in blocks] for text, blocks in texts)
    alike = same(fn, old, new, known)
    return None if alike is None or alike.near or alike.ties else alike


def _fix(asked: Asked, one: Halves, seen: Window, loads: list[int], alike: Same, edits: list[Edit]) -> Fix:
    setting, launch = asked.setting, asked.setting.launch
    assert launch is not None
    values = RESULTS + seen.last - seen.first
    before, each = total(setting.code.executed, loads), _each(seen)
    along = launch.grid[0] // RESULTS
    given = f"{shape((along, *launch.grid[1:]))}, {shape(launch.block)}"
    return Fix(
        kind="register",
        title=f"{RESULTS} neighbouring results a thread: the {values} values of their windows in registers",
        language="cuda",
        code=f"{setting.name}<<<{given}>>>(...);  // {RESULTS} results a thread",
        edits=edits,
        parameters={"results": RESULTS, "grid.x": along},
        conditions=[
            alike.shown,
            proved("the blocks come out even", "launch", launch.grid[:1],
                   f"{launch.grid[0]} is a multiple of {RESULTS}"),
            Condition(holds=f"every launch has a multiple of {RESULTS} blocks of {launch.block[0]} threads",
                      state="check", why="as this one has"),
            Condition(holds=f"{one.out} starts at a multiple of 16", state="assumed",
                      why="cudaMalloc aligns to 256 bytes"),
            Condition(holds=f"registers hold {values} values without spills", state="check",
                      why="kscope fix --check on the new cubin"),
        ],
        proof=[
            Proof(what=LOADS, before=before, after=before * each / (RESULTS * len(loads)), unit="inst",
                  how=f"{len(loads)} of a thread for one result, {each} for {RESULTS}: all of the windows, once")
        ],
        costs=[f"{values + RESULTS} registers a thread",
               f"{(one.size - (launch.shared_static // 4)) * 4} bytes of shared memory a block"],
        price=asked.finding.estimate,
    )  # fmt: skip


def scaled(body: str, block: int, known: Mapping[str, int]) -> str:
    """A text whose block stands for several: every number that is its threads."""
    out = re.sub(rf"(?<![\w.]){block}(?=[uU]?\b)(?!\.)", str(block * RESULTS), body)
    out = re.sub(r"\bblockDim\s*\.\s*x\b", f"(blockDim.x * {RESULTS})", out)
    for name in [n for n, value in known.items() if value == block]:
        out = re.sub(rf"(?<![\w.]){name}\b", f"({name} * {RESULTS})", out)
    return out


def _each(seen: Window) -> int:
    """Loads of shared memory that a thread makes then."""
    count = RESULTS + seen.last - seen.first // 4 * 4
    return count // 4 + count % 4


def written(one: Halves, seen: Window, block: int, words: set[str]) -> str | None:
    """The kernel's body anew; None where a name is taken."""
    held, results = f"{one.tile}_of", f"{one.out}_of"
    if {held, results, "four", "all"} & words:
        return None
    base, count = seen.first // 4 * 4, RESULTS + seen.last - seen.first // 4 * 4
    wide, own, first = WIDE[one.kind], "threadIdx.x", f"threadIdx.x * {RESULTS}"
    each = f"#pragma unroll\n  for (int {PART} = 0; {PART} < {{}}; {PART}++) {{{{"
    shift = f" + {base}" if base else ""

    def of(text: str) -> str:
        return re.sub(r"\bthreadIdx\s*\.\s*x\b", THREAD, text).replace("PART", PART)

    whole = f" + {-one.size % 4}" if one.size % 4 else ""
    lines = [f"  __shared__ __align__(16) {one.kind} {one.tile}[{one.declared}{whole}];"]
    lines += [f"  {c}" for c in one.common]
    lines += [each.format(RESULTS), f"    const unsigned {THREAD} = {own} + {PART} * {block};"]
    lines += [*(f"    {of(p)}" for p in one.loading), "  }", "  __syncthreads();", f"  {one.kind} {held}[{count}];"]
    lines += [each.format(count // 4), f"    const {wide} four = *reinterpret_cast<const {wide}*>"
              f"(&{one.tile}[{first} + {PART} * 4{shift}]);"]  # fmt: skip
    lines += [f"    {' '.join(f'{held}[{PART} * 4 + {n}] = four.{f};' for n, f in enumerate('xyzw'))}", "  }"]
    lines += [f"  {held}[{n}] = {one.tile}[{first} + {n}{shift}];" for n in range(count // 4 * 4, count)]
    lines += [f"  {one.to} {results}[{RESULTS}];", *(["  bool all = true;"] if one.guard else [])]
    lines += [each.format(RESULTS), f"    const unsigned {THREAD} = {first} + {PART};"]
    asked = f"if ({of(one.guard)}) " if one.guard else ""
    lines += [f"    {of(p)}" for p in one.needed(*seen.making, one.guard, one.value)]
    lines += [*(f"    {of(p)}" for p in seen.making), f"    {asked}{results}[{PART}] = {of(one.value)};"]
    lines += [*([f"    all = all && ({of(one.guard)});"] if one.guard else []), "  }"]
    places = [f"    {of(p)}" for p in one.needed(one.index, one.guard)]
    made = f"make_{WIDE[one.to]}({', '.join(f'{results}[{n}]' for n in range(RESULTS))})"
    lines += ["  if (all) {" if one.guard else "  {", f"    const unsigned {THREAD} = {first};", *places]
    lines += [f"    *reinterpret_cast<{WIDE[one.to]}*>(&{one.out}[{of(one.index)}]) = {made};", "  }"]
    if one.guard:
        lines += ["  else {", *(f"  {x}" for x in each.format(RESULTS).split("\n")), f"    const unsigned {THREAD} = "
                  f"{first} + {PART};", *places, f"    {asked}{one.out}[{of(one.index)}] = {results}[{PART}];", "  }}"]
    return "\n" + re.sub(r"\n[ \t]*#", "\n#", "\n".join(lines)) + "\n"


def _loads(setting: Setting) -> list[int]:
    code = setting.code
    return code.ran(code.where(lambda ins, op: op.space == "shared" and op.access == "load"))


def narrow_ones(setting: Setting) -> float:
    return sum(setting.code.classes[i].bytes < 16 for i in _loads(setting))


def _fits(setting: Setting, one: Halves, seen: Window) -> bool:
    """Whether an SM holds half of its warps still: each has four results on its way."""
    launch = setting.launch
    if launch is None or launch.shared_dynamic:
        return False
    more = max(0, 4 * one.size - launch.shared_static)
    registers = launch.registers + RESULTS * 2 + seen.last - seen.first
    held, then = setting.occupancy(), setting.occupancy(more_shared=more, registers=min(registers, 255))
    return held is not None and then is not None and 2 * then.warps >= held.warps and registers <= 255


def _edits(setting: Setting, kernel: Kernel, body: str) -> list[Edit]:
    """The whole of the body, on the line where it begins; its other lines go."""
    code, lines = kernel.text.code, setting.lines(kernel.text.file)
    begin, stop = (kernel.text.first + code[:at].count("\n") for at in (kernel.opening, kernel.closing))
    column, end = (at - (code.rfind("\n", 0, at) + 1) for at in (kernel.opening, kernel.closing))
    out = []
    for number in range(begin, stop + 1):
        was = lines[number - 1]
        new = was[: column + 1] + body + ("}" + was[end + 1 :] if begin == stop else "") if number == begin else ""
        new = was[end:] if number == stop and begin != stop else new
        out.append(Edit(file=kernel.text.file, line=number, was=was, becomes=new.rstrip("\n")))
    return out
