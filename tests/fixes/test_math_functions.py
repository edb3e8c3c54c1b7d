"""Accurate functions by intrinsics: which calls, by which names, and what part of a promise is theirs."""

from __future__ import annotations

import pytest
from msgspec import structs

from kscope.fixes.accuracy import powers
from kscope.fixes.accuracy.math_functions import POWER, _Change, _named
from kscope.fixes.accuracy.spots import WORTH, Spot, priced
from kscope.fixes.given.rewrite import Call, Place
from kscope.model.contract.fixes import Fix
from kscope.model.contract.frozen import Estimate
from tests.support.with_sources import changes


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("y = expf(-x);", "y = __expf(-x);"),
        ("y = std::exp(-x) + ::log(z);", "y = __expf(-x) + ::__logf(z);"),
        ("y = pow(x, 3.f) * std::pow(z, w);", "y = power<3>(x) * __powf(z, w);"),
        ("y = a / std::sqrt(b) + 1 / sqrtf(c);", "y = a * rsqrtf(b) + rsqrtf(c);"),
        ("double y = exp(x) + expf(z);", "double y = exp(x) + __expf(z);"),  # the shared name may be the double's
        ("y = 2.0 * log(x);", "y = 2.0 * log(x);"),
    ],
)
def test_calls_by_the_names_that_code_has_for_them(line: str, becomes: str) -> None:
    change = _Change({line})
    assert change.of(line) == becomes
    assert change.shared == ("expf" not in line and "sqrt" not in line and becomes != line)


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("y = a / 1 / sqrtf(c);", "y = a / 1 * rsqrtf(c);"),  # a root more, not less
        ("y = 1 / sqrtf(c) + 1.f / sqrtf(d);", "y = rsqrtf(c) + rsqrtf(d);"),
        ("y = 1e-1 / sqrtf(c) + expf(x);", "y = 1e-1 / sqrtf(c) + __expf(x);"),
        ("y = /* root of c */ sqrtf(c) * expf(x);", "y = /* root of c */ sqrtf(c) * __expf(x);"),
        ("y = cuda::std::exp(x);", "y = __expf(x);"),
        ("y = expf(a) + exp(b + 1e-5);", "y = __expf(a) + exp(b + 1e-5);"),  # of a double
    ],
)
def test_operators_and_namespaces_around_calls(line: str, becomes: str) -> None:
    assert _Change({line}).of(line) == becomes


def test_a_function_to_add_has_a_name_that_is_free() -> None:
    line = "float power = powf(x, 2.f);"
    change = _Change({line}, [line])
    assert change.of(line) == "float power = whole_power<2>(x);"
    assert "float whole_power(float x)" in change.power and "x * whole_power<N - 1>(x)" in change.power
    assert _Change({line}, ["y = power<3>(x);", *POWER.split("\n")]).power == POWER  # an earlier change has brought it


@pytest.mark.parametrize(
    ("base", "exponent", "new"),
    [
        ("t", "1.5", "((t) * sqrt(t))"),
        ("x[i]", "-0.5", "(1.0 / (sqrt(x[i])))"),
        ("f", "0.5", "(sqrt((double)(f)))"),  # a float's root is a float
        ("i", "1", "(((double)(i)))"),  # an integer's power is a double
        ("fabs(t)", "1.5", "((fabs(t)) * sqrt(fabs(t)))"),
        ("expf(t)", "0.5", "(sqrt((double)(expf(t))))"),
        ("f", "2", "(power<2>(f))"),
        ("curand_uniform(&s)", "1.5", ""),  # two numbers where there was one
        ("x[i++]", "2.5", ""),
        ("x[i++]", "2", "(power<2>(x[i++]))"),
    ],
)
def test_powers_of_doubles_by_halves(base: str, exponent: str, new: str) -> None:
    found = powers._halves(Call(0, 0, (base, exponent)), {"t", "x"})
    assert (found[2] if found is not None else "") == new


def test_types_of_names_are_looked_for_in_lists_and_parameters() -> None:
    code = "void f(const double* __restrict__ x, double& n, int m) { double a = g(x, m), b; "
    code += "int i, j; unsigned u; a = i * j;"
    assert powers._doubles(code) == {"x", "n", "a", "b"}
    assert powers._integers(code) == {"m", "i", "j", "u"} and powers._unsigned(code) == {"u"}
    assert powers._integers(f"{code} }} void g(const double& m) {{") == {"i", "j", "u"}
    whole, unsigned = powers._integers(code), powers._unsigned(code)
    assert powers._of_integers(Call(0, 0, ("2", "m - i")), whole, unsigned) == "ldexp(1.0, (int)(m - i))"
    assert powers._of_integers(Call(0, 0, ("2", "m - u")), whole, unsigned) == ""  # what wraps around is infinity
    assert powers._all("y = cuda::std::pow(x, 2);", lambda call: "2") == "y = cuda::std::pow(x, 2);"


def test_a_root_that_may_be_of_integers_stays() -> None:
    assert _Change().of("y = expf(x) / sqrt(n);") == "y = __expf(x) / sqrt(n);"
    assert _Change().of("y = expf(x) / sqrtf(n);") == "y = __expf(x) * rsqrtf(n);"


@pytest.mark.parametrize(
    ("function", "line", "named"),
    [
        ("exp", "y = expf(x);", True), ("exp", "y = exp(x);", True), ("exp", "y = math::exp(x);", False),
        ("exp", "y = logf(x);", False), ("exp", "y = f(x);  // expf(x)", False), ("exp", "double y = exp(x);", False),
        ("pow", "y = std::pow(x, y);", True), ("square root", "y = x / sqrt(z);", True),
        ("division", "y = x / z;", False), ("division", "y = x / sqrt(z);", False),
        ("atan2", "y = atan2f(x, z);", False),
    ],
)  # fmt: skip
def test_a_line_is_changed_where_the_machine_code_has_the_function(function: str, line: str, named: bool) -> None:
    outer = Place("a.cu", 9, "z = g(x);")
    place = _named(Spot(4, function, 100.0, (Place("a.cu", 2, line), outer)))
    assert (place is not None) == named and (place is None or place.number == 2)


def test_a_change_of_some_calls_is_promised_their_part() -> None:
    whole = Estimate(speedup=3.0, low=1.05, high=8.0, capped_by="issue slots", kind="modelled")
    found = [Spot(n, "exp", saved, ()) for n, saved in enumerate((60.0, 30.0, 9.0, 1.0))]
    fix = Fix(kind="math_function", title="")
    (some,), (every,) = priced(fix, whole, found, found[1:2]), priced(fix, whole, found, found)
    assert some.price is not None and 1.2 < some.price.speedup < 1.3 and some.price.high < whole.high
    assert every.price == whole
    assert priced(fix, whole, found, found[3:]) == []  # a hundredth of it is not worth the accuracy
    assert priced(fix, structs.replace(whole, speedup=WORTH), found, found) != []
    assert priced(fix, None, found, found[3:]) == [fix]  # machine code alone: nobody knows what it costs


def test_a_capture_whose_functions_all_change_keeps_the_whole_promise() -> None:
    (fix,) = changes("wave.library", "CMP204")
    assert fix.price is not None and fix.price.speedup > 2
    assert fix.title == "__expf, __sinf, __cosf, __powf" and len(fix.edits) >= 1
