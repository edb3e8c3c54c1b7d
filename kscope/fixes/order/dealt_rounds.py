"""Rounds that stay as they are, but for what lies at the index that all lanes of a warp have: it is handed out by the
lanes, which load it for 32 rounds at once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.fixes.atomics.reading import Kernel, statements
from kscope.fixes.given.lanes_played import WARP
from kscope.fixes.order.alike import pointers
from kscope.fixes.order.batched import TIMES, Load, Walk, counted
from kscope.fixes.order.pieces import changed_in
from kscope.fixes.order.plain_loads import Plain
from kscope.fixes.order.whole import declared, indented, named

_ASKS = re.compile(r"\?|&&|\|\||^\s*(?:if|for|while|switch|do)\b")
_SETS = re.compile(r"(?<![\w.>])(\w+)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)")
_LEAVES = re.compile(
    r"\b(?:break|continue|return|goto|asm|while|switch|static|atomic\w*|__\w*sync\w*)\b|->|[;{}(=]\s*\*\s*\w"
)
SHUFFLED = ("int", "unsigned", "unsigned int", "float", "double", "long", "long long", "int32_t", "uint32_t", "int64_t",
            "uint64_t", "unsigned long long")  # fmt: skip
"""Types that __shfl_sync takes."""


def wholes(plain: Plain) -> list[tuple[Walk, str]]:
    """Loops whose rounds may ask, and have loops in them, but store nothing."""
    kernel, out = plain.kernel, list[tuple[Walk, str]]()
    kinds = {n: plain.typed(k) for n, k in pointers(kernel).items() if "const" in kernel.parameters[n]}
    for first, name, end, span, body in counted(kernel):
        inner = body[1:-1] if body[:1] == "{" else body
        steps = [inner[slice(*s)] for s in statements(inner, 0, len(inner)) or ()]
        plainly_done = "\n".join(s for s in steps if not _ASKS.search(s))
        loads = [Load(n, k, name, 0, 0, f"{n}_of") for n, k in kinds.items()
                 if k in SHUFFLED and re.search(rf"(?<![\w.>]){n}\s*\[\s*{name}\s*\]", plainly_done)]  # fmt: skip
        others = [Load(n, k, "", 0, 1, "") for n, k in kinds.items()
                  for _ in re.findall(rf"(?<![\w.>]){n}\s*\[(?!\s*{name}\s*\])", inner)]  # fmt: skip
        one = Walk(first, name, end, span, (inner,), (*loads, *others), -1, "")
        if loads and others and _stores_nothing(kernel, inner, name, end):
            out.append((one, whole(plain, one, loads)))
    return [x for x in out if x[1]]


def _stores_nothing(kernel: Kernel, body: str, name: str, end: str) -> bool:
    """Whether a round changes only values of its thread, and not those that count the rounds."""
    sets = {m[1] for m in _SETS.finditer(body)}
    arrays = {m[1] for m in re.finditer(r"(\w+)\s*\[[^;=]*\]\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)", body)}
    own = all(re.search(rf"\b[a-zA-Z_]\w*\s+(?:\w+(?:\s*=[^;,]*)?,\s*)*{a}\s*\[", kernel.body) for a in arrays)
    free = not any(changed_in(n, body) for n in {name, *re.findall(r"[A-Za-z_]\w*", end)})
    shared = "__shared__" in kernel.body
    return own and free and not shared and not _LEAVES.search(body) and not sets & set(pointers(kernel))


def whole(plain: Plain, one: Walk, mine: Sequence[Load]) -> str:
    """A loop with its rounds as they are, but for what lanes hand out; "" where a name is taken."""
    names = {"lane_n", "first_n", *(f"{x.kept}{w}" for x in mine for w in ("", "_next", "_now"))}
    if not declared(plain.typed(f"{one.first};")) or any(named(n, plain.kernel.text.code) for n in names):
        return ""
    body = one.steps[0]
    for x in mine:
        body = re.sub(rf"(?<![\w.>]){x.name}\s*\[\s*{one.name}\s*\]", x.kept, body)
    body = re.sub(rf"(?<![\w.>]){one.name}\b", f"({one.name} + first_n)", body)
    raw = {x.name: pointers(plain.kernel)[x.name] for x in mine}

    def handed(kept: str) -> str:
        return " ".join(f"const {raw[x.name]} {x.kept} = __shfl_sync(~0u, {x.kept}_{kept}, first_n);" for x in mine)

    def loads(index: str) -> str:
        return " ".join(f"{x.kept}_next = {x.name}[{index} + lane_n];" for x in mine)

    return indented(
        f"""{{
{one.first};
const int lane_n = threadIdx.x % {WARP};
{' '.join(f'{raw[x.name]} {x.kept}_next = 0;' for x in mine)}
if ({one.name} + lane_n < {one.end}) {{ {loads(one.name)} }}
for (; {one.name} + {WARP} <= {one.end}; {one.name} += {WARP}) {{
{' '.join(f'const {raw[x.name]} {x.kept}_now = {x.kept}_next;' for x in mine)}
if ({one.name} + {WARP} + lane_n < {one.end}) {{ {loads(f'{one.name} + {WARP}')} }}
#pragma unroll {TIMES}
for (int first_n = 0; first_n < {WARP}; first_n++) {{
{handed('now')}
{body}
}}
}}
for (int first_n = 0; {one.name} + first_n < {one.end}; first_n++) {{
{handed('next')}
{body}
}}
}}"""
    )
