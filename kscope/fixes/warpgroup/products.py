"""Products of matrices of two-byte numbers by mma.sync on a chip with warpgroups: a kernel of the same parameters whose
warpgroups multiply what shared memory holds."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kscope.features.patterns.fma_loops import FMA_OPCODES
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.tensor import worth
from kscope.fixes.tensor.given import Given
from kscope.fixes.tensor.played import Product, played_product
from kscope.fixes.tensor.products import conditions, depth_of, fused, whole
from kscope.fixes.tensor.worth import of_tiles
from kscope.fixes.warpgroup.kernels import DEEP, ROWS, THREADS, Tile, kernel
from kscope.fixes.warpgroup.texts import Texts, made_of, texts
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.kernel import Launch

PLAIN = "CMP201"
OF_THE_PATH = (PLAIN, "CMP202")  # rules that name what multiplies: for others it is to gain by its own time
WITH_GROUPS = 90  # compute capability whose instructions these are; sm_100 has others
TILES = {Tile(256, 4, 1): 49.0, Tile(128, 6, 1): 28.4}
"""Microseconds that blocks of one wave take to a depth of 4096 (worth.DEPTH; measured on an H200: 204 and 235 us for
4096 rows and columns, worth.STARTS among them; two blocks of three stages an SM took 285)."""
LEAST = 0.5  # of the SMs that have a block at least (judged)
SHALLOW = 512  # depth below which filling the stages and storing results is most of the time (judged)
PAST = 16  # bytes that shared memory may begin behind a line of 1024: played so, as the text asks for no line


def fixes(asked: Asked) -> list[Fix]:
    setting = asked.setting
    if setting.launch is None or setting.code.program.sm != WITH_GROUPS:
        return []
    fragments = _by_fragments(setting)
    if not fragments and asked.finding.code != PLAIN:
        return []
    if not _LAST or _LAST[0][0] is not setting:  # several findings of a kernel ask for it
        made = next((made for one in texts(setting) if (made := _made(setting, one, fragments))), [])
        _LAST[:] = [(setting, made)]
    return [fix for fix in _LAST[0][1] if fix.price is not None or asked.finding.code in OF_THE_PATH]


_LAST: list[tuple[Setting, list[Fix]]] = []
"""Which kernel was asked for last, and what it was given."""


def _made(setting: Setting, text: Texts, fragments: list[Proof]) -> list[Fix]:
    given = text.given
    assert setting.launch is not None
    found = played_product(given, setting.launch, text.player(setting.launch.shared_dynamic) if fragments else None)
    tile = _tile(setting, given, found) if found is not None else None
    if found is None or tile is None or not whole(setting, given, found):
        return []
    tiles = found.rows // ROWS * (found.cols // tile.cols) * found.batches
    price = of_tiles(setting, tiles, tile.blocks, TILES[tile], _depth(setting, given, found))
    if price is not None and price.speedup < worth.LEAST:
        return []
    code = kernel(given, found, tile)
    again = made_again(given, found, tile, code, text.files[0])
    if again is None:
        return []
    return [
        Fix(
            kind="tile",
            title=f"wgmma: tiles of {ROWS} x {tile.cols} a block, both factors in shared memory",
            language="cuda",
            code=code,
            parameters={"tile": ROWS, "tile.x": tile.cols, "depth": DEEP, "stages": tile.stages, "block.x": THREADS},
            conditions=_conditions(given, found, tile, again),
            proof=fragments or fused(setting),
            costs=[f"{tile.bytes} bytes of shared memory a block, which the host asks for"],
            price=price,
        )
    ]  # fmt: skip


def _by_fragments(setting: Setting) -> list[Proof]:
    now = total(setting.code.executed, setting.code.where(lambda ins, op: "packed_mma_sync" in op.kind))
    how = "a product of a warpgroup is 64 rows and a tile's columns"
    return [Proof(what="warp instructions of mma.sync", before=now, after=0.0, how=how)] if now else []


def _tile(setting: Setting, given: Given, found: Product) -> Tile | None:
    """The one whose waves take least, of those that divide the result."""
    depth, times = depth_of(given, found), {}
    for tile, wave in TILES.items():
        tiles = found.rows // ROWS * (found.cols // tile.cols) * found.batches
        even = not (found.rows % ROWS or found.cols % tile.cols or depth % DEEP)
        if even and tiles >= LEAST * setting.sms:
            times[tile] = wave * -(-tiles // (setting.sms * tile.blocks))
    deep = _depth(setting, given, found) >= SHALLOW
    return min(times, key=lambda tile: times[tile]) if times and deep else None


def _depth(setting: Setting, given: Given, found: Product) -> int:
    """What the text or the launch says of it, or as many multiplications as were made for each result."""
    return depth_of(given, found) or int(_counted(setting) / (found.rows * found.cols * found.batches))


def _counted(setting: Setting) -> float:
    """Multiplications that were made, at least."""
    code = setting.code
    tensor = code.where(lambda ins, op: "packed_mma_sync" in op.kind)
    deep = [i for i in tensor if "16816" in code[i].mods]
    fused = code.where(lambda ins, op: ins.opcode in FMA_OPCODES)
    return 16 * 8 * 8 * (total(code.executed, tensor) + total(code.executed, deep)) + 32 * total(code.executed, fused)


def made_again(given: Given, found: Product, tile: Tile, code: str, file: Sequence[str]) -> Product | None:
    """What the new kernel makes, played as well; None where that is anything else than what the given one makes."""
    lines = [*file, *code.split("\n")]
    new = made_of(lines, f"{given.name}_groups")
    if new is None:
        return None
    grid = found.cols // tile.cols, found.rows // ROWS, found.batches
    launch = Launch(grid, (THREADS, 1, 1), (1, 1, 1), 0, 0, tile.bytes, None)
    made = played_product(new.given, launch, new.player(tile.bytes, PAST), tile.cols)
    if made is None:
        return None
    like = msgspec.structs.replace(made, block=found.block, compared=found.compared)
    return made if _named(like) == _named(found) and made.block == (ROWS, tile.cols) else None


def _named(one: Product) -> Product:
    """Without what the sizes were that it was played with."""
    lay = one.layout
    bare = msgspec.structs.replace(lay, k=(lay.k[0], 0), cols=(lay.cols[0], 0), rows=(lay.rows[0], 0))
    return msgspec.structs.replace(one, layout=bare)


def _conditions(given: Given, found: Product, tile: Tile, again: Product) -> list[Condition]:
    first, *others = conditions(given, found, (ROWS, tile.cols, DEEP))
    how = (
        "played as well, its products by a model of descriptors, of the swizzle of 128 bytes and of sums by lanes (PTX"
        " ISA): none reads what is on its way, or what no fence has handed over"
    )
    return [
        first,
        proved("the new kernel makes the same", "values", again.compared, how),
        *others,
        Condition(holds="it is built for sm_90a", state="check",
                  why="wgmma is no instruction of sm_90: -gencode=arch=compute_90a,code=sm_90a"),
    ]  # fmt: skip
