"""What the interpreter makes of small kernels is what C++ makes of them, or it refuses them."""

from __future__ import annotations

import pytest

from tests.support.beside import Kernel, kernels, played, run

REFUSED = 40  # of the kernels at most: a text that is refused shows nothing


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Kernel, list[float]]]:
    every = kernels()
    return list(zip(every, run(tmp_path_factory.mktemp("beside"), every), strict=True))


def test_a_play_leaves_what_cpp_leaves(ran: list[tuple[Kernel, list[float]]]) -> None:
    left = [(one, wanted, played(one)) for one, wanted in ran]
    other = [one for one, wanted, made in left if made is not None and made != pytest.approx(wanted, rel=1e-6)]
    assert [f"{one.x} {one.y} {one.n}: {one.above} {one.body}" for one in other] == []
    assert sum(made is None for *_, made in left) <= REFUSED
    assert sum(any(wanted) for _, wanted in ran) > len(ran) - 20


@pytest.mark.parametrize(
    "body", ["y[0] = 08;", "y[0] = 1u << m * 20;", "size_t a = 0; y[0] = a - 1 > 3;", "y[0] = 'a';"]
)
def test_where_they_would_part_it_refuses(body: str) -> None:
    assert played(Kernel(body)) is None


def test_a_variable_without_a_value_is_no_zero() -> None:
    made = played(Kernel("int a; y[0] = a == 0;"))
    assert made is not None and made[0] == 0


def test_quotients_of_fractions_that_whole_numbers_stand_for_are_told_apart() -> None:
    """As x / s of a small x and a large s, which are 0 of whole numbers."""
    one, other = (
        played(Kernel(f"float s = 1000, v = threadIdx.x + {n}; y[threadIdx.x] = v / s;"), real=False) for n in (1, 2)
    )
    assert one is not None and other is not None and one != other
