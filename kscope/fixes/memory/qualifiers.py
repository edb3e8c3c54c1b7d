"""Words before a declaration: `volatile` on data that nobody writes meanwhile, each use of which is a load past L1, and
`__grid_constant__`, without which each thread copies a parameter that code picks members of."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.features.patterns.local_memory import copied, local_accesses
from kscope.features.sass.columns import total
from kscope.fixes.atomics.regions import clear
from kscope.fixes.given.conditions import not_written
from kscope.fixes.given.rewrite import Place, changed, places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import SIZES, body
from kscope.fixes.given.text import blanked, closing
from kscope.model.contract.fixes import Condition, Fix, Proof

_VOLATILE = re.compile(r"\bvolatile\s+(?=[\w:]+\s*\*)|(?<=[\w*])\s+volatile(?=\s*\*)")
_BY_VALUE = re.compile(
    r"(?<=[(,])(?P<gap>\s*)(?:const\s+)?(?!const\b)(?P<type>[\w:]+(?:<[^<>]*>)?)(?:\s+const)?\s+(?P<name>\w+)"
    r"(?=\s*[,)])"
)

_USED = r"\b{0}\s*\.|[(,]\s*{0}\s*[,)]"  # a member of it, or handed to a function (condition: as it is)


def in_place(asked: Asked) -> list[Fix]:
    """The one structure that is a parameter by value, read in constant memory instead of copied by each thread."""
    setting = asked.setting
    local = local_accesses(setting.code)
    if not copied(setting.code, local):
        return []
    by_loads = sorted(local, key=lambda i: setting.code.classes[i].access != "load")  # the copy has the head's line
    heads, text = _kernel(setting, by_loads)
    found = [
        (place, match)
        for place in heads
        for match in _BY_VALUE.finditer(f"({place.text.partition('{')[0][1:]}")
        if match["type"] not in SIZES and re.search(_USED.format(match["name"]), text)
    ]
    if len(found) != 1 or "__grid_constant__" in found[0][0].text:
        return []
    (place, match), name = found[0], found[0][1]["name"]
    if _changes(name, text) or _declared_again(setting, setting.lines(place.file)):
        return []
    start = match.start() + len(match["gap"])
    new = f"const __grid_constant__ {match['type']} {name}"
    edits = changed([place], lambda text: text[:start] + new + text[match.end() :])
    return [
        Fix(
            kind="qualifier",
            title=f"{name} read where the launch put it, not copied by each thread",
            language="cuda",
            edits=edits,
            conditions=[
                Condition(holds="CUDA 11.7 or newer", state="check"),
                Condition(holds=f"nothing that {name} is handed to changes it (it would not compile)", state="check"),
            ],
            proof=[
                Proof(
                    what="warp loads and stores of the copy", before=total(setting.code.executed, local), after=0,
                    unit="inst",
                    how="all that is stored are words of the parameters; who reads has a warp's index, from counters, "
                    "constants and what was copied",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _changes(name: str, text: str) -> bool:
    """Whether a text writes a structure or a member of it, or keeps where it lies by a name that may."""
    while (less := re.sub(r"\[[^][]*\]", "", text)) != text:
        text = less
    return re.search(
        rf"\b{name}\b(?:\s*\.\s*\w+)*\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--|[(,=;{{?:]\s*&)\s*{name}\b|"
        rf"&\s*\w+\s*=\s*{name}\b", text,
    ) is not None  # fmt: skip


def _declared_again(setting: Setting, lines: Sequence[str]) -> bool:
    """Whether a file declares a kernel without its body, too: both have to say the same of a parameter."""
    code = "\n".join(blanked(line) for line in lines)
    found = re.finditer(rf"__global__[^;{{}}]*?\b{re.escape(setting.name)}\s*\(", code)
    ends = (closing(code, m.end()) for m in found)
    return bool(setting.name) and any(end is not None and code[end + 1 :].lstrip()[:1] == ";" for end in ends)


def _needed(head: str, lines: Sequence[str], number: int) -> bool:
    """Whether the kernel of a head may need the volatile of its parameter: it writes there, waits for what others
    write, or hands the pointer to others that are volatile."""
    name = re.search(r"\bvolatile\b[^,)]*\*\s*(?:const\s+|__restrict__\s+)*(\w+)", head)
    opening = next((n for n in range(number, len(lines) + 1) if "{" in lines[n - 1]), number)
    text = clear("\n".join(blanked(lines[n - 1]) for n in body(lines, opening) if n >= number)).partition("{")[2]
    if name is None or re.search(r"\bvolatile\b|\b(?:do|atomic\w+|__threadfence\w*)\b", text):
        return True
    while (less := re.sub(r"\[[^][]*\]", "", text)) != text:
        text = less
    this = rf"(?<![\w.])(?<!->){name[1]}\b"
    waits = rf"\bwhile\s*\([^;{{]*{this}|\bfor\s*\([^;]*;[^;]*{this}"
    written = rf"{this}\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*{this}"
    return re.search(f"{waits}|{written}", text) is not None


def _kernel(setting: Setting, indices: list[int]) -> tuple[list[Place], str]:
    """The lines of the declaration of the kernel that has them, up to its brace, and its text from there on."""
    tried = dict.fromkeys((place.file, place.number) for i in indices for place in places(setting, [i]))
    for used in (Place(file, number, "") for file, number in tried):
        lines = setting.lines(used.file)
        head = next((n for n in range(used.number, 0, -1) if "__global__" in lines[n - 1]), None)
        opening = next((n for n in range(head, used.number + 1) if "{" in lines[n - 1]), None) if head else None
        if head is not None and opening is not None and used.number in body(lines, opening):
            inside = (lines[n - 1] for n in body(lines, opening) if n > opening)
            text = "\n".join([lines[opening - 1].partition("{")[2], *inside])
            return [Place(used.file, n, lines[n - 1]) for n in range(head, opening + 1)], text
    return [], ""


def fixes(asked: Asked) -> list[Fix]:
    code = asked.setting.code
    strong = code.ran(
        code.where(lambda ins, op: op.access == "load" and op.space == "global" and "STRONG" in ins.mods)
    )
    if not strong:
        return []
    used = places(asked.setting, strong)
    heads: list[Place] = []
    for file in sorted({p.file for p in used}):
        lines = asked.setting.lines(file)
        first = min(p.number for p in used if p.file == file)
        for number in range(first, 0, -1):  # the head of the function that uses it
            if "__global__" in lines[number - 1]:
                heads.append(Place(file, number, lines[number - 1]))
                break
    edits = changed(heads, lambda text: _VOLATILE.sub("const " if "const" not in text else "", text))
    edits = [e for e in edits if len(re.findall(r"\bvolatile\b", e.was)) == 1  # which one is meant is clear
             and not _needed(e.was, asked.setting.lines(e.file), e.line)]  # fmt: skip
    if not edits:
        return []
    return [
        Fix(
            kind="qualifier",
            title="without volatile: L1 may keep the data, the compiler its values",
            language="cuda",
            edits=edits,
            conditions=[
                *not_written(code, strong),
                Condition(holds="nobody else writes it meanwhile", state="check"),
            ],
            proof=[
                Proof(
                    what="warp loads that pass L1 by", before=total(code.executed, strong), after=0, unit="inst",
                    how=f"{len(strong)} loads of strong order",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip
