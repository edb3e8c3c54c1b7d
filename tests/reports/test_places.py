"""One wording for what samples say of a place."""

from __future__ import annotations

from msgspec import structs

from kscope.model.contract.analysis import Location
from kscope.reports.phrases.places import waited

PLACE = Location(function="f", pc=0, opcode="LDG")


def test_waited_for_and_sampled_here() -> None:
    assert waited(PLACE) == ""
    assert waited(structs.replace(PLACE, share=0.11)) == "waited for by 11 %"
    assert waited(structs.replace(PLACE, share=0.11, sampled=0.015)) == "waited for by 11 % (1.5 % sampled here)"
    assert waited(structs.replace(PLACE, share=0.11, sampled=0.112)) == "waited for by 11 %"
    assert waited(structs.replace(PLACE, share=0.02, sampled=0.3)) == "waited for by 2 % (30 % sampled here)"
    assert waited(structs.replace(PLACE, share=0.2, sampled=0.0)) == "waited for by 20 % (0 % sampled here)"
