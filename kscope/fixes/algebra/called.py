"""Functions that a kernel is handed as a pointer: compared with those that the file hands out, and called by name where
it is one of them. The compiler inlines what it knows; any other function is called as before."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Span, Text, blanked, by_lines, closing, kernel_text, spans_edited
from kscope.fixes.rows.function import wrapper
from kscope.model.contract.fixes import Condition, Fix, Proof

MOST = 3  # functions that are compared with: each is a copy of the kernel's work (judged)
_ALIAS = r"\btypedef\s+(?P<ret>[\w:\s*]+?)\(\s*\*\s*{name}\s*\)\s*\((?P<args>[^()]*)\)\s*;"
_USING = r"\busing\s+{name}\s*=\s*(?P<ret>[\w:\s*]+?)\(\s*\*\s*\)\s*\((?P<args>[^()]*)\)\s*;"
_DIRECT = re.compile(r"^(?P<ret>[\w:\s*]+?)\(\s*\*\s*(?P<name>\w+)\s*\)\s*\((?P<args>[^()]*)\)$")
_NAMED = re.compile(r"^(?:const\s+)?(?P<type>[A-Za-z_]\w*)\s+(?:const\s+)?(?P<name>\w+)$")
_DEVICE = re.compile(
    r"(?<![\w>])(?:static\s+|inline\s+)*__device__\s+(?:static\s+|inline\s+|__noinline__\s+|__forceinline__\s+)*"
    r"(?P<ret>[\w:\s*]+?)\b(?P<name>\w+)\s*\((?P<args>[^(){};]*)\)\s*\{"
)
_CALL = re.compile(r"\{\s*(?P<name>\w+)\s*\((?P<given>[^;{}]*)\)\s*;\s*\}\s*$")
_WORKED = re.compile(r"\b(?:__shared__|asm|goto)\b|#")
Signature = tuple[str, ...]
"""Type of the result, types of the arguments."""


class Handed(Struct, frozen=True):
    """`name`: the kernel's parameter; `at`: its number among all; `functions`: what it is compared with."""

    name: str
    at: int
    functions: tuple[str, ...]


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    calls = code.ran(code.where(lambda ins, op: ins.opcode == "CALL" and any(o.vector for o in ins.operands)))
    text = kernel_text(setting) or wrapper(setting)
    if text is None or not calls or "<" in setting.instance.partition("(")[0]:
        return []
    file = "\n".join(blanked(line) for line in setting.lines(text.file))
    one = handed(file, text, setting.name)
    spans = named(file, text.code, setting.name, one) if one is not None else []
    edits = spans_edited(setting, text, by_lines(text.code, spans))
    if one is None or not edits:
        return []
    functions = ", ".join(one.functions)
    return [
        Fix(
            kind="register",
            title=f"{functions} called by name where {one.name} points to it",
            language="cuda",
            edits=edits,
            parameters={"functions": len(one.functions)},
            conditions=[
                reads("any other function is called as before", f"{one.name} is compared with each of them"),
                Condition(holds=f"launches pass {' or '.join(one.functions)}", state="check",
                          why="the only ones of this type whose address this file takes: others gain nothing"),
                Condition(holds="sums may be fused across the call", state="check",
                          why="what is inlined is compiled with what is around it: the last bits may differ"),
            ],
            proof=[
                Proof(what="calls by pointer that warps make", before=total(code.executed, calls), after=0, unit="inst",
                      how=f"{len(calls)} instructions, executions counted; none where the function is known")
            ],
            costs=[f"code for {len(one.functions)} more ways"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def handed(file: str, text: Text, kernel: str) -> Handed | None:
    """The one parameter of a kernel that is a function's address, where the file takes addresses of a few such."""
    head = re.search(rf"\b{re.escape(kernel)}\s*\(", text.code)
    close = closing(text.code, head.end()) if head is not None else None
    if head is None or close is None:
        return None
    found = list[tuple[str, int, Signature]]()
    for at, part in enumerate(split_declarators(text.code[head.end() : close])):
        made = _pointer(file, " ".join(part.split()))
        found += [(made[0], at, made[1])] if made is not None else []
    if len(found) != 1:
        return None
    name, at, wanted = found[0]
    above = "\n".join(file.split("\n")[: text.first - 1])
    known = [m["name"] for m in _DEVICE.finditer(above) if _signature(m["ret"], m["args"], named=True) == wanted]
    taken = [n for n in dict.fromkeys(known) if known.count(n) == 1 and _taken(n, file)]
    return Handed(name, at, tuple(taken)) if 0 < len(taken) <= MOST else None


def _pointer(file: str, part: str) -> tuple[str, Signature] | None:
    """(name, signature) of a parameter that is a function's address."""
    direct = _DIRECT.match(part)
    if direct is not None:
        return direct["name"], _signature(direct["ret"], direct["args"])
    said = _NAMED.match(part)
    if said is None:
        return None
    for pattern in (_ALIAS, _USING):
        alias = re.search(pattern.replace("{name}", said["type"]), file)
        if alias is not None:
            return said["name"], _signature(alias["ret"], alias["args"])
    return None


def _signature(ret: str, args: str, *, named: bool = False) -> Signature:
    parts = [p for p in split_declarators(args) if p.strip() and p.strip() != "void"]
    return _type(ret, named=False), *(_type(p, named=named) for p in parts)


def _type(text: str, *, named: bool) -> str:
    """A type without blanks that mean nothing, and without the name behind it, where it has one."""
    words = re.findall(r"\w+|[^\w\s]", text.replace("__restrict__", "").partition("=")[0])
    if len(words) > 1 and re.fullmatch(r"\w+", words[-1]):
        built = {"int", "float", "double", "long", "short", "char", "unsigned", "bool"}
        if named or (words[-1] not in built and (words[-2] in built or words[-2] in "*&")):
            words = words[:-1]
    if "*" not in words and "&" not in words:
        words = [w for w in words if w != "const"]
    return " ".join(words)


def _taken(name: str, file: str) -> bool:
    """Whether a file uses a function's address."""
    return re.search(rf"[=({{,&]\s*{name}\s*(?=[;,)}}])", file) is not None


def named(file: str, code: str, kernel: str, one: Handed) -> list[Span]:
    """The kernel as one that calls what it is handed by name."""
    opened = code.find("{")
    body = code[opened:]
    ways = [f"[](auto... a) {{ return {f}(a...); }}" for f in one.functions]
    call = _CALL.match(body.rstrip())
    if call is not None and call["name"] not in (one.name, *one.functions):
        given = [p.strip() for p in split_declarators(call["given"])]
        if given.count(one.name) != 1 or not _takes_any(file, call["name"], given.index(one.name)):
            return []
        lists = [", ".join(way if p == one.name else p for p in given) for way in (*ways, one.name)]
        calls = [f"{call['name']}({text});" for text in lists]
        return [(opened, opened + len(body.rstrip()), f"{{\n  {_chain(one, calls)}\n}}")]
    return _split(code, kernel, one, ways)


def _split(code: str, kernel: str, one: Handed, ways: Sequence[str]) -> list[Span]:
    """The kernel's work as a function of its own, made for whatever is called."""
    head = re.search(rf"\b{re.escape(kernel)}\s*\(", code)
    close = closing(code, head.end()) if head is not None else None
    opened, end = code.find("{"), len(code.rstrip())
    body, work = code[opened:end], f"{kernel}_of"
    start = code.find("__global__")
    uses = len(re.findall(rf"(?<![\w.>]){one.name}\b", body))
    if head is None or close is None or _WORKED.search(body) or f"{work}(" in code:
        return []
    if not uses or uses != len(re.findall(rf"(?<![\w.>]){one.name}\s*\(", body)):
        return []  # it is compared, or handed on
    parts = [" ".join(p.split()) for p in split_declarators(code[head.end() : close])]
    names = [m[1] if (m := re.search(r"(\w+)$", p)) is not None else "" for p in parts]
    names[one.at], parts[one.at] = one.name, f"Called {one.name}"
    if not all(names):
        return []
    lists = [", ".join(way if n == one.name else n for n in names) for way in (*ways, one.name)]
    calls = [f"{work}({text});" for text in lists]
    new = f"template <class Called> __device__ __forceinline__ void {work}({', '.join(parts)}) "
    return [(start, opened, new), (end, end, f"\n{code[start:opened].rstrip()} {{\n  {_chain(one, calls)}\n}}")]


def _chain(one: Handed, calls: Sequence[str]) -> str:
    tests = [f"if ({one.name} == {f}) {call}" for f, call in zip(one.functions, calls, strict=False)]
    return "\n  else ".join([*tests, calls[-1]])


def _takes_any(file: str, name: str, at: int) -> bool:
    """Whether a function is a template of the type of one of its arguments."""
    before = r"template\s*<([^<>]*)>[^;{}()]*(?:\([^()]*\)[^;{}()]*)?"
    found = re.findall(rf"{before}\b{name}\s*\(([^(){{}};]*)\)\s*\{{", file)
    if len(found) != 1:
        return False
    types = re.findall(r"\b(?:class|typename)\s+(\w+)", found[0][0])
    parts = [" ".join(p.split()) for p in split_declarators(found[0][1])]
    kind = re.match(r"(?:const\s+)?(\w+)\s*&{0,2}\s*\w+$", parts[at]) if at < len(parts) else None
    return kind is not None and kind[1] in types
