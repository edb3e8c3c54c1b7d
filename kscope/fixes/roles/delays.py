"""Statements that do nothing but wait for the clock, where the warps behind them are waited for: left out."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Span, Text, by_lines, closing, kernel_text, spans_edited, statement_end
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

LEAST = 0.02  # of all samples at such a statement, from which it is worth a line (judged)
_MEMORY = ("global", "generic", "shared", "local")
CLOCKS = "reads of the clock in loops"
_CLOCK = r"\b(?:clock64|clock|__nanosleep|__globaltimer)\s*\("
_WORDS = re.compile(
    r"\b(?:long|unsigned|int|auto|const|clock_t|u?int(?:32|64)_t|while|for|do|if|break|clock64|clock|__nanosleep|void)\b"
)
_STARTS = re.compile(r"(?:\bif\s*\((?P<test>[\w\s.!<>=&|]*)\)\s*)?\b(?P<name>[A-Za-z_]\w*)\s*\(")
_PURE = re.compile(r"(?:\s|[\w.]|[-+*/%,]|\b(?:clock64|clock)\s*\(\s*\))*")
_HEAD = r"(?:\b__device__|\bDEV)\b[^;{{}}()]*\bvoid\s+{name}\s*\((?P<given>[^()]*)\)\s*\{{"


class Delay(Struct, frozen=True):
    """A statement that waits: its span, with the `if` around it; the function that it calls, or none."""

    span: tuple[int, int]
    name: str


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text, clocks = kernel_text(setting), clocks_in_loops(setting)
    if text is None or not clocks or setting.launch is None:
        return []
    files = sorted({ins.file for ins in code.program.instructions if ins.file is not None})
    found = delays(text.code, "\n".join(line for f in files for line in setting.lines(f)))
    mine = {one: _of(setting, text, one) for one in found}
    found = [one for one in found if (code.share_of(mine[one]) or 0) >= LEAST and set(mine[one]) & set(clocks)]
    here = sorted({i for one in found for i in mine[one]})
    if any(code.classes[i].space in _MEMORY or code[i].opcode in ("BAR", "SYNCS", "CALL") for i in here):
        return []  # what ends it may be another thread's doing
    spans: list[Span] = [(*_alone(text.code, one.span), "") for one in found]
    edits = spans_edited(setting, text, by_lines(text.code, spans))
    return [_fix(asked, found, here, clocks, edits)] if edits else []


def _fix(asked: Asked, found: list[Delay], here: list[int], clocks: list[int], edits: list[Edit]) -> Fix:
    code = asked.setting.code
    return Fix(
        kind="hoist",
        title=f"{' and '.join(dict.fromkeys(one.name for one in found))} left out: it waits for the clock alone",
        language="cuda",
        edits=edits,
        parameters={"statements": len(found)},
        conditions=[
            proved("it neither loads nor stores, and signals nothing", "code", here,
                   "no access of memory and no barrier among its instructions"),
            reads("no value comes from it", "a loop that compares the clock, in a function that returns nothing"),
            Condition(holds="nobody counts on the time that it takes", state="check",
                      why="a delay on purpose, as for a test; what threads share is not ordered by time"),
        ],
        proof=[
            Proof(what=CLOCKS, before=len(clocks), after=len(set(clocks) - set(here)), unit="inst",
                  how=f"{total(code.executed, here):,.0f} instructions of warps, "
                  f"{code.share_of(here) or 0:.0%} of all samples"),
        ],
        price=asked.finding.estimate,
    )  # fmt: skip


def clocks_in_loops(setting: Setting) -> list[int]:
    """Instructions that read the clock in a loop."""
    code = setting.code
    found = code.where(lambda ins, op: any("SR_CLOCK" in o.text or "SR_GLOBALTIMER" in o.text for o in ins.operands))
    return [i for i in found if code.cfg.loop_of[i] is not None]


def delays(code: str, files: str) -> list[Delay]:
    """Statements of a kernel that call a function which waits, or are a loop that does."""
    out = []
    for match in _STARTS.finditer(code, code.find("{")):
        close, before = closing(code, match.end()), code[: match.start()].rstrip()
        if close is None or before[-1:] not in ("{", ";", "}") or re.search(r"\belse$", before):
            continue
        given = code[match.end() : close]
        if match["name"] == "while" and match["test"] is None:
            end = statement_end(code, match.start())
            if end is not None and waits(code[match.start() : end], ()):
                out.append(Delay((match.start(), end), "the loop"))
            continue
        called = _PURE.fullmatch(given) is not None and not re.search(r"\+\+|--", given)
        called = called and code[close + 1 :].lstrip()[:1] == ";"
        end = code.find(";", close) + 1
        if called and not re.match(r"\s*else\b", code[end:]) and _waits(match["name"], files):
            out.append(Delay((match.start(), end), f"{match['name']}()"))
    return out


def _waits(name: str, files: str) -> bool:
    """Whether a call is one of a function that does nothing but wait."""
    heads = list(re.finditer(_HEAD.format(name=re.escape(name)), files))
    end = closing(files, heads[0].end()) if len(heads) == 1 else None
    if end is None or re.search(r"[*&\[]", heads[0]["given"]):
        return False
    names = [m[1] for p in heads[0]["given"].split(",") if (m := re.search(r"(\w+)\s*$", p)) is not None]
    return waits(files[heads[0].end() : end], names)


def waits(body: str, names: list[str] | tuple[()]) -> bool:
    """Whether statements are a loop that compares the clock, with no other names than these and their own."""
    text = re.sub(r"//[^\n]*|#\s*pragma[^\n]*", " ", body)
    own = re.findall(r"\b(?:long|unsigned|int|auto|clock_t|u?int(?:32|64)_t)\s+(\w+)\s*=", text)
    used = set(re.findall(r"[A-Za-z_]\w*", _WORDS.sub(" ", text))) - {"U", "L", "UL", "ULL", "LL"}
    loop = re.search(r"\b(?:while|for)\s*\(", text)
    strange = re.search(r"[\[&*]|->|\"", text.replace("&&", ""))
    if loop is None or strange or not re.search(_CLOCK, text[loop.start() :]):
        return False
    changes = set(re.findall(r"\b(\w+)\s*(?:[-+*/]?=(?!=)|\+\+|--)", text))
    changes |= set(re.findall(r"(?:\+\+|--)\s*(\w+)", text))
    return used <= {*own, *names} | (set() if names or own else used) and changes <= {*own, *names}


def _of(setting: Setting, text: Text, one: Delay) -> list[int]:
    """Instructions of a statement, of its own lines and of what it calls."""
    first, last = (text.first + text.code.count("\n", 0, at) for at in one.span)
    return [
        i for i in range(len(setting.code))
        if any(file == text.file and first <= line <= last for file, line in setting.sites(i))
    ]  # fmt: skip


def _alone(code: str, span: tuple[int, int]) -> tuple[int, int]:
    """With the blanks in front of a statement that has its lines to itself."""
    start, end = span
    blanks = len(code[:start]) - len(code[:start].rstrip(" \t"))
    alone = code[start - blanks - 1] == "\n" and code[end : end + 1] in ("\n", "")
    return (start - blanks if alone else start), end
