"""A verdict from its parts. They are fields of it: whoever needs one reads it, and nobody takes the sentence apart."""

from __future__ import annotations

from msgspec import structs

from kscope.model.contract.analysis import Limiter, Told, Verdict

OPEN = "Limit unknown"
"""How the verdict on a kernel opens of which too little was collected."""


def verdict(
    regime: Told,
    limiter: Limiter,
    confidence: float,
    *,
    bound: str,
    reason: str,
    contrast: str = "",
    next: str = "",
    program: bool = False,
) -> Verdict:
    """bound: what follows the regime, `on shared memory`; reason: the figures that say so; contrast: what is not the
    limit, for scale; next: the step to take. program: the sentence of a whole program, which opens in capitals."""
    on = bound.startswith("on ")
    open_ = regime == "unknown"
    body = reason if open_ else f"{bound}{'. ' if reason.startswith('That is ') else ': '}{reason}"
    if contrast:
        # A reason with a list of its own must not swallow the figures that follow it.
        body += f"{'; ' if program or ';' in reason else ', '}{contrast}"
    body += f"; {next}." if next else "."
    word = f"{regime}-bound"
    word = word.upper() if program else word.capitalize()
    return Verdict(
        regime=regime,
        limiter=limiter,
        confidence=round(confidence, 2),
        sentence=f"{OPEN}: {body}" if open_ else f"{word}{' ' if on else ', '}{body}",
        headline=OPEN if open_ else f"{regime.capitalize()}-bound{' ' if on else ', '}{bound}",
        reason=reason,
        contrast=contrast,
        next=next,
        body=body,
    )


def with_next(told: Verdict, next: str) -> Verdict:
    """The same verdict, with the step to take at its end."""
    body, sentence = (f"{text.removesuffix('.')}; {next}." for text in (told.body, told.sentence))
    return structs.replace(told, next=next, body=body, sentence=sentence)
