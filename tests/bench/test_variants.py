"""What a sweep shows: the fastest of each shape, and a chart that says the same."""

from __future__ import annotations

import re

from kscope.bench.values.result import SCHEMA, Result, Variant
from kscope.bench.values.variants import decide, label
from kscope.reports.bench import pages
from kscope.reports.bench.text import text
from kscope.reports.bench.variants import best, chart

EVIL = "<img src=x onerror=alert(1)>"


def variant(us: float | None, verdict: str = "faster", **values: str) -> Variant:
    dims = {"n": int(values["n"])} if "n" in values else {"n": 64}
    return Variant(values=values, verdict=verdict, candidate_us=us, dims=dims)  # type: ignore[arg-type]


def swept(times: dict[tuple[str, str], float]) -> list[Variant]:
    return [variant(us, BLOCK=block, n=n) for (block, n), us in times.items()]


ROWS = swept({("64", "256"): 2.0, ("64", "512"): 3.0, ("64", "1024"): 9.0,
              ("128", "256"): 4.0, ("128", "512"): 2.5, ("128", "1024"): 5.0})  # fmt: skip


def result(rows: list[Variant]) -> Result:
    return Result(schema=SCHEMA, kscope="0", candidate="a.cu", reference="b.py:f", baseline="b.py:f", device="x",
                  verdict="correct", sentence="correct: 6 variants", variants=rows)  # fmt: skip


def test_the_fastest_of_each_shape() -> None:
    assert [label(one) for one in best(ROWS)] == ["BLOCK=64 n=256", "BLOCK=128 n=512", "BLOCK=128 n=1024"]


def test_a_wrong_variant_wins_nothing() -> None:
    rows = [*ROWS, variant(0.1, "incorrect", BLOCK="8", n="256"), variant(None, "not run", BLOCK="4096", n="256")]
    assert best(rows) == best(ROWS) and chart(rows) == chart(ROWS)


def test_a_size_is_an_axis_and_lines_fall_where_times_do() -> None:
    drawn = chart(ROWS)
    lines = re.findall(r'<polyline points="([^"]+)"', drawn)
    points = [[tuple(map(float, p.split(","))) for p in line.split()] for line in lines]
    assert len(points) == 2 and [p[0] for p in points[0]] == [p[0] for p in points[1]]
    across = [p[0] for p in points[0]]
    assert across == sorted(across)
    assert abs((across[2] - across[1]) - (across[1] - across[0])) < 0.2, "doublings are equally far apart"
    assert points[0][0][1] > points[1][0][1] and points[0][2][1] < points[1][2][1], "slower is higher on the page"


def test_choices_are_bars_as_long_as_their_times() -> None:
    drawn = chart([variant(us, stages=s) for s, us in (("2", 10.0), ("3", 5.0), ("x", 20.0))])
    widths = [float(w) for w in re.findall(r'<rect [^>]*width="([\d.]+)"', drawn)]
    assert widths[1] * 2 == widths[0] and widths[0] * 2 == widths[2]
    assert drawn.count("fastest") == 1 and "5 us, fastest" in drawn


def test_words_are_quoted_in_every_format() -> None:
    rows = [variant(1.0, T=EVIL), variant(2.0, T=EVIL + "2")]
    assert EVIL not in pages.html(result(rows)) and EVIL not in chart(rows)
    assert EVIL not in pages.markdown(result(rows))
    shown = text(result(ROWS), width=100, color=False, unicode=True)
    assert "fastest at n=512: BLOCK=128 n=512" in shown
    assert "fastest at" in pages.markdown(result(ROWS)) and "<svg" in pages.html(result(ROWS))


def test_the_sentence_compares_within_a_shape() -> None:
    assert decide(ROWS) == ("faster", "faster at 3 of 3 shapes, 6 variants; fastest: BLOCK=128 at 2, BLOCK=64 at 1")
    mixed = [*ROWS[:5], variant(5.0, "slower", BLOCK="128", n="1024")]
    assert decide(mixed)[0] == "slower" and decide(mixed)[1].startswith("faster at 2 of 3 shapes")
    one = [v for v in ROWS if v.values["n"] == "256"]
    assert decide(one) == ("faster", "faster: BLOCK=64 n=256 is the fastest of 2 variants (2 us, n=256)")


def test_the_sentence_without_times() -> None:
    rows = [variant(None, "correct", A="1"), variant(None, "correct", A="2")]
    assert decide(rows) == ("correct", "correct: 2 of 2 variants; none was timed")
    assert decide([*rows, variant(None, "incorrect", A="3")])[0] == "incorrect"
    assert decide([variant(None, "incorrect", A="3")]) == ("incorrect", "incorrect: none of 1 variants is right")
