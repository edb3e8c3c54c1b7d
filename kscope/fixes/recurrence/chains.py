"""A chain of rounds whose factor never changes: several stretches of it side by side, each from zero, then put together
by the factor's power: h = f^n h + rest."""

from __future__ import annotations

import re

from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Span
from kscope.fixes.recurrence.linear import bare, names, parsed
from kscope.fixes.recurrence.pieces import ended
from kscope.fixes.recurrence.rewritten import Side, alike, edits, numbers, sized
from kscope.fixes.recurrence.serial import Serial, Update, contents, serial
from kscope.model.contract.fixes import Condition, Fix, Proof

SIDE, LONG = 4, 8  # stretches side by side, as latency is issue slots of one warp (arch/latency.toml); rounds of each
WARPS = 4  # of a block that is played


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    one = serial(setting)
    if one is None or launch is None or launch.block[2] * launch.grid[2] > 1:
        return []
    if one.stores or one.moved or one.was is not one.fn:
        return []
    if not all(_steady(one, factor) for factor in _factors(one)):
        return []
    known = numbers(setting, one.fn)
    compared = _played(one, known, launch.block[0])
    if not compared:
        return []
    of, kinds = ", ".join(one.states), set(one.states.values())
    after = (SIDE + LONG) / (SIDE * LONG)
    fractions = kinds & {"float", "double"}
    return [
        Fix(
            kind="unroll",
            title=f"{SIDE} stretches of {LONG} rounds side by side, put together by what they do to {of}",
            language="cuda",
            edits=edits(setting, one.fn, [span(one)]),
            parameters={"stretches": SIDE, "rounds": LONG},
            conditions=[
                proved(f"every result is the same{' but for rounding' if fractions else ''}", "values", compared,
                       "both versions played on numbers, with loops of several lengths, every result compared"),
                reads(f"a round changes {of} by a factor that is the same in all of them", "its text taken apart"),
                *([Condition(holds=f"{of} may be rounded another way", state="check",
                             why="the order of its operations is another one")] if fractions else []),
            ],
            proof=[
                Proof(what="operations of the chain, a round", before=1, after=after,
                      how=f"{LONG} in each of {SIDE} stretches at once and {SIDE} to put them together, "
                          f"for {SIDE * LONG} rounds"),
            ],
            costs=[f"{SIDE * len(one.states)} registers a thread"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _factors(one: Serial) -> list[str]:
    return [r.form.factor for r in one.rounds if isinstance(r, Update)]


def _steady(one: Serial, factor: str) -> bool:
    """Whether a factor is the same in every round."""
    tree = parsed(f"{{({factor});}}")
    inside = re.findall(r"[A-Za-z_]\w*(?=\s*[-+*/|&^%]?=(?!=))", one.fn.code[slice(*one.loop.body)])
    return not names(tree) & {one.loop.name, *one.states, *inside} and not contents(tree)


def span(one: Serial, end: str = "") -> Span:
    """The loop anew. end: another end of it, to play it."""
    loop, end = one.loop, end or one.loop.end
    each, made = SIDE * LONG, []
    for step in one.rounds:
        if not isinstance(step, Update):
            made.append(step)
            continue
        s, rest = f"{step.form.state}_sum_n[side_n]", bare(step.form.rest)
        made.append(f"{s} += {rest};" if step.form.factor == "1" else f"{s} = {bare(step.form.factor)} * {s} + {rest};")
    power = [f"{one.states[s]} {s}_power_n = 1;" for s in one.factored]
    powers = [f"{r.form.state}_power_n *= {bare(r.form.factor)};" for r in one.rounds
              if isinstance(r, Update) and r.form.factor != "1"]  # fmt: skip
    times = f"#pragma unroll\n  for (int step_n = 0; step_n < {LONG}; step_n++)"
    sides = f"#pragma unroll\n    for (int side_n = 0; side_n < {SIDE}; side_n++)"
    sums = [f"{kind} {s}_sum_n[{SIDE}] = {{}};" for s, kind in one.states.items()]
    joined = [f"{s} = {s}_power_n * {s} + {s}_sum_n[side_n];" if s in one.factored else f"{s} += {s}_sum_n[side_n];"
              for s in one.states]  # fmt: skip
    own = f"const {loop.kind} {loop.name} = at_n + side_n * {LONG} + step_n;"
    unroll = one.fn.code[one.start : loop.span[0]].strip()
    lines = [
        *([" ".join(power), f"{times} {{ {' '.join(powers)} }}"] if powers else []),
        f"{loop.kind} at_n = {bare(f'({loop.start})')};",
        f"for (; at_n + {each - 1} < {end}; at_n += {each}) {{\n    {' '.join(sums)}",
        f"  {times.replace(chr(10) + '  ', chr(10) + '    ')}\n    {sides} {{ {own} {' '.join(made)} }}",
        f"  {sides} {{ {' '.join(joined)} }}\n  }}",
        *([unroll] if unroll else []),
        f"for ({loop.kind} {loop.name} = at_n; {loop.name} < {end}; {loop.name}++) "
        f"{one.fn.code[slice(*loop.body)].strip()}",
    ]  # fmt: skip
    return one.start, loop.body[1], "{\n  " + "\n  ".join(lines) + "\n  }"


def _played(one: Serial, known: dict[str, int], block: int) -> int:
    fn = one.fn
    old, end, lengths = ended(one, known)
    (start, stop, new) = span(one, end)
    few = min(block, 32 * WARPS)
    others = sized(fn, known, 2 * few, block)
    body = fn.code[fn.opened : start] + new + fn.code[stop:]
    return alike(fn, Side(old, (2, 1), (few, 1)), Side(body, (2, 1), (few, 1)), lengths, others)
