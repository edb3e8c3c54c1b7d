"""Whether all lanes of a warp come to a place of a kernel's text: they do where what is tested before it is known to
the compiler, and where an instruction that needs all of them stands in a block around it."""

from __future__ import annotations

import re

from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import Text, blanked
from kscope.fixes.packed.quads import fixed, together

_LEAVES = re.compile(r"\b(?:return|break|continue|goto)\b")


def files(setting: Setting) -> set[str]:
    return {ins.file for ins in setting.code.program.instructions if ins.file is not None}


def all_come(setting: Setting, text: Text, at: int) -> bool:
    """Whether all lanes of a warp come to a place of the kernel, or none."""
    if together(text.code, at, fixed(setting, text)):
        return True
    start = at
    while (start := _block(text.code, start) - 1) >= 0:
        if _aligned(setting, text, start + 1, at):
            return True
    return False


def _aligned(setting: Setting, text: Text, start: int, at: int) -> bool:
    """Whether something that needs all lanes of a warp stands in a block around a place before it, and nothing between
    them that only some come by."""
    flat = _flat(text.code[start:at])
    found = [m for m in re.finditer(r"\b(\w+)\s*(?:<[^<>;()]*>)?\s*\(", flat) if _whole(setting, m[1])]
    found += list(re.finditer(r"\b(?:asm|__asm__)\b[^;]*\.aligned\b", flat))
    if not found:
        return False
    after = text.code.find(";", start + max(m.start() for m in found)) + 1
    rest = text.code[after:at]
    return not _LEAVES.search(rest) and together(text.code[after:], at - after, fixed(setting, text))


def _block(code: str, at: int) -> int:
    """Where the innermost brackets around a place begin."""
    depth = 0
    for n in range(at - 1, -1, -1):
        depth += (code[n] == "}") - (code[n] == "{")
        if depth < 0:
            return n + 1
    return 0


def _flat(code: str) -> str:
    """A text with what stands in brackets of its own, or behind a test, as blanks."""
    depth, out = 0, []
    for c in code:
        depth += c == "{"
        out.append(c if not depth or c == "\n" else ";" if c == "}" and depth == 1 else " ")
        depth -= c == "}"
    flat = "".join(out)
    return re.sub(r"\b(?:if|else|for|while|switch|do)\b[^;]*;?", lambda m: " " * len(m[0]), flat)


def _whole(setting: Setting, name: str) -> bool:
    """Whether a function is one statement of assembly that all lanes of a warp have to come to."""
    body = re.compile(rf"\b{name}\s*\([^(){{}}]*\)\s*\{{\s*(?:asm|__asm__)\b[^;{{}}]*\.aligned\b")
    return any(body.search("\n".join(map(blanked, setting.lines(f)))) for f in files(setting))
