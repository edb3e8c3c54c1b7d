"""Rows of one square matrix joined with columns of another by a semiring that is no sum of products, at a load of both
for every step: tiles in shared memory and several results a thread, with the same parameters and operations."""

from __future__ import annotations

import re

from kscope.fixes.compute.crossed import HEAD, SHAPES, hides, tiled
from kscope.fixes.compute.crossed import fixes as as_read
from kscope.fixes.compute.multiplied import loaded, rows
from kscope.fixes.compute.semirings import Semiring, semiring
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import kernel_text
from kscope.model.contract.fixes import Condition, Fix

LESS = 1.5  # times what a step loads now: for less a new kernel is not worth its lines (judged, as compute.product's)
_SAID = {"min": "the least", "max": "the largest", "sum": "the sum", "or": "the bits in any", "xor": "the odd bits"}
_COMPARED = ("min", "max")


def fixes(asked: Asked) -> list[Fix]:
    setting, text, launch = asked.setting, kernel_text(asked.setting), asked.setting.launch
    head = HEAD.search(text.code) if text is not None else None
    if text is None or head is None or launch is None or not setting.sms or as_read(asked):
        return []
    n = rows(setting)
    fits = [(t, e, d) for t, e, d in SHAPES if n and n % t == 0 and (n // t) ** 2 >= setting.sms]
    if not fits:
        return []
    tile, each, _ = fits[0]
    now, after = loaded(setting), (2 / tile, 2 / each)
    if now[0] < LESS * after[0] and now[1] < LESS * after[1]:
        return []
    one = semiring(setting, text, head["parameters"])
    if one is None or _product(one) or hides(head["parameters"], one.n):
        return []
    last = "floats are added in the order of the columns: last bits may differ where it was another one"
    costs = [last] if (one.join, one.kind) == ("sum", "float") else []
    grid, conditions = (n // tile, n // tile), _conditions(one, text.code, tile)
    return [tiled(asked, head, one, (one.n, one.n), grid, fits[0], conditions, now, *costs)]


def _product(one: Semiring) -> bool:
    """Whether it is what compute.product answers."""
    return (one.kind, one.join, one.pair) == ("float", "sum", "u * v")


def _conditions(one: Semiring, code: str, tile: int) -> list[Condition]:
    pair = re.sub(r"\[[ij]\]", "", one.step.partition("=")[2].strip(" ;"))
    said = f"each of {one.c} is {_SAID[one.join]} over rows of {one.a} (u) and columns of {one.b} (v): {pair}"
    out = [
        proved(said, "values", one.compared,
               "the kernel played on whole numbers drawn at random, every result compared"),
        proved(f"it starts from {one.first}", "values", one.compared,
               "the kernel played on numbers that no result may come from"),
        Condition(holds=f"{one.n} is a multiple of {tile}", state="check", why="there is no test for the edges"),
        Condition(holds=f"{one.c} is neither {one.a} nor {one.b}, nor a part of them", state="check",
                  why="two parameters may point into one array"),
    ]  # fmt: skip
    chosen = [w for w in (one.join, one.pair) if w in _COMPARED]
    if one.kind == "float" and not all(re.search(rf"\bf?{w}f?\s*\(", code) for w in chosen):
        why = "fminf and fmaxf leave out what is no number, which comparisons may not"
        out.append(Condition(holds="no element is NaN", state="check", why=why))
    return out
