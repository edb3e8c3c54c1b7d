"""Products of matrices of two-byte numbers on the FMA pipes: a kernel of the same parameters whose warps multiply
fragments on the tensor cores."""

from __future__ import annotations

import msgspec

from kscope.arch.chips import chips
from kscope.features.patterns.fma_loops import FMA_OPCODES
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.tensor.given import Given, given_product
from kscope.fixes.tensor.kernels import STATIC, Tile, kernel
from kscope.fixes.tensor.played import Product, played_product
from kscope.fixes.tensor.worth import LEAST, of_tiles
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.contract.frozen import Estimate

STRIPS, BLOCKS = (4, 2), 3  # tiles that a block makes one behind the other, blocks an SM that are left (judged)
OLDEST = 80  # compute capability with cp.async and mma.m16n8k16 of both types
SHALLOW = (Tile(64, 128, 64, 1, (2, 4), 4), Tile(64, 64, 64, 1, (2, 2), 6))
TILES = (Tile(128, 128, 64, 2, (2, 4), 2), Tile(64, 64, 64, 2, (4, 2), 2))
"""The best of those of one depth that were measured on an H200: products of depth 64, and deeper ones."""
WAVE_US = {TILES[0]: 108.8}  # that a wave takes to a depth of 4096 (worth.DEPTH; fitted on 443, 65 and 66 us)


def fixes(asked: Asked) -> list[Fix]:
    setting = asked.setting
    given = given_product(setting) if setting.launch is not None and setting.code.program.sm >= OLDEST else None
    if given is None or setting.launch is None:
        return []
    found = played_product(given, setting.launch)
    tile = _tile(setting, given, found) if found is not None else None
    if found is None or tile is None or not whole(setting, given, found):
        return []
    shared = tile.bytes(found.layout, _size(given, found))
    price = _worth(asked, given, found, tile)
    if price is not None and price.speedup < LEAST:
        return []
    return [
        Fix(
            kind="tile",
            title=f"tensor cores: tiles of {tile.rows} x {tile.cols} a block, fragments of 16 x 8",
            language="cuda",
            code=kernel(given, found, tile),
            parameters={"tile": tile.rows, "tile.x": tile.cols, "depth": tile.deep, "block.x": tile.threads},
            conditions=conditions(given, found, (tile.rows, tile.strip * tile.cols, tile.deep)),
            proof=[*fused(setting), _loads(setting, given, found, tile)],
            costs=[f"{shared} bytes of shared memory a block" + (", which the host asks for" * (shared > STATIC))],
            price=price,
        )
    ]  # fmt: skip


def _worth(asked: Asked, given: Given, found: Product, tile: Tile) -> Estimate | None:
    """By the tiles' own time where that was measured; else what the finding says of tensor cores."""
    setting, depth = asked.setting, depth_of(given, found)
    if tile in WAVE_US and depth and setting.us:
        tiles = found.rows // tile.rows * (found.cols // tile.cols) * found.batches
        return of_tiles(setting, tiles, tile.blocks, WAVE_US[tile], depth)
    return asked.finding.estimate if asked.finding.code == "CMP201" else None  # a tile's is another one's


def whole(setting: Setting, given: Given, found: Product) -> bool:
    """Whether as many results were stored as blocks have places for: none of them ended at an edge."""
    code, threads = setting.code, getattr(setting.code, "threads", None)
    if threads is None:
        return False
    stores = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "store"))
    words = sum(total(threads, [i]) * code.classes[i].bytes for i in stores) / _size(given, found)
    return bool(words == found.rows * found.cols * found.batches)


def _size(given: Given, found: Product) -> int:
    """Bytes of a result."""
    return 4 if given.kinds[found.c] == "float" else 2


def _tile(setting: Setting, given: Given, found: Product) -> Tile | None:
    """The largest tile that divides the result and leaves none of the SMs without."""
    depth = depth_of(given, found)
    for tile in SHALLOW if depth == SHALLOW[0].deep and found.layout.k[0].isdigit() else TILES:
        tiles = found.rows // tile.rows * (found.cols // tile.cols) * found.batches
        even = not (found.rows % tile.rows or found.cols % tile.cols or depth % tile.deep)
        if even and tiles >= setting.sms:
            return _strips(setting, given, found, tile, tiles)
    return None


def _strips(setting: Setting, given: Given, found: Product, tile: Tile, tiles: int) -> Tile:
    """The tile with as many side by side in a block as leave blocks enough, where the depth is a tile's."""
    if tile.stages > 1:
        return tile
    across = found.cols // tile.cols
    strip = next((n for n in STRIPS if not across % n and tiles // n >= BLOCKS * setting.sms), 1)
    known = [chip.l2_bytes or 0 for chip in chips().values() if chip.cc == setting.code.program.sm]
    past = 0 < max(known, default=0) < found.rows * found.cols * found.batches * _size(given, found)
    return msgspec.structs.replace(tile, strip=strip, past=past)


def depth_of(given: Given, found: Product) -> int:
    """What the text or the launch says of it; 0 where it is a parameter of its own."""
    name = found.layout.k[0]
    said = {found.layout.cols[0]: found.cols, found.layout.rows[0]: found.rows, **given.real}
    return int(name) if name.isdigit() else said.get(name, 0)


def conditions(given: Given, found: Product, tile: tuple[int, int, int]) -> list[Condition]:
    """tile: rows, columns and depth that a block makes."""
    out = [
        proved(_made(found), "values", found.compared,
               "the kernel played on whole numbers drawn at random, every result compared; no thread comes between"),
    ]  # fmt: skip
    out += _even_sides(given, found, tile)
    if given.fixed:
        why = "the new kernel is made for the numbers of this one"
        out.append(Condition(holds="no other instance of the template is meant", state="check", why=why))
    return [
        *out,
        Condition(holds="the matrices begin on 16 bytes", state="check", why="cudaMalloc's do, parts may not"),
        Condition(holds="sums of floats in another order will do", state="check",
                  why="products are exact, tensor cores add in an order of their own"),
    ]  # fmt: skip


def _made(found: Product) -> str:
    """What it is, in words."""
    lay = found.layout
    what = f"{found.c} = {found.a}{chr(39) * lay.turned_a} {found.b}{chr(39) * lay.turned_b}"
    what += f" * {found.factor}" if found.factor else ""
    many = f", {found.batches} of them" if found.batches > 1 else ""
    return f"{what}, row by row{many}"


def _even_sides(given: Given, found: Product, tile: tuple[int, int, int]) -> list[Condition]:
    """That a tile's rows, columns and depth divide the product's."""
    lay, out = found.layout, []
    sides = tuple(zip((lay.rows[0], lay.cols[0], lay.k[0]), tile, strict=True))
    for name in dict.fromkeys(n for n, _ in sides if n and not n.isdigit()):
        holds = f"{name} is a multiple of {max(each for n, each in sides if n == name)}"
        known = given.real.get(name)
        out.append(
            reads(holds, f"it is {known}") if known else Condition(holds=holds, state="check", why="as here; no edges")
        )
    if not lay.rows[0]:
        why = "it stored each of them once: no block ended at an edge; another launch must be as even"
        out.append(proved(f"{found.rows} rows of results, a multiple of {tile[0]}", "launch", found.rows, why))
    return out


def fused(setting: Setting) -> list[Proof]:
    code = setting.code
    now = total(code.executed, code.where(lambda ins, op: ins.opcode in FMA_OPCODES))
    how = "a product of fragments is 16 x 8 x 16 multiplications"
    return [Proof(what="warp instructions of products on the FMA pipe", before=now, after=0.0, how=how)] if now else []


def _loads(setting: Setting, given: Given, found: Product, tile: Tile) -> Proof:
    """How much of the factors a multiplication takes: as was counted where the depth is known, else by the blocks."""
    code, threads, depth = setting.code, getattr(setting.code, "threads", None), depth_of(given, found)
    wide = tile.strip * tile.cols
    now, what = 1 / found.block[0] + 1 / found.block[1], "elements of both factors that a block needs"
    if threads is not None and depth:
        loads = code.where(lambda ins, op: op.space == "global" and op.access == "load")
        words = sum(total(threads, [i]) * code.classes[i].bytes / 2 for i in loads)
        now, what = words / (found.rows * found.cols * found.batches * depth), "elements loaded from global memory"
    return Proof(
        what=f"{what} a multiplication", before=round(now, 4), after=round(1 / tile.rows + 1 / wide, 4),
        how=f"{tile.rows} rows and {wide} columns of one depth serve {tile.rows} x {wide} multiplications",
    )  # fmt: skip
