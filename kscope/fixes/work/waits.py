"""Rings of copies: a wait that leaves the newest groups in flight, and more slots where shared memory has room."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.features.patterns.tile_copies import exposed_copies
from kscope.features.sass.listing import Listing
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.rewrite import changed, places
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import constants
from kscope.fixes.given.text import kernel_text
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.units import counted

_WAIT = re.compile(
    r"(?P<call>\b\w*wait\w*\s*)<\s*\w+\s*>(?=\s*\(\s*\))|(?P<prior>\b__pipeline_wait_prior\s*\(\s*)\w+(?=\s*\))|"
    r"(?P<asm>cp\.async\.wait_group\s+)0\b"
)


_RING = re.compile(
    r"for\s*\(\s*int\s+(\w+)\s*=\s*0\s*;\s*\1\s*<\s*(?P<name>\w+)\s*;\s*\1\+\+\s*\)\s*\{?[^;{}]*init", re.ASCII
)


def deeper(asked: Asked) -> list[Fix]:
    """More stages of a ring of mbarriers whose number has a name."""
    setting, launch = asked.setting, asked.setting.launch
    said = {e.metric: e.value for e in asked.finding.evidence if isinstance(e.value, (int, float))}
    stages, size, room = (said.get(n, 0.0) for n in ("stages", "bytes a stage", "stages that fit"))
    text = kernel_text(setting)
    ring_ = _RING.search(text.code) if text is not None else None
    if launch is None or text is None or ring_ is None or not stages or not size or not room or room <= stages:
        return []
    name = ring_["name"]
    above = "\n".join(setting.lines(text.file)[max(0, text.first - 4) : text.first])
    if not re.search(rf"\bint\s+{name}\b", above) and name not in constants(setting.lines(text.file)):
        return []
    more = int((room - stages) * size)
    was, will = setting.occupancy(), setting.occupancy(more_shared=more)
    if was is None or will is None or will.blocks < was.blocks:
        return []
    shared = launch.shared_dynamic + more
    return [
        Fix(
            kind="stages",
            title=f"{name} = {room:.0f} stages instead of {stages:.0f}: {(room - 1) * size / 1024:.0f} KB on their way",
            language="cuda",
            code=(
                f"constexpr int {name} = {room:.0f};  // or the template's argument; a slot s and its parity go on by\n"
                f"// if (++s == {name}) {{ s = 0; parity ^= 1; }}  in producer and consumers alike\n"
                f"// launch: {shared} bytes of dynamic shared memory, allowed by cudaFuncSetAttribute"
            ),
            parameters={"stages": int(room), "shared_dynamic": shared},
            conditions=[
                reads(f"{name} counts the ring's mbarriers", "the loop that makes them"),
                proved(
                    f"{room:.0f} stages leave {counted(will.blocks, 'block')} on an SM", "launch", len(will.limits),
                    "registers, shared memory and slots of the SM (arch/sm.toml)",
                ),
                Condition(holds=f"nothing else depends on {name}", state="check"),
            ],
            proof=[
                Proof(
                    what="bytes on their way while one stage is used", before=(stages - 1) * size,
                    after=(room - 1) * size, unit="B", how=f"stages of {size:,.0f} bytes",
                )
            ],
            costs=[f"{more} bytes of shared memory a block more"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _apart(code: Listing, loop: int, body: Sequence[int], barriers: Sequence[int]) -> int:
    """Barriers of every round that stand between the last load of the tile and the first copy that may overwrite it:
    in the order of the loop's code, in which copies come first or last."""
    copies = [i for i in body if code[i].opcode in ("LDGSTS", "UTMALDG", "UBLKCP")]
    loads = [i for i in body if code[i].opcode in ("LDS", "LDSM")]
    if not copies or not loads:
        return 0
    first, last = min(copies), max(loads)
    held = [b for b in barriers if code.cfg.every_round(loop, b)]
    between = [b for b in held if last < b < first] if last < first else [b for b in held if b > last or b < first]
    return len(between)


def ring(asked: Asked) -> list[Fix]:
    """The wait of a ring that is filled ahead and then waited for whole."""
    setting, code = asked.setting, asked.setting.code
    for copy in exposed_copies(code):
        body = code.cfg.loop_body(copy.loop)
        waits = [i for i in copy.waits if code[i].opcode == "DEPBAR"]
        barriers = [i for i in body if code[i].opcode == "BAR"]
        if not copy.asynchronous or copy.ahead <= copy.left or len(waits) != 1:
            continue
        (wait,) = waits
        commits = [i for i in body if code[i].opcode == "LDGDEPBAR"]
        if len(commits) != 1 or not code.cfg.every_round(copy.loop, commits[0]):
            continue  # the last rounds' tiles would not be waited for
        behind = commits[0] < wait
        leave = copy.ahead if behind else copy.ahead - 1

        def one(match: re.Match[str], n: int = leave) -> str:
            if match["call"]:
                return f"{match['call']}<{n}>"
            return f"{match['prior'] or match['asm']}{n}"

        apart = _apart(code, copy.loop, body, barriers)
        where = places(setting, [wait])
        edits = changed(where, lambda text: _WAIT.sub(one, text, count=1))
        if any(len(_WAIT.findall(p.text)) != 1 for p in where) or not edits or leave <= copy.left:
            continue
        return [
            Fix(
                kind="stages",
                title=f"the wait leaves the newest {leave} groups in flight",
                language="cuda",
                edits=edits,
                parameters={"in_flight": leave},
                conditions=[
                    proved(
                        f"a round's tile is {leave + (not behind)} groups old when it is waited for", "code",
                        [*waits, *commits],
                        f"{copy.ahead} groups are started before the loop, one in each round (LDGDEPBAR)",
                    ),
                    shown(
                        apart > 0, "a slot is not written before all have used it", "code", apart,
                        "a barrier of every round stands between the tile's last load and the next copy",
                        f"{counted(len(barriers), 'barrier')} a round: is one between the last use and the next copy?",
                    ),
                    proved("each round commits a group, also where it copies nothing", "code", commits,
                           "the commit runs in every round"),
                ],
                proof=[
                    Proof(
                        what="groups of copies in flight behind the wait", before=copy.left, after=leave, unit="groups",
                        how="commits before the loop and in it, counted in the code",
                    )
                ],
                price=asked.finding.estimate,
            )
        ]  # fmt: skip
    return []
