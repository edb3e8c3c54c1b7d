"""Double precision by accident: literals and functions that make float data double get their float forms."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from kscope.features.sass.columns import total
from kscope.fixes.accuracy.powers import declarations
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.rewrite import changed, places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import kernel_text
from kscope.model.contract.fixes import Condition, Fix, Proof

FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "cos", "cosh", "erf", "erfc", "exp",
    "exp10", "exp2", "expm1", "fabs", "floor", "fma", "fmax", "fmin", "fmod", "hypot", "log", "log10", "log1p", "log2",
    "pow", "round", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
"""Double functions whose float form has an f behind the name (CUDA Math API)."""
_LITERAL = re.compile(r"(?<![\w.])((?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)(?![\w.])")
_FUNCTION = re.compile(rf"(?<![\w.:>])({'|'.join(FUNCTIONS)})(?=\s*\()")


def fixes(asked: Asked) -> list[Fix]:
    setting = asked.setting
    code = setting.code
    doubles = code.ran(code.where(lambda ins, op: op.pipe == "fp64"))
    converted = code.ran(code.where(lambda ins, op: ins.opcode == "F2F" and "F64" in ins.mods))
    if not doubles:
        return []
    why = _not_float(setting, doubles) or _by_name(setting, doubles)
    if why:
        made = _instantiated(asked, doubles)
        return [made] if made is not None else [Fix(kind="literal", title="float instead of double", refused=why)]
    where = [p for p in places(setting, [*doubles, *converted]) if '"' not in p.text]
    own = frozenset(n for p in where for n in FUNCTIONS if _own(n, setting.lines(p.file)))
    edits = changed(where, lambda line: as_float(line, own))
    if not edits:
        return []
    return [
        Fix(
            kind="literal",
            title="float literals and float functions",
            language="cuda",
            edits=edits,
            conditions=[
                proved("no double comes in or goes out", "code", doubles,
                       "each double instruction works on converted floats and literals alone (def-use)"),
                Condition(holds="24 bits are enough", state="check", why="results round to float earlier"),
            ],
            proof=[
                Proof(
                    what="warp instructions of the FP64 pipe", before=total(code.executed, doubles), after=0,
                    unit="inst", how=f"{len(doubles)} double instructions and {len(converted)} conversions go",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _instantiated(asked: Asked, doubles: list[int]) -> Fix | None:
    """The template of a kernel whose doubles are all of its one type, made for float."""
    setting = asked.setting
    text = kernel_text(setting)
    if text is None or not re.search(rf"\b{setting.name}<double>", setting.instance):
        return None
    above = "\n".join([*setting.lines(text.file)[max(0, text.first - 2) : text.first - 1], text.code])
    template = re.search(r"template\s*<\s*(?:class|typename)\s+(\w+)\s*>\s*__global__", above)
    if template is None or re.search(r"\bdouble[234]?\b", text.code):
        return None
    cast = re.sub(rf"\(\s*{template[1]}\s*\)\s*[\d.]+(?:e[-+]?\d+)?", "", text.code)
    if _LITERAL.search(cast):
        return None  # a double whatever the type
    before = total(setting.code.executed, doubles)
    return Fix(
        kind="literal",
        title=f"{setting.name}<float> instead of {setting.name}<double>",
        language="cuda",
        code=f"{setting.name}<float><<<grid, block>>>(...);  // what was passed as {template[1]} is rounded to float",
        parameters={"instance": "float"},
        conditions=[
            reads(f"every double of the kernel is of type {template[1]}", "no other type, literals are cast to it"),
            Condition(holds="24 bits are enough", state="check", why="results round to float earlier"),
        ],
        proof=[
            Proof(what="warp instructions of the FP64 pipe", before=before, after=0, unit="inst",
                  how=f"{len(doubles)} double instructions, all on values of the template's type")
        ],
        price=asked.finding.estimate,
    )  # fmt: skip


def as_float(text: str, own: Collection[str] = ()) -> str:
    """A line of source whose double literals and functions are float ones. own: functions that are the file's."""
    if "double" in text:
        return text  # somebody says so
    return _FUNCTION.sub(lambda m: m[1] + "f" * (m[1] not in own), _LITERAL.sub(r"\1f", text))


def _own(name: str, lines: Sequence[str]) -> bool:
    """Whether a file has a function by this name."""
    return any(re.search(rf"(?!return\b)\b[A-Za-z_]\w*[\s*&]+{name}\s*\([^()]*\)\s*(?:\{{|$)", line) for line in lines)


def _by_name(setting: Setting, doubles: list[int]) -> str:
    """Why the doubles are meant: a line of theirs has a name that is declared as one; empty if none has."""
    text = kernel_text(setting)
    code = text.code if text is not None else ""
    names = sorted({n for kind, n in declarations(code) if kind == "double"})
    used = "\n".join(p.text.partition("//")[0] for p in places(setting, doubles))
    named = next((n for n in names if re.search(rf"(?<![\w.]){n}\b", used)), "")
    return f"{named} is a double by its declaration: its type is the change to make" if named else ""


def _not_float(setting: Setting, doubles: list[int]) -> str:
    """Why the doubles are not by accident: one is loaded, passed in or stored; empty if none is."""
    code = setting.code
    for i in doubles:
        behind = [i, *(p for ps in code.defuse.sources(i).values() for p in ps)]
        for j in behind:
            ins, op = code[j], code.classes[j]
            if op.access == "load" and op.space in ("global", "shared", "generic", "local"):
                return f"a double is loaded ({ins.name} at 0x{ins.pc:x}): its type is the change to make"
            if any(o.kind == "constant" and o.bank == 0 for o in ins.operands) and ins.opcode != "F2F":
                return "a double is a parameter of the kernel: make the parameter float"
        for j in code.defuse.consumers(i):
            if code.classes[j].access == "store" and code.classes[j].space != "local":
                return f"a double is stored ({code[j].name} at 0x{code[j].pc:x}): its type is the change to make"
    return ""
