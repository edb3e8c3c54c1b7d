"""A switch whose cases are the same statements with other numbers: one body, the numbers worked out of the case, or
looked up. The code that is fetched is that of one case."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from kscope.fixes.cases.alike import Body, body, grouped
from kscope.fixes.cases.folded import number, whole
from kscope.fixes.cases.instances import Instances
from kscope.fixes.cases.switches import Case, Switch, ended, file_text, switches, without_comments
from kscope.fixes.cases.templates import FORBIDDEN, Templates, expression
from kscope.fixes.cases.texts import Writer, every
from kscope.fixes.cases.variables import local_arrays, variables
from kscope.fixes.given.c_types import QUALIFIERS, TYPES
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.grammar import Node, Parser, Unplayable
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Text, by_lines, kernel_text, outside, spans_edited
from kscope.fixes.roles.macros import expanded, macros, parts
from kscope.model.contract.fixes import Edit, Fix, Proof

CASES = 4  # that are worth one body (judged)
HALF = 0.5  # of the code that runs: what is less is not what warps wait for (judged)
BYTES = 16  # an instruction
FITS = 8 << 10  # bytes of a loop from which on it is found (kscope.rules.latency.instruction_cache_misses)


class Merged(Struct, frozen=True):
    """labels: of a run of cases that `body` is for."""

    labels: list[int]
    body: Body


class Made(Struct, frozen=True):
    """size, after: bytes of code of the cases, before and then."""

    text: str
    merged: list[Merged]
    writer: Writer
    size: int
    after: float


def fixes(asked: Asked) -> list[Fix]:
    setting, text = asked.setting, kernel_text(asked.setting)
    if text is None or "switch" not in text.code:
        return []
    lines = setting.lines(text.file)
    known = macros([lines])

    def plain(code: str) -> str:
        return expanded(code, known)

    code = without_comments(text.code)
    for one in switches(code, plain):
        try:
            made = _fix(asked, text, one, Templates(file_text(lines), plain))
        except (Unplayable, RecursionError):
            continue
        if made is not None:
            return [made]
    return []


def _bytes(setting: Setting, text: Text, one: Switch, called: set[int]) -> int:
    """Of the code that ran and is from a switch's lines, or those of what it calls; 0 where that is the smaller part of
    what ran, or fits the caches."""
    ran = setting.code.ran(range(len(setting.code)))
    first, last = (text.first + text.code.count("\n", 0, at) for at in one.span)
    lines = {*range(first, last + 1), *called}
    size = BYTES * sum(any(f == text.file and n in lines for f, n in setting.sites(i)) for i in ran)
    return size if size >= max(FITS, HALF * BYTES * len(ran)) else 0


def _fix(asked: Asked, text: Text, one: Switch, templates: Templates) -> Fix | None:
    code = without_comments(text.code)
    found = as_one(code, one, templates, lambda: _bytes(asked.setting, text, one, templates.rows))
    edits = spans_edited(asked.setting, text, by_lines(text.code, [(*one.span, found.text)])) if found else []
    return _said(asked, found, edits) if found and edits else None


def as_one(code: str, one: Switch, templates: Templates, bytes_of: Callable[[], int]) -> Made | None:
    """What a switch becomes; None where no cases are alike, or they are not most of the code. Raises Unplayable where
    its statements are not understood."""
    if ";" in one.value or len(parts(one.value)) != 1 or one.value.split()[0] in TYPES | QUALIFIERS:
        raise Unplayable("a value of another kind")
    around = variables(code)
    names = frozenset(re.findall(r"[A-Za-z_]\w*", outside(code, [one.span])))
    cases, rest = _read(one, Instances(templates, around, around=names), templates)
    runs = grouped(cases, CASES)
    size = bytes_of() if runs else 0
    if not size:
        return None
    merged = [Merged(labels, body([cases[n] for n in labels])) for labels in runs]
    left = [c for c in one.cases if not _within(c, merged)]
    share = size / (len(cases) + len(rest))
    used = {x[1] for m in merged for x in every(("block", m.body.statements)) if x[0] in ("name", "call")}
    used |= {made[0] for m in merged for x in every(("block", m.body.statements)) if x[0] == "declare" for made in x[2]}
    writer = Writer(" ".join([code, *sorted(used)]), share, FITS, local_arrays(code))
    new = _text(one, merged, left, writer, templates.plain, _pad(code, one.span[0]))
    for run in merged:
        _played(run, cases, writer, Instances(templates, around, writer.read_back))
    return Made(new, merged, writer, size, share * (len(left) + writer.size))


def _played(run: Merged, cases: Mapping[int, list[Node]], writer: Writer, instances: Instances) -> None:
    """Goes through the new text with the number of each case: Unplayable where other statements come out than the case
    has, or other numbers in them."""
    made = Parser("{" + "\n".join(writer.texts[run.labels[0]]) + "}", number=_same).body()
    for label in run.labels:
        written = instances.statements(made, {writer.way: ("number", str(label))})
        if _flat(written) != _flat(cases[label]):
            raise Unplayable("another case")


def _flat(statements: Iterable[Node]) -> list[Node]:
    """Without braces around all of them."""
    found = list(statements)
    return _flat(found[0][1]) if len(found) == 1 and found[0][0] == "block" else found


def _same(word: str) -> float:
    return word  # type: ignore[return-value]


def _pad(code: str, at: int) -> str:
    line = code[code.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip())]


def _read(one: Switch, instances: Instances, templates: Templates) -> tuple[dict[int, list[Node]], list[Case]]:
    """Statements by label, and what is no case of numbers. Raises Unplayable where one goes on in the next."""
    found: dict[int, list[Node]] = {}
    rest = []
    for n, case in enumerate(one.cases):
        if FORBIDDEN.search(case.text):
            raise Unplayable("a statement of another kind")
        tree = ended(templates.tree(f"{{{case.text}}}"), last=n + 1 == len(one.cases))
        if None in case.labels:
            rest.append(case)
            continue
        made = instances.statements(("block", [tree]), {})
        for label in case.labels:
            assert label is not None
            value = whole(instances.put(expression(label), {}))
            if value in found or not 0 <= value < 1 << 31:
                raise Unplayable("a label of another kind")
            found[value] = made
    return found, rest


def _within(case: Case, merged: Sequence[Merged]) -> bool:
    """Whether all labels of a case are in a run: known by their numbers."""
    instances = Instances(Templates("", lambda text: text), {})
    values = [whole(instances.put(expression(one), {})) for one in case.labels if one is not None]
    inside = [any(value in m.labels for m in merged) for value in values]
    if any(inside) and (None in case.labels or not all(inside)):
        raise Unplayable("a case of several kinds")
    return bool(inside) and all(inside)


def _text(
    one: Switch, merged: Sequence[Merged], left: Sequence[Case], writer: Writer, plain: Callable[[str], str], pad: str
) -> str:
    """The statement that the switch becomes."""
    within = not left and len(merged) == 1 and _masked(plain(one.value), merged[0].labels)
    inner = pad + "  "
    if within:
        rows = writer.written(merged[0].body, merged[0].labels, inner)
        return "\n".join(["{", f"{inner}const int {writer.way} = {one.value};", *rows, f"{pad}}}"])
    chosen = writer.name("chosen")
    rows = [f"{inner}const auto {chosen} = {one.value};"]
    for n, run in enumerate(merged):
        test = f"if ({chosen} >= {run.labels[0]} && {chosen} <= {run.labels[-1]}) {{"
        rows += [f"{inner}{'} else ' if n else ''}{test}", f"{inner}  const int {writer.way} = (int){chosen};"]
        rows += writer.written(run.body, run.labels, inner + "  ")
    if left:
        rows += [f"{inner}}} else switch ({chosen}) {{", *(f"{inner}  {case.whole}" for case in left)]
    return "\n".join(["{", *rows, f"{inner}}}", f"{pad}}}"])


def _masked(value: str, labels: Sequence[int]) -> bool:
    """Whether a value is always one of the labels: taken modulo a power of two, or of the longest number without a sign
    (of a shorter one the rest of a longer one with a sign has a sign)."""
    try:
        tree = expression(value)
    except Unplayable:
        return False
    if tree[0] != "binary" or tree[1] not in "&%" or labels[0] != 0 or tree[3][0] != "number":
        return False
    last = number(tree[3][1])
    if last is None or last.kind not in (("unsigned long long",) if tree[1] == "%" else ("int", "unsigned")):
        return False
    most = int(last.value) - (tree[1] == "%")
    return len(labels) == most + 1 and bool(tree[1] == "%" or most & (most + 1) == 0)


def _said(asked: Asked, found: Made, edits: list[Edit]) -> Fix:
    merged, writer, size = found.merged, found.writer, found.size
    count = sum(len(m.labels) for m in merged)
    named = f"{count} cases as {'one body' if len(merged) == 1 else f'{len(merged)} bodies'}"
    how = "worked out of the case's number" if not writer.tables else "looked up by the case's number"
    return Fix(
        kind="unroll",
        title=f"{named}, their numbers {how}",
        language="cuda",
        code="\n".join(writer.tables),
        edits=edits,
        conditions=[
            proved("each case computes with the very numbers that it had", "values", writer.checked,
                   "the new text was gone through with the number of each case: its statements came out"),
            reads("nothing else tells the cases apart", "macros and templates of the file say what they are"),
            *writer.conditions(),
        ],
        proof=[
            Proof(what="bytes of code of the cases", before=size, after=round(found.after), unit="byte",
                  how=f"{count} cases of about {size / max(1, count):.0f} bytes; {writer.checked} numbers compared")
        ],
        price=asked.finding.estimate,
    )  # fmt: skip
