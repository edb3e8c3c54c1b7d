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
from kscope.fixes.given.text import Span, Text, blanked, by_lines, closing, declared_at, kernel_text, spans_edited
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
    lines = setting.lines(text.file)
    file = "\n".join(map(blanked, lines))
    if declared_at(lines, text.first) != text.first:
        return []  # what stands above its head is for the kernel alone
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
            costs=[f"code for {len(one.functions)} more ways", "for any other function one call more"],
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
    """The kernel as one that calls what it is handed by name. What it does for any other function is one of its own:
    what only that keeps in memory, for the calls, is kept by nobody else."""
    opened = code.find("{")
    body, others = code[opened:].rstrip(), f"{kernel}_by_pointer"
    ways = [f"[](auto... a) {{ return {f}(a...); }}" for f in one.functions]
    taken = _parameters(code, kernel, one)
    if taken is None or re.search(rf"\b{others}\b", file):
        return []
    parts, names = taken
    call = _CALL.match(body)
    if call is not None and call["name"] not in (one.name, *one.functions):
        apart = f"__device__ __noinline__ void {others}({', '.join(parts)}) {body}\n"
        calls = _handed_on(file, call, one, ways)
        new = _chain(one, [*calls, f"{others}({', '.join(names)});"])
        return [(0, 0, apart), (opened, opened + len(body), f"{{\n  {new}\n}}")] if calls else []
    uses = len(re.findall(rf"(?<![\w.])(?<!->){one.name}\b", body))
    if _WORKED.search(body) or f"{kernel}_of(" in code:
        return []
    if not uses or uses != len(re.findall(rf"(?<![\w.])(?<!->){one.name}\s*\(", body)):
        return []  # it is compared, or handed on
    return _split(code, kernel, one, ways, parts, names)


def _handed_on(file: str, call: re.Match[str], one: Handed, ways: Sequence[str]) -> list[str]:
    """The kernel's one call with each known function in place of the pointer; none where it takes nothing else."""
    given = [p.strip() for p in split_declarators(call["given"])]
    if given.count(one.name) != 1 or not _takes_any(file, call["name"], given.index(one.name)):
        return []
    return [f"{call['name']}({', '.join(way if p == one.name else p for p in given)});" for way in ways]


def _parameters(code: str, kernel: str, one: Handed) -> tuple[list[str], list[str]] | None:
    """A kernel's parameters as they are written, and their names."""
    head = re.search(rf"\b{re.escape(kernel)}\s*\(", code)
    close = closing(code, head.end()) if head is not None else None
    if head is None or close is None:
        return None
    parts = [" ".join(p.split()) for p in split_declarators(code[head.end() : close])]
    names = [m[1] if (m := re.search(r"(\w+)$", p)) is not None else "" for p in parts]
    names[one.at] = one.name
    return (parts, names) if all(names) and not any("=" in p for p in parts) else None


def _split(
    code: str, kernel: str, one: Handed, ways: Sequence[str], parts: Sequence[str], names: Sequence[str]
) -> list[Span]:  # fmt: skip
    """The kernel's work as a function of its own, made for whatever is called."""
    start, opened, end = code.find("__global__"), code.find("{"), len(code.rstrip())
    work, others = f"{kernel}_of", f"{kernel}_by_pointer"
    made = [f"Called {one.name}" if n == one.at else p for n, p in enumerate(parts)]
    given = ", ".join(names)
    lists = [", ".join(way if n == one.name else n for n in names) for way in ways]
    calls = [*(f"{work}({text});" for text in lists), f"{others}({given});"]
    new = f"template <class Called> __device__ __forceinline__ void {work}({', '.join(made)}) "
    apart = f"\n__device__ __noinline__ void {others}({', '.join(parts)}) {{ {work}({given}); }}"
    return [
        (start, opened, new), (end, end, f"{apart}\n{code[start:opened].rstrip()} {{\n  {_chain(one, calls)}\n}}"),
    ]  # fmt: skip


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
