"""What lanes loaded on some lines of a text: how long the rows are that they go along."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.features.sass.columns import total
from kscope.features.sass.listing import Listing
from kscope.features.sass.slices import pointer


def loaded(code: Listing, file: str, lines: range, lanes: Sequence[float]) -> tuple[float, int]:
    """Elements of the array that most were loaded of, and bytes of the narrowest; of arrays that are loaded in rounds
    where there are some, for the rest tells where a row begins and ends. lanes: that executed each instruction."""
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    here = [i for i in loads if code[i].file == file and (code[i].line or 0) in lines]
    looped = [i for i in here if code.cfg.loop_of[i] is not None]
    arrays = {pointer(code, i) for i in looped or here}
    mine = [i for i in here if pointer(code, i) in arrays]
    each = [total(list(lanes), [i for i in mine if pointer(code, i) == a]) for a in arrays]
    return max(each, default=0.0), min((code.classes[i].bytes for i in mine), default=4)
