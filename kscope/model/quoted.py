"""Foreign words inside a sentence of ours. Names of ranges, kernels, devices and files come from whoever made the
report: in a sentence they stand between double quotes that they cannot close, and every reporter finds them there
(`kscope.reports.escape`). What is a name as a whole, such as `KernelAnalysis.name`, is quoted by the reporter alone.
"""

from __future__ import annotations

from kscope.model.errors import one_line

LIMIT = 60  # characters of a name in a sentence; judged: more hides the sentence


def quoted(name: str, limit: int = LIMIT) -> str:
    """A foreign text of at most `limit` characters between double quotes: one line, no quotation mark inside."""
    plain = one_line(name).replace("`", "'").replace('"', "'")
    return f'"{plain[: limit - 3]}..."' if len(plain) > limit else f'"{plain}"'


def split(sentence: str) -> list[tuple[str, bool]]:
    """The sentence in pieces, each with whether it is foreign. What follows a quotation mark that nobody closes is."""
    return [(piece, bool(i % 2)) for i, piece in enumerate(sentence.split('"')) if piece or i % 2]


def cut(sentence: str, limit: int) -> str:
    """The sentence in at most `limit` characters; a name that is cut stays between its quotation marks."""
    if len(sentence) <= limit:
        return sentence
    kept = sentence[: max(limit - 4, 0)]
    return f'{kept}..."' if kept.count('"') % 2 else f"{kept}..."
