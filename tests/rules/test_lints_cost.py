"""Lints cost little on code that they have nothing to say about, and the short cuts change no finding."""

from __future__ import annotations

import gc
import weakref
from collections import Counter

import pytest

from kscope.engine.code.lint import lint
from kscope.features.facts import CodeFacts
from kscope.features.lanes import values
from kscope.features.patterns import fma_loops, register_banks
from kscope.features.patterns.fma_loops import FMA_OPCODES
from kscope.features.patterns.register_banks import bank_costs
from kscope.features.sass import pointers
from kscope.features.sass.listing import Listing
from kscope.rules.base import PASSED
from kscope.rules.lints.tensor_cores_idle import TensorCoresIdleLint
from tests.support.sass import EXPECTED, functions

LISTINGS = [Listing(functions(source, arch)[kernel]) for source, arch, kernel in EXPECTED if arch == "sm_90a"]


def test_register_banks_skip_only_what_cannot_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = [bank_costs(code) for code in LISTINGS]
    assert sum(map(len, quick)) > 20
    monkeypatch.setattr(register_banks, "_crowded", lambda uses: True)
    assert [bank_costs(code) for code in LISTINGS] == quick


def test_code_without_multiply_adds_is_not_searched_for_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fma_loops, "fma_loops", lambda code: pytest.fail("searched"))
    without = [c for c in LISTINGS if not any(ins.opcode in FMA_OPCODES for ins in c.program.instructions)]
    assert len(without) > 20
    for code in without:
        assert TensorCoresIdleLint().check(CodeFacts(code), code) is PASSED


def test_an_address_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alignment for 16 bytes and for 8 of one access under the same launch values is one computation."""
    computed: Counter[tuple[values.Lanes, int, int]] = Counter()
    follow = values.Lanes._computed

    def counted(self: values.Lanes, index: int, place: int) -> values.Value:
        computed[self, index, place] += 1
        return follow(self, index, place)

    monkeypatch.setattr(values.Lanes, "_computed", counted)
    for code in LISTINGS:
        lint(Listing(code.program))
    assert len(computed) > 100 and max(computed.values()) == 1


def test_pointers_are_found_once_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[tuple[int, int]] = Counter()
    meets = pointers._meets

    def counted(code: Listing, index: int, low: int, high: int) -> bool:
        seen[index, low] += 1
        return meets(code, index, low, high)

    monkeypatch.setattr(pointers, "_meets", counted)
    lint(Listing(functions("memory.cu", "sm_90a")["scale4_scalar"]))
    assert seen and max(seen.values()) == 1


def test_what_is_known_of_a_function_goes_with_it() -> None:
    """No module keeps results by the object: a listing that nobody holds any more is freed, with all it knew."""
    held = []
    for one in LISTINGS[:20]:
        code = Listing(one.program)
        lint(code)
        held.append((weakref.ref(code), len(code.found)))
        del code
    gc.collect()
    assert sum(known for _, known in held) > 10
    assert not [ref for ref, _ in held if ref() is not None]
