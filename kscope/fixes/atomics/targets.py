"""Atomics of a kernel's text whose address is the same for all threads of a block."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.features.sass.slices import address_origins
from kscope.fixes.atomics.reading import Kernel, uniform
from kscope.fixes.given.rewrite import Call, calls_of
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import closing

WARP = 32
WHOLE = ("int", "unsigned", "unsigned long long", "long long")
ADDED = ("int", "unsigned", "unsigned long long", "float", "double")
BITS = ("int", "unsigned", "unsigned long long")
TYPES = {
    "atomicAdd": ADDED, "atomicMax": WHOLE, "atomicMin": WHOLE, "atomicAnd": BITS, "atomicOr": BITS, "atomicXor": BITS,
}  # fmt: skip
"""Types that a function takes (CUDA C++ Programming Guide, atomic functions), of those that are combined here."""

NAMES = {
    "unsigned int": "unsigned", "uint32_t": "unsigned", "int32_t": "int", "long long int": "long long",
    "unsigned long long int": "unsigned long long",
}  # fmt: skip
_CAST = re.compile(r"\(\s*([\w ]+?)\s*\*\s*\)\s*(.*)", re.S)
_INDEXED = re.compile(r"&\s*(\w+)\s*(?:\[(.*)\])?", re.S)
_MOVED = re.compile(r"(\w+)\s*(?:\+(.*))?", re.S)


class Atomic(Struct, frozen=True):
    """`function(address, value)`: its target's name and C type, its span in the text, the top statement that it is
    part of, and where its value begins."""

    function: str
    address: str
    value: str
    name: str
    kind: str
    call: tuple[int, int]
    statement: tuple[int, int]
    at: int


def atomics_of(kernel: Kernel) -> list[Atomic]:
    """All atomics of a kernel's text, or none: where one of them is no function of TYPES at a place of the block's."""
    code, out = kernel.text.code, []
    calls = [(name, c) for name in TYPES for c in calls_of(code, name) if c.start > kernel.opening]
    if len(re.findall(r"\b(?:atomic\w*|__nv_atomic\w*|red|atom)\b", kernel.body)) != len(calls):
        return []
    for function, call in sorted(calls, key=lambda one: one[1].start):
        top = next((s for s in kernel.statements if s[0] <= call.start < s[1]), None)
        one = _atomic(kernel, function, call, top) if top is not None and len(call.arguments) == 2 else None
        if one is None:
            return []
        out.append(one)
    names = [a.name for a in out]
    once = all(len(re.findall(rf"(?<![\w.]){n}\b", kernel.body)) == names.count(n) for n in names)
    return out if once else []


def _atomic(kernel: Kernel, function: str, call: Call, top: tuple[int, int]) -> Atomic | None:
    address, value = call.arguments
    cast = _CAST.fullmatch(address)
    place = cast[2] if cast is not None else address
    found = _INDEXED.fullmatch(place) or _MOVED.fullmatch(place)
    if found is None:
        return None
    name, index = found[1], (found[2] or "0").strip()
    pointed = _pointed(kernel, name, scalar=place.startswith("&") and found[2] is None)
    kind = " ".join(cast[1].split()) if cast is not None else pointed
    kind = NAMES.get(kind, kind)
    whole = closing(f"{index})", 0) == len(index)
    if kind not in TYPES[function] or not pointed or not whole or not uniform(kernel, index, top[0]):
        return None
    code = kernel.text.code
    at = code.index(value, code.index(address, call.start) + len(address))
    return Atomic(function, address, value, name, kind, (call.start, call.end), top, at)


def _pointed(kernel: Kernel, name: str, *, scalar: bool) -> str:
    """The type that a parameter points to, or of a variable of the device; "" where it is none."""
    said = re.fullmatch(r"([\w ]+?) \* ?(?:(?:const|__restrict__|__restrict) ?)*", kernel.parameters.get(name, ""))
    if said is not None and not scalar:
        return "" if re.search(r"\b(?:const|volatile)\b", said[1]) else said[1]
    if name in kernel.parameters or re.search(rf"\b{name}\s*=(?!=)", kernel.body):
        return ""
    ends = "[;={]" if scalar else r"\["
    declared = re.compile(rf"\s*(?:static\s+)?__device__\s+([\w ]+?)\s+{name}\s*{ends}")
    return next((m[1] for line in kernel.lines if (m := declared.match(line))), "")


def outside(setting: Setting) -> list[int]:
    """The atomics that ran on global memory."""
    code = setting.code
    return code.ran(
        code.where(lambda ins, op: op.access in ("atomic", "reduction") and op.space in ("global", "generic"))
    )


def of_the_block(setting: Setting, atoms: list[int]) -> bool:
    """Whether neither a thread's number nor a loaded value reaches the addresses of some atomics."""
    found = [address_origins(setting.code, i) for i in atoms]
    return bool(atoms) and all(f is not None and f.isdisjoint({"tid", "load", "table"}) for f in found)


def lanes(setting: Setting, atoms: list[int]) -> float:
    """How many lanes' atomics they were."""
    counted = getattr(setting.code, "threads", None)
    return total(counted, atoms) if counted is not None else WARP * total(setting.code.executed, atoms)
