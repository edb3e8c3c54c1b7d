"""Rounds of a warp that all its lanes go through with one index: what lies at that index is loaded by a lane for each
of 32 rounds at once, while the 32 before are worked on, and handed out by shuffles; what it leads to is loaded for
eight rounds together."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct, structs

from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import Kernel
from kscope.fixes.given.conditions import not_written, proved
from kscope.fixes.given.lanes_played import WARP
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import indented, kernel_text
from kscope.fixes.order.alike import CELLS, Side, alike, called, playable, pointers
from kscope.fixes.order.batched import TIMES, Load, Walk, walks
from kscope.fixes.order.pieces import sliced
from kscope.fixes.order.plain_loads import Plain, as_written, plainly, there
from kscope.fixes.order.whole import body_edits, declared, named
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.lazily import np

LENGTHS = (5, 64, 33, 63, 0, 31, 32)  # of the lists that are played, in this order from one of them on
SHUFFLED = ("int", "unsigned", "unsigned int", "float", "double", "long", "long long", "int32_t", "uint32_t", "int64_t",
            "uint64_t", "unsigned long long")  # fmt: skip
"""Types that __shfl_sync takes."""
PLAYS = ((64, 0), (64, 3), (40, 1), (7, 5))  # the kernel's numbers, and which list is the first
LEAST = 16  # rounds of a warp (measured: of 488, 84, 26 and 7 they became 1.67, 1.74, 1.49, 1.03 times as fast)

def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    text = kernel_text(setting)
    if text is None or launch is None or launch.block[2] * launch.grid[2] > 1 or launch.block[0] % WARP:
        return []
    plain = plainly(setting, text)
    for one, new in rewritten(plain) if plain is not None else []:
        assert plain is not None
        span = there(plain.kernel, one, text)
        first, last = (text.first + text.code.count("\n", 0, at) for at in span)
        if not any(first <= (x.line or 0) <= last for x in asked.finding.locations):
            continue
        if _rounds(setting, one, first, last) < LEAST:
            continue
        played = same(plain, one, new, (launch.block[0], launch.block[1]))
        edits = body_edits(setting, text, span, as_written(new, plain.ways)) if played else []
        if edits:
            return [_fix(asked, plain, one, edits, played)]
    return []


def rewritten(plain: Plain) -> list[tuple[Walk, str]]:
    """Loops and what they become. Rounds that ask stay: measured, they became slower (0.74x, 0.84x) where indices alone
    were handed out and the compiler had to part the loads."""
    apart = lanes_own(plain.kernel.body)
    found = [(one, written(one, apart)) for one in walks(plain.kernel)]
    return [x for x in found if x[1]]


def dealt(one: Walk, apart: Collection[str] = ()) -> list[Load]:
    """Loads at the round's own index, which a lane can make for another round. apart: what lanes have each its own."""
    return [
        x for x in one.loads
        if x.level == 0 and x.kind in SHUFFLED and named(one.name, x.at) and not any(named(n, x.at) for n in apart)
    ]  # fmt: skip


def lanes_own(code: str) -> set[str]:
    """Names whose values follow from a lane's number, as far as the text tells: playing decides."""
    text, found = re.sub(r"threadIdx\s*\.\s*[yz]|threadIdx\s*\.\s*x\s*(?:/|>>)\s*\w+", "0", code), {"threadIdx"}
    made = re.findall(r"(?<![\w.])(?<!->)(\w+)\s*=(?!=)([^;,=]*)", text)
    for _ in made:
        more = {n for n, value in made if any(named(f, value) for f in found)} - found
        if not more:
            break
        found |= more
    return found


class Parts(Struct, frozen=True):
    """`mine`: what lanes load for other rounds; `led`: what that leads to; `needs`: declarations that its places ask
    for; `rest`: what is done with it."""

    one: Walk
    mine: Sequence[Load]
    led: Sequence[Load]
    needs: Sequence[str]
    rest: Sequence[str]

    def handed(self, text: str, kept: str, place: str, index: str) -> str:
        """A text of the round `index`, whose values the lane `place` has."""
        for x in self.mine:
            text = text.replace(f"{x.kept}[round_n]", f"__shfl_sync(~0u, {x.kept}_{kept}, {place})")
        return re.sub(rf"(?<![\w.])(?<!->){self.one.name}\b", index, text)

    def ahead(self, texts: Sequence[str]) -> str:
        index = f"({self.one.name} + first_n + round_n)"
        return "\n".join(self.handed(s, "now", "first_n + round_n", index) for s in texts)

    def behind(self, texts: Sequence[str]) -> str:
        out = "\n".join(self.handed(s, "next", "first_n", f"({self.one.name} + first_n)") for s in texts)
        for x in self.led:
            out = out.replace(f"{x.kept}[round_n]", x.kept)
        return out

    def loads(self, index: str) -> str:
        at = f"{index} + lane_n"
        own = rf"(?<![\w.])(?<!->){self.one.name}\b"
        places = [at if x.at.strip() == self.one.name else re.sub(own, f"({at})", x.at) for x in self.mine]
        return " ".join(f"{x.kept}_next = {x.name}[{place}];" for x, place in zip(self.mine, places, strict=True))


def parts(one: Walk, apart: Collection[str] = ()) -> Parts | None:
    """None where a walk is none of these."""
    mine = dealt(one, apart)
    led = [x for x in one.loads if x not in mine]
    needs = sliced(one.steps, " ".join(x.at for x in led))
    names = {"lane_n", "first_n", *(f"{x.kept}_{w}" for x in mine for w in ("next", "now"))}
    text = " ".join([one.first, one.end, *one.steps])
    if one.stop >= 0 or needs is None or not mine or not any(x.level for x in led):
        return None
    if not declared(f"{one.first};") or any(named(n, text) for n in names):
        return None
    return Parts(one, mine, led, needs, _needed(one.steps))


def written(one: Walk, apart: Collection[str] = ()) -> str:
    """The loop as it will be, with plain loads; "" where it is none of these."""
    of = parts(one, apart)
    if of is None:
        return ""
    each = f"#pragma unroll\nfor (int round_n = 0; round_n < {TIMES}; round_n++)"
    kept = [f"{x.kept}[round_n] = {x.name}[{x.at}];" for x in of.led]
    single = [f"const {x.kind} {x.kept} = {x.name}[{x.at}];" for x in of.led]
    return indented(
        f"""{{
{one.first};
const int lane_n = threadIdx.x % {WARP};
{' '.join(f'{x.kind} {x.kept}_next = 0;' for x in of.mine)}
if ({one.name} + lane_n < {one.end}) {{ {of.loads(one.name)} }}
for (; {one.name} + {WARP} <= {one.end}; {one.name} += {WARP}) {{
{' '.join(f'const {x.kind} {x.kept}_now = {x.kept}_next;' for x in of.mine)}
if ({one.name} + {WARP} + lane_n < {one.end}) {{ {of.loads(f'{one.name} + {WARP}')} }}
#pragma unroll
for (int first_n = 0; first_n < {WARP}; first_n += {TIMES}) {{
{' '.join(f'{x.kind} {x.kept}[{TIMES}];' for x in of.led)}
{each} {{
{of.ahead([*of.needs, *kept])}
}}
{each} {{
{of.ahead(of.rest)}
}}
}}
}}
for (int first_n = 0; {one.name} + first_n < {one.end}; first_n++) {{
{of.behind([*of.needs, *single, *(s for s in of.rest if s not in of.needs)])}
}}
}}"""
    )


def _needed(steps: tuple[str, ...]) -> list[str]:
    """Without declarations of names that nothing behind them asks for."""
    out: list[str] = []
    for step in reversed(steps):
        made = declared(step)
        if step and (not made or any(named(x.name, " ".join(out)) for x in made)):
            out.insert(0, step)
    return out


def _rounds(setting: Setting, one: Walk, first: int, last: int) -> float:
    """Rounds of a warp, by the loads that its indices lead to."""
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    here = [i for i in loads if code.cfg.loop_of[i] is not None]
    here = [i for i in here if any(first <= line <= last for _, line in setting.sites(i))]
    warps = setting.launch.warps * setting.launch.blocks if setting.launch is not None else 0
    return total(code.executed, here) / warps / len(one.loads) if warps else 0.0


def same(plain: Plain, one: Walk, new: str, block: tuple[int, int]) -> int:
    """How many results came out alike in both versions; 0 where one did not."""
    kernel = structs.replace(
        plain.kernel, parameters={n: plain.typed(k) for n, k in plain.kernel.parameters.items()}
    )
    functions, code = called(kernel), kernel.text.code
    if functions is None or not new:
        return 0
    bodies = (code[kernel.opening : kernel.closing + 1],
              code[kernel.opening : one.span[0]] + new + code[one.span[1] : kernel.closing + 1])  # fmt: skip
    old, other = (Side(plain.typed(body), (2, 1), block, opaque=functions) for body in bodies)
    numbers, compared = [n for n, kind in kernel.parameters.items() if "*" not in kind], 0
    for size, start in PLAYS if numbers else ():
        sizes, given = dict.fromkeys(numbers, size) | plain.values, _given(kernel, one, start)
        came = alike(kernel, old, other, [sizes], given=given)
        if not came and playable(kernel, old, sizes, given):
            return 0
        compared += came
    return compared


def _given(kernel: Kernel, one: Walk, start: int) -> dict[str, Any]:
    """Indices that lead to places that all arrays have, and where lists begin and end."""
    made, given = np.random.default_rng(TIMES), {}
    before = kernel.text.code[: one.span[0]] + one.first
    for name, kind in pointers(kernel).items():
        nothing = made.random(CELLS) < 1 / 8  # where lanes ask for it, they part
        given[name] = np.where(nothing, 0, made.integers(1, CELLS // (2 * PLAYS[0][0]), CELLS))
        whole = kind in ("int", "unsigned", "int64_t", "long long", "uint32_t")
        if whole and re.search(rf"\b{name}\s*\[", before):
            given[name] = np.cumsum(np.resize(np.roll(LENGTHS, -start), CELLS))
    return given


def _fix(asked: Asked, plain: Plain, one: Walk, edits: list[Edit], played: int) -> Fix:
    code = asked.setting.code
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    mine = dealt(one, lanes_own(plain.kernel.body))
    names = ", ".join(dict.fromkeys(f"{x.name}[]" for x in mine))
    return Fix(
        kind="lane_mapping",
        title=f"{names} of {WARP} rounds loaded by the lanes of a warp at once and handed out by shuffles",
        language="cuda",
        edits=edits,
        parameters={"lanes": WARP, "rounds": TIMES},
        conditions=[
            proved("every result is the same", "values", played,
                   "both versions played on lists of several lengths, every result compared"),
            proved("all lanes of a warp go through the same rounds", "values", played,
                   "a shuffle that lanes are missing from is not played"),
            *not_written(code, loads),
            Condition(holds=f"blocks have a multiple of {WARP} threads along x", state="check", why="this launch has"),
            Condition(holds=f"registers hold the values of {TIMES} rounds without spills", state="check",
                      why="kscope fix --check on the new cubin"),
        ],
        proof=[
            Proof(what=f"loads of {names} that a warp waits for in {WARP} rounds", before=WARP * len(mine),
                  after=len(mine), unit="loads", how="as the text reads: one for each round, or a lane for each"),
        ],
        costs=[f"{2 * len(mine) + TIMES * (len(one.loads) - len(mine))} values a thread in registers"],
        price=asked.finding.estimate,
    )  # fmt: skip
