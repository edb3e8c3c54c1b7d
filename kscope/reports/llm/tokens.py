"""How many tokens a text takes, counted without a tokenizer at hand.

Pieces of text cost what they cost the byte-pair encodings that models use: a word about a token, three digits one and a
half, a sign apart from its word one. The weights are a least-squares fit to the mean of cl100k_base and o200k_base
(public, in tiktoken; 2 % apart on such texts) over the packs of 22 captures at 300, 700, 2,000, 6,000 and 20,000
tokens: within 4 % of them all, and within 7 % of those of a capture that was left out of the fit. Four characters a
token, as for prose, is half too much: figures, addresses and opcodes take 2.3 to 3.3 characters.
"""

from __future__ import annotations

import re

_WEIGHTS = (
    (r"(?<![A-Za-z])[A-Z]?[a-z]{1,3}(?![a-z])", 0.908),  # short words
    (r"(?<![A-Za-z])[A-Z]?[a-z]{4,8}(?![a-z])", 0.874),
    (r"[a-z]{9,}", 1.229),
    (r"[A-Z]{2,}", -0.179),  # capitals: a word, and each of its letters
    (r"[A-Z]", 0.476),
    (r"\d{1,3}", 1.486),
    (r"[^\w\s]+", 0.837),  # signs: a run, and each of it
    (r"[^\w\s]", -0.271),
    (r"\n+", 1.685),
    (r" {2,}", -0.502),
    (r"_", 0.278),
    (r"(?<=[a-z])[A-Z]", 1.702),  # camelCase
    (r"(?<=\d)[A-Za-z]|(?<=[A-Za-z])\d", 0.129),  # hexadecimal, R14
    (r"(?<= ) ", 0.307),
    (r"(?<! ) (?=[^A-Za-z ])", 0.947),  # a space that no word takes along
)
_COMPILED = tuple((re.compile(pattern), weight) for pattern, weight in _WEIGHTS)
_FOREIGN = re.compile("[^\u0000-\u024f]")  # scripts of which a character is about a token


def count(text: str) -> int:
    """Tokens of a text, about."""
    whole = sum(weight * len(pattern.findall(text)) for pattern, weight in _COMPILED) + len(_FOREIGN.findall(text))
    return max(round(whole), 1) if text else 0
