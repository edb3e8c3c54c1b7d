"""An order that the host makes once for many launches: numbers of what is worked on, sorted by a key that a small
kernel finds as the kernel itself does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kscope.fixes.atomics.reading import Kernel
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.text import closing, indented
from kscope.fixes.order.alike import MATH, called, known, memory_of, pointers
from kscope.fixes.order.whole import named
from kscope.model.lazily import np

THREADS = 256  # of a block of the small kernel
PLACE, ORDER, KEY = "at_n", "sorted_n", "by_n"
NAMES = (PLACE, ORDER, KEY, "many_n", "keys_n")
CODE = """{heading}
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/sort.h>
__global__ void {name}_keys({parameters}, {number}* sorted_n, {key}* by_n, size_t many_n) {body}
inline void {name}_order({parameters}, {number}* sorted_n, size_t many_n) {{  // in the default stream
  thrust::device_vector<{key}> keys_n(many_n);
  {key}* by_n = thrust::raw_pointer_cast(keys_n.data());
  {name}_keys<<<(many_n + {less}) / {threads}, {threads}>>>({arguments}, sorted_n, by_n, many_n);
  thrust::stable_sort_by_key(keys_n.begin(), keys_n.end(), thrust::device_ptr<{number}>(sorted_n));
}}"""


class Sorting(Struct, frozen=True):
    """`number`: type of the numbers that are sorted, `value`: a number as found at place at_n; `steps`: statements
    that a key needs, guards among them; `way`: its text, `key`: its type; `left`: the key of what guards send away."""

    name: str
    parameters: str
    arguments: str
    number: str
    value: str
    steps: tuple[str, ...]
    way: str
    key: str
    left: str

    @property
    def body(self) -> str:
        """Of the kernel that finds keys."""
        steps = [re.sub(r"\bcontinue;$", "return;", s) for s in self.steps]
        away = f"by_n[at_n] = {self.left};" if any(s.endswith(" return;") for s in steps) else ""
        return indented(
            f"""{{
const size_t at_n = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
if (at_n >= many_n) return;
sorted_n[at_n] = {self.value};
{away}
{chr(10).join(steps)}
by_n[at_n] = {self.way};
}}"""
        )

    def code(self, heading: str) -> str:
        """What stands in front of the host's code. heading: a comment that says when it is called."""
        return CODE.format(
            heading=heading, name=self.name, parameters=self.parameters, arguments=self.arguments, number=self.number,
            key=self.key, body=self.body, threads=THREADS, less=THREADS - 1,
        )  # fmt: skip


def given(kernel: Kernel, name: str) -> tuple[str, str] | None:
    """A kernel's parameters as they stand, and as arguments; None where they are a template's, or hold new names."""
    code = kernel.text.code
    head = re.search(rf"\b{re.escape(name)}\s*\(", code)
    close = closing(code, head.end()) if head is not None else None
    if head is None or close is None:
        return None
    text = " ".join(code[head.end() : close].split())
    above = "\n".join([*kernel.lines[max(0, kernel.text.first - 2) : kernel.text.first - 1], code[: head.start()]])
    if "=" in text or re.search(r"\btemplate\b", above) or any(named(n, code) for n in NAMES):
        return None
    return text, ", ".join(kernel.parameters)


def sorted_by(kernel: Kernel, one: Sorting, many: int, numbers: Mapping[str, int], arrays: Mapping[str, Any]) -> Any:
    """The numbers in their order, as the small kernel is played; None where it cannot be. arrays: what those hold that
    are not drawn."""
    functions = called(kernel)
    memory = memory_of(kernel, 1 << 24, arrays)
    memory |= {name: np.zeros(many, dtype=np.int64) for name in (ORDER, KEY)}
    kinds = {**pointers(kernel), ORDER: one.number, KEY: one.key}
    rules = Rules(literals="drawn", races=True, kinds=kinds, opaque=(*MATH, *(functions or ())))
    grid = (-(-many // THREADS), 1)
    try:
        play(one.body, grid, (THREADS, 1), memory, {**known(kernel), **numbers, "many_n": many}, rules)
    except Unplayable:
        return None
    return memory[ORDER][np.argsort(memory[KEY], kind="stable")]


def again(arrays: Sequence[str]) -> str:
    """When an order is made."""
    return f"once, and again when {' or '.join(f'{a}[]' for a in arrays)} changes"
