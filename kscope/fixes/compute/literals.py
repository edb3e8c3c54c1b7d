"""Double precision by accident: literals and functions that make float data double get their float forms."""

from __future__ import annotations

import re

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.rewrite import changed, places
from kscope.fixes.given.setting import Asked, Setting
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
    why = _not_float(setting, doubles)
    if why:
        return [Fix(kind="literal", title="float instead of double", refused=why)]
    edits = changed(places(setting, [*doubles, *converted]), as_float)
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


def as_float(text: str) -> str:
    """A line of source whose double literals and functions are float ones."""
    if "double" in text:
        return text  # somebody says so
    return _FUNCTION.sub(r"\1f", _LITERAL.sub(r"\1f", text))


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
