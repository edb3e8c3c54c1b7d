"""A verdict and its parts: the sentence is made of them, and reports show them without taking it apart."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

from kscope.engine.verdict import sentences
from kscope.model.contract.analysis import Limiter, Verdict
from kscope.model.contract.limiters import LIMITERS
from kscope.reports import words

PACKAGE = Path(__file__).resolve().parents[3] / "kscope"


def test_a_sentence_of_all_parts() -> None:
    told = sentences.verdict(
        "memory", "shared_memory", 0.918, bound="on shared memory", reason="L1 89 % busy", contrast="issue slots 8 %",
        next="next: pad the tile (MEM103), about 2.2x, capped by L2",
    )  # fmt: skip
    assert told.sentence == (
        "Memory-bound on shared memory: L1 89 % busy, issue slots 8 %; next: pad the tile (MEM103), about 2.2x, "
        "capped by L2."
    )
    assert (told.headline, told.confidence) == ("Memory-bound on shared memory", 0.92)
    assert words.badge(told) == ("MEMORY-BOUND", told.body) and told.sentence.endswith(told.body)


def test_punctuation_between_parts() -> None:
    """A reason that is a list is closed by a semicolon; one that speaks of the headline is a sentence."""
    listed = sentences.verdict("compute", "divergence", 1, bound="on x", reason="a; b", contrast="c")
    assert listed.body == "on x: a; b; c."
    copies = sentences.verdict(
        "overhead", "transfer", 1, bound="on copies", reason="That is 9 %", contrast="kernels 5 %", program=True
    )
    assert copies.body == "on copies. That is 9 %; kernels 5 %."


def test_a_program_without_a_known_limiter() -> None:
    told = sentences.verdict(
        "memory", "dram_bandwidth", 0.5, bound="so far as names tell", reason="kernels run 80 %", program=True
    )
    assert told.sentence == "MEMORY-BOUND, so far as names tell: kernels run 80 %."
    assert words.badge(told) == ("MEMORY-BOUND,", "so far as names tell: kernels run 80 %.")
    more = sentences.with_next(told, "profile the first of the list")
    assert more.sentence == "MEMORY-BOUND, so far as names tell: kernels run 80 %; profile the first of the list."
    assert more.next == "profile the first of the list" and more.sentence.endswith(more.body)


def test_a_verdict_of_an_older_kscope_is_shown_whole() -> None:
    told = Verdict(regime="memory", limiter="dram_bandwidth", confidence=1, sentence="Memory-bound on DRAM: 90 %.")
    assert words.badge(told) == ("MEMORY-BOUND", "on DRAM bandwidth: Memory-bound on DRAM: 90 %.")


def test_every_limiter_has_its_words_in_one_place() -> None:
    assert set(LIMITERS) == set(get_args(Limiter))
    assert all(one.short and len(one.short) <= 14 and (one.kernel or one.program) for one in LIMITERS.values())


def test_nobody_takes_a_sentence_apart() -> None:
    """No method of a string is called on a `.sentence`, nor is one cut or matched."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            cut = node.value if isinstance(node, ast.Attribute | ast.Subscript) else None
            searched = node.args if isinstance(node, ast.Call) and "re." in ast.unparse(node.func) else []
            for one in [cut, *searched]:
                if isinstance(one, ast.Attribute) and one.attr == "sentence":
                    found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert not found
    source = Path(__file__).resolve().parents[3] / "reports" / "frontend" / "src"
    assert not [p.name for p in source.glob("*.ts") if "sentence.replace" in p.read_text("utf-8")]
