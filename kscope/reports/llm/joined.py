"""The joined verdict in blocks for a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports import words
from kscope.reports.escape import code
from kscope.reports.llm.blocks import Block, said
from kscope.reports.phrases.joined import about, badge, bound, parts_of, unused

if TYPE_CHECKING:
    from kscope.model.contract.analysis import JoinedAnalysis

KERNELS_SHOWN = 8
SUGGESTIONS_SHOWN = 6


def blocks(joined: JoinedAnalysis, index: int) -> list[Block]:
    """Parts for a language model."""
    base = index * 100
    word, sentence, _ = badge(joined)
    title = "## The program: timeline and counters joined"
    out = [Block(base, "verdicts", title, f"**{said(word)}** {said(sentence)}")]
    out.append(Block(base + 1, "measurements", title, f"- {said(about(joined))}"))
    for rank, kernel in enumerate(joined.kernels[:KERNELS_SHOWN]):
        name = code(words.middle(kernel.name, 80))
        text = f"- {words.percent(kernel.share)} of the kernels' time x{kernel.count} {name}: {said(bound(kernel))}"
        out.append(Block(base + 4 + rank * 3, "kernels", title, text))
    for rank, one in enumerate(joined.suggestions[:SUGGESTIONS_SHOWN]):
        where = f" in {code(words.middle(one.kernel, 60))}" if one.kernel else ""
        parts = f" ({parts_of(one)})" if parts_of(one) else ""
        gain = f"program {said(words.expectation(one.estimate))}{parts}"
        text = f"{rank + 1}. {one.code} {said(one.rule)}{where}: {gain}. {said(one.fix)}"
        out.append(Block(base + 2 + rank * 3, "suggestions", title, text))
    if text := unused(joined):
        out.append(Block(base + 14, "notes", title, f"- {said(text)}"))
    return out
