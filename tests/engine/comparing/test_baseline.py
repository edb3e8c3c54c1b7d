"""What makes a finding of another build the same one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kscope.engine.comparing.baseline import Baseline, places
from kscope.engine.comparing.gate import Limits, Subject
from kscope.model.contract.analysis import Finding, Location

LIMITS = Limits(severity="major")


def at(line: int | None, source: str | None = None, opcode: str = "LDS", pc: int = 0, file: str = "a.cu") -> Location:
    return Location(function="k", pc=pc, opcode=opcode, file=file if line else None, line=line, source=source)


def finding(*locations: Location, code: str = "MEM103", severity: str = "major") -> Finding:
    return msgspec.convert(
        {"rule": "r", "code": code, "title": "t", "regime": "memory", "severity": severity,
         "locations": msgspec.to_builtins(locations)}, Finding
    )  # fmt: skip


def known(old: Finding, new: Finding, names: tuple[str, str] = ("k(int)", "k(int)")) -> bool:
    base = Baseline([Subject(names[0], "kernel", [old])], LIMITS)
    return base.knows(Subject(names[1], "kernel", [new]), new)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ([at(10, "x = t[i];", pc=16)], [at(14, "  x = t[i];", pc=64)], True),  # moved down, indented
        ([at(10, "x = t[i];")], [at(10, "y = u[j];")], False),  # another line at the same place
        ([at(10, "x = t[i];")], [at(10, "x = t[i];"), at(20, "y = u[j];")], False),  # one more place
        ([at(10, "x = t[i];")], [at(10, "x = t[i];", pc=p) for p in (0, 16, 32)], True),  # unrolled
        ([at(10)], [at(17)], True),  # lines without their text: as many of the file
        ([at(10), at(12)], [at(17)], True),
        ([at(10)], [at(17), at(30)], False),
        ([at(10)], [at(10, file="b.cu")], False),
        ([at(10, file="/old/a.cu")], [at(10, file="C:\\new\\a.cu")], True),
        ([at(10, "x = t[i];")], [at(17)], True),  # sources in one of the two only
        ([at(10)], [at(17, "x = t[i];")], True),
        ([at(None)], [at(None, pc=640)], True),  # no lines at all: the opcode
        ([at(None)], [at(None, opcode="STS")], False),
        ([at(None)], [at(10)], True),  # built with lines now
        ([at(10)], [at(None)], True),  # and no longer
        ([at(i, f"s{i}") for i in range(4)], [at(9, "s3"), at(20, "s9")], True),  # four of many: one in common
        ([], [], True),
    ],
)
def test_places(old: list[Location], new: list[Location], same: bool) -> None:
    assert known(finding(*old), finding(*new)) is same


def test_kernels_are_told_by_their_names() -> None:
    one = finding(at(10))
    assert known(one, one, ("void n::k<(int)4>(const float *)", "void n::k<4>(float const*, int)"))
    assert not known(one, one, ("k<4>(int)", "k<5>(int)"))
    assert known(one, one, ("(anonymous namespace)::k(int)", "<unnamed>::k(int)"))
    assert not known(one, finding(at(10), code="MEM104"))
    assert not known(finding(at(10), severity="minor"), one), "it was not grave enough to be known"


def test_recordings_are_told_by_the_rule_alone(tmp_path: Path) -> None:
    one = finding()
    base = Baseline([Subject("/a/monday.json", "recording", [one])], LIMITS)
    assert base.knows(Subject("/b/tuesday.json", "recording", [one]), one)
    assert not base.knows(Subject("tuesday", "kernel", [one]), one)


def test_opcodes_lose_what_a_compiler_may_choose() -> None:
    assert places(finding(at(None, opcode="LDS.128"))).opcodes == {"LDS"}
