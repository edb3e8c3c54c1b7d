"""Triton's kernels: tiles whose lanes walk along rows, sums in parts, rows that stay in registers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.features.lanes.strides import Walks
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked
from kscope.fixes.triton.programs import WARPS, function, is_triton
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.quoted import quoted

LANES = 32
WORD = 4  # bytes of a float


def along(asked: Asked) -> list[Fix]:
    """Lanes that step down a column of rows: tiles of 32 columns, whose rows lanes walk along."""
    setting, code = asked.setting, asked.setting.code
    if not is_triton(setting):
        return []
    at = {x.pc for x in asked.finding.locations}
    loads = [i for i in range(len(code)) if code[i].pc in at and code.classes[i].access == "load"]
    walks = Walks(code, setting.block)
    found = {p for i in loads for p in places(setting, [i])}
    if len(found) != 1 or not walks.on_and_on(loads):
        return []
    (place,) = found
    lines = setting.lines(place.file)
    head, width = _head(lines, place.number), code.classes[loads[0]].bytes
    read = _columns(place.text, lines[head - 1], width)
    if read is None:
        return []
    indent, sums, base, rows, columns, c, loop = read
    tile = f"({rows} * {columns} + {c})[:, None] + tl.arange(0, {LANES})[None, :]"
    edits = [
        Edit(file=place.file, line=head, was=lines[head - 1], becomes=f"{loop}, {LANES}):"),
        Edit(
            file=place.file, line=place.number, was=place.text,
            becomes=f"{indent}{sums} += tl.sum(tl.load({base} + {tile}), 1)",
        ),
    ]  # fmt: skip
    return [
        Fix(
            kind="lane_mapping",
            title=f"tiles of {LANES} columns: lanes walk along the rows",
            language="triton",
            edits=edits,
            parameters={"columns": LANES},
            conditions=[
                proved("each lane reads on where it stopped", "lanes", loads, "its addresses, a round on"),
                Condition(holds=f"{columns} is a multiple of {LANES}", state="check", why="else mask the last tile"),
                Condition(holds="the order of the sums does not matter", state="check", why="it is another one"),
            ],
            proof=[
                Proof(
                    what="sectors of one warp load", before=LANES,
                    after=len({n * width // 32 for n in range(LANES)}), unit="sectors",
                    how=f"32 lanes in rows of their own, and {LANES} neighbours of one row",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _columns(line: str, head: str, width: int) -> tuple[str, ...] | None:
    """Parts of `sums += tl.load(base + rows * columns + c)`, and of the head of its loop over c. width: bytes of an
    element: halves would be added up as halves."""
    load = re.fullmatch(r"(\s*)(\w+) \+= tl\.load\((\w+) \+ (\w+) \* (\w+) \+ (\w+)\)", line)
    loop = re.fullmatch(r"(\s*for (\w+) in range\(0, (\w+))\):", head)
    if load is None or loop is None or (loop[2], loop[3]) != (load[6], load[5]) or width < WORD:
        return None
    return (*load.groups(), loop[1])


def _head(lines: Sequence[str], number: int) -> int:
    """The line of the loop whose whole body is that line; else that line."""
    alone, before = _indent(lines, number + 1) < _indent(lines, number), lines[max(0, number - 2) : number - 1]
    return number - (alone and any(line.lstrip().startswith("for ") for line in before))


def _indent(lines: Sequence[str], number: int) -> int:
    """How far the next line that says something is indented, from a line on."""
    line = next((x for x in lines[number - 1 :] if x.partition("#")[0].strip()), "")
    return len(line) - len(line.lstrip())


def parts(asked: Asked) -> list[Fix]:
    """Few tiles of a product whose sum is long: the sum in parts, each by a program."""
    setting, code = asked.setting, asked.setting.code
    launch = setting.launch
    products = code.ran(code.where(lambda ins, op: "MMA" in ins.opcode))
    held = setting.occupancy()
    if launch is None or held is None or not setting.sms or not is_triton(setting) or launch.grid[2] > 1:
        return []
    tiles = launch.grid[0] * launch.grid[1]
    count = 1
    while 2 * count * tiles <= held.blocks * setting.sms:
        count *= 2
    loops = {code.cfg.loop_of[i] for i in products} - {None}
    if count < 2 or len(loops) != 1:
        return []
    grid = f"{launch.grid[0]}, {launch.grid[1]}, {count}"
    split = _split(asked, products, count)
    if split is None:
        return []
    edits, more = split
    return [
        Fix(
            kind="block_size",
            title=f"the sum in {count} parts: {tiles * count} programs instead of {tiles}",
            language="triton",
            code=f"{setting.name}[({grid})](...{more})  # the output zeroed before",
            edits=edits,
            parameters={"parts": count, "grid.z": count},
            conditions=[
                proved("all products are in one loop", "code", products, f"{len(products)} of tensor cores"),
                Condition(holds="the sums may be added in any order", state="check", why="atomics have none"),
                Condition(holds="the output is zeroed before and 32 bits wide", state="check"),
                Condition(holds=f"the sum's length is a multiple of {count} blocks of it", state="check"),
            ],
            proof=[
                Proof(
                    what="SMs that have a program", before=min(tiles, setting.sms),
                    after=min(tiles * count, setting.sms), unit="SMs",
                    how=f"{held.blocks} programs fit on each of {setting.sms} SMs (arch/sm.toml)",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _split(asked: Asked, products: Sequence[int], count: int) -> tuple[list[Edit], str] | None:
    """The lines that change so that each of `count` programs adds up a part, and what the launch says more; None where
    the function's text has another idiom. Where the text has a part's length already, only the store changes."""
    where = places(asked.setting, products)
    if not where:
        return None
    lines, file = asked.setting.lines(where[0].file), where[0].file
    inside = function(lines, where[0].number)
    text = "\n".join(lines[n - 1] for n in inside)
    rounds = re.findall(r"for \w+ in range\(0, (\w+), (\w+)\):", text)
    sums = re.findall(r"\b(\w+) = tl\.dot\([^\n]*, \1\)|\b(\w+) \+= tl\.dot\(", text)
    acc = next((a or b for a, b in sums), "")
    stores = [n for n in inside if re.fullmatch(rf"\s*tl\.store\(\w+, {acc}\)", lines[n - 1])]
    if len(rounds) != 1 or len(sums) != 1 or len(stores) != 1:
        return None
    length, block = rounds[0]
    if not _only_summed(text, acc, length):
        return None
    changes = [(stores[0], "tl.store", "tl.atomic_add")]
    more = ""
    if "tl.program_id(2)" in text:
        if len(re.findall(rf"\b\w+ \* {length} \+ tl\.arange\(0, {block}\)", text)) != 1:
            return None
        if len(re.findall(rf"\b{length}\b", text)) != 3:  # a parameter, the first place and the end: no row's length
            return None
        more = f", {length}={length} // {count}"
    else:
        first, loop = f"tl.arange(0, {block})", f"range(0, {length},"
        if text.count(first) != 1:
            return None
        at, head = (next(n for n in inside if one in lines[n - 1]) for one in (first, f"in {loop}"))
        changes.append((at, first, f"tl.program_id(2) * ({length} // {count}) + {first}"))
        changes.append((head, loop, f"range(0, {length} // {count},"))
    edits = [Edit(file=file, line=n, was=lines[n - 1], becomes=lines[n - 1].replace(old, new))
             for n, old, new in sorted(changes)]  # fmt: skip
    return edits, more


def _only_summed(text: str, acc: str, length: str) -> bool:
    """Whether a sum begins at zero and is stored as it is, and a round's number is a place along the sum alone."""
    made = re.findall(rf"\b{acc}\s*(?:[-+*/@|&]|//)?=(?!=)\s*([^\n]*)", text)
    counter = re.search(rf"for (\w+) in range\(0, {length},", text)
    asked = r"(?:(?://|%|>>|<<|&|[<>=!]=|[<>])\s*{0}\b|\b{0}\s*(?://|%|>>|<<|&|[<>=!]=|[<>]))|\bif [^\n]*\b{0}\b"
    strange = counter is None or re.search(asked.format(counter[1]), text) is not None
    return not strange and len(made) == 2 and made[0].startswith("tl.zeros(") and "tl.dot(" in made[1]


def whole_rows(asked: Asked) -> list[Fix]:
    """Loops that load one row again and again: the row in one block of registers, loaded once."""
    setting = asked.setting
    found = {(x.file, x.line) for x in asked.finding.locations if x.file is not None and x.line is not None}
    if not is_triton(setting) or len({f for f, _ in found}) != 1:
        return []
    file = min(str(f) for f, _ in found)
    lines = setting.lines(file)
    text, at = _repeated(lines, min(n or 0 for _, n in found))
    loop = {_range(lines, n) for n in at}
    (head,) = loop if len(loop) == 1 else (None,)
    if head is None:
        return []
    counter, columns, block = head
    once = re.sub(rf"\s*\+\s*{counter}\b", "", text)
    if once == text:
        return []
    if not _taken_once(lines, at, text, counter):
        return []
    edits = _in_registers(file, lines, at, (text, once, counter))
    return [
        Fix(
            kind="block_size",
            title=f"{block} as long as the row, which stays in registers",
            language="triton",
            code=f"{setting.name}[grid](..., {block}=triton.next_power_of_2({columns}), num_warps={WARPS * 4})",
            edits=edits,
            parameters={"num_warps": WARPS * 4},
            conditions=[
                reads("all loops load the same row", f"{quoted(text)} in each of them"),
                Condition(holds=f"{columns} is a power of two", state="check", why="else mask the loads and the store"),
                Condition(holds="the row fits into registers", state="check", why="64 KB of a program at most"),
            ],
            proof=[
                Proof(what="times that a row is loaded", before=len(at), after=1, how="loads of one text in the kernel")
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _taken_once(lines: Sequence[str], at: Sequence[int], text: str, counter: str) -> bool:
    """Whether nothing is stored where the row is loaded from, rounds add, take extremes or store, and they ask for
    their place in no other way than by adding it; and the row's name is free."""
    inside = "\n".join(lines[n - 1].partition("#")[0] for n in function(lines, at[0]))
    inside = re.sub(r'""".*?"""', "", inside, flags=re.S)
    array = re.match(r"\w+", text)
    stored = array is None or re.search(rf"tl\.(?:store|atomic_\w+)\(\s*{array[0]}\b|\brow\b", inside) is not None
    one = r"\s*(?:(\w+) \+= .*|(\w+) = tl\.(?:maximum|minimum)\(\2, .*\)|tl\.store\(.*\))"
    bodies = [re.sub(rf"\+\s*{counter}\b(?!\s*[*/%])", "", lines[n - 1].partition("#")[0]) for n in at]
    return not stored and all(re.fullmatch(one, lines[n - 1].partition("#")[0].rstrip()) for n in at) and not any(
        re.search(rf"\b{counter}\b", body) for body in bodies)  # fmt: skip


def _repeated(lines: Sequence[str], number: int) -> tuple[str, list[int]]:
    """The one load that a function's text has more than once, and its lines; of the function around a line."""
    head = next((n for n in range(number, 0, -1) if lines[n - 1 : n] and lines[n - 1].startswith("def ")), 0)
    end = next((n for n in range(head + 1, len(lines) + 1) if lines[n - 1][:1].strip()), len(lines) + 1)
    loads: dict[str, list[int]] = {}
    for n in range(head, end) if head else ():
        for text in re.findall(r"tl\.load\(([^()]*)\)", lines[n - 1]):
            loads.setdefault(text, []).append(n)
    repeated = [(text, at) for text, at in loads.items() if len(at) > 1]
    return repeated[0] if len(repeated) == 1 else ("", [])


def _in_registers(file: str, lines: Sequence[str], at: Sequence[int], names: tuple[str, str, str]) -> list[Edit]:
    """The loops' heads gone, the row loaded in place of the first, and used in their bodies. names: the load's text,
    the text without the counter, the counter."""
    text, once, counter = names
    edits = []
    for number, n in enumerate(at):
        indent = re.match(r"\s*", lines[n - 2])
        space = indent[0] if indent is not None else ""
        first = f"{space}row = tl.load({once})" if not number else ""
        edits.append(Edit(file=file, line=n - 1, was=lines[n - 2], becomes=first))
        body = lines[n - 1].replace(f"tl.load({text})", "row").strip()
        new = space + re.sub(rf"\s*\+\s*{counter}\b", "", body)
        edits.append(Edit(file=file, line=n, was=lines[n - 1], becomes=new))
    return edits


def _range(lines: Sequence[str], number: int) -> tuple[str, str, str] | None:
    """(counter, columns, block) of the loop whose whole body is that line."""
    match = re.fullmatch(r"\s*for (\w+) in range\(0, (\w+), (\w+)\):", lines[number - 2])
    return (match[1], match[2], match[3]) if match is not None else None
