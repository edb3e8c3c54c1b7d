"""Whether two kernels are the same code: a hash of the machine code without what a rename or another build of the same
source changes. Left out: the kernel's name, names of functions that it calls (numbered as they come), the padding
behind it, scheduling fields and reuse flags, source lines. Addresses count from the entry already. Registers stay: code
that was allocated differently is other code. Where a loader wrote absolute addresses into the code (pointers to
functions, printf), two runs of one binary may differ."""

from __future__ import annotations

import re
from hashlib import blake2b

from kscope.features.sass.align import code_of
from kscope.model.program import Program

_NAME = re.compile(r"`\([^)]*\)")


def code_identity(program: Program) -> str:
    """32 hexadecimal digits; "" for a program without instructions. Equal for equal code of one architecture."""
    code = code_of(program)
    if not code:
        return ""
    names: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"`{len(names)}`")

    lines = (_NAME.sub(number, ins.text) if "`" in ins.text else ins.text for ins in code)
    text = "\n".join(line.replace(".reuse", "") for line in lines)
    return blake2b(f"sm_{program.sm}\n{text}".encode(), digest_size=16).hexdigest()
