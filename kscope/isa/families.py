"""Sets of opcodes by what they do, and tables by opcode, from `arch/opcodes.toml`: a new chip's instruction joins them
there."""

from __future__ import annotations

from functools import cache
from typing import Any

from kscope.arch import table


@cache
def listed(name: str) -> tuple[str, ...]:
    """The opcodes of a family, of a shape, or of a group, in the table's order; KeyError for an unknown name."""
    found: dict[str, None] = {}
    for member in _members(name):
        found |= dict.fromkeys([member] if member.isupper() else listed(member))
    return tuple(found)


@cache
def family(name: str) -> frozenset[str]:
    """The same as a set."""
    return frozenset(listed(name))


@cache
def families_of(opcode: str) -> frozenset[str]:
    """The families that an opcode belongs to."""
    return frozenset(memberships().get(opcode, ()))


@cache
def memberships() -> dict[str, list[str]]:
    """Names of families by opcode."""
    found: dict[str, list[str]] = {}
    for name in table("opcodes")["family"]:
        for opcode in listed(name):
            found.setdefault(opcode, []).append(name)
    return found


def by_opcode(name: str, key: str = "") -> dict[str, Any]:
    """One of the tables that say something of single opcodes: `words`, `matrix` (`bits`, `element`)."""
    found: dict[str, Any] = table("opcodes")[name]
    return found[key] if key else found


def _members(name: str) -> list[str]:
    tables = table("opcodes")
    for section in ("family", "shape"):
        if name in tables[section]:
            return list(tables[section][name])
    return list(groups()[name])


@cache
def groups() -> dict[str, list[str]]:
    """The opcodes of each group."""
    return {group["name"]: group["opcodes"] for group in table("opcodes")["group"]}
