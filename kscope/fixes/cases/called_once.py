"""A function that is put in wherever a kernel calls it, and is most of its code: one copy, called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.cases.switches import file_text, without_comments
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.rewrite import calls_of
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import closing, kernel_text
from kscope.fixes.roles.macros import parts
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

HALF = 0.5  # of the code that runs (judged)
BYTES = 16  # an instruction
LEAST = 2 << 10  # bytes of a copy that a call is little beside: some 50 instructions with what is kept over it (judged)
FITS = 8 << 10  # bytes of a loop from which on it is found (kscope.rules.latency.instruction_cache_misses)
WORDS = 32  # of parameters (judged: registers that a call passes them in)
_PARAMETER = re.compile(
    r"\s*(?P<type>(?:const\s+)?[A-Za-z_][\w ]*?)(?P<star>[\s*]\s*(?:const\s+|__restrict__\s+)*)(?P<name>\w+)\s*"
)
_INTEGERS = re.compile(r"const|unsigned|u?int\d*(?:_t)?|long|bool|char|short|size_t|void|static|inline|__\w+__")
_INLINE = re.compile(r"\b(?:__forceinline__|__inline__|inline)\b[ \t]*")


class Function(Struct, frozen=True):
    """head: of what stands in front of its name, from `start` on in the file's text; given: texts of its parameters;
    lines: of its definition; bytes: of its code, all copies together."""

    name: str
    file: str
    head: str
    start: int
    given: tuple[str, ...]
    lines: range
    bytes: int


def fixes(asked: Asked) -> list[Fix]:
    setting, text = asked.setting, kernel_text(asked.setting)
    if text is None:
        return []
    code = without_comments(text.code)
    inside = code[code.find("{") :]
    names = {m[1] for m in re.finditer(r"(?<![\w.>:])([A-Za-z_]\w*)\s*\(", inside)}
    calls = {name: [c.arguments for c in calls_of(inside, name)] for name in names}
    often = {name: found for name, found in calls.items() if len(found) > 1}
    every = BYTES * len(setting.code.ran(range(len(setting.code))))
    for one in sorted(_functions(setting, often), key=lambda f: -f.bytes):
        copies = len(often[one.name])
        large = one.bytes >= max(FITS, HALF * every) and one.bytes >= LEAST * copies
        if large and _by_value(one, often[one.name], code):
            edit = _edit(setting, one)
            return [_fix(asked, one, copies, every, edit)] if edit is not None else []
    return []


def _functions(setting: Setting, names: Mapping[str, object]) -> list[Function]:
    """Those of some names that are defined once in all files that the code is from."""
    rows: dict[str, dict[int, int]] = {}
    for i in setting.code.ran(range(len(setting.code))):
        for file, number in setting.sites(i)[:1]:
            rows.setdefault(file, {})[number] = rows.setdefault(file, {}).get(number, 0) + 1
    found: dict[str, list[Function]] = {name: [] for name in names}
    for file, counted in rows.items():
        code = file_text(setting.lines(file))
        for name in names:
            for head in re.finditer(rf"(?<=[;}}\n])[^;{{}}()#]*\b__device__\b[^;{{}}()#]*?\b{name}\s*\(", "\n" + code):
                one = _read(file, code, name, max(0, head.start() - 1), head.end() - 1, counted)
                found[name] += [one] if one is not None else []
    return [x[0] for x in found.values() if len(x) == 1]


def _read(file: str, code: str, name: str, start: int, end: int, counted: Mapping[int, int]) -> Function | None:
    close = closing(code, end)
    opened = code.find("{", close) if close is not None else -1
    last = closing(code, opened + 1) if opened >= 0 else None
    if close is None or last is None or code[close + 1 : opened].strip():
        return None
    head = code[start : code.rindex(name, start, end)]
    lead = len(head) - len(head.lstrip())
    lines = range(1 + code.count("\n", 0, start + lead), 2 + code.count("\n", 0, last))
    size = BYTES * sum(n for number, n in counted.items() if number in lines)
    return Function(name, file, head.strip(), start + lead, tuple(parts(code[end:close])), lines, size)


def _by_value(one: Function, calls: Sequence[Sequence[str]], code: str) -> bool:
    """Whether all that it is given can be passed in registers: numbers, and pointers that are no place of a thread."""
    if "template" in one.head or "__noinline__" in one.head or "&" in one.head or len(one.given) > WORDS // 2:
        return False
    for n, text in enumerate(one.given):
        m = _PARAMETER.fullmatch(text)
        if m is None or m["star"].count("*") > 1:
            return False
        for given in calls:
            if len(given) != len(one.given):
                return False
            if "*" in m["star"] and not _outside(given[n], code):
                return False
    return True


def _outside(given: str, code: str) -> bool:
    """Whether a pointer is one of the kernel's own, or a member of what is: no address of a variable, no array."""
    name = re.match(r"\s*([A-Za-z_]\w*)", given)
    if name is None or re.search(rf"(?<!\w)(?:\w+)\s+{name[1]}\s*\[", code):
        return False
    return re.fullmatch(r"\s*[A-Za-z_]\w*(?:(?:\.|->)\w+)*(?:\s*\+[^&]*)?\s*", given) is not None


def _edit(setting: Setting, one: Function) -> Edit | None:
    """The line that says __device__, so that its function is called."""
    lines = setting.lines(one.file)
    for number in range(one.lines.start, one.lines.start + one.head.count("\n") + 1):
        line = lines[number - 1]
        if "__device__" not in line:
            continue
        if len(_INLINE.findall(one.head)) != len(_INLINE.findall(line)) or line.count("__device__") > 1:
            return None
        # Definitions of one function in several files stay allowed where they were.
        shared = _INLINE.search(line) is not None and not re.search(r"\bstatic\b", line)
        said = "__device__ inline __noinline__" if shared else "__device__ __noinline__"
        becomes = _INLINE.sub("", line).replace("__device__", said, 1)
        return Edit(file=one.file, line=number, was=line, becomes=re.sub(r"__ +(?=\w)", "__ ", becomes))
    return None


def _fix(asked: Asked, one: Function, copies: int, every: int, edit: Edit) -> Fix:
    after = every - one.bytes + one.bytes / copies
    given = [m["type"] for g in one.given if (m := _PARAMETER.fullmatch(g)) is not None and "*" not in m["star"]]
    whole = all(_INTEGERS.fullmatch(word) for text in (one.head, *given) for word in text.split())
    exact = [] if whole else [
        Condition(holds="the last bit of results does not matter", state="check",
                  why="a product and a sum on either side of a call are rounded each, where they were fused before")
    ]  # fmt: skip
    return Fix(
        kind="unroll",
        title=f"{one.name} as one function that is called, instead of {copies} copies",
        language="cuda",
        edits=[edit],
        conditions=[
            proved("its copies are most of the code that runs", "code", one.bytes // BYTES,
                   f"{one.bytes / 1024:.0f} of {every / 1024:.0f} KiB are from its lines"),
            *exact,
            Condition(holds="other kernels that call it may have it called too", state="check",
                      why="a call costs some tens of instructions, and what a kernel keeps over it"),
        ],
        proof=[
            Proof(what="bytes of code that run", before=every, after=round(after), unit="byte",
                  how=f"{copies} calls in the text; one copy of about {one.bytes / copies / 1024:.0f} KiB stays")
        ],
        price=asked.finding.estimate,
    )  # fmt: skip


