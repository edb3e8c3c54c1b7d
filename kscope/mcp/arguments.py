"""What the tools take. The schemas that a client sees are made of these types, and nothing passes that they refuse."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

File = Annotated[
    str, Meta(min_length=1, max_length=4096, description="a file below the server's folders, as list_inputs names it")
]
Key = Annotated[str, Meta(min_length=1, max_length=400, description="of a kernel, as diagnose gives it")]
Offset = Annotated[int, Meta(ge=0, le=100_000_000, description="rows to leave out: next_offset of the page before")]
Limit = Annotated[int, Meta(ge=1, le=200, description="rows at most; an answer that grows too long has fewer")]
Part = Annotated[str, Meta(max_length=400, description="only kernels whose name has this in it (plain text, no regex)")]
Words = Annotated[
    str, Meta(max_length=300, description="what is to be computed, e.g. `gemm 4096 4096 4096 bf16`, `reduce 64M fp32`")
]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base: keywords only, and none that the tool does not know."""


class ListInputs(Arguments):
    contains: Annotated[str, Meta(max_length=400, description="only paths with this in them (plain text)")] = ""
    offset: Offset = 0
    limit: Limit = 50


class Diagnose(Arguments):
    path: File
    key: Annotated[
        str, Meta(max_length=400, description="of a kernel, as an answer without it gives it: that one in full")
    ] = ""
    name: Part = ""
    problem: Words = ""
    offset: Offset = 0
    limit: Limit = 20


class Code(Arguments):
    path: File
    key: Annotated[str, Meta(max_length=400, description="of a kernel; of a binary, the function's name")]
    around: Annotated[
        str, Meta(max_length=20, description="a row key such as 0x0290: the page has it in the middle")
    ] = ""
    hottest: Annotated[bool, Meta(description="the rows with the most samples, in their order in the code")] = False
    offset: Offset = 0
    limit: Limit = 60


class Metrics(Arguments):
    path: File
    key: Key
    contains: Annotated[
        str, Meta(max_length=200, description="words that a metric's name must have, all of them (plain text)")
    ] = ""
    offset: Offset = 0
    limit: Limit = 50


class Explain(Arguments):
    code: Annotated[str, Meta(min_length=1, max_length=100, description="MEM103, or shared-bank-conflicts")]


class Compare(Arguments):
    before: File
    after: File
    name: Part = ""
    offset: Offset = 0
    limit: Limit = 20


Rule = Annotated[str, Meta(max_length=100, description="only changes of this rule, such as MEM103")]


class ProposeFix(Arguments):
    path: File
    key: Annotated[
        str, Meta(max_length=400, description="of a kernel; of a binary, the function's name; empty: of all")
    ] = ""
    code: Rule = ""
    offset: Offset = 0
    limit: Limit = 5


class CheckFix(Arguments):
    before: File
    after: File
    name: Part = ""
    code: Rule = ""
    offset: Offset = 0
    limit: Limit = 20


class Checklist(Arguments):
    path: File
    key: Key
    worklog: Annotated[
        str, Meta(max_length=4096, description="a worklog.db below the server's folders: what was tried counts")
    ] = ""
    offset: Offset = 0
    limit: Limit = 60


class Napkin(Arguments):
    problem: Annotated[Words, Meta(min_length=1)]
    chip: Annotated[str, Meta(max_length=60, description="of `kscope arch`, e.g. h100, h200, a100")] = "h100"
    measured: Annotated[str, Meta(max_length=30, description="what it takes, e.g. 41us")] = ""
