"""Loops that few blocks share: which ones more blocks may share, and what becomes of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kscope.fixes.given.text import Text
from kscope.fixes.shared_sums import parted, rounds

TABLE = """__global__ void k(const Item* items, unsigned* out, int many, int bins) {
  extern __shared__ unsigned bin_of[];
  for (int q = blockIdx.x; q < 5; q += gridDim.x) {
    for (int i = threadIdx.x; i < bins; i += blockDim.x) bin_of[i] = 0u;
    __syncthreads();
    const int end = items[q].size;
    for (int i = threadIdx.x; i < end; i += blockDim.x) {
      const int at = items[q].of(i);
      if (at >= 0) atomicAdd(&bin_of[at], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < bins; i += blockDim.x) atomicAdd(out + i, bin_of[i]);
    __syncthreads();
  }
}"""
ROWS = """__global__ void k(const float* x, float* y, int n) {
  const int tid = threadIdx.x;
  const float* row = x + blockIdx.x * n;
  for (int i = tid; i < n; i += blockDim.x) { float v = row[i]; v *= 2; y[blockIdx.x * n + i] = v; }
}"""


def becomes(code: str) -> str:
    found = parted.parted(code)
    if found is None:
        return ""
    for start, end, new in sorted(parted._spans(code, found), reverse=True):
        code = code[:start] + new + code[end:]
    return code


def test_counts_of_a_block() -> None:
    new = becomes(TABLE)
    assert "int i = blockIdx.y * blockDim.x + threadIdx.x; i < end; i += gridDim.y * blockDim.x) {" in new
    assert "if (bin_of[i]) atomicAdd(out + i, bin_of[i]);" in new
    assert new.count("gridDim.y") == 1 and new.count("int i = threadIdx.x") == 2
    found = parted.parted(TABLE)
    assert found is not None and found.whole and (found.table, len(found.shared)) == ("bin_of", 1)


def test_floats_are_said_to_be_such() -> None:
    found = parted.parted(TABLE.replace("unsigned bin_of", "float bin_of"))
    assert found is not None and not found.whole


def test_rows_of_a_block() -> None:
    assert "int i = blockIdx.y * blockDim.x + threadIdx.x; i < n; i += gridDim.y * blockDim.x) {" in becomes(ROWS)


@pytest.mark.parametrize(
    ("was", "new"),
    [
        ("atomicAdd(out + i, bin_of[i])", "out[i] = bin_of[i]"),  # stored: the blocks' parts are not added
        ("atomicAdd(&bin_of[at], 1u)", "bin_of[at] = 1"),
        ("atomicAdd(&bin_of[at], 1u)", "if (!atomicAdd(&bin_of[at], 1u)) atomicAdd(out, 1u)"),
        ("if (at >= 0)", "if (at >= 0 && bin_of[at] < 9)"),  # a part knows of its own counts alone
        ("= 0u", "= 1u"),
        ("const int end", "out[q] = 0; const int end"),
        ("items[q].size", "items[q + blockIdx.y].size"),
        ("const int at = items[q].of(i);", "at = items[q].of(i) + at;"),
        ("extern __shared__ unsigned bin_of[];", "extern __shared__ unsigned bin_of[]; __shared__ int more[4];"),
    ],
)
def test_other_sums_are_left(was: str, new: str) -> None:
    assert was in TABLE and becomes(TABLE.replace(was, new)) == ""


@pytest.mark.parametrize(
    ("was", "new"),
    [
        ("const int tid", "float last = 0; const int tid"),
        ("float v = row[i];", "float v = row[i]; __syncthreads();"),
        ("float v = row[i];", "if (row[i] < 0) break; float v = row[i];"),
        ("i += blockDim.x", "i += 256"),
    ],
)
def test_other_rows_are_left(was: str, new: str) -> None:
    code = ROWS.replace(was, new)
    code = code.replace("v *= 2;", "last += v; v *= last;") if "last" in new else code
    assert becomes(code) == ""


def test_an_array_of_the_thread() -> None:
    code = ROWS.replace("const int tid", "float last[2]; const int tid").replace("v *= 2;", "last[0] = v;")
    assert becomes(code) == ""


def test_rounds_are_those_of_the_loop_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block's threads go once round a loop of theirs, and many times round one within: nothing is there to share."""
    code = """__global__ void k(const int* start, float* y, int n) {
  for (int q = threadIdx.x; q < n; q += blockDim.x) {
    float sum = 0;
    for (int i = start[q]; i < start[q + 1]; i++) {
      sum += y[i];
    }
    y[q] = sum;
  }
}"""
    text = Text("k.cu", 1, code)
    found = parted.parted(code)
    assert found is not None
    lines, numbers = [3, 4, 4, 4, 5, 5, 7, 7], [0, 1, 1, 1, 1, 1, 0, 0]
    made = [SimpleNamespace(file="k.cu", line=line, opcode=f"OP{n}") for n, line in enumerate(lines)]

    class Code(list):  # type: ignore[type-arg]
        cfg = SimpleNamespace(loop_of=numbers, loops=[SimpleNamespace(depth=1), SimpleNamespace(depth=2)])
        classes = [SimpleNamespace(access="load")] * len(lines)

        def ran(self, some: object) -> list[int]:
            return list(some)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(rounds, "trips", lambda code, number: {0: 1.0, 1: 900.0}[number])
    setting = SimpleNamespace(code=Code(made))
    assert rounds.rounds(setting, text, [one.body for one in found.shared]) == 1.0  # type: ignore[arg-type]
    monkeypatch.setattr(rounds, "trips", lambda code, number: {0: 50.0, 1: 1.0}[number])
    assert rounds.rounds(setting, text, [one.body for one in found.shared]) == 50.0  # type: ignore[arg-type]
    setting.code[6] = setting.code[7]  # the compiler has put two rounds side by side
    setting.code[0] = setting.code[6]
    assert rounds.rounds(setting, text, [one.body for one in found.shared]) == 150.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("was", "new"),
    [
        # Read by blocks that may come when others have stored there.
        ("const int tid = threadIdx.x;", "const int tid = threadIdx.x; float first = y[blockIdx.x * n];"),
        ("const int tid = threadIdx.x;", "const int tid = threadIdx.x; const float* own = y + n; float v = own[0];"),
        # What rounds add up without a sign of it, of which each block would have a part.
        ("v *= 2;", "add(total, v);"),
        ("v *= 2;", "total.add(v);"),
        # What each block would do again.
        ("const int tid = threadIdx.x;", "const int tid = threadIdx.x; scale(y, blockIdx.x);"),
        # Rounds of both loops.
        ("{ float v = row[i];", "for (int j = threadIdx.x; j < n; j += blockDim.x) { float v = row[i];"),
    ],
)
def test_what_is_carried_or_done_again_is_left(was: str, new: str) -> None:
    assert was in ROWS
    code = ROWS.replace(was, new).replace("const int tid", "Total total; const int tid")
    assert becomes(ROWS.replace("const int tid", "Total total; const int tid"))
    assert becomes(code) == ""


def test_methods_of_parameters_are_named() -> None:
    """Whether they change the thread's own copy is theirs to say who has them."""
    code = TABLE.replace("const Item* items,", "const Item* items, Slots slots,")
    code = code.replace("items[q].of(i)", "slots.of(i)")
    found = parted.parted(code)
    assert found is not None and parted.methods_of(code, found.shared) == ["slots"]
    own = code.replace("Slots slots,", "").replace("const int end", "Slots slots; const int end")
    assert parted.parted(own) is None
