"""Texture fetches that nothing filters: loads, the border clamped by hand."""

from __future__ import annotations

import re

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import reads
from kscope.fixes.given.rewrite import calls_of
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Span, kernel_text, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

_CENTRE = re.compile(r"^(.*\S)\s*\+\s*0?\.5f?$", re.S)


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    fetches = code.ran(code.where(lambda ins, op: ins.opcode in ("TEX", "TLD")))
    if text is None or not fetches:
        return []
    calls = calls_of(text.code.replace("tex2D<float>", "tex2D_float_"), "tex2D_float_")
    head = re.search(r"\bcudaTextureObject_t\s+(\w+)\s*(?=[,)])", text.code)
    if head is None or not calls or len(calls) != len(re.findall(r"\btex\w*\s*<", text.code)):
        return []
    name = head[1]
    spans: list[Span] = [(*head.span(), f"const float* __restrict__ {name}, int {name}_w, int {name}_h")]
    for call in calls:
        centres = [_CENTRE.match(a) for a in call.arguments[1:]]
        if len(call.arguments) != 3 or call.arguments[0] != name or any(c is None for c in centres):
            return []
        x, y = (c[1] for c in centres if c is not None)
        row = f"(size_t)min(max({y}, 0), {name}_h - 1) * {name}_w"
        spans.append((call.start, call.end, f"{name}[{row} + min(max({x}, 0), {name}_w - 1)]"))
    edits = spans_edited(setting, text, spans)
    return [
        Fix(
            kind="texel_loads",
            title=f"{name} by loads: L1 delivers 32 of them where the texture unit takes four rounds",
            language="cuda",
            code=f"// launch: {setting.name}<<<grid, block>>>(array, width, height, ...)",
            edits=edits,
            conditions=[
                reads("coordinates are whole and unfiltered", "each is an integer + 0.5"),
                Condition(
                    holds="the texture is pitch-linear floats without gaps, clamped, unnormalised, not filtered",
                    state="check", why="its descriptor is the host's",
                ),
            ],
            proof=[
                Proof(
                    what="texture fetches of warps", before=total(code.executed, fetches), after=0, unit="inst",
                    how=f"{len(fetches)} fetches become loads through L1",
                )
            ],
            price=asked.finding.estimate,
        )
    ] if edits else []  # fmt: skip
