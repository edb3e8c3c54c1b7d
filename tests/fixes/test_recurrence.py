"""Recurrences along a sequence: in pieces that several threads join, and in stretches side by side."""

from __future__ import annotations

import pytest

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.left import left
from kscope.fixes.recurrence import chains, pieces
from kscope.fixes.recurrence.serial import Serial, Update, found
from kscope.fixes.rows.function import _read
from tests.support.with_sources import changes
from tools import fixes_pairs

GIVEN = "const float* __restrict__ f, const float* __restrict__ x, float* __restrict__ y, int steps, int wide"
PLACE = "int c = blockIdx.x * blockDim.x + threadIdx.x;"
ALONG = "for (int t = 0; t < steps; t++)"
KNOWN: dict[str, int] = {}


def serial(body: str, given: str = GIVEN) -> Serial | None:
    fn = _read("k.cu", [f"__global__ void k({given}) {{", *body.split("\n"), "}"], "k", 1, (), None)
    assert fn is not None
    try:
        return found(fn)
    except Unplayable:
        return None


def compared(body: str, given: str = GIVEN, block: int = 32) -> int:
    one = serial(body, given)
    return pieces._played(one, 16, 16, block, 1, KNOWN) if one is not None else 0


def test_a_capture_of_a_gated_recurrence_goes_in_pieces() -> None:
    (fix,) = [f for f in changes("gated.serial", "GRD401") if f.kind == "jam"]
    first, *rest = fix.edits
    assert first.becomes.startswith("__global__ void __launch_bounds__(1024) gated_serial(")
    assert "h_sum_n = by_n * h_sum_n + x[(((size_t)l) * GC) + c]" in first.becomes
    assert "int c = (blockIdx.x / 4) * 64 + (blockIdx.x % 4 * 16 + threadIdx.x);" in first.becomes
    assert first.becomes.count("y[(size_t)l * GC + c] = h;") == 1 and not any(e.becomes for e in rest)
    assert fix.code == "gated_serial<<<128, dim3(16, 64)>>>(...);"
    assert fix.conditions[0].state == "proved" and fix.conditions[0].by == "values" and fix.conditions[0].ran > 1000
    assert {c.state for c in fix.conditions if "rounded" in c.holds or "overlap" in c.holds} == {"check"}


def test_a_capture_of_a_chain_goes_in_stretches() -> None:
    (fix,) = changes("dependency_chain.slow", "LAT303")
    assert "a_power_n *= 1.0001f;" in fix.edits[0].becomes
    assert "a = a_power_n * a + a_sum_n[side_n];" in fix.edits[0].becomes
    assert "for (int i = at_n; i < iters; i++) a = a * 1.0001f + 0.5f;" in fix.edits[0].becomes


@pytest.mark.parametrize(
    "round_",
    [
        "{ h = f[t * wide + c] * h + x[t * wide + c]; y[t * wide + c] = h; }",
        "{ h += (x[t * wide + c] - h) * 0.25f; y[t * wide + c] = h; }",
        "{ float g = f[t * wide + c], k = g * h; h = fmaf(g, k, x[t * wide + c]); y[t * wide + c] = 2 * h + g; }",
        "{ h = x[c * steps + t] - h * f[c * steps + t]; if (h > 5) y[c * steps + t] = h; }",
        "{ h += x[t * wide + c]; y[t * wide + c] = h; }",
        "{ y[t * wide + c] = h; h = h * f[c] + x[t * wide + c]; }",
    ],
)  # fmt: skip
def test_other_recurrences_come_out_the_same(round_: str) -> None:
    assert compared(f"{PLACE} if (c >= wide) return;\nfloat h = f[c];\n{ALONG} {round_}") > 100


def test_pointers_that_go_on_and_two_states_begin_where_their_piece_does() -> None:
    body = f"""{PLACE} const float* p = x + c; float u = 1, v = 2; float* to = y + c;
    {ALONG} {{ u = u * p[0] + 3.f; v += *p; *to = u + v; p += wide; to += wide; }}
    y[steps * wide + c] = u - v;"""
    one = serial(body)
    assert one is not None and one.moved == {"p": "wide", "to": "wide"} and one.factored == ["u"]
    assert compared(body) > 100


def test_a_state_that_only_the_end_stores_is_gone_through_once() -> None:
    body = f"{PLACE} double s = 0;\n{ALONG} s = s * f[c] + x[t * wide + c];\ny[c] = s;"
    one = serial(body)
    assert one is not None and not one.stores
    (_, (_, _, text)) = pieces.spans(one, 16, 16, 32)
    assert text.count("for (int t = ") == 1 and "if (threadIdx.y == 0) { y[c] = s; }" in text
    assert compared(body) > 50


@pytest.mark.parametrize("head", ["for (int t = steps - 1; t >= 0; t--)", "for (int t = steps; t > -1; --t)"])
def test_a_sequence_may_be_gone_along_from_its_end(head: str) -> None:
    body = f"{PLACE} float a = x[c];\n{head} {{ a = f[t * wide + c] + a * 0.9f * x[t]; y[t * wide + c] = a; }}"
    one = serial(body)
    assert one is not None and one.was is not one.fn
    (_, (start, end, text)) = pieces.spans(one, 16, 16, 32)
    assert (start, end) == (one.was.opened, len(one.was.code))
    assert "for (int t_up = from_n; t_up < to_n; t_up++) { const int t = steps" in text
    assert compared(body) > 100


def test_a_block_takes_the_place_of_several_also_where_its_number_is_divided() -> None:
    place = "int c = blockIdx.x % 2 * 32 + threadIdx.x + blockIdx.x / 2 * 64;"
    assert compared(f"{place} float h = 1;\n{ALONG} {{ h = (h + x[t * wide + c]) / 2; y[t * wide + c] = h; }}") > 100


@pytest.mark.parametrize(
    "body",
    [
        f"{PLACE} float h = 0;\n{ALONG} {{ h = h * h + x[t * wide + c]; y[t * wide + c] = h; }}",
        f"{PLACE} float h = 0;\n{ALONG} {{ h = f[t * wide + c] > h ? h : x[t * wide + c]; y[t * wide + c] = h; }}",
        f"{PLACE} float h = 0;\n{ALONG} {{ if (h > 3) h = 0; h += x[t * wide + c]; y[t * wide + c] = h; }}",
        f"{PLACE} float h = 0;\n{ALONG} {{ h = x[(int)h] + h; y[t * wide + c] = h; }}",
        f"{PLACE} float u = 0, v = 1;\n{ALONG} {{ u = u + v; v = 2 * v + x[t]; y[t * wide + c] = u; }}",
        f"{PLACE} int h = 9;\n{ALONG} {{ h = h / 2 + 1; y[t * wide + c] = h; }}",
        f"{PLACE} float h = 0;\n{ALONG} {{ int k = h * 2; h = k + x[t]; y[t * wide + c] = h; }}",
        f"{PLACE} float h = 0;\n{ALONG} {{ h += x[t]; if (h > 5) break; y[t * wide + c] = h; }}",
        f"{PLACE} float h = 0;\nif (c < wide)\n{ALONG} {{ h += x[t]; y[t * wide + c] = h; }}",
        f"{PLACE} float h = 0;\nif (c < wide) {{\n{ALONG} {{ h += x[t]; y[t * wide + c] = h; }} }}",
        f"{PLACE} float h = 0; int n = 0;\nfor (int t = 0; t < steps + n; t++) {{ n += 1; h += x[t]; y[c] = h; }}",
    ],
)  # fmt: skip
def test_what_is_no_such_recurrence_is_left_alone(body: str) -> None:
    assert serial(body) is None


@pytest.mark.parametrize(
    "body",
    [
        # what a round stores is what the next one loads
        f"{PLACE} float h = 0;\n{ALONG} {{ h = h * f[c] + y[t * wide + c]; y[(t + 1) * wide + c] = h; }}",
        # a store of every thread in front of the loop, which several would make
        f"{PLACE} y[c] += 1; float h = 0;\n{ALONG} {{ h += x[t * wide + c]; y[(t + 1) * wide + c] = h; }}",
        # the same place in every round
        f"{PLACE} float h = 0;\n{ALONG} {{ h += x[t * wide + c]; y[c] = h; }}",
    ],
)  # fmt: skip
def test_what_comes_out_otherwise_is_not_printed(body: str) -> None:
    assert serial(body) is not None
    assert not compared(body)


def test_stretches_need_a_factor_that_stays() -> None:
    same = serial(f"{PLACE} float s = x[c], a = f[c];\n{ALONG} s = s * a + x[t * wide + c];\ny[c] = s;")
    other = serial(f"{PLACE} float s = x[c];\n{ALONG} s = s * f[t] + x[t * wide + c];\ny[c] = s;")
    assert same is not None and all(chains._steady(same, f) for f in chains._factors(same))
    assert other is not None and not all(chains._steady(other, f) for f in chains._factors(other))
    assert chains._played(same, KNOWN, 32) > 100


def test_a_chain_that_takes_its_own_number_takes_it_in_every_stretch() -> None:
    one = serial(f"{PLACE} int s = c;\n{ALONG} s = 3 * s + t;\ny[c] = s;")
    assert one is not None and [r.form.rest for r in one.rounds if isinstance(r, Update)] == ["t"]
    assert chains._played(one, KNOWN, 32) > 100


def test_a_new_version_shows_by_what_its_loop_counts() -> None:
    setting = fixes_pairs.setting("dependency_chain.slow")
    assert left("unroll", setting, "LAT303") == ("cycles of the longest chain, a round", 4.0)
    assert left("jam", fixes_pairs.setting("gated.serial"), "GRD401") == (
        "stores of sequences that no threads go along together", 16,
    )  # fmt: skip


TYPES = f"{GIVEN}, const unsigned* k, const unsigned* q, const int* s"


@pytest.mark.parametrize(
    ("state", "round_", "right"),
    [
        ("int", "h = h * 3 + s[t]", True), ("int", "h = h * 3 + x[t]", False), ("int", "h = h * 0.5f + s[t]", False),
        ("int", "h += x[t] * 0.5f", False), ("int", "h = h * f[t] + 2", False), ("int", "h += (int)x[t]", True),
        ("unsigned", "h = h * 31 + k[t] - q[t]", True), ("float", "h = h * 0.5f + k[t]", True),
        ("float", "h = h * 0.5f - k[t]", False), ("float", "h = h * 0.5f + k[t] - q[t]", False),
        ("float", "h = h * 0.5f + x[t] - q[t]", True), ("float", "h = h * 0.5f + x[q[t] - k[t]]", True),
        ("float", "unsigned v = k[t]; h = h * 0.5f - v", False), ("float", "h = h - s[t] + t", True),
        ("long long", "h = h * 3 + s[t]", True), ("long long", "h = h * 3 + s[t] + s[t + 1]", False),
    ],
)  # fmt: skip
def test_types_that_another_order_would_mix(state: str, round_: str, right: bool) -> None:
    """A step that rounds to a whole number, or terms without a sign that were fractions' before, are none to join."""
    one = serial(f"{PLACE} {state} h = 0;\n{ALONG} {{ {round_}; }} y[c] = h;", TYPES)
    assert (one is not None) is right
