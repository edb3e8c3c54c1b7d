"""A block's tree of sums, a barrier a level: its first level by all threads, the others by shuffles, within each warp
and then among what the warps have. Where other pairs give another result than by rounding, one warp takes the levels
below the first instead, with every 32nd value in each lane: the same pairs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, structs

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import evaluated
from kscope.fixes.given.text import Span, plain
from kscope.fixes.recurrence.rewritten import Side, alike, edits, numbers, sized
from kscope.fixes.rows.compared import arrayed
from kscope.fixes.rows.function import Function, function
from kscope.model.contract.fixes import Condition, Fix, Proof

WARP, LEAST, MOST = 32, 64, 1024  # values of the first level: fewer are a warp's own, more are more than threads
_SYNC = r"__syncthreads\s*\(\s*\)\s*;"
_TREE = re.compile(
    r"(?:#\s*pragma\s+unroll[^\n]*\n\s*)?for\s*\(\s*(?:int|unsigned|unsigned\s+int)\s+(?P<d>\w+)\s*=\s*(?P<first>[^;]+);"
    r"\s*(?P=d)\s*(?:>\s*0|>=\s*1|!=\s*0)?\s*;\s*(?P=d)\s*(?:/=\s*2|>>=\s*1|=\s*(?P=d)\s*(?:/\s*2|>>\s*1))\s*\)\s*\{\s*"
    rf"(?P<ahead>{_SYNC}\s*)?if\s*\(\s*(?P<t>\w+(?:\.x)?)\s*<\s*(?P=d)\s*\)\s*(?P<brace>\{{\s*)?"
    r"(?P<a>\w+)\s*\[\s*(?P=t)\s*\]\s*(?P<op>[-+*|&^]?)=(?!=)\s*(?P<value>[^;{}]+);\s*(?(brace)\}\s*)"
    rf"(?P<behind>{_SYNC}\s*)?\}}"
)
_KINDS = "float|double|int|unsigned|unsigned\\s+int"
_NEVER = re.compile(r"\b(?:asm|goto|extern|volatile|\w+_n)\b|\bthreadIdx\.[yz]|#\s*(?!pragma\s+unroll)\w")
_ALONE = re.compile(r"\s*if\s*\(\s*(?:!\s*(?P<t>\w+(?:\.x)?)|(?P<u>\w+(?:\.x)?)\s*==\s*0)\s*\)")


class Tree(Struct, frozen=True):
    """`many`: values that the first level leaves. `memory`: the pointer that the array is a part of; "" where it is in
    shared memory. `joined`: what becomes of `left_n` and `right_n`."""

    fn: Function
    array: str
    thread: str
    kind: str
    many: int
    memory: str
    joined: str
    ahead: bool
    span: tuple[int, int]
    within: bool = True
    """Whether the levels within a warp come first."""


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    fn = function(setting)
    if fn is None or fn.call is not None or launch is None or launch.block[1] * launch.block[2] > 1:
        return []
    known = numbers(setting, fn)
    found = tree(fn, known, launch.block[0])
    if found is None or launch.block[0] % WARP:
        return []
    tried = [(one, _compared(one, known, launch.block[0])) for one in (found, structs.replace(found, within=False))]
    found, compared = next((x for x in tried if x[1]), tried[-1])
    if not compared:
        return []
    levels = found.many.bit_length()
    code = setting.code
    barriers = code.ran(code.where(lambda ins, op: ins.opcode == "BAR"))
    met = total(code.executed, barriers) / (launch.warps * launch.blocks)
    kept = 1 + (not _alone(found)) + found.ahead
    if met < levels:
        return []  # it ran otherwise
    rounds = found.within and found.kind in ("float", "double") and not re.match(r"f?(?:max|min)f?\(", found.joined)
    left = [Condition(holds=f"nobody reads afterwards what the levels left in {found.memory}", state="check",
                      why="they stay in registers, and it keeps what it held")] if found.memory else []  # fmt: skip
    return [
        Fix(
            kind="lane_mapping",
            title=f"the {levels - 1} levels below the first by {'' if found.within else 'one warp, by '}shuffles: "
                  f"{kept} barrier{'s' * (kept > 1)} for {levels}",
            language="cuda",
            edits=edits(setting, fn, [*_spans(found)]),
            conditions=[
                proved(f"every result is the same{' but for rounding' if rounds else ''}", "values", compared,
                       "both versions played on numbers, every result compared; no races"),
                *left,
                *([Condition(holds="the order of the sums does not matter", state="check",
                             why="levels within a warp come first")] if rounds else []),
                Condition(holds=f"every launch has blocks of {launch.block[0]} threads", state="check",
                          why="as many values as the tree has are numbers in the code"),
            ],
            proof=[
                Proof(what="barriers that a warp passes", before=met, after=met - levels + kept, unit="barriers",
                      how=f"{levels} levels with one each, as they ran"),
            ],
            costs=[f"{found.many // (WARP if found.within else 1)} values in shared memory a block"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _compared(found: Tree, known: Mapping[str, int], block: int) -> int:
    fn, but = found.fn, {found.memory} - {""}
    old, new = (Side(arrayed(body), (2, 1), (block, 1)) for body in (fn.body, _applied(found)))
    return alike(fn, old, new, (), sized(fn, known, block, block), but=but)


def tree(fn: Function, known: Mapping[str, int], block: int) -> Tree | None:
    """The tree of a function, if it has one, and nothing in the way."""
    every = list(_TREE.finditer(fn.code, fn.opened))
    if len(every) != 1 or _NEVER.search(fn.body):
        return None
    (m,) = every
    before = fn.code[fn.opened + 1 : m.start()]
    many = evaluated(re.sub(r"\bblockDim\.x\b", str(block), m["first"]), known)
    own = m["t"] == "threadIdx.x" or plain(m["t"], before) == "threadIdx.x"
    if many is None or many & (many - 1) or not LEAST <= many <= min(MOST, block) or not own or _within(before):
        return None
    if bool(m["ahead"]) == bool(m["behind"]):
        return None
    of = _kind(fn, m["a"], before)
    joined = _joined(m)
    if of is None or joined is None:
        return None
    return Tree(fn, m["a"], m["t"], of[0], many, of[1], joined, bool(m["ahead"]), m.span())


def _within(before: str) -> bool:
    """Whether a place is inside of a loop or a branch, or some threads may not come to it."""
    return before.count("{") != before.count("}") or before.rstrip()[-1:] not in (";", "}") or "return" in before


def _kind(fn: Function, name: str, before: str) -> tuple[str, str] | None:
    """(type, pointer that it is a part of) of an array."""
    shared = re.search(rf"__shared__\s+({_KINDS})\s+(?:[^;]*,\s*)?{name}\s*\[[^]]*\]\s*[,;]", before)
    if shared is not None:
        return shared[1], ""
    if name in fn.pointers:
        return (fn.pointers[name], name) if re.fullmatch(_KINDS, fn.pointers[name]) else None
    local = re.search(rf"\b({_KINDS})\s*\*\s*{name}\s*=\s*([^;,]+)[;,]", before)
    roots = set(re.findall(r"[A-Za-z_]\w*", local[2])) & fn.pointers.keys() if local is not None else set()
    return (local[1], roots.pop()) if local is not None and len(roots) == 1 else None


def _joined(m: re.Match[str]) -> str | None:
    """What a level makes of two values."""
    a, t, d = (re.escape(m[n]) for n in ("a", "t", "d"))
    text = re.sub(rf"\b{a}\s*\[\s*{t}\s*\]", "left_n", m["value"])
    text = re.sub(rf"\b{a}\s*\[\s*(?:{t}\s*\+\s*{d}|{d}\s*\+\s*{t})\s*\]", "right_n", text)
    other = re.search(rf"(?<![\w.])(?:{a}|{t}|{d})\b|\+\+|--|\[", text)
    if other is not None or "right_n" not in text:
        return None
    return f"left_n {m['op']} ({text})" if m["op"] else text


def _alone(found: Tree) -> re.Match[str] | None:
    """The test of the first thread, if what follows the tree is one statement of it that takes the first value."""
    fn = found.fn
    rest = fn.code[found.span[1] : fn.code.rfind("}")]
    m = _ALONE.match(rest)
    first = re.sub(rf"\b{found.array}\s*\[\s*0\s*\]", "", rest)
    if m is None or (m["t"] or m["u"]) != found.thread or re.search(rf"\b{found.array}\b|__sync", first):
        return None
    statement = rest[m.end() :].strip()
    one = statement.count(";") == 1 and statement.endswith(";") and "{" not in statement
    again = found.memory and re.search(rf"(?<![\w.]){found.memory}\b", first)
    return m if one and not again else None


def _within_first(found: Tree) -> list[str]:
    a, t, many, kind = found.array, found.thread, found.many, found.kind
    step = f"right_n = __shfl_down_sync(~0u, value_n, half_n); value_n = {found.joined}; }}"
    return [
        f"__shared__ {kind} values_n[{many // WARP}];",
        *(["__syncthreads();"] if found.ahead else []),
        f"{kind} value_n = 0;",
        f"if ({t} < {many}) {{ const {kind} left_n = {a}[{t}], right_n = {a}[{t} + {many}]; "
        f"value_n = {found.joined}; }}",
        "#pragma unroll",
        f"for (int half_n = {WARP // 2}; half_n; half_n /= 2) {{ const {kind} left_n = value_n, {step}",
        f"if ({t} < {many} && {t} % {WARP} == 0) values_n[{t} / {WARP}] = value_n;",
        "__syncthreads();",
        f"if ({t} < {WARP}) {{",
        f"  value_n = {t} < {many // WARP} ? values_n[{t}] : 0;",
        "  #pragma unroll",
        f"  for (int half_n = {many // WARP // 2}; half_n; half_n /= 2) {{ const {kind} left_n = value_n, {step}",
        "}",
    ]


def _same_pairs(found: Tree) -> list[str]:
    a, t, many, kind = found.array, found.thread, found.many, found.kind
    each, own = many // WARP, "values_n" if found.memory else a
    return [
        *([f"__shared__ {kind} values_n[{many}];"] if found.memory else []),
        *(["__syncthreads();"] if found.ahead else []),
        f"if ({t} < {many}) {{ const {kind} left_n = {a}[{t}], right_n = {a}[{t} + {many}]; "
        f"{own}[{t}] = {found.joined}; }}",
        "__syncthreads();",
        f"{kind} value_n = 0;",
        f"if ({t} < {WARP}) {{",
        f"  {kind} lane_n[{each}];",
        "  #pragma unroll",
        f"  for (int at_n = 0; at_n < {each}; at_n++) lane_n[at_n] = {own}[{t} + {WARP} * at_n];",
        "  #pragma unroll",
        f"  for (int half_n = {each // 2}; half_n; half_n /= 2)",
        "    #pragma unroll",
        "    for (int at_n = 0; at_n < half_n; at_n++) { "
        f"const {kind} left_n = lane_n[at_n], right_n = lane_n[at_n + half_n]; lane_n[at_n] = {found.joined}; }}",
        "  value_n = lane_n[0];",
        "  #pragma unroll",
        f"  for (int half_n = {WARP // 2}; half_n; half_n /= 2) {{ const {kind} left_n = value_n, "
        f"right_n = __shfl_down_sync(~0u, value_n, half_n); value_n = {found.joined}; }}",
        "}",
    ]


def _spans(found: Tree) -> list[Span]:
    fn, a, t = found.fn, found.array, found.thread
    lines = _within_first(found) if found.within else _same_pairs(found)
    if _alone(found) is None:
        lines += [f"if ({t} == 0) {a}[0] = value_n;", "__syncthreads();"]
        return [(*found.span, "\n  ".join(lines))]
    end = fn.code.rfind("}")
    taken = [(m.start() + found.span[1], m.end() + found.span[1], "value_n")
             for m in re.finditer(rf"\b{a}\s*\[\s*0\s*\]", fn.code[found.span[1] : end])]  # fmt: skip
    return [(*found.span, "\n  ".join(lines)), *taken]


def _applied(found: Tree) -> str:
    text = found.fn.code
    for start, end, new in sorted(_spans(found), reverse=True):
        text = text[:start] + new + text[end:]
    return text[found.fn.opened :]
