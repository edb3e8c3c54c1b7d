"""The text of a function that gives a row to a block and an element to each thread, changed so that a warp has the row:
between two barriers each lane does one after the other what several threads did. Right where no thread keeps anything
of its own over a barrier: nothing but barriers told the threads apart."""

from __future__ import annotations

import re
from collections import Counter

from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import closing, statement_end
from kscope.fixes.rows.function import Function
from kscope.fixes.rows.regrouped import NEVER, ROW, SHARED, WARP

_BARRIER = re.compile(r"__syncthreads\s*\(\s*\)\s*;")
_DECLARED = re.compile(
    r"(?:const\s+)?(?P<type>unsigned\s+int|float|int|unsigned|double|size_t|bool)\s+(?=\w)(?P<rest>[^;]*);"
)
_POINTER = re.compile(r"(?:const\s+)?\w+\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?(\w+)\s*=\s*([^;,]*);")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_ASSIGNED = re.compile(r"(?<![\w.\]>])(\w+)\s*(?:[-+*/|&^%]?=(?!=)|<<=|>>=|\+\+|--)|(?:\+\+|--)\s*(\w+)")
_FIRST = re.compile(r"if\s*\(\s*(?:!\s*(\w+)|(\w+)\s*==\s*0)\s*\)\s*")
_BELOW = re.compile(r"if\s*\(\s*(?P<t>\w+)\s*<\s*(?P<end>\w+)\s*(?:&&\s*(?P<rest>.*))?$", re.S)
_TREE = re.compile(
    r"^\s*(?:int|unsigned)\s+(?P<o>\w+)\s*=\s*(?P<start>\d+)\s*;[^;]*;\s*(?P=o)\s*(?:/=\s*2|>>=\s*1)\s*$"
)
_SHARED_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:,|$)")


class _Unclear(Exception):
    """A text that is none of these."""


class _Writer:
    """alias: the thread's number; own: names of a section that no later one may use; block: threads of a block."""

    def __init__(self, fn: Function, block: int, rows: int) -> None:
        self.code, self.block, self.rows = fn.code, block, rows
        self.kind, self.alias = "int", "part_n"
        self.own: set[str] = set()
        self.trees: list[str] = []
        self.bounds: set[str] = set()
        self.section: list[str] = []
        given = Counter(n for pair in _ASSIGNED.findall(fn.body) for n in pair)
        first = Counter(re.split(r"[\s=]", p.strip())[0] for m in _DECLARED.finditer(fn.body)
                        for p in split_declarators(m["rest"]) if "=" in p)  # fmt: skip
        self.changed = set(given - first - Counter(m[1] for m in _POINTER.finditer(fn.body)))

    def block_of(self, start: int, end: int, pad: str) -> str:
        """The statements of a span."""
        out: list[str] = []
        at = start
        while self.code[at:end].strip():
            at += len(self.code[at:]) - len(self.code[at:].lstrip())
            stop = statement_end(self.code, at)
            if stop is None or stop > end:
                raise _Unclear(at)
            out += self.statement(at, stop, pad)
            at = stop
        return "".join(f"{pad}{x}\n" for x in [*out, *self.ended()])

    def statement(self, at: int, stop: int, pad: str) -> list[str]:
        text = self.code[at:stop]
        if _BARRIER.fullmatch(text):
            return [*self.ended(), "__syncwarp();"]
        if SHARED.fullmatch(text):
            return [*self.ended(), self.shared(text)]
        if "__syncthreads" in text:
            return [*self.ended(), self.loop(at, stop, pad)]
        if (one := _DECLARED.fullmatch(text)) is not None:
            return self.declaration(one, text)
        if (pointer := _POINTER.fullmatch(text)) is not None:
            if pointer[1] in self.changed or self.differs(pointer[2]):
                raise _Unclear(text)
            return [*self.ended(), text]
        if re.search(r"\breturn\b", text):
            if not re.fullmatch(r"if\s*\(.*\)\s*(?:return\s*;|\{\s*return\s*;\s*\})", text, re.S) or self.differs(text):
                raise _Unclear(text)
            return [*self.ended(), text]
        self.section.append(text)
        return []

    def differs(self, text: str) -> bool:
        """Whether it could be another thing for another thread."""
        names = set(_NAME.findall(text))
        own = {self.alias, "threadIdx"} | self.own
        return bool(names & own) or "[" in text or any(n in self.changed and n not in self.trees for n in names)

    def declaration(self, one: re.Match[str], text: str) -> list[str]:
        alike, mine = [], []
        for part in split_declarators(one["rest"]):
            name, _, value = (x.strip() for x in part.partition("="))
            if value == "threadIdx.x" and self.alias == "part_n" and name not in self.changed:
                self.kind, self.alias = one["type"], name
            elif not value or name in self.changed or self.differs(value):
                mine.append(part.strip())
                self.own.add(re.split(r"[\s\[]", name)[0])
            else:
                alike.append(part.strip())
        self.section += [f"{one['type']} {', '.join(mine)};"] if mine else []
        # What is alike is made before the section, of nothing that the section makes.
        return [f"{one['type']} {', '.join(alike)};"] if alike else []

    def shared(self, text: str) -> str:
        return re.sub(r"(\w+)(\s*(?:\[[^\]]*\]\s*)*)(?=[,;])", lambda m: f"{m[1]}[{self.rows}]{m[2]}", text)

    def loop(self, at: int, stop: int, pad: str) -> str:
        """A loop with barriers in it: it goes round as often for all threads."""
        head = re.match(r"for\s*\(", self.code[at:stop])
        close = closing(self.code, at + head.end()) if head is not None else None
        if head is None or close is None or self.code[close + 1 :].lstrip()[:1] != "{":
            raise _Unclear(at)
        inside = self.code[at + head.end() : close]
        counter = re.match(r"\s*(?:int|unsigned)\s+(\w+)\s*=", inside)
        opened = self.code.index("{", close)
        if counter is None or {counter[1]} & {n for p in _ASSIGNED.findall(self.code[opened:stop]) for n in p}:
            raise _Unclear(at)
        self.trees.append(counter[1])
        if self.differs(inside):
            raise _Unclear(at)
        tree = _TREE.match(inside)
        small = {counter[1]} if tree is not None and int(tree["start"]) <= self.block else set[str]()
        was, self.bounds = self.bounds, self.bounds | small
        body = self.block_of(opened + 1, stop - 1, pad + "  ")
        self.bounds = was
        return f"for ({inside}) {{\n{body}{pad}}}"

    def ended(self) -> list[str]:
        """The section so far, by a lane for all the threads that it stands for."""
        made, self.section = self.section, []
        if not made:
            return []
        fresh = {n for x in made if (m := _DECLARED.fullmatch(x)) is not None for n in _named(m["rest"])}
        if set(_NAME.findall(" ".join(made))) & self.own - fresh:
            raise _Unclear(made)
        t, wide = self.alias, self.block
        (only, *others) = made
        first = _FIRST.match(only) if not others and not re.search(r"\belse\b", only) else None
        if first is not None and (first[1] or first[2]) == t:
            then = re.sub(rf"(?<![\w.]){t}\b", "0", only[first.end() :].replace("threadIdx.x", "0"))
            return [f"if (threadIdx.x == 0) {then}"]
        if not others and (bounded := self.bounded(only)):
            return [bounded]
        body = " ".join(made).replace("threadIdx.x", t)
        return [f"for ({self.kind} {t} = threadIdx.x; {t} < {wide}; {t} += {WARP}) {{ {body} }}"]

    def bounded(self, text: str) -> str:
        """`if (t < o && ..)` in the round o of a tree: as many threads as have something to do."""
        close = closing(text, text.index("(") + 1) if text.startswith("if") else None
        test = _BELOW.match(text[:close]) if close is not None else None
        if close is None or test is None or test["t"] != self.alias or test["end"] not in self.bounds:
            return ""
        if re.search(r"\belse\b", text) or (test["rest"] and "||" in test["rest"]):
            return ""
        t, rest, then = self.alias, test["rest"], text[close + 1 :].strip()
        inner = (f"if ({rest.strip()}) {then}" if rest else then).replace("threadIdx.x", t)
        return f"for ({self.kind} {t} = threadIdx.x; {t} < {test['end']}; {t} += {WARP}) {inner}"


def _named(declarators: str) -> list[str]:
    return [re.split(r"[\s\[=]", part.strip())[0] for part in split_declarators(declarators)]


def in_parts(fn: Function, block: int, rows: int) -> str | None:
    """The function's whole text for a warp a row; None where it is none that is understood."""
    code = fn.code
    if NEVER.search(fn.body) or re.search(rf"\b(?:{ROW}|part_n)\b|#", code) or not _BARRIER.search(fn.body):
        return None
    one = _Writer(fn, block, rows)
    names = [n for m in SHARED.finditer(code, fn.opened) for n in _SHARED_NAME.findall(m["rest"])]
    if not names:  # what is put together in global memory a lane can load no more of ahead than it stores
        return None
    try:
        body = one.block_of(fn.opened + 1, len(code) - 1, "  ")
    except _Unclear:
        return None
    body = re.sub(r"\bblockDim\.x\b", str(block), re.sub(r"\bblockIdx\.x\b", ROW, body))
    out = []
    for line in body.split("\n"):
        shared = line.strip().startswith("__shared__")
        out.append(line if shared else re.sub(rf"(?<![\w.])(?<!->)({'|'.join(names)})\b", r"\1[threadIdx.y]", line))
    head = f"{{\n  const unsigned {ROW} = blockIdx.x * {rows} + threadIdx.y;\n"
    return code[: fn.opened] + head + "\n".join(out) + "}"
