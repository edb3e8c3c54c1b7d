"""Records and words that lie side by side: stored by a warp together, read by wide loads."""

from __future__ import annotations

import re

import pytest

from kscope.fixes.left import left
from kscope.fixes.strided.helpers import TOGETHER, WHOLE_RECORD
from kscope.fixes.strided.records import stored
from kscope.fixes.strided.together import Moved, _at_once, _passed, _shared, put
from kscope.fixes.strided.wholes import LOAD_WHOLE, wholes
from kscope.fixes.strided.words import WORDS_OF, _Read, words
from kscope.fixes.strided.words import _spans as of_words
from kscope.fixes.strided.worth import held_up
from kscope.model.contract.findings import Finding
from kscope.model.contract.frozen import Estimate
from tools import fixes_pairs

INDEX = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"


def kernel(*lines: str, head: str = "const float* a, float* out, int n") -> str:
    return f"__global__ void pack({head}) {{\n{INDEX}" + "\n".join(lines) + "\n}"


def found(text: str) -> list[tuple[str, int, str]]:
    return sorted((x.name, x.words, x.first) for x in stored(text, {"K": 5}))


def edited(text: str, spans: list[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(spans, reverse=True):
        text = text[:start] + new + text[end:]
    return text.split(INDEX)[1]


@pytest.mark.parametrize(
    ("lines", "head", "expected"),
    [
        (["  box[i] = b;"], "Box* __restrict__ box, int n", [("box", 0, "i")]),
        (["  box[i + 32] = Box{a[i], 1.f};"], "const float* a, pack::Box<float, 3>* box, int n",
         [("box", 0, "i + 32")]),
        (["  out[3 * i] = x;", "  out[3 * i + 1] = y;", "  out[3 * i + 2] = z;"], "float* out, int n",
         [("out", 3, "3 * i")]),
        (["  out[3*i + 2] = x; out[3*i+0] = y; out[3*i+1] = z;"], "float* out, int n", [("out", 3, "3*i+0")]),
        (["  double* p = out + 5 * i;", "  p[0] = x; p[1] = y;"], "double* out, int n", [("p", 2, "0")]),
        (["  out[i].x = x; out[i].z = z; out[i].y = y;"], "float3* out, int n", [("out", 3, "i")]),
        (["  p[i].at.x = x; p[i].at.y = y; p[i].mass = m;"], "Particle* p, int n", [("p", 3, "i")]),
        (["  out[2*i] = x; float y = a[i] * x;", "  b[i] = y; out[2*i+1] = y;"], "float* out, float* b, int n",
         [("b", 0, "i"), ("out", 2, "2*i")]),
        (["  for (int k = 0; k < 3; k++) out[3 * i + k] = v[k];"], "float* out, int n", [("out", 3, "3 * i")]),
        (["  #pragma unroll", "  for (int k = 0; k < K; ++k) { p[k] = v[k]; }"], "T* p, int n", [("p", 5, "0")]),
    ],
)  # fmt: skip
def test_what_a_thread_stores_of_a_record(lines: list[str], head: str, expected: list[tuple[str, int, str]]) -> None:
    assert found(kernel(*lines, head=head)) == expected


@pytest.mark.parametrize(
    ("lines", "head"),
    [
        (["  out[3*i] = x; out[3*i+2] = z;"], "float* out, int n"),  # a word is left
        (["  out[3*i] = x; if (n > 4) out[3*i+1] = y; out[3*i+2] = z;"], "float* out, int n"),
        (["  out[3*i] = x; float y = f(out); out[3*i+1] = y;"], "float* out, int n"),
        (["  out[2*i] = x; out[2*i+1] = out[2*i] + 1;"], "float* out, int n"),  # made of what is stored
        (["  float* p = out; out[2*i] = x; y = p[2*i]; out[2*i+1] = y;"], "float* out, int n"),  # by another name
        (["  out[2*i] += x; out[2*i+1] += y;"], "float* out, int n"),
        (["  out[i << 1] = x; out[i << 1 + 1] = y;"], "float* out, int n"),  # i << 2
        (["  out[i].x = x; out[i].y = y;"], "float3* out, int n"),
        (["  out[i].x = x; out[i].y = y; out[j].z = z;"], "float3* out, int n"),
        (["  out[2*i] = x; out[2*i+1] = y;"], "volatile float* out, int n"),
        (["  out[2*i] = x; i += 1; out[2*i+1] = y;"], "float* out, int n"),
        (["  out[2*i] = x; __syncthreads(); out[2*i+1] = y;"], "float* out, int n"),
        (["  p[i].x = x; p[i].x = y;"], "Particle* p, int n"),
        (["  for (int k = 0; k < n; k++) out[3 * i + k] = v[k];"], "float* out, int n"),  # known when it runs
        (["  for (int k = 0; k < 3; k++) out[3 * i + k] = out[0];"], "float* out, int n"),
        (["  for (int k = 0; k < 3; k++) out[n * k + i] = v[k];"], "float* out, int n"),
        (["  for (int k = 0; k < 3; k += 2) out[3 * i + k] = v[k];"], "float* out, int n"),
        (["  if (n > 3) for (int k = 0; k < 3; k++) out[3 * i + k] = v[k];"], "float* out, int n"),
    ],
)
def test_no_whole_record(lines: list[str], head: str) -> None:
    assert not any(x.words for x in stored(kernel(*lines, head=head)))


def test_a_whole_record_is_handed_over() -> None:
    text = kernel("  box[i] = Box{a[i], 1.f};", head="const float* a, Box* box, int n")
    (one,) = stored(text)
    assert edited(text, put([Moved(one, (), 24)], 8)) == (
        "  store_together<8>(&box[i], Box{a[i], 1.f});\n}"
    )


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("  args.box[i] = b;", "args.box[i]"),
        ("  *(box + i) = b;", "*(box + i)"),
        ("  reinterpret_cast<Box*>(raw)[i] = f(b);", "reinterpret_cast<Box*>(raw)[i]"),
        ("  if (n > 2) self->box[2 * i] = b;", "self->box[2 * i]"),
        ("  box[n][i] = b;", "box[n][i]"),
    ],
)
def test_records_that_are_stored_elsewhere(line: str, left: str) -> None:
    text = kernel(line, head="Args args, char* raw, int n")
    (one,) = stored(text)
    assert f"store_together<4>(&{left}, " in edited(text, put([Moved(one, (), 24)], 4))


@pytest.mark.parametrize(
    "line", ["  Box* b = box[i];", "  const Box b = box[i];", "  x = b;", "  b.at = box[i];", "  i <= n;",
             "  box[i] = b, x = 3;"]
)  # fmt: skip
def test_what_is_no_store_of_a_record(line: str) -> None:
    assert not stored(kernel(line, head="const Box* box, int n"))


def test_words_are_put_together_first() -> None:
    text = kernel("  out[3*i] = a[i]; out[3*i+1] = 2.f;", "  out[3*i+2] = g(a, i);")
    (one,) = stored(text)
    assert edited(text, put([Moved(one, (), 12)], 4)) == (
        "  WordsOf<float, 3> out_own; out_own.at[0] = a[i]; out_own.at[1] = 2.f;\n  out_own.at[2] = g(a, i); "
        "store_together<4>(reinterpret_cast<WordsOf<float, 3>*>(&out[3*i]), out_own);\n}"
    )


def test_words_of_one_access_need_no_shared_memory() -> None:
    text = kernel("  out[2*i] = a[i]; out[2*i+1] = 2.f;")
    (one,) = stored(text)
    assert edited(text, put([Moved(one, (), 8)], 4)).endswith(
        "store_whole(reinterpret_cast<WholeWordsOf<float, 2>*>(&out[2*i]), out_own);\n}"
    )


def test_members_are_put_together_in_a_record_of_their_own() -> None:
    text = kernel("  p[i].at.x = a[i]; p[i].mass = 1.f;", head="const float* a, Particle* p, int n")
    (one,) = stored(text)
    assert edited(text, put([Moved(one, (), 20)], 4)) == (
        "  OwnOf<Particle> p_own; p_own.whole.at.x = a[i]; p_own.whole.mass = 1.f; "
        "store_together<4>(&p[i], p_own.whole);\n}"
    )


def test_rounds_of_a_loop_are_put_together() -> None:
    text = kernel("  #pragma unroll", "  for (int k = 0; k < 3; k++) out[3 * i + k] = v[k];")
    (one,) = stored(text)
    assert edited(text, put([Moved(one, (), 12)], 4)).lstrip() == (
        "WordsOf<float, 3> out_own;\n  #pragma unroll\n  for (int k = 0; k < 3; k++) out_own.at[k] = v[k]; "
        "store_together<4>(reinterpret_cast<WordsOf<float, 3>*>(&out[3 * i]), out_own);\n}"
    )


def test_helpers_have_names_of_their_own() -> None:
    every = (TOGETHER, WHOLE_RECORD, WORDS_OF, LOAD_WHOLE)
    said = [set(re.findall(r"(?:struct|constexpr int) (\w+)(?= \{|\()", x)) for x in every]
    assert all(len(x) >= 3 for x in said) and len(set.union(*said)) == sum(map(len, said))


def test_fields_are_put_together_first() -> None:
    text = kernel("  out[i].x = 1; out[i].y = 2; out[i].z = n;", head="int3* out, int n")
    (one,) = stored(text)
    assert edited(text, put([Moved(one, (), 12)], 4)) == (
        "  int3 out_own; out_own.x = 1; out_own.y = 2; out_own.z = n; store_together<4>(&out[i], out_own);\n}"
    )


def test_a_record_s_pieces_come_to_their_places() -> None:
    assert all(_passed(size) >= 3 * 32 for size in (3, 7, 12, 20, 28, 32, 80, 256))
    assert _shared(12, 8) == 8 * 32 * 12 and _shared(16, 8) == 0 and _shared(80, 32) == 32 * 8 * 80
    assert _at_once(32, 4) == (32, 48)  # a piece more: 32 records begin in other banks


@pytest.mark.parametrize(
    ("lines", "count", "expected"),
    [
        (["  float x = a[4*i], y = a[4*i+1];", "  float z = a[4*i+2] * a[4*i+3];"], 4,
         ["  const auto a_words = words_of<4>(&a[4*i]); float x = a_words.at[0], y = a_words.at[1];",
          "  float z = a_words.at[2] * a_words.at[3];"]),
        (["  out[i] = a[2*i] - a[2*i+1];"], 2,
         ["  const auto a_words = words_of<2>(&a[2*i]); out[i] = a_words.at[0] - a_words.at[1];"]),
        (["  const float* p = a + 2 * i;", "  s = p[1] - p[0];"], 2,
         ["  const float* p = a + 2 * i;",
          "  const auto p_words = words_of<2>(&p[0]); s = p_words.at[1] - p_words.at[0];"]),
    ],
)  # fmt: skip
def test_words_that_are_read(lines: list[str], count: int, expected: list[str]) -> None:
    text = kernel(*lines)
    (one,) = words(text)
    assert one.count == count
    assert edited(text, list(of_words([_Read(one, (), 4 * count)]))) == "\n".join([*expected, "}"])


@pytest.mark.parametrize(
    "lines",
    [
        ["  x = a[2*i];", "  if (x > 0) y = a[2*i+1];"],  # read for some alone: it may not be there
        ["  x = a[2*i] > 0 ? a[2*i+1] : 0;"],
        ["  x = a[2*i];", "  out[i] = x;", "  y = a[2*i+1];"],  # out may be a
        ["  x = a[2*i];", "  i += 1;", "  y = a[2*i+1];"],
        ["  x = a[2*i];", "  __syncthreads();", "  y = a[2*i+1];"],
        ["  for (int k = 0; k < 2; k++) { x = a[2*k]; }", "  y = a[2*k+1];"],
        ["  x = a[3*i] + a[3*i+2];"],
        ["  x = *f(&a[2*i]) + a[2*i+1];"],
        ["  x = f(out[2*i], out[2*i+1]);"],  # which may change them
        ["  out[2*i] = out[2*i+1];"],
        ["  out[i] = a[2*i] + (out[i+1] = 3) - a[2*i+1];"],
        ["  x = a[2*i], out[i] = x, y = a[2*i+1];"],
        ["  x = a[2*i]; ++out[i]; y = a[2*i+1];"],
        ["  x = a[2*i]; y = f(out) + a[2*i+1];"],
        ["  x = a[2*i]; put(i); y = a[2*i+1];"],
        ["  const float* p = a + i;", "  x = p[0]; p += 2; y = p[1];"],  # p moves
        ["  x = a[0]; a = b; y = a[1];"],
        ["  const float& x = a[2*i]; y = a[2*i+1];"],
        ["  for (int j = 0; j < n; j++) s += a[2*i] * a[2*i+1];"],  # begins in the head of the loop
    ],
)
def test_words_that_stay(lines: list[str]) -> None:
    assert not words(kernel(*lines))


@pytest.mark.parametrize(
    ("line", "head"),
    [
        ("  const Box b = box[q[i]];", "const Box* box, const int* q, int n"),
        ("  out[i] = f(box[q[i]]);", "const Box* box, Box* out, const int* q, int n"),
        ("  const Box& b = box[q[i]];", "const Box* box, const int* q, int n"),
        ("  b = box[q[i]];", "Box* box, const int* q, int n"),
    ],
)
def test_records_that_are_read_whole(line: str, head: str) -> None:
    text = kernel(line, head=head)
    assert [text[slice(*x.span)] for x in wholes(text) if x.name == "box"] == ["box[q[i]]"]


@pytest.mark.parametrize(
    ("line", "head"),
    [
        ("  s = box[q[i]].x;", "const Box* box, const int* q, int n"),
        ("  const Box* b = &box[q[i]];", "const Box* box, const int* q, int n"),
        ("  auto& b = box[q[i]];", "Box* box, const int* q, int n"),
        ("  move(box[q[i]], b);", "Box* box, const int* q, int n"),  # which may be given a value there
        ("  box[q[i]] = b;", "Box* box, const int* q, int n"),
        ("  box[q[i]] += b;", "Box* box, const int* q, int n"),
        ("  auto&& b = box[q[i]];", "Box* box, const int* q, int n"),
        ("  const Box& b = box[q[i]];", "Box* box, const int* q, int n"),  # sees what is stored there later
        ("  const Box* b = &(box[q[i]]);", "const Box* box, const int* q, int n"),
        ("  s = rows[q[i]][2];", "const Row* rows, const int* q, int n"),
    ],
)
def test_records_of_which_more_than_the_value_is_used(line: str, head: str) -> None:
    assert not [x for x in wholes(kernel(line, head=head)) if x.name in ("box", "rows")]


def test_a_new_version_shows_by_what_its_stores_come_from() -> None:
    said = "stores of records that do not pass through shared memory"
    for case, stores in (("chol8.direct", 64), ("bank_conflict.slow", 0)):
        setting = fixes_pairs.setting(case)
        assert setting is not None and left("tile", setting, "MEM101") == (said, stores)


def test_only_where_a_kernel_is_held_up() -> None:
    def finding(speedup: float, *relieves: str) -> Finding:
        estimate = Estimate(speedup, 0.9, 3.0, "L2", "modelled", list(relieves))
        return Finding(code="MEM101", rule="", title="", regime="memory", severity="major", estimate=estimate)

    assert held_up(finding(2.0, "dram", "l2"), memory=True)
    assert held_up(finding(2.0, "l2"), memory=False)
    assert not held_up(finding(2.0, "dram", "l2"), memory=False)
    assert not held_up(finding(1.1, "l2"), memory=True)
    assert not held_up(finding(2.0), memory=True)
