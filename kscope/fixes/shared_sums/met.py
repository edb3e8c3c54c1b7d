"""Atomics of lanes that meet at one place: those of a warp that do are put together first, and one of them goes."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.estimate.gains import expected_at_most
from kscope.features.facts import SECTOR, SECTORS
from kscope.features.profile.code import Code
from kscope.features.sass.columns import total
from kscope.fixes.atomics.regions import regions, shared_names
from kscope.fixes.atomics.targets import outside
from kscope.fixes.given.conditions import reads
from kscope.fixes.given.rewrite import Call, calls_of
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Text, spans_edited, statement_end
from kscope.fixes.shared_sums.lanes import COUNTING, PLACING, STEPS, combining
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.contract.frozen import Estimate

LEAST = 1.5  # atomics of lanes for each that is left, below which looking for each other is not worth it (judged)
SINCE = 70  # architecture from which lanes can look for each other (CUDA C++ Programming Guide, warp match)
ALONE = 1.25  # sectors a request up to which the lanes' words are likely one (judged: counters are of four bytes)
MOST = 0.9  # of the waits for atomics, that those are which change, for the finding's promise to be theirs (judged)
WRAPPED = dict.fromkeys(("gpuAtomicAdd", "gpuAtomicAddNoReturn", "CudaAtomicAdd", "unsafeAtomicAdd"), "atomicAdd")
_SCOPE = re.compile(r"(?:(?:\b\w+\s*)?::\s*)+$")
_ALONE = re.compile(r"(?:[;{}:]|\belse|^)\s*$")
_CONSTANT = re.compile(r"\(?\s*(?:\(\s*\w[\w ]*\)\s*)?\(?-?\d+(?:\.\d*)?[fuUlL]*\s*\)?\s*\)?|"
    r"(?:float|double|int|unsigned|long|[A-Z]|\w+_t)\s*\(\s*\d+(?:\.\d*)?f?\s*\)")
_REFERENCE = r"(?:\w+\s*::\s*)*device_atomic_ref\s*<\s*(?P<kind>[\w ]+?)\s*>\s*{name}\s*[({{](?P<of>[^;]*)[)}}]\s*;"
_NONE = re.compile(r"\b(?:half|bfloat|F16|BF16|64x2|128)")

class Met(Struct, frozen=True):
    """An atomic of a text: its span there, what it is by name, its arguments, whether its result is used. kind: of
    a reference's value, where it is a member function of one: such functions are made for the host too."""

    text: Text
    start: int
    end: int
    function: str
    address: str
    value: str
    used: bool
    kind: str = ""


def fixes(asked: Asked) -> list[Fix]:
    setting = asked.setting
    atoms = meeting(setting)
    if not atoms:
        return []
    found = _placed(setting, atoms)
    if not found or len({one.text.file for one in found}) > 1:
        return []
    edits = _edits(setting, found)
    names = _helpers(found)
    if not edits or any(re.search(rf"\b{name}\b", "\n".join(setting.lines(found[0].text.file))) for name in names):
        return []
    return [_fix(asked, atoms, found, names, edits)]


def _fix(asked: Asked, atoms: list[int], found: list[Met], helpers: dict[str, str], edits: list[Edit]) -> Fix:
    setting = asked.setting
    code = setting.code
    assert isinstance(code, Code)
    before, after = total(code.threads, atoms), sum(_after(code, i) for i in atoms)
    whole = all(_alone(code, i) for i in atoms)
    floats = any(re.search(r"\.F(?:32|64)\b", code[i].text) for i in atoms)
    places = any(one.used for one in found)
    return Fix(
        kind="aggregate",
        title="lanes that meet at one place are put together first: one atomic for each place that a warp has",
        language="cuda",
        code="\n".join(helpers.values()),
        edits=edits,
        conditions=[
            reads("lanes come to it as they do now", "those that are there together look for each other alone"),
            Condition(holds="atomics of one warp meet as often with other data", state="check",
                      why="looking for each other costs some where they do not"),
            *([Condition(holds="the order of the places does not matter", state="check", why="atomics have none")]
              if places else []),
            *([Condition(holds="the order in which floats are added does not matter", state="check",
                         why="atomics have none")] if floats else []),
        ],
        proof=[
            Proof(what="atomics on global memory", before=before, after=after, unit="atomics",
                  how="of all lanes; after, one for each sector that a warp's atomic went to" if whole else
                  "of all lanes; after, at most as many as the sectors that were counted hold words")
        ],
        costs=["a search among the lanes of a warp, a round of it for each lane that meets others"],
        price=_price(asked, atoms, before / after),
    )  # fmt: skip


def _price(asked: Asked, atoms: list[int], fewer: float) -> Estimate | None:
    """No more than there are atomics fewer; none where others are waited for too."""
    found, at = asked.finding.estimate, {asked.setting.code[i].pc for i in atoms}
    waits = sum(x.share or 0 for x in asked.finding.locations)
    mine = sum(x.share or 0 for x in asked.finding.locations if x.pc in at)
    if found is None or mine < MOST * waits:
        return None
    return expected_at_most(found, fewer, strictly=True)


def meeting(setting: Setting) -> list[int]:
    """The atomics on global memory whose lanes meet, as their sectors show: lanes that are more than the sectors hold
    words, or that all went to one sector."""
    code = setting.code
    sectors = code.column(SECTORS) if isinstance(code, Code) else None
    if sectors is None or not isinstance(code, Code) or code.program.sm < SINCE:
        return []
    ran = [i for i in outside(setting) if not _NONE.search(code[i].text)]
    return [i for i in ran if sectors[i] and code.threads[i] >= LEAST * _after(code, i)]


def _after(code: Code, index: int) -> float:
    """How many atomics of one instruction are left at most, where those at one place are one; where all lanes go to
    one sector a request, one each."""
    sectors, executed, lanes = (code.column(SECTORS) or code.threads)[index], code.executed[index], code.threads[index]
    if _alone(code, index):
        return float(max(sectors, executed))
    return float(min(lanes, sectors * SECTOR / max(4, code.classes[index].bytes or 4)))


def _alone(code: Code, index: int) -> bool:
    return (code.column(SECTORS) or code.threads)[index] <= ALONE * code.executed[index]


def _placed(setting: Setting, atoms: list[int]) -> list[Met]:
    """The text's atomics that these are: by their lines, or all of them where only a header's line is known and all
    atomics that ran meet."""
    found = _known(regions(setting))
    code = setting.code
    every = code.ran(code.where(lambda ins, op: op.access in ("atomic", "reduction")))
    of_lines = {(file, line) for i in atoms for file, line in setting.sites(i)}
    others = {(file, line) for i in set(every) - set(atoms) for file, line in setting.sites(i)}
    exact = [one for one in found if _lines(one) & of_lines and not _lines(one) & others]
    if exact:
        return exact
    away = [i for i in every if code.classes[i].space not in ("global", "generic")]
    light = total(code.executed, [i for i in every if i not in atoms]) > 0.02 * total(code.executed, every)
    return [] if away or light else found


def _known(texts: list[Text]) -> list[Met]:
    """Atomics of some texts on what is not shared memory as far as they tell; none where texts order memory."""
    if any(re.search(r"\b__threadfence\w*|\bvolatile\b", text.code) for text in texts):
        return []
    shared = shared_names(texts)
    found = [one for text in texts for one in _atomics(text)]
    return [one for one in found if not set(re.findall(r"\w+", one.address)) & shared]


def _lines(one: Met) -> set[tuple[str, int]]:
    first = one.text.first + one.text.code.count("\n", 0, one.start)
    last = one.text.first + one.text.code.count("\n", 0, one.end)
    return {(one.text.file, n) for n in range(first, last + 1)}


def _atomics(text: Text) -> list[Met]:
    out = []
    code = text.code
    for name in (*STEPS, *WRAPPED):
        for call in calls_of(code, name):
            scope = _SCOPE.search(code, 0, call.start)
            start = scope.start() if scope is not None else call.start
            call, function = Call(start, call.end, call.arguments), WRAPPED.get(name, name)
            if len(call.arguments) == 2 and start > code.find("{"):
                used = not _unused(code, call)
                if not used or name == "atomicAdd":
                    out.append(Met(text, start, call.end, function, *call.arguments, used))
    for match in re.finditer(r"\b(?P<name>\w+)\s*\.\s*fetch_add\s*\(", code):
        inner = calls_of(code[match.start() :].replace(".", " ", 1), "fetch_add")
        made = re.search(_REFERENCE.replace("{name}", match["name"]).replace("{{", "{").replace("}}", "}"), code)
        if made is not None and inner and len(inner[0].arguments) == 1:
            call = Call(match.start(), match.start() + inner[0].end, inner[0].arguments)
            used = not _unused(code, call)
            kind = " ".join(made["kind"].split())
            out.append(Met(text, call.start, call.end, "atomicAdd", f"&({made['of'].strip()})", call.arguments[0], used,
                           kind))
    return out


def _edits(setting: Setting, found: list[Met]) -> list[Edit]:
    """The helpers' names in place of the atomics'; a statement of a function that the host runs too stays for it."""
    out: list[Edit] = []
    for text in dict.fromkeys(one.text for one in found):
        mine = [one for one in found if one.text == text]
        spans = []
        for one in mine:
            at, end = one.start, text.code.index("(", one.start)
            if not one.kind:
                spans.append((at, end, _name(one)))
        made = spans_edited(setting, text, spans) if spans else []
        if len(made) < len({_lines_first(one) for one in mine if not one.kind}):
            return []
        out += made
        for one in (m for m in mine if m.kind):
            more = _for_the_device(setting, one)
            if not more:
                return []
            out += more
    return out if len({(e.file, e.line) for e in out}) == len(out) else []


def _lines_first(one: Met) -> int:
    return one.text.first + one.text.code.count("\n", 0, one.start)


def _for_the_device(setting: Setting, one: Met) -> list[Edit]:
    """A statement, of lines of its own, twice: as it will be where the device's code is compiled, and as it was."""
    code = one.text.code
    start = max(code.rfind(c, 0, one.start) for c in ";{}") + 1
    start += len(code[start:]) - len(code[start:].lstrip())
    end = statement_end(code, start)
    if end is None or end < one.end or re.match(r"(?:if|for|while|switch|else|do)\b|#", code[start:]):
        return []
    begin, stop = code.rfind("\n", 0, start) + 1, code.find("\n", end)
    if code[begin:start].strip() or code[end:stop].strip():
        return []
    lines = setting.lines(one.text.file)
    first = one.text.first + code.count("\n", 0, start)
    last = one.text.first + code.count("\n", 0, end)
    new = f"{_name(one)}<{one.kind}>({one.address}, {one.value})"
    text = " ".join((code[begin : one.start] + new + code[one.end : end]).split())
    head = f"#ifdef __CUDA_ARCH__\n{code[begin:start]}{text}\n#else\n{lines[first - 1]}"
    if first == last:
        return [Edit(file=one.text.file, line=first, was=lines[first - 1], becomes=f"{head}\n#endif")]
    return [Edit(file=one.text.file, line=first, was=lines[first - 1], becomes=head),
            Edit(file=one.text.file, line=last, was=lines[last - 1], becomes=f"{lines[last - 1]}\n#endif")]


def _unused(code: str, call: Call) -> bool:
    """Whether a call is a statement of its own."""
    before, after = code[: call.start].rstrip(), code[call.end :].lstrip()
    if not after.startswith(";"):
        return False
    if _ALONE.search(before):
        return True
    head = r"\b(?:if|for|while)\s*\([^;{}]*(?:;[^;{}]*;[^;{}]*)?\)$"
    return before.endswith(")") and re.search(head, before) is not None


def _helpers(found: list[Met]) -> dict[str, str]:
    """Functions by name that a change adds."""
    out = {}
    for one in found:
        alike = _alike(one)
        out[_name(one)] = COUNTING[one.used] if alike else PLACING if one.used else combining(one.function)
    return out


def _alike(one: Met) -> bool:
    """Whether all lanes add one number."""
    return one.function == "atomicAdd" and _CONSTANT.fullmatch(one.value.strip()) is not None


def _name(one: Met) -> str:
    if _alike(one):
        return "place_of_lane" if one.used else "count_lanes"
    return "places_of_lanes" if one.used else f"{STEPS[one.function][0]}_of_lanes"
