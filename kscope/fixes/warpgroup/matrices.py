"""nvcuda::wmma where a kernel's text is played: fragments that lie in the registers of a warp nobody says how."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.kinds import FLOATS, Pointer, Values, Vector
from kscope.fixes.given.lanes_played import all_or_none
from kscope.fixes.warpgroup.fragments import WARP
from kscope.fixes.warpgroup.group import Groups
from kscope.model.lazily import np

BY_ROWS, BY_COLUMNS = 0, 1
LAYOUTS = {"row_major": BY_ROWS, "col_major": BY_COLUMNS, "mem_row_major": BY_ROWS, "mem_col_major": BY_COLUMNS}
CALLS = ("fill_fragment", "load_matrix_sync", "store_matrix_sync", "mma_sync")
_SHAPES = ((16, 16, 16), (32, 8, 16), (8, 32, 16))


class Fragment(Struct, frozen=True):
    """role: matrix_a, matrix_b or accumulator. layout: BY_ROWS, BY_COLUMNS, None where the call says it."""

    role: str
    rows: int
    columns: int
    layout: int | None
    half: bool


class Matrices(Groups):
    """Threads whose warps have fragments: arrays whose words are numbers of a matrix, row by row, a lane's after the
    other's. Where they really lie nobody may know, and each may be worked on as the others are."""

    def begin(self) -> None:
        super().begin()
        self.fragments: dict[str, Fragment] = {}
        self.names |= LAYOUTS
        self.known |= LAYOUTS

    def _do_fragment(self, node: Node) -> None:
        _, role, sizes, kind, layout, made = node
        shape = tuple(int(self.value(n)) for n in sizes)
        if shape not in _SHAPES or not kind.startswith(FLOATS):
            raise Unplayable("a fragment of another shape")
        rows, columns = {"matrix_a": shape[::2], "matrix_b": shape[:0:-1]}.get(role, shape[:2])
        one = Fragment(role, rows, columns, LAYOUTS[layout] if layout else None, kind != "float")
        if (layout == "") != (role == "accumulator"):
            raise Unplayable("a fragment of another kind")
        for name, dims in made:
            sides = (*(int(self.value(d)) for d in dims), rows * columns // WARP)
            self._do_hidden(name)
            self.array(name, "float", sides, None, shared=False)
            self.fragments[f"[{name}]"] = one

    def _do_hidden(self, name: str) -> None:
        if isinstance(self.names.get(name), Pointer):
            raise Unplayable("a name that hides another")

    def _of_member(self, node: Node) -> Values:
        if node[2] in ("x", "num_elements") and node[1][0] in ("name", "index"):
            base = self.value(node[1])
            if isinstance(base, Pointer) and base.memory in self.fragments and len(base.dims) == 1:
                return base if node[2] == "x" else base.dims[0]
        return super()._of_member(node)

    def spot(self, node: Node) -> Pointer | None:
        if node[0] == "member" and node[2] == "x":
            base = self._of_member(node) if node[1][0] in ("name", "index") else None
            if isinstance(base, Pointer) and base.memory in self.fragments:
                return base
        return super().spot(node)

    def fragment_call(self, name: str, given: list[Node]) -> Values:
        if not all_or_none(self.on, self.alive, self.warp):
            raise Unplayable("a fragment of some lanes")
        values = [self.value(x) for x in given]
        if name == "fill_fragment":
            self._put_all(values[0], [values[1]] * values[0].dims[0])
        elif name == "load_matrix_sync":
            one, count = self._fragment(values[0])
            memory = self._memory(values[1], one)
            layout = one.layout if one.layout is not None else values[3]
            at = self._uniform(memory.at)
            step = self._uniform(values[2])
            spots = [self._spot(memory, at + memory.width * self._place(one, n, step, layout)) for n in range(count)]
            self._put_all(values[0], [self.got(to) for to in spots])
        elif name == "store_matrix_sync":
            one, count = self._fragment(values[1])
            memory, step = self._memory(values[0], one), self._uniform(values[2])
            at = self._uniform(memory.at)
            for n, number in enumerate(self._numbers(values[1])):
                self.put(self._spot(memory, at + memory.width * self._place(one, n, step, values[3])), number)
        else:
            self._multiply(*values)
        return 0

    def _fragment(self, to: Values) -> tuple[Fragment, int]:
        if not isinstance(to, Pointer) or len(to.dims) != 1 or to.memory not in self.fragments:
            raise Unplayable("no fragment")
        return self.fragments[to.memory], to.dims[0]

    def _memory(self, to: Values, one: Fragment) -> Pointer:
        if not isinstance(to, Pointer) or to.memory in self.fragments:
            raise Unplayable("a matrix of other numbers")
        among = (to.size, to.width, to.each) == (2, 2, 2)  # floats among two-byte numbers
        if (to.size == 2 and not among) != one.half:
            raise Unplayable("a matrix of other numbers")
        return to

    def _spot(self, memory: Pointer, at: Any) -> Pointer:
        """So many elements from the beginning of an array."""
        return Pointer(memory.memory, at, (), memory.width, memory.size, memory.each)

    def _uniform(self, value: Values) -> Any:
        """A number that all lanes of a warp have."""
        if isinstance(value, (Pointer, Vector)):
            raise Unplayable("a number of another kind")
        each = np.broadcast_to(value, self.on.shape)
        first = each[self.each - self.lane % WARP]
        if (each != first)[self.on].any():
            raise Unplayable("a matrix of each lane's own")
        return first

    def _place(self, one: Fragment, n: int, step: Any, layout: Values) -> Any:
        """Where the n-th word of each lane lies behind the first of a matrix."""
        if layout not in (BY_ROWS, BY_COLUMNS):
            raise Unplayable("a layout of another kind")
        flat = self.lane % WARP * (one.rows * one.columns // WARP) + n
        row, column = flat // one.columns, flat % one.columns
        return row * step + column if layout == BY_ROWS else column * step + row

    def _put_all(self, to: Pointer, numbers: list[Values]) -> None:
        _, count = self._fragment(to)
        for n, number in zip(range(count), numbers, strict=True):
            self._put(to.memory, to.at + n, number)

    def _numbers(self, to: Pointer) -> list[Values]:
        _, count = self._fragment(to)
        return [self._load(to.memory, to.at + n) for n in range(count)]

    def _whole(self, to: Pointer, role: str) -> Any:
        """A warp's matrix, by (warp, row, column)."""
        one, _ = self._fragment(to)
        if one.role != role:
            raise Unplayable("a fragment of another kind")
        words = np.stack([np.broadcast_to(x, self.on.shape) for x in self._numbers(to)], axis=1)
        return words.reshape(-1, one.rows, one.columns)

    def _multiply(self, to: Pointer, a: Pointer, b: Pointer, c: Pointer) -> None:
        if self.threads // self.blocks % WARP:
            raise Unplayable("a fragment of some lanes")
        made = self._whole(c, "accumulator") + self._whole(a, "matrix_a") @ self._whole(b, "matrix_b")
        one, count = self._fragment(to)
        if one.role != "accumulator" or made.shape[1:] != (one.rows, one.columns):
            raise Unplayable("a fragment of another kind")
        self.pay(16 * made.size)
        words = made.reshape(self.threads, count)
        self._put_all(to, [words[:, n] for n in range(count)])
