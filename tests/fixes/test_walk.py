"""A walk along sums by one thread of a block, until one passes a goal: by all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kscope.fixes.given.played import Rules, play
from kscope.fixes.recurrence.rewritten import Side, alike
from kscope.fixes.recurrence.scanned import Form, scanned
from kscope.fixes.recurrence.walk import put, sparing, walk
from kscope.fixes.rows.compared import arrayed
from kscope.fixes.rows.function import Function, _read
from tests.support.with_sources import changes

GIVEN = "const float* __restrict__ x, const float* __restrict__ goals, int* __restrict__ y"
FILL = "__shared__ float p[200]; __shared__ int at[1]; int i = threadIdx.x; for (int j = i; j < 200; j += 64) "
FILL += "p[j] = x[blockIdx.x * 200 + j]; __syncthreads();"
BEGIN = "float goal = goals[blockIdx.x], c = 0; int k = 0;"
WALK = "while (k < 200) { c += p[k]; if (c > goal) break; k++; }"
END = "__syncthreads(); y[blockIdx.x * 64 + i] = at[0] + 1000;"
BLOCKS = 8


def function(*lines: str) -> Function:
    fn = _read("k.cu", [f"__global__ void k({GIVEN}) {{", *lines, "}"], "k", 1, (), None)
    assert fn is not None
    return fn


def changed(fn: Function) -> str | None:
    one = walk(fn, {})
    if one is None:
        return None
    code = fn.code
    for start, end, new in sorted(scanned(one, 64, Form()) or [], reverse=True):
        code = code[:start] + new + code[end:]
    return code[fn.opened :]


def compared(*lines: str) -> int:
    fn = function(*lines)
    body = changed(fn)
    if body is None:
        return -1
    return alike(fn, *(Side(arrayed(b), (BLOCKS, 1), (64, 1)) for b in (fn.body, body)), (), {}, drawn=drawn)


def drawn(name: str, kind: str, size: int) -> Any:
    """Numbers of either sign; goals that are passed soon, late, never."""
    made = np.random.default_rng([size, *map(ord, name)])
    return made.integers(-20, 60, 4096) if name == "x" else made.integers(-100, 6000, 4096)


def alone(walk_: str = WALK, begin: str = BEGIN, end: str = "at[0] = k;", test: str = "i == 0") -> tuple[str, ...]:
    return (FILL, f"if ({test}) {{", begin, walk_, end, "}", END)


def test_a_capture_of_sampling_finds_its_place_with_all_threads() -> None:
    (fix,) = [f for f in changes("nucleus.walk", "LAT304") if f.title.startswith("the walk along 1023 sums")]
    text = "\n".join(e.becomes for e in fix.edits)
    assert "c = own_n[step_n]; if (c > goal) k = t * 4 + step_n;" in text and "while" not in text
    assert "sums_n" not in text and "part[t / 32] = upto_n" in text and text.count("__shfl_xor_sync") == 0  # made once
    assert "int k = found_n; float kept = 0;" in text and "part[0] = k" not in text
    body = text[text.index("own_n[4]") :]  # lanes scan in front of the barrier that was there, and one is gone
    assert body.count("__syncthreads") == 2 and body.index("part[t / 32] =") < body.index("__syncthreads")
    assert not any("barriers more" in cost for cost in fix.costs)
    assert fix.conditions[0].state == "proved" and fix.conditions[0].ran > 4
    assert any(c.state == "check" and "next to it" in c.holds for c in fix.conditions)


@pytest.mark.parametrize(
    "lines",
    [
        alone(),
        alone(WALK.replace("c > goal", "c >= goal"), test="!i"),
        alone("for (; k < 200; k++) { c += p[k]; if (c > goal) break; }"),
        alone("for (; k < 150; ++k) { c += 2 * p[k] + k; if (c > goal * 2) break; }"),
        alone(begin="float u = 0; for (int j = 0; j < 9; j++) u += p[j]; float goal = u * 3, c = 0; int k = 0;"),
        alone(BEGIN + " " + WALK, begin="", end="at[0] = 2 * k + 1;"),
    ],
)  # fmt: skip
def test_the_first_place_that_passes_is_found(lines: tuple[str, ...]) -> None:
    assert compared(*lines) >= BLOCKS * 64


def test_plain_elements_are_taken_as_vectors_where_all_threads_have_theirs() -> None:
    long = tuple(line.replace("p[200]", "p[256]").replace("j < 200", "j < 256") for line in alone())
    text = changed(function(*long))
    assert text is not None and "__shared__ __align__(16) float p[256];" in text
    assert "const float4 whole_n = ((const float4*)p)[i];" in text and compared(*long) >= BLOCKS * 64
    other = changed(function(*alone()))  # 64 threads of 4 elements would read behind the array
    assert other is not None and "whole_n" not in other


def test_goals_that_are_passed_and_others_are_played() -> None:
    fn, found = function(*alone()), []
    body = changed(fn)
    assert body is not None
    for text in (fn.body, body):
        memory = {name: drawn(name, kind, 7) * (name != "y") for name, kind in fn.pointers.items()}
        play(arrayed(text), (BLOCKS, 1), (64, 1), memory, {}, Rules(literals="drawn", races=True, kinds=fn.pointers))
        found.append(memory["y"][: BLOCKS * 64 : 64] - 1000)
    assert list(found[0]) == list(found[1])
    assert max(found[0]) == 200 and min(found[0]) < 200 and len(set(found[0])) > 3


@pytest.mark.parametrize(
    "lines",
    [
        alone(end="at[0] = k + c;"),  # the sum itself is taken
        alone(begin="float goal = goals[blockIdx.x], c = 1; int k = 0;"),
        alone(begin="float goal = goals[blockIdx.x], c = 0; int k = 5;"),
        alone(begin="at[0] = 7; " + BEGIN),  # stores, which all threads would do
        alone(WALK.replace("c > goal", "c + k > goal * k")),
        alone(WALK.replace("c += p[k]", "c += p[k++]")),
        alone(WALK.replace("c += p[k]", "c += c * p[k]")),
        alone(WALK.replace("200", "goals[0]")),
        alone(test="i == 1"),
        alone(test="i == 0 && goals[0] > 0"),
        tuple(line.replace("__syncthreads(); y", "y") for line in alone()),
    ],
)
def test_other_walks_are_left_alone(lines: tuple[str, ...]) -> None:
    assert compared(*lines) == -1


def test_what_comes_out_otherwise_is_not_printed() -> None:
    lines = alone(begin="float goal = goals[blockIdx.x + i], c = 0; int k = 0;")  # each thread its own
    assert compared(*lines) == 0


def form(*lines: str) -> tuple[Form, str] | None:
    one = walk(function(*lines), {})
    best = sparing(one, 64, {}) if one is not None else None
    return (best[0], put(one.fn, best[1])) if one is not None and best is not None else None


LONG = (FILL, "if (i == 0) {", BEGIN, WALK, "at[0] = k;", "}", "__syncthreads();")
FOUR = "for (int j = 0; j < 4; j++) p[4 * i + j] = x[blockIdx.x * 200 + 4 * i + j]; __syncthreads();"
OWN = f"__shared__ float p[256]; __shared__ int at[2]; __shared__ int other[64]; int i = threadIdx.x; {FOUR}"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((OWN, *LONG[1:], "y[blockIdx.x * 64 + i] = at[0] + 1000;"), Form(True, True)),
        ((FILL, *LONG[1:], "y[blockIdx.x * 64 + i] = at[0] + 1000;"), Form(told=True)),
        ((OWN, *LONG[1:], "int k = at[0]; __syncthreads(); other[i] = k; y[blockIdx.x * 64 + i] = other[i] + 1000;"),
         Form(True, True, True)),
        ((OWN, *LONG[1:], "other[i] = at[0]; __syncthreads(); y[blockIdx.x * 64 + i] = other[63 - i] + 1000;"),
         Form(True, True)),  # the barrier is needed
        ((OWN, *LONG[1:], "int k = at[0]; float u = p[k / 2]; __syncthreads(); p[i] = 3; "
          "y[blockIdx.x * 64 + i] = u + k + p[i] + 1000;"), Form(True, True)),  # as far as data tell
        ((OWN, *LONG[1:], "at[1] = 5; at[0] += 0; y[blockIdx.x * 64 + i] = at[0] + 1000;"), None),  # a race
        ((OWN, *LONG[1:], "if (i == 0) at[0] += 2; __syncthreads(); y[blockIdx.x * 64 + i] = at[0] + 1000;"),
         Form(True)),  # the place is counted on
        ((OWN, *LONG[1:4], "y[blockIdx.x * 64] = k + 1000;", *LONG[5:]), Form(True)),  # who else asks for it
        ((OWN, *LONG[1:], "__syncthreads(); y[blockIdx.x * 64 + i] = at[0] + 1000;"), Form(True)),  # asked for later
    ],
)  # fmt: skip
def test_meetings_that_nobody_misses_are_left_out(lines: tuple[str, ...], expected: Form | None) -> None:
    found = form(*lines)
    assert (found and found[0]) == expected


SUMMED = (
    "__shared__ float p[256]; __shared__ int at[1]; __shared__ float sums[2]; int i = threadIdx.x;",
    "float all = 0; for (int j = 0; j < 4; j++) { p[4 * i + j] = x[blockIdx.x * 256 + 4 * i + j];",
    "all += p[4 * i + j]; }",
    "for (int o = 16; o > 0; o >>= 1) all += __shfl_down_sync(~0u, all, o);",
    "if (i % 32 == 0) sums[i / 32] = all;",
    "__syncthreads();",
    "if (i == 0) {",
    "float goal = (sums[0] + sums[1]) / 2, c = 0; int k = 0;",
    "while (k < 256) { c += p[k]; if (c > goal) break; k++; }",
    "at[0] = k; }",
    "__syncthreads(); y[blockIdx.x * 64 + i] = at[0] + 1000;",
)


@pytest.mark.parametrize(
    ("was", "becomes", "summed"),
    [
        ("", "", True),
        ("int at[1]", "int at[1], other", True),
        ("all += p", "all += 2 * p", False),  # of something else
        ("+ 1000", "+ 1000 + all", False),  # asked for again
        ("if (i % 32 == 0) sums[i / 32]", "if (i % 32 == 0) sums[0]", False),  # a race
        ("float sums[2]", "float sums[1]", False),
    ],
)
def test_sums_of_warps_are_made_once(was: str, becomes: str, summed: bool) -> None:
    lines = "\n".join(SUMMED)
    assert not was or lines.count(was) == 1
    found = form(*(lines.replace(was, becomes) if was else lines).split("\n"))
    assert (found is not None and found[0].summed) == summed
    if found is not None and summed:
        assert "all += __shfl_down" not in found[1] and "sums[i / 32] = upto_n" in found[1]


def test_fractions_are_read_as_what_they_were_read_as() -> None:
    lines = (OWN.replace("int at[2]", "float at[2]"), *LONG[1:], "y[blockIdx.x * 64 + i] = 1000 + 2 * (at[0] / 2);")
    found = form(*lines)
    assert found is not None and "(float)found_n / 2" in found[1]
