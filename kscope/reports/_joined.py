"""The joined verdict of a timeline and its kernel reports, in each format: sentence, kernels, ranked suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.quoted import quoted
from kscope.reports import words
from kscope.reports._llm_parts import Block, said
from kscope.reports.escape import code, prose
from kscope.reports.terminal import Page, pad

if TYPE_CHECKING:
    from kscope.model.analysis import JoinedAnalysis, JoinedKernel, JoinedSuggestion

KERNELS_SHOWN = 8
SUGGESTIONS_SHOWN = 6
UNUSED_SHOWN = 4


def _badge(joined: JoinedAnalysis) -> tuple[str, str, str]:
    """(word, rest of the sentence, style)."""
    if joined.verdict is None:
        return "NO VERDICT:", one_line(joined.abstained), "bold"
    word, _, rest = one_line(joined.verdict.sentence).partition(" ")
    return word, rest, joined.verdict.regime


def _about(joined: JoinedAnalysis) -> str:
    reports = ", ".join(quoted(words.basename(r)) for r in joined.reports)
    return (
        f"{quoted(words.basename(joined.input))} with {reports}: window {words.time(joined.span_us)}, kernels run "
        f"{joined.kernels_pct:.1f} % of it less the profiler's part, {joined.matched_pct:.0f} % of their time has "
        "counters"
    )


def _bound(kernel: JoinedKernel) -> str:
    if kernel.regime is None or kernel.limiter is None:
        return one_line(kernel.why)
    return f"{kernel.regime}, {words.limiter(kernel.limiter)}"


def _place(suggestion: JoinedSuggestion) -> str:
    return f"in {one_line(suggestion.kernel)}" if suggestion.kernel else "of the program"


def _parts(suggestion: JoinedSuggestion) -> str:
    """What the gain of a kernel is made of."""
    if suggestion.kernel_speedup is None or suggestion.busy_speedup is None or suggestion.share is None:
        return ""
    return (
        f"the kernel {words.times(suggestion.kernel_speedup)}, {words.percent(suggestion.share)} of the window; all "
        f"kernels together {words.times(suggestion.busy_speedup)}"
    )


def _unused(joined: JoinedAnalysis) -> str:
    if not joined.unused:
        return ""
    names = ", ".join(quoted(words.shorten(n, 40)) for n in joined.unused[:UNUSED_SHOWN])
    more = f" and {len(joined.unused) - UNUSED_SHOWN} more" if len(joined.unused) > UNUSED_SHOWN else ""
    return f"profiled, but not in the timeline: {names}{more}"


def render(page: Page, joined: JoinedAnalysis, *, verbose: bool) -> None:
    """The terminal's section."""
    page.line(("The program", "bold"))
    page.paragraph(_about(joined), lead=("  ", ""), indent=2, style="dim")
    page.blank()
    word, sentence, style = _badge(joined)
    page.paragraph(sentence, lead=(f"  {word} ", style), indent=2)
    if joined.verdict is not None and (verbose or joined.verdict.confidence < 0.6):
        page.line((f"  confidence {words.percent(joined.verdict.confidence)}", "dim"))
    page.blank()
    shown = joined.kernels if verbose else joined.kernels[:KERNELS_SHOWN]
    room = max((page.width - 34) // 2, 12)
    page.line((f"  share      time   count  {pad('kernel', room)} bound by", "dim"))
    for kernel in shown:
        name = words.shorten(words.without_parameters(kernel.name), room)
        page.line(
            f"  {words.percent(kernel.share):>5} {words.time(kernel.total_us):>9} {kernel.count:>7}  ",
            (pad(name, room), "bold"), " ", (_bound(kernel), kernel.regime or "dim"),
        )  # fmt: skip
    if left := len(joined.kernels) - len(shown):
        page.line((f"  {left} more (kscope analyze -v)", "dim"))
    if text := _unused(joined):
        page.paragraph(text, lead=("  ", ""), indent=2, style="dim")
    for rank, one in enumerate(joined.suggestions if verbose else joined.suggestions[:SUGGESTIONS_SHOWN], 1):
        page.blank()
        expect = words.expectation(one.estimate)
        left_side = [(f" {rank:>2}  ", "bold"), (one_line(one.rule), one.severity), (f"  {one.code}  ", "code"),
                     (words.middle(_place(one), 30), "")]  # fmt: skip
        if not page.ends(left_side, (expect, "bold")):
            page.line(*left_side)
            page.paragraph(expect, lead=("     ", ""), indent=5, style="bold")
        page.paragraph(one_line(one.title), lead=("     ", ""), indent=5)
        if parts := _parts(one):
            page.paragraph(parts, lead=("     ", ""), indent=5, style="dim")
        page.paragraph(one_line(one.fix), lead=("     fix   ", "good"), indent=11)


def sections(joined: JoinedAnalysis) -> list[str]:
    """Markdown for people."""
    from kscope.reports.markdown import table

    word, sentence, _ = _badge(joined)
    parts = ["## The program", f"**{prose(word)}** {prose(sentence)}", f"{prose(_about(joined))}."]
    rows = [[words.percent(k.share), words.time(k.total_us), str(k.count),
             code(words.shorten(k.name, 80), table=True), f"grid {words.dims(k.grid)} block {words.dims(k.block)}",
             prose(_bound(k))] for k in joined.kernels[:20]]  # fmt: skip
    parts.append(table(["share", "time", "count", "kernel", "launch", "bound by"], rows, (0, 1, 2)))
    if text := _unused(joined):
        parts.append(f"{prose(text)}.")
    if joined.suggestions:
        rows = [[f"{one.code} {prose(one.rule)}", code(words.middle(one.kernel, 60), table=True) if one.kernel else "",
                 prose(words.expectation(one.estimate)), prose(_parts(one)), prose(one.fix)]
                for one in joined.suggestions]  # fmt: skip
        parts += ["### What to change in the program, best first",
                  table(["rule", "kernel", "the program", "of which", "fix"], rows)]  # fmt: skip
    return parts


def blocks(joined: JoinedAnalysis, index: int) -> list[Block]:
    """Parts for a language model."""
    base = index * 100
    word, sentence, _ = _badge(joined)
    title = "## The program: timeline and counters joined"
    out = [Block(base, "verdicts", title, f"**{said(word)}** {said(sentence)}")]
    out.append(Block(base + 1, "measurements", title, f"- {said(_about(joined))}"))
    for rank, kernel in enumerate(joined.kernels[:KERNELS_SHOWN]):
        name = code(words.middle(kernel.name, 80))
        text = f"- {words.percent(kernel.share)} of the kernels' time x{kernel.count} {name}: {said(_bound(kernel))}"
        out.append(Block(base + 4 + rank * 3, "kernels", title, text))
    for rank, one in enumerate(joined.suggestions[:SUGGESTIONS_SHOWN]):
        where = f" in {code(words.middle(one.kernel, 60))}" if one.kernel else ""
        parts = f" ({_parts(one)})" if _parts(one) else ""
        gain = f"program {said(words.expectation(one.estimate))}{parts}"
        text = f"{rank + 1}. {one.code} {said(one.rule)}{where}: {gain}. {said(one.fix)}"
        out.append(Block(base + 2 + rank * 3, "suggestions", title, text))
    if text := _unused(joined):
        out.append(Block(base + 14, "notes", title, f"- {said(text)}"))
    return out
