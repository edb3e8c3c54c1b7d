"""A sorted list in local arrays into which a key is put, played as the text has it and place by place."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import play
from kscope.fixes.local.registers import Local
from kscope.model.lazily import np

GIVEN, OTHERS, ROW = "given_keys", "given_others", "key_row"
BLOCK, DRAWS, NEAR = 256, 512, (-1, 3)
_OPERATORS = {True: (">", ">="), False: ("<", "<=")}
"""What a place's key is to one that goes there or before it, by whether the least comes first."""


class List(Struct, frozen=True):
    """`text`, of `span`, puts the key `put[0]` into `keys`, and `put[1:]` into `others` at its place; `free`: other
    names that it needs."""

    keys: Local
    others: tuple[Local, ...]
    span: tuple[int, int]
    text: str
    put: tuple[str, ...]
    free: tuple[str, ...]


def place_by_place(one: List, op: str) -> str:
    """The text that asks each place."""
    name, key = one.keys.name, one.put[0]
    last = str(one.keys.count - 1) if one.keys.size.isdigit() else f"{one.keys.size} - 1"
    before = "list_at > 0 ? list_at - 1 : 0"
    lines = [f"if ({name}[{last}] {op} {key}) {{", "  #pragma unroll",
             f"  for (int list_at = {last}; list_at >= 0; list_at--) {{",
             f"    const bool here = {name}[list_at] {op} {key}, on = list_at > 0 && {name}[{before}] {op} {key};"]
    for array, value in [*zip(one.others, one.put[1:], strict=True), (one.keys, key)]:
        stays = f"here ? {value} : {array.name}[list_at]"
        lines.append(f"    {array.name}[list_at] = on ? {array.name}[{before}] : {stays};")
    return "\n".join([*lines, "  }", "}"])


def played(one: List, text: str) -> str:
    """The body that plays a text, a list for each thread."""
    count, all_ = one.keys.count, (one.keys, *one.others)
    width = len(one.others) * count + len(one.free)
    lines = [f"int {ROW} = blockIdx.x * blockDim.x + threadIdx.x;"]
    lines += [f"{x.kind} {x.name}[{count}];" for x in all_]
    lines.append(f"for (int q = 0; q < {count}; q++) {one.keys.name}[q] = {GIVEN}[{ROW} * {count + 1} + q];")
    lines.append(f"{one.keys.kind} {one.put[0]} = {GIVEN}[{ROW} * {count + 1} + {count}];")
    for n, x in enumerate(one.others):
        lines.append(f"for (int q = 0; q < {count}; q++) {x.name}[q] = {OTHERS}[{ROW} * {width} + {n * count} + q];")
    for n, name in enumerate(one.free):
        lines.append(f"int {name} = {OTHERS}[{ROW} * {width} + {len(one.others) * count + n}];")
    lines.append(text)
    for n, x in enumerate(all_):
        lines.append(f"for (int q = 0; q < {count}; q++) sorted_{n}[{ROW} * {count} + q] = {x.name}[q];")
    return "{\n" + "\n".join(lines) + "\n}"


def alike(one: List, text: str, known: dict[str, int]) -> tuple[str, int] | None:
    """(the text that asks each place, rows it was played on) where it leaves the same lists as a text does; None where
    none does, or the lists are not in order."""
    for up, operators in _OPERATORS.items():
        rows = np.array([*_sorted(one.keys.count)], dtype=np.int64) * (1 if up else -1)
        count = len(rows)
        rows = np.resize(rows, (-(-count // BLOCK) * BLOCK, rows.shape[1]))
        was = _results(one, text, rows, known)
        if was is None or (np.diff(was[0] if up else -was[0], axis=1) < 0).any():
            continue
        for op in operators:
            new = place_by_place(one, op)
            now = _results(one, new, rows, known)
            if now is not None and all((a == b).all() for a, b in zip(was, now, strict=True)):
                return new, count
    return None


def _results(one: List, text: str, rows: np.ndarray, known: dict[str, int]) -> list[np.ndarray] | None:
    count, width = one.keys.count, len(one.others) * one.keys.count + len(one.free)
    made = np.random.default_rng(count)
    others = made.integers(0, 2**20, (len(rows), max(1, width)))
    others[::2] = made.integers(*NEAR, others[::2].shape)  # that tests find equal, or none, or below it
    others = others.ravel()
    memory = {GIVEN: rows.ravel().copy(), OTHERS: others}
    memory |= {f"sorted_{n}": np.zeros(len(rows) * count, dtype=np.int64) for n in range(1 + len(one.others))}
    try:
        play(played(one, text), (len(rows) // BLOCK, 1), (BLOCK, 1), memory, known)
    except Unplayable:
        return None
    return [memory[f"sorted_{n}"].reshape(len(rows), count) for n in range(1 + len(one.others))]


def _sorted(count: int) -> Iterator[list[int]]:
    """Lists in rising order, each with the key that is put in behind them."""
    for less in range(count + 1):
        for equal in range(count - less + 1):
            rest = count - less - equal
            yield [*range(-2 * less, 0, 2), *(0,) * equal, *range(2, 2 * rest + 2, 2), 0]
    generator = np.random.default_rng(3 * count + 1)
    for _ in range(DRAWS):
        keys = generator.integers(-count, count, count + 1).tolist()
        yield [*sorted(keys[:-1]), keys[-1]]
    yield [0] * count + [1]
