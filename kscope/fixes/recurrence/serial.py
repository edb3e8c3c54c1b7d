"""Kernels whose threads each have one loop that carries states, every one by a factor and a rest of each round:
`h = f * h + x`. Rounds of such a loop can be joined before it is known where they begin."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import Loop, loops, statement_end
from kscope.fixes.recurrence.kinds import keeps, kinds
from kscope.fixes.recurrence.linear import Form, bare, form, names, parsed, written
from kscope.fixes.rows.function import Function, function

KINDS = ("float", "double", "int", "unsigned", "unsigned int", "long long")
MOST = 4  # states of a thread (judged)
_NEVER = re.compile(
    r"\b(?:asm|goto|while|do|switch|break|continue|volatile|static|extern|__shared__|__constant__|atomic\w*|__sync\w*|"
    r"__shfl\w*|__any\w*|__all\w*|__ballot\w*|\w+_n)\b|\b(?:threadIdx|blockDim|gridDim)\.[yz]|\bblockIdx\.z|\bcg::|"
    r"\bcub::|#\s*(?!pragma\s+unroll)\w"
)
_UNROLL = re.compile(r"#\s*pragma\s+unroll(?:[ \t]+\d+|[ \t]*\([^)\n]*\))?[ \t]*\n\s*$")
_DOWN = re.compile(
    r"\bfor\s*\(\s*(?P<kind>int|long)\s+(?P<name>\w+)\s*=\s*(?P<first>[^;,=]+);\s*(?P=name)\s*(?:>=\s*0|>\s*-\s*1)\s*;"
    r"\s*(?:(?P=name)\s*--|--\s*(?P=name))\s*\)\s*"
)
_CONTENTS = ("index", "deref", "call", "choose")  # of an expression that is not the same in every round


class Update(Struct, frozen=True):
    """One step of a state."""

    form: Form


class Serial(Struct, frozen=True):
    """`start`: where the loop begins, its pragma too. `head`, `tail`: texts around it. `states`: their types. `moved`:
    names that go on by the same in every round. `rounds`: what a round does to the states, and declares for it.
    `stores`: whether it does more than that. `was`: the function as it is, where its loop counts down and `fn` has one
    that counts up."""

    fn: Function
    was: Function
    loop: Loop
    start: int
    head: str
    tail: str
    states: Mapping[str, str]
    moved: Mapping[str, str]
    rounds: tuple[Update | str, ...]
    stores: bool

    @property
    def factored(self) -> list[str]:
        """States that have a factor: the others are sums."""
        return [s for s in self.states if any(isinstance(r, Update) and r.form.state == s and r.form.factor != "1"
                                              for r in self.rounds)]  # fmt: skip


def serial(setting: Setting) -> Serial | None:
    fn = function(setting)
    if fn is None or fn.call is not None:
        return None
    try:
        return found(fn)
    except Unplayable:
        return None


def found(fn: Function) -> Serial | None:
    """The loop of a function, if it is such a one; may raise Unplayable."""
    was, fn = fn, _turned(fn)
    around = _around(fn)
    if around is None:
        return None
    loop, start, head, tail = around
    every = list(_declared(parsed(f"{{{head}}}")))
    given = {name: kind if not stars and not dims else "" for kind, name, stars, dims in every}
    body = parsed("{" + fn.code[slice(*loop.body)] + "}")
    states, moved = _carried(body, given, loop.name)
    bounds = parsed(f"{{({loop.start}); ({loop.end});}}")
    steady = not names(bounds) & {loop.name, *states, *moved, *_own(body)} and not contents(bounds, _kept(fn))
    later = not _writes(body) and any(re.search(rf"\b{name}\b", tail) for name in moved)
    if not states or len(states) > MOST or not steady or later:
        return None
    rounds = tuple(r for r in _rounds(body, states, set(moved)) if r)
    if not all(any(isinstance(r, Update) and r.form.state == s for r in rounds) for s in states):
        return None
    own = _declared(("block", list(_statements(body))))
    if not _joins(states, rounds, kinds(fn, loop, [(kind, name) for kind, name, *_ in (*every, *own)])):
        return None
    return Serial(fn, was, loop, start, head, tail, states, moved, rounds, _writes(body))


def _joins(states: Mapping[str, str], rounds: Sequence[Update | str], known: Mapping[str, str]) -> bool:
    """Whether factors and rests are of types that may be joined. known: those of names."""
    made = [(states[r.form.state], text) for r in rounds if isinstance(r, Update)
            for text in (r.form.factor, r.form.rest)]  # fmt: skip
    return all(keeps(kind, text, known) for kind, text in made)


def _turned(fn: Function) -> Function:
    """With a loop that counts down to 0 as one that counts up, whose rounds have its number."""
    every = list(_DOWN.finditer(fn.code, fn.opened))
    end = statement_end(fn.code, every[0].end()) if len(every) == 1 else None
    if end is None or f"{every[0]['name']}_up" in fn.code:
        return fn
    (m,) = every
    kind, name, first = m["kind"], m["name"], m["first"].strip()
    less = re.fullmatch(r"(\w+)\s*-\s*1", first)
    head = f"for ({kind} {name}_up = 0; {name}_up < {less[1] if less is not None else f'{first} + 1'}; {name}_up++) "
    body = f"{{ const {kind} {name} = {first} - {name}_up; {fn.code[m.end() : end]} }}"
    return structs.replace(fn, code=fn.code[: m.start()] + head + body + fn.code[end:])


def _around(fn: Function) -> tuple[Loop, int, str, str] | None:
    """The one loop of a function, where it begins with its pragma, and the texts around it."""
    code = fn.code
    every = [one for one in loops(code) if one.span[0] > fn.opened]
    if _NEVER.search(fn.body) or len(every) != 1 or len(re.findall(r"\bfor\b", fn.body)) != 1:
        return None
    (loop,) = every
    pragma = _UNROLL.search(code[: loop.span[0]])
    start = pragma.start() if pragma is not None else loop.span[0]
    head, tail = code[fn.opened + 1 : start], code[loop.body[1] : code.rfind("}")]
    if not _counts(loop) or head.count("{") != head.count("}") or head.rstrip()[-1:] not in ("", ";", "}"):
        return None
    return (loop, start, head, tail) if not re.search(r"\breturn\b", code[loop.span[0] :]) else None


def _counts(loop: Loop) -> bool:
    """Whether a loop counts up by one; from 0 where its number has no sign, as it ends by a difference."""
    once = re.fullmatch(rf"(?:{loop.name}\s*\+\+|\+\+\s*{loop.name}|{loop.name}\s*\+=\s*1)", loop.step)
    return once is not None and (loop.kind in ("int", "long") or loop.start == "0")


def _declared(node: Node) -> Iterator[tuple[str, str, str, Sequence[Node]]]:
    for one in node[1]:
        if one[0] == "declare":
            yield from ((one[1], name, stars, dims) for name, stars, dims, _ in one[2])


def _statements(body: Node) -> Iterator[Node]:
    """Statements of a round, one behind the other."""
    for one in body[1]:
        if one[0] == "block":
            yield from _statements(one)
        else:
            yield one


def _assigned(node: object) -> set[str]:
    """Names that anything in a tree changes."""
    if not isinstance(node, (tuple, list)):
        return set()
    mine = {node[2][1]} if len(node) == 4 and node[0] in ("assign", "after") and node[2][0] == "name" else set()
    mine |= {node[2][1][1]} if len(node) == 4 and node[0] == "assign" and node[2][0] == "member" else set()
    return mine | {name for part in node for name in _assigned(part)}


def _own(body: Node) -> set[str]:
    """Names that a round declares."""
    return {name for _, name, _, _ in _declared(("block", list(_statements(body))))}


def contents(node: object, kept: Collection[str] = ()) -> bool:
    """Whether an expression may be another one in every round though its names are not. kept: arrays that stay."""
    if not isinstance(node, (tuple, list)):
        return False
    if len(node) == 3 and node[0] == "index" and node[1][0] == "name" and node[1][1] in kept:
        return contents(node[2], kept)
    return (len(node) > 0 and node[0] in _CONTENTS) or any(contents(part, kept) for part in node)


def _kept(fn: Function) -> set[str]:
    """Arrays that a function does nothing with but look up elements."""
    return {name for name in fn.pointers
            if not re.search(rf"\b{name}\b(?!\s*\[[^][]*\](?!\s*(?:[-+*/|&^%]?=(?!=)|\+\+|--|\[|\.)))", fn.body)
            and not re.search(rf"(?:&|\+\+|--)\s*{name}\b", fn.body)}  # fmt: skip


def _carried(body: Node, given: Mapping[str, str], count: str) -> tuple[dict[str, str], dict[str, str]]:
    """States with their types, and what names go on by that are none."""
    own = _own(body)
    changed = _assigned(body) - own
    if count in changed or own & given.keys() or changed - given.keys():
        raise Unplayable("what the loop changes")
    moved: dict[str, str] = {}
    every = list(_statements(body))
    for name in sorted(changed):
        steps = [s[1] for s in every if s[0] == "do" and s[1][0] in ("assign", "after") and s[1][2] == ("name", name)]
        if len(steps) == 1 and len([s for s in every if name in _assigned(s)]) == 1 and steps[0][1] == "+=":
            amount = steps[0][3]
            steady = not names(amount) & (own | changed | {count}) and not contents(amount)
            if steady and given[name] not in ("float", "double"):
                moved[name] = bare(written(amount))
    states = {name: given[name] for name in sorted(changed - moved.keys())}
    if any(kind not in KINDS for kind in states.values()):
        raise Unplayable("a state of another type")
    return states, moved


def _rounds(body: Node, states: Mapping[str, str], moved: set[str]) -> Iterator[Update | str]:
    """What a round does, without what it stores."""
    known = {name: Form(name, "1", "0") for name in states}
    kinds = {name: kind for kind, name, _, _ in _declared(("block", list(_statements(body))))}
    for one in _statements(body):
        if one[0] == "declare" and not one[3]:
            yield from _declares(one, known, states)
            continue
        if one[0] == "if":
            if _assigned(one):
                raise Unplayable("a branch")
            continue  # it stores
        if one[0] != "do" or one[1][0] not in ("assign", "after") or _assigned(one[1][3]):
            raise Unplayable(one[0])
        if one[1][2][0] == "name":
            yield _changes(one[1], known, kinds, states, moved)


def _changes(
    node: Node, known: dict[str, Form], kinds: Mapping[str, str], states: Mapping[str, str], moved: set[str]
) -> Update | str:  # fmt: skip
    """An assignment to a name."""
    _, op, (_, name), value = node
    if name in moved:
        return f"{name} += {bare(written(value))};"
    whole = value if op == "=" else ("binary", op[:-1], node[2], value)
    made = form(whole, known, states.get(name, kinds.get(name, "")))
    if name in states:
        if made.state != name:
            raise Unplayable("a state of another one")
        for gone in [n for n, f in known.items() if f.state == name and n != name]:
            del known[gone]
        return Update(made)
    if made.state:
        if kinds.get(name) != states[made.state]:
            raise Unplayable("a state as another type")
        known[name] = made
        return ""
    known.pop(name, None)
    return f"{name} {op} {bare(written(value))};"


def _declares(node: Node, known: dict[str, Form], states: Mapping[str, str]) -> Iterator[str]:
    _, kind, made, _ = node
    for name, stars, dims, value in made:
        if dims or stars == "&" or name in states or (value is not None and (value[0] == "list" or _assigned(value))):
            raise Unplayable("a declaration")
        if value is None:
            yield f"{kind} {name};"
            continue
        one = form(value, known, kind)
        known.pop(name, None)
        if one.state:
            if kind not in ("auto", states[one.state]):
                raise Unplayable("a state as another type")
            known[name] = one
        else:
            const = "const " if stars else ""
            yield f"{const}{kind}{stars} {name} = {bare(one.rest)};"


def _writes(body: Node) -> bool:
    """Whether a round stores anything."""
    return any(one[0] == "if" or (one[0] == "do" and one[1][2][0] != "name") for one in _statements(body)
               if one[0] in ("if", "do"))  # fmt: skip
