"""Divisions of 64-bit integers whose operands fit in 32 bits."""

from __future__ import annotations

import copy
import re

import msgspec
import pytest

from kscope.engine.code.fixing import subjects
from kscope.engine.findings.mended import setting_of
from kscope.fixes.compute.narrow import _spans, _wide_names, fixes, short_ways
from kscope.fixes.given.setting import Asked
from tests.support.reports import fixture
from tests.support.with_sources import BELOW, changes, diagnosed
from tools.fixes_measures import facts

HEAD = "__global__ void k(const float* x, float* y, long long n, int m, size_t const d, float s) {\n"


def narrowed(line: str) -> str:
    text = HEAD + f"  long long i = blockIdx.x * 256ll + threadIdx.x, j = i + m; int e = threadIdx.x;\n  {line}\n}}"
    for start, end, new in sorted(_spans(text, _wide_names(text)), reverse=True):
        text = text[:start] + new + text[end:]
    return text.split("\n")[2].strip()


def test_a_capture_whose_operands_fit_gets_32_bits() -> None:
    (fix,) = [f for f in changes("swap_heads.division", "CMP205") if f.kind == "index_width"]
    (edit,) = fix.edits
    assert "s = (unsigned)i / (unsigned)D % (unsigned)S" in edit.becomes
    assert "b = (unsigned)i / (unsigned)(D * S * H);" in edit.becomes
    (fits, others) = fix.conditions
    assert (fits.state, fits.by, fits.ran) == ("proved", "code", 5)
    assert others.state == "check"
    assert (fix.proof[0].before, fix.proof[0].after) == (5 * 524288, 0)
    assert fix.price is None  # what the questions cost beside the divisions was not measured


def test_the_division_by_one_multiplication_is_proved_by_the_same_launch() -> None:
    fix = next(f for f in changes("swap_heads.division", "CMP205") if f.kind == "divisor")
    assert any(c.holds.startswith("no numerator of this launch") and c.state == "proved" for c in fix.conditions)
    narrow = next(f for f in changes("int_division.slow", "CMP205") if "Divider" in f.code)
    assert any(c.holds.startswith("no numerator is") and c.state == "check" for c in narrow.conditions)


def test_divisions_of_32_bits_are_left_alone() -> None:
    assert all(f.kind != "index_width" for f in changes("int_division.slow", "CMP205"))


def test_one_operand_that_does_not_fit_and_nothing_is_shown() -> None:
    (subject,) = subjects(str(fixture("swap_heads.division")), None, BELOW)
    code = subject.setting.code
    assert len(short_ways(code)) == 5
    (once,) = [copy.copy(code)]
    (_, inner, *_) = code.where(lambda ins, op: ins.opcode == "I2F" and "U64" in ins.mods)
    once.executed = [float(i == inner) or n for i, n in enumerate(code.executed)]
    assert short_ways(once) == []


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("long long a = i / n;", "long long a = (unsigned)i / (unsigned)n;"),
        ("long long a = i / n % d + 1;", "long long a = (size_t)((unsigned)i / (unsigned)n % (unsigned)d) + 1;"),
        ("y[e] = j - (i + 1) % (n * m);", "y[e] = j - (long long)((unsigned)(i + 1) % (unsigned)(n * m));"),
        ("y[e] = x[i % d] / 2.f;", "y[e] = x[(size_t)((unsigned)i % (unsigned)d)] / 2.f;"),
        ("int a = e / m;", "int a = e / m;"),  # 32 bits already
        ("long long a = i / 16;", "long long a = i / 16;"),  # a shift
        ("long long a = i / n * n;", "long long a = i / n * n;"),  # what is not understood is left, all of it
        ("long long a = i * m / n;", "long long a = i * m / n;"),
        ("long long a = i / n, b = -i / d;", "long long a = i / n, b = -i / d;"),
        ("long long a = e / m / n;", "long long a = e / m / n;"),  # the first is one of 32 bits
        ("long long a = f(i) / n;", "long long a = f(i) / n;"),
        ("long long a = i / n[3];", "long long a = i / n[3];"),
        ("auto a = i / n;", "auto a = (long long)((unsigned)i / (unsigned)n);"),  # of 64 bits, as it was
        ("y[e] = -1 < i / d;", "y[e] = -1 < (size_t)((unsigned)i / (unsigned)d);"),  # compared as unsigned numbers
        ("float v = s / n;", "float v = s / n;"),  # of floats, which a cast would cut off
        ("float p = 0, v = (s + i) / n;", "float p = 0, v = (s + i) / n;"),
        ("float v = 1, u = 2; y[e] = i / u;", "float v = 1, u = 2; y[e] = i / u;"),
        ("double t = i / 1e3;", "double t = i / 1e3;"),
        ("long long a = i % K;", "long long a = i % K;"),  # whatever it is
        ("i /= n; long long a = j / n;", "i /= n; long long a = j / n;"),  # which stays in 64 bits
    ],
)  # fmt: skip
def test_lines(line: str, becomes: str) -> None:
    assert narrowed(line) == becomes


def test_names_of_two_types_are_not_taken() -> None:
    assert set(_wide_names(HEAD + "int n = 3; }")) == {"d"}
    assert not re.search("x|y|m", "".join(_wide_names(HEAD + "}")))


DECLARED = ("const float* __restrict__ x, float* __restrict__ y, long long S, long long H, long long D, long long n",
            "  long long i = blockIdx.x * 256ll + threadIdx.x; if (i >= n) return;",
            "  long long d = i % D, s = i / D % S, h = i / (D * S) % H, b = i / (D * S * H);")  # fmt: skip


def typed(above: str, parameters: str, index: str, rest: str = DECLARED[2], instance: str = "") -> list[str]:
    """Lines that change where the kernel is written with other types. above: what stands in the file before it."""
    setting = setting_of(facts("swap_heads.division"), BELOW)
    file = next(iter({ins.file for ins in setting.code.program.instructions if ins.file is not None}))
    lines = list(setting.lines(file))
    head = next(n for n, line in enumerate(lines) if "swap_heads_division(" in line)
    lines[0] = above.partition("@")[0]
    before = above.partition("@")[2]
    lines[head] = f"{before} {lines[head].replace(DECLARED[0], f'const float* x, float* y, {parameters}')}"
    lines[head + 1], lines[head + 2] = index, rest
    other = msgspec.structs.replace(setting, lines=lambda name: lines if name == file else [], instance=instance)
    finding = next(f for f in diagnosed("swap_heads.division").findings if f.code == "CMP205")
    return [e.becomes.strip() for fix in fixes(Asked(other, finding)) for e in fix.edits]


NARROWED = [
    "long long d = (unsigned)i % (unsigned)D, s = (unsigned)i / (unsigned)D % (unsigned)S, "
    "h = (unsigned)i / (unsigned)(D * S) % (unsigned)H, b = (unsigned)i / (unsigned)(D * S * H);"
]
INDEX = "index_t i = blockIdx.x * (index_t)256 + threadIdx.x; if (i >= n) return;"


@pytest.mark.parametrize(
    ("above", "parameters", "index"),
    [
        ("typedef long long index_t;", "index_t S, index_t H, index_t D, index_t n", INDEX),
        ("using index_t = std::int64_t;", "const index_t S, int H, unsigned int D, index_t n", INDEX),
        ("typedef long int large; using index_t = large;", "index_t S, index_t H, index_t D, index_t n", INDEX),
        ("", "long long int S, std::size_t H, uint32_t D, long long n",
         "auto i = (long long)blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;"),
        ("", "long S, int H, int D, long n", "const auto i = blockIdx.x * 256ll + threadIdx.x; const auto m = D * 2;"),
    ],
)  # fmt: skip
def test_types_by_other_names_are_read(above: str, parameters: str, index: str) -> None:
    assert typed(above, parameters, index) == NARROWED


def test_types_of_the_instance_are_read() -> None:
    above, given = "@template <typename T, typename I>", "I S, I H, I D, I n"
    index = "I i = blockIdx.x * (I)256 + threadIdx.x; if (i >= n) return;"
    name = "swap_heads_division"
    assert typed(above, given, index, instance=f"{name}<float, long>(float const*, float*, long)") == NARROWED
    for unknown in ("", "<float, Index>(float*)", "<long>(float*)", "<float, float>(float*)"):
        assert typed(above, given, index, instance=name + unknown) == []


@pytest.mark.parametrize(
    ("above", "parameters", "index"),
    [
        ("", "index_t S, index_t H, index_t D, index_t n", INDEX),  # of another file
        ("typedef long long index_t; typedef int index_t;", "index_t S, index_t H, index_t D, index_t n", INDEX),
        ("struct A { typedef long long index_t; };", "index_t S, index_t H, index_t D, index_t n", INDEX),
        ("", "long S, int H, Count D, long n", "auto i = blockIdx.x * 256ll + threadIdx.x;"),
        ("", "long S, int H, int D, long n", "auto i = at(blockIdx.x);"),
        ("", "long S, int H, int D, long n", "auto i = blockIdx.x * 256.f;"),
        ("", "int S, int H, int D, int n", "auto i = blockIdx.x * 256 + threadIdx.x;"),  # of 32 bits already
    ],
)  # fmt: skip
def test_types_that_are_not_known_are_refused(above: str, parameters: str, index: str) -> None:
    assert typed(above, parameters, index) == []


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("long long a = i / blockDim.x;", "long long a = (unsigned)i / (unsigned)blockDim.x;"),
        ("long long a = i % (gridDim.x * m);", "long long a = (unsigned)i % (unsigned)(gridDim.x * m);"),
        ("long long a = i / size.x;", "long long a = i / size.x;"),
    ],
)
def test_numbers_of_the_launch_are_integers(line: str, becomes: str) -> None:
    assert narrowed(line) == becomes
