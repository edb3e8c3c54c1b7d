"""Pairs of fragments that four lanes exchange before they store them."""

from __future__ import annotations

import pytest

from kscope.fixes.packed import quads
from kscope.fixes.packed.quads import exchanged, together, written
from kscope.fixes.packed.stored import stored
from tests.support.with_sources import changes

PLACED = "size_t o = (size_t)(row + i * 16 + h * 8) * n + col + j * 8;"
STORE = "*(unsigned*)((__half*)c + o) = pack(acc[i][j][h * 2], acc[i][j][h * 2 + 1]);"


LOOP = "for (int j = 0; j < TN / 8; j++)"
PAIR = "__floats2half2_rn(acc[i][j][0], acc[i][j][1])"


def kernel(store: str = STORE, placed: str = PLACED, loop: str = LOOP, before: str = "") -> str:
    head = "template <int TN> __global__ void k(void* c, __half* d, int n) { int t = threadIdx.x, lane = t % 32;"
    return (
        f"{head} int row = t / 32 * 16 + lane / 4, col = lane % 4 * 2; float acc[2][TN / 8][4]; {before}"
        f" for (int i = 0; i < 2; i++) {loop} for (int h = 0; h < 2; h++) {{ {placed} {store} }} }}"
    )


def test_a_capture_stores_sixteen_bytes_a_lane() -> None:
    (fix,) = [f for f in changes("proj_out.fragments", "MEM101") if "exchange" in f.title]
    (edit,) = fix.edits
    assert "else if (j % 4 == 0) {" in edit.becomes
    assert "pack2(acc[i][(j + quad_n)][h * 2], acc[i][(j + quad_n)][h * 2 + 1])" in edit.becomes
    assert "reinterpret_cast<char*>((bf16*)c + o) + threadIdx.x % 4 * 12) = make_uint4(" in edit.becomes
    assert [c.state for c in fix.conditions][:4] == ["proved", "proved", "proved", "check"]
    assert "quad_turned" in fix.code and fix.above == 9


@pytest.mark.parametrize(
    ("store", "placed", "kind"),
    [
        (STORE, PLACED, "unsigned"),
        (f"*reinterpret_cast<__half2*>(d + o) = {PAIR};", PLACED, "__half2"),
        (f"*reinterpret_cast<__half2*>(&d[(row + i * 16 + h * 8) * n + col + 8 * j]) = {PAIR};", "", "__half2"),
        ("*(half2*)&d[o] = half2(acc[i][j][h * 2], acc[i][j][h * 2 + 1]);",
         "int at = j * 8 + col; int o = (row + i * 16) * n + at;", "half2"),
    ],
)  # fmt: skip
def test_stores_in_many_words(store: str, placed: str, kind: str) -> None:
    (one,) = stored(kernel(store, placed))
    assert (one.kind, one.loop.name, one.loop.end) == (kind, "j", "TN / 8")
    assert "[(j + quad_n)]" in written(one)


@pytest.mark.parametrize(
    "parts",
    [
        {"placed": PLACED.replace("j * 8", "j * 16")},  # what follows lies further off
        {"placed": PLACED.replace("j * 8", "j % 2 * 8")},
        {"placed": PLACED.replace("* n + col + j * 8", "* n * j + col")},
        {"store": STORE.replace("__half*", "float*")},  # elements of four bytes
        {"store": "float v = acc[i][j][0]; " + STORE.replace("acc[i][j][h * 2]", "v")},  # made of one round
        {"store": STORE.replace("acc[i][j][h * 2]", "next[k++]")},
        {"store": STORE.replace("[j]", "[0]")},  # the same value each round
        {"store": STORE.replace(" = ", " += ")},
        {"loop": "for (int j = 1; j < TN / 8; j++)"},
        {"loop": "for (int j = 0; j < TN / 8; j += 2)"},
        {"before": "int pairs_of = 0;"},
        # What a later round stores is made in that round: by a statement, a function, or assembly.
        {"store": "acc[i][j][h * 2] *= 0.5f; " + STORE},
        {"store": "acc[i][j][h * 2] = fmaxf(acc[i][j][h * 2], 0.f); " + STORE},
        {"store": "product(acc[i][j], a, b[j]); " + STORE},
        {"store": 'asm volatile("add.f32 %0, %0, %0;" : "+f"(acc[i][j][h * 2])); ' + STORE},
        {"store": STORE + " acc[i][j + 1][0] += acc[i][j][0];"},
        {"before": "float v;", "store": "v = acc[i][j][0] * 2; " + STORE.replace("acc[i][j][h * 2]", "v")},
        {"before": "int k = 0;", "store": STORE.replace("acc[i][j][h * 2]", "acc[i][j][k]") + " k++;"},
        {"store": STORE + " if (j * 8 > n) break;"},  # later rounds are none
        {"store": "half2 old = *(half2*)((__half*)c + o); sum += old.x; " + STORE},  # new ones by then
        {"store": "if (TN > 3) " + STORE + " else c = d;"},  # of which test?
    ],
)
def test_other_stores_are_left(parts: dict[str, str]) -> None:
    assert stored(kernel(**parts)) == []


@pytest.mark.parametrize(
    ("code", "yes"),
    [
        ("{ STORE; }", True),
        ("{ if (WIDE) a(); else STORE; }", True),
        ("{ if (WIDE) { a(); return; } STORE; }", True),
        ("{ if (t < n) a(); STORE; }", True),
        ("{ if (row < n) STORE; }", False),
        ("{ if (WIDE) a(); else if (row < n) STORE; }", False),
        ("{ if (row < n) { for (;;) { STORE; } } }", False),
        ("{ if (row < n) a(); else { STORE; } }", False),
        ("{ if (row >= n) return; STORE; }", False),
        ("{ for (int i = 0; i < WIDE; i++) { STORE; } }", True),
        ("{ for (int i = 0; i < lane; i++) { STORE; } }", False),
        ("{ for (int i = lane; i < WIDE; i++) { STORE; } }", False),
        ("{ while (t < n) { STORE; } }", False),
        ("{ do { STORE; } while (t < n); }", False),
    ],
)
def test_all_lanes_must_come(code: str, yes: bool) -> None:
    assert together(code, code.index("STORE"), {"WIDE"}) is yes


def test_the_exchange_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exchanged() == 128
    monkeypatch.setattr(quads, "QUAD", 2)  # pairs of lanes have not what it moves
    with pytest.raises(IndexError):
        exchanged()
