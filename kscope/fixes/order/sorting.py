"""The text of a kernel whose blocks put their elements in an order of a few ways before they work on them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.fixes.given.text import indented
from kscope.fixes.order.pieces import Element
from kscope.fixes.order.whole import named

_TAKEN = (
    "round_n", "block_n", "way_count", "way_of", "place_of", "lane_n", "way_n", "same_n", "mine_n", "ones_n", "going_n",
    "bit_n", "first_n", "start_n", "before_n", "total_n", "slot_n", "key_n", "old_slot",
)  # fmt: skip
_WIDEST = 32


class Stored(Struct, frozen=True):
    """`name[at] = value;`, the last thing that is done with an element. kind: C type of the array's elements."""

    name: str
    at: str
    value: str
    kind: str


def sorting(
    one: Element, asked: Sequence[str], way: str, count: int, block: int, times: int, stored: Stored | None = None
) -> str:
    """The body from brace to brace; "" where a name is taken. way: the text of an element's way, behind statements that
    it needs. Counts of a warp are taken by votes, so that no two lanes ask for one counter. stored: what is kept in
    shared memory and stored in the elements' old order, side by side."""
    text = "\n".join((*one.same, *one.found, *one.rest))
    kept = [f"{d.name}_{n}" for d in one.carried for n in ("of", "slot")]
    kept += [f"{stored.name}_kept"] if stored is not None else []
    if any(named(name, text) for name in (*_TAKEN, *kept)):
        return ""
    each = f"#pragma unroll\nfor (int round_n = 0; round_n < {times}; round_n++)"
    slots = [f"__shared__ {d.kind} {d.name}_slot[{block * times}];" for d in one.carried]
    if stored is not None:
        slots += [f"__shared__ int old_slot[{block * times}];",
                  f"__shared__ {stored.kind} {stored.name}_kept[{block * times}];"]  # fmt: skip
    return indented(
        f"""{{
{' '.join(slots)} __shared__ int way_count[{count}];
if (threadIdx.x < {count}) way_count[threadIdx.x] = 0;
__syncthreads();
const int lane_n = threadIdx.x % {_WIDEST};
{_looked_at(one, asked, way, each, times)}
{_ordered(one, count, each, block, stored)}
{_worked_on(one, each, block, stored)}
}}"""
    )


def _looked_at(one: Element, asked: Sequence[str], way: str, each: str, times: int) -> str:
    """Each element's way, or none where it is not to be worked on."""
    *more, number = way.split("\n")
    found = [re.sub(rf"\bblockIdx\s*\.\s*{one.axis}\b", "block_n", part) for part in one.found]
    last = max(n for n, part in enumerate(found) if not part.endswith(" continue;"))
    kept = " ".join(f"{d.kind} {d.name}_of[{times}];" for d in one.carried)
    return f"""{kept} int way_of[{times}], place_of[{times}];
{each} {{
const unsigned block_n = blockIdx.{one.axis}{f' * {times} + round_n' if times > 1 else ''};
way_of[round_n] = -1;
{chr(10).join((*one.same, *found[: last + 1]))}
{' '.join(f"{d.name}_of[round_n] = {d.name};" for d in one.carried)}
{chr(10).join((*found[last + 1 :], *asked, *more))}
way_of[round_n] = {number};
}}"""


def _ordered(one: Element, count: int, each: str, block: int, stored: Stored | None) -> str:
    """The elements in shared memory, way by way."""
    ways = f"for (int way_n = 0; way_n < {count}; way_n++)"
    slot = "before_n + place_of[round_n]"
    put = " ".join(f"{d.name}_slot[{slot}] = {d.name}_of[round_n];" for d in one.carried)
    put += f" old_slot[{slot}] = round_n * {block} + threadIdx.x;" if stored is not None else ""
    return f"""{each} {{
const unsigned going_n = __ballot_sync(~0u, way_of[round_n] >= 0);
unsigned same_n = going_n, mine_n = going_n;
#pragma unroll
for (int bit_n = 0; bit_n < {(count - 1).bit_length()}; bit_n++) {{
const unsigned ones_n = __ballot_sync(~0u, way_of[round_n] >> bit_n & 1);
same_n &= way_of[round_n] >> bit_n & 1 ? ones_n : ~ones_n;
mine_n &= lane_n >> bit_n & 1 ? ones_n : ~ones_n;
}}
int first_n = 0;
if (lane_n < {count}) first_n = atomicAdd(&way_count[lane_n], __popc(mine_n));
place_of[round_n] = __popc(same_n & ((1u << lane_n) - 1)) + __shfl_sync(~0u, first_n, way_of[round_n] & {_WIDEST - 1});
}}
__syncthreads();
int start_n = 0, total_n = 0;
{ways} {{
total_n += way_count[way_n];
if (way_n < lane_n) start_n += way_count[way_n];
}}
{each} {{
const int before_n = __shfl_sync(~0u, start_n, way_of[round_n] & {_WIDEST - 1});
if (way_of[round_n] >= 0) {{ {put} }}
}}
__syncthreads();"""


def _worked_on(one: Element, each: str, block: int, stored: Stored | None) -> str:
    made = [f"{'const ' if d.const else ''}{d.kind} {d.name} = {d.name}_" for d in one.carried]
    rest = list(one.rest)
    if stored is not None:
        rest[-1] = f"{stored.name}_kept[old_slot[slot_n]] = {stored.value};"
    work = f"""for (int slot_n = threadIdx.x; slot_n < total_n; slot_n += {block}) {{
{chr(10).join(one.same)}
{' '.join(f'{text}slot[slot_n];' for text in made)}
{chr(10).join(rest)}
}}"""
    if stored is None:
        return work
    return f"""{work}
__syncthreads();
{each} {{
if (way_of[round_n] < 0) continue;
{chr(10).join(one.same)}
{' '.join(f'{text}of[round_n];' for text in made)}
{stored.name}[{stored.at}] = {stored.name}_kept[round_n * {block} + threadIdx.x];
}}"""
