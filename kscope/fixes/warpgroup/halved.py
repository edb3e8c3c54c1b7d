"""Products of matrices whose tile is numbers of a template: an instance of half the tile, of which the SMs hold more
blocks, so that the last of them leave fewer SMs idle. Both instances are played, and make the same product."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from msgspec import Struct, structs

from kscope.features.estimate.gains import expected_at_most
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.played import Played
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import shape
from kscope.fixes.roles.macros import parts
from kscope.fixes.tensor.played import Player, Product, played_product
from kscope.fixes.tensor.products import whole
from kscope.fixes.warpgroup.texts import Texts, texts
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.kernel import Launch

SMALLEST = 32  # of a tile's side, of which a half is a fragment's 16 rows at least
MOST_WARPS = 32  # of a block, along one side
EVENER = 0.95  # of the rows and columns that the busiest SM has to make, that must be left at most (judged)
MOST_TRIED = 4  # instances that are played (judged: each takes as long as the kernel's own play)
PADDED = 256  # bytes behind the last that is used, of a row's end that nothing is written to (judged)
STATIC = 48 * 1024  # bytes of shared memory that a block has without being asked for (CUDA C++ Programming Guide)
_BOUNDS = re.compile(r"__launch_bounds__\s*\((?P<threads>[^,()]*)[,)]")
_SUM = re.compile(r"[\d\s*+/-]+")


class Half(Struct, frozen=True):
    """An instance: its numbers, in the order of the template; its launch; bytes of shared memory a block, of all that
    its text was seen to use; what it makes. blocks: that an SM holds of it."""

    numbers: Mapping[str, int]
    launch: Launch
    made: Product
    blocks: int


class Noted:
    """Plays a text, and keeps what it took of shared memory: what it declares, and the end of what it wrote of that
    which the launch gives. ended: whether it could be played."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self.declared = self.given = 0
        self.ended = True

    def __call__(self, *how: object) -> Played:
        self.ended = False
        took = self.player(*how)
        self.ended = True
        declared, given = took.bytes
        self.declared, self.given = max(self.declared, declared), max(self.given, given)
        return took


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    if launch is None or not setting.sms or max(launch.cluster) > 1 or launch.block[1] * launch.block[2] > 1:
        return []
    if not _evener(launch.blocks, setting.sms):
        return []
    for one in texts(setting) if "<" in setting.instance else ():
        player = Noted(one.player(launch.shared_dynamic))
        found = played_product(one.given, launch, player)
        if found is None or not whole(setting, one.given, found) or not _of_numbers(setting, one):
            continue
        if not 0 <= launch.shared_dynamic - player.given <= PADDED:
            return []
        half = _half(setting, one, found, (player.declared, player.given))
        return [_printed(asked, one, found, half)] if half is not None else []
    return []


def _of_numbers(setting: Setting, one: Texts) -> bool:
    """Whether the template has numbers alone, as the instance is named by them."""
    said = re.search(rf"\b{re.escape(setting.name)}<(.*?)>\(", setting.instance)
    return said is not None and len(parts(said[1])) == len(one.given.fixed)


def _evener(blocks: int, sms: int) -> float | None:
    """How much less the SM with most tiles has to make of tiles half as large; None where that is as much."""
    before, after = -(-blocks // sms), -(-2 * blocks // sms) / 2
    return before / after if after <= EVENER * before else None


def _half(setting: Setting, one: Texts, found: Product, used: tuple[int, int]) -> Half | None:
    """used: bytes of shared memory that a block declares now, and up to the last of the others."""
    was, launch = setting.occupancy(), setting.launch
    if was is None or launch is None:
        return None
    for numbers, threads in islice(_instances(one, launch.threads), MOST_TRIED):
        half = _tried(setting, one, (found, *used), numbers, threads)
        if half is not None and _waves(half.launch.blocks, half.blocks, setting.sms) * half.blocks <= (
            EVENER * 2 * _waves(launch.blocks, was.blocks, setting.sms) * was.blocks
        ):
            return half
    return None


def _waves(blocks: int, at_once: int, sms: int) -> int:
    return -(-blocks // (at_once * sms))


def _instances(one: Texts, now: int) -> Iterator[tuple[dict[str, int], int]]:
    """Numbers of the template of which one is half as large, and one that the block's threads go by, with it: then each
    thread makes as much as before. Then the same with all threads."""
    fixed, head = dict(one.given.fixed), one.head
    bound = _BOUNDS.search(head)
    sides = [name for name, n in fixed.items() if n >= SMALLEST and not n % SMALLEST]
    pairs = [(side, other) for side in sides for other, n in fixed.items()
             if other not in sides and 2 <= n <= MOST_WARPS and not n % 2]  # fmt: skip
    if bound is None or _counted(bound["threads"], fixed) != now:
        return
    for side, other in pairs:
        numbers = {**fixed, side: fixed[side] // 2, other: fixed[other] // 2}
        if _counted(bound["threads"], numbers) == now // 2:
            yield numbers, now // 2
    for side in sides:
        numbers = {**fixed, side: fixed[side] // 2}
        threads = _counted(bound["threads"], numbers)
        if threads is not None and threads in (now, now // 2):
            yield numbers, threads


def _counted(text: str, numbers: Mapping[str, int]) -> int | None:
    """What a product or sum of numbers and names comes to; None where it has anything else."""
    put = re.sub(r"[A-Za-z_]\w*", lambda m: str(numbers.get(m[0], m[0])), text)
    if not _SUM.fullmatch(put) or "**" in put or "//" in put:
        return None
    try:
        return sum(_product(part) for part in re.sub(r"-", "+-1*", put).split("+") if part.strip())
    except (ValueError, ZeroDivisionError):
        return None


def _product(text: str) -> int:
    out, how = 1, "*"
    for word in re.split(r"([*/])", text):
        if word in ("*", "/"):
            how = word
        else:
            out = out * int(word) if how == "*" else out // int(word)
    return out


def _tried(
    setting: Setting, one: Texts, now: tuple[Product, int, int], numbers: dict[str, int], threads: int
) -> Half | None:  # fmt: skip
    """The instance with its launch, if it makes the same; None where it does not, or an SM holds none of it."""
    launch = setting.launch
    assert launch is not None
    text = structs.replace(one, given=structs.replace(one.given, fixed=numbers))
    for axis in _axes(launch, one, now[0], numbers):
        grid = tuple(side * (1 + (n == axis)) for n, side in enumerate(launch.grid))
        new = structs.replace(launch, grid=grid, block=(threads, 1, 1))
        player = Noted(text.player(launch.shared_dynamic))
        made = played_product(text.given, new, player)
        if not player.ended:  # another grid does not make it playable
            return None
        if made is None or not _same(now[0], made):
            continue
        static, dynamic = launch.shared_static + player.declared - now[1], launch.shared_dynamic + player.given - now[2]
        new = structs.replace(new, shared_static=static, shared_dynamic=dynamic)
        more = static + dynamic - (setting.shared or 0)
        held = setting.occupancy(threads=threads, more_shared=more)
        return Half(numbers, new, made, held.blocks) if held is not None else None
    return None


def _axes(launch: Launch, one: Texts, found: Product, numbers: Mapping[str, int]) -> list[int]:
    """Of the grid, to be played with twice as many blocks: that of the rows first where the first side is halved."""
    side = next(n for n, was in one.given.fixed.items() if was >= SMALLEST and numbers[n] != was)
    first = next(n for n, was in one.given.fixed.items() if was >= SMALLEST)
    along = found.rows // found.block[0] if side == first else found.cols // found.block[1]
    return sorted((n for n, many in enumerate(launch.grid) if many > 1), key=lambda n: launch.grid[n] != along)


def _same(found: Product, made: Product) -> bool:
    """Whether they are one product, of which a block of the second makes half as much."""
    bare = [structs.replace(p, block=(0, 0), compared=0, layout=structs.replace(
        p.layout, k=(p.layout.k[0], 0), cols=(p.layout.cols[0], 0), rows=(p.layout.rows[0], 0)
    )) for p in (found, made)]  # fmt: skip
    halves = (found.block[0] // 2, found.block[1]), (found.block[0], found.block[1] // 2)
    return bare[0] == bare[1] and made.block in halves


def _printed(asked: Asked, one: Texts, found: Product, half: Half) -> Fix:
    setting, launch = asked.setting, asked.setting.launch
    was = setting.occupancy()
    assert launch is not None and was is not None
    new, numbers = half.launch, ", ".join(str(n) for n in half.numbers.values())
    called = f"{setting.name}<{numbers}>"
    shared = f", {new.shared_dynamic}" if new.shared_dynamic else ""
    asks = f"cudaFuncSetAttribute({called}, cudaFuncAttributeMaxDynamicSharedMemorySize, {new.shared_dynamic});\n"
    changed = [f"{name} = {n}" for name, n in half.numbers.items() if n != one.given.fixed[name]]
    gain = _evener(launch.blocks, setting.sms) or 1.0
    rows, cols = half.made.block
    estimate = asked.finding.estimate
    return Fix(
        kind="block_size",
        title=f"{' and '.join(changed)}: tiles of {rows} x {cols} a block, for the last blocks to be shared evenly",
        language="cuda",
        code=(asks if new.shared_dynamic > STATIC else "")
             + f"{called}<<<{shape(new.grid)}, {shape(new.block)}{shared}>>>(...);",
        parameters={"instance": numbers, "block.x": new.threads, **{
            f"grid.{axis}": side for axis, side, old in zip("xyz", new.grid, launch.grid, strict=True) if side != old
        }, **({"shared": new.shared_dynamic} if shared else {})},
        conditions=[
            proved("both instances make the same product", "values", found.compared + half.made.compared,
                   "both played on whole numbers drawn at random, every result compared; no thread comes between"),
            proved("blocks end at no edge", "launch", found.rows * found.cols * found.batches,
                   "as many results were stored as its blocks have places for, and halves of tiles have as many"),
            Condition(holds=f"it takes {_most(setting, half)} registers a thread at most", state="check",
                      why=f"an SM then holds {half.blocks} blocks of it, as is counted on: nvcc -Xptxas -v tells"),
            Condition(holds="sizes that are multiples of the present tile", state="check", why="as here"),
        ],
        proof=[
            Proof(what="tiles as large as now that the busiest SM makes", before=-(-launch.blocks // setting.sms),
                  after=-(-new.blocks // setting.sms) / 2, unit="tiles",
                  how=f"{was.blocks} blocks on each of {setting.sms} SMs before, {half.blocks} after (arch/sm.toml)"),
            Proof(what="waves of blocks, as long as those are now", unit="waves",
                  before=_waves(launch.blocks, was.blocks, setting.sms),
                  after=_waves(new.blocks, half.blocks, setting.sms) * half.blocks / (2 * was.blocks),
                  how="an SM's share of them, by the tiles that it holds"),
        ],
        costs=[f"elements of both factors that are loaded a multiplication: {_loads(half.made) / _loads(found):.3g} "
               "times as many"],
        price=expected_at_most(estimate, gain) if estimate is not None else None,
    )  # fmt: skip


def _loads(one: Product) -> float:
    return 1 / one.block[0] + 1 / one.block[1]


def _most(setting: Setting, half: Half) -> int:
    """Registers with which an SM holds as many of its blocks."""
    more = half.launch.shared_static + half.launch.shared_dynamic - (setting.shared or 0)
    held = [n for n in range(setting.registers or 0, 256)
            if (p := setting.occupancy(registers=n, threads=half.launch.threads, more_shared=more)) is not None
            and p.blocks >= half.blocks]  # fmt: skip
    return max(held, default=setting.registers or 0)
