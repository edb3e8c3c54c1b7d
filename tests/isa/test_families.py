"""Families of opcodes are data; how many opcodes code still names by itself."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from kscope.arch import table
from kscope.isa.families import by_opcode, families_of, family, groups, listed, memberships
from kscope.isa.opcodes import classify_name

KSCOPE = Path(__file__).resolve().parents[2] / "kscope"
UNKNOWN = frozenset({"SUATOM", "UTCATOMSWS_DEALLOC"})
"""Opcodes whose operands are known, and nothing else."""
MENTIONS = 247
"""Opcodes that features and isa name themselves. What is left: what is run or taken apart one opcode at a time
(lanes/semantics and affine, isa/operand_shapes and purpose), and instructions that stand for themselves (BAR, SYNCS,
DEPBAR, MUFU). Lower it with what becomes a family; a new chip is no reason to raise it."""
OF_A_RULE = 4
"""Opcodes that a module of rules names itself at most: with a fifth a group of them has a name (arch/opcodes.toml)."""
PARTS = frozenset({"UTC", "UTMA", "UBLK", "GMMA", "HFMA", "MMA", "S2"})
"""Beginnings and ends of opcodes that are looked for."""


def opcodes() -> frozenset[str]:
    return frozenset(o for group in table("opcodes")["group"] for o in group["opcodes"])


@pytest.mark.parametrize("section", ["family", "shape"])
def test_members_are_known(section: str) -> None:
    for name in table("opcodes")[section]:
        assert family(name), name
        named = {f"U{opcode}" for opcode in family(name)} if name == "uniform_twin" else family(name)
        assert named <= opcodes() | UNKNOWN, (name, named - opcodes())


def test_tables_are_of_known_opcodes() -> None:
    for name in ("words", "tile_words", "bulk_words", "tcgen05_words", "tcgen05_kind", "predicates_only", "matrix",
                 "precision", "unfused_add"):  # fmt: skip
        assert by_opcode(name, "bits" if name == "matrix" else "").keys() <= opcodes() | UNKNOWN
    assert by_opcode("matrix", "bits").keys() == by_opcode("matrix", "element").keys()
    assert by_opcode("tcgen05_kind").keys() == family("tcgen05_mma")


def test_names_are_apart() -> None:
    """A family's name is no kind of a group and no group's name: nothing else answers to it."""
    groups = table("opcodes")["group"]
    taken = {group["name"] for group in groups} | {kind for group in groups for kind in group.get("kind", ())}
    assert not taken & {*table("opcodes")["family"], *table("opcodes")["shape"]}


def test_what_joins_a_group_joins_its_families(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of a chip to come, added to one list: it is asynchronous, a product, without destination register."""
    group = next(g for g in table("opcodes")["group"] if g["name"] == "tcgen05_mma")
    forget()
    with monkeypatch.context() as patch:
        patch.setitem(group, "opcodes", [*group["opcodes"], "UTCNEWMMA"])
        for name in ("async_product", "async_proxy", "asynchronous", "no_destination"):
            assert "UTCNEWMMA" in family(name)
        assert {"async_product", "async_proxy", "asynchronous"} <= families_of("UTCNEWMMA")
    forget()
    assert "UTCNEWMMA" not in family("async_product")


def forget() -> None:
    for cached in (listed, family, families_of, memberships, groups):
        cached.cache_clear()


def test_families_are_kinds() -> None:
    assert {"tensor", "wgmma", "async_product", "asynchronous"} <= classify_name("HGMMA.64x64x16.F32").kind
    assert {"shared_write", "shared_lanes"} <= classify_name("STS.128").kind
    assert "shared_lanes" not in classify_name("STSM.16.M88.4").kind
    assert classify_name("NOSUCH").kind == frozenset()
    assert listed("fma") == ("FFMA", "HFMA2", "DFMA", "FFMA2"), "in the table's order: findings print it"
    with pytest.raises(KeyError):
        family("nosuch")


def mentioned(path: Path, known: frozenset[str]) -> int:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            words = node.value.split()
            if words and sum(word in known for word in words) > 0.8 * len(words):
                count += len(words)
    return count


def test_opcodes_named_in_code() -> None:
    found = named_in("features") + named_in("isa")
    assert found.total() <= MENTIONS, found.most_common(12)
    rules = named_in("rules")
    assert {name: n for name, n in rules.items() if n > OF_A_RULE} == {}, "make them a family of arch/opcodes.toml"


def named_in(room: str) -> Counter[str]:
    """Module -> opcodes that it names."""
    known = opcodes() | PARTS
    paths = sorted((KSCOPE / room).rglob("*.py"))
    return Counter({path.relative_to(KSCOPE).as_posix(): mentioned(path, known) for path in paths})
