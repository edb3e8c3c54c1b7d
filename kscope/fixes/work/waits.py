"""Rings of copies: a wait that leaves the newest groups in flight, and more slots where shared memory has room."""

from __future__ import annotations

import re

from kscope.features.patterns.tile_copies import exposed_copies
from kscope.fixes.given.rewrite import changed, places
from kscope.fixes.given.setting import Asked
from kscope.model.contract.fixes import Condition, Fix, Proof

_WAIT = re.compile(
    r"(?P<call>\b\w*wait\w*\s*)<\s*\w+\s*>(?=\s*\(\s*\))|(?P<prior>\b__pipeline_wait_prior\s*\(\s*)\w+(?=\s*\))|"
    r"(?P<asm>cp\.async\.wait_group\s+)0\b"
)


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
        if len(commits) != 1:
            continue
        behind = commits[0] < wait
        leave = copy.ahead if behind else copy.ahead - 1

        def one(match: re.Match[str], n: int = leave) -> str:
            if match["call"]:
                return f"{match['call']}<{n}>"
            return f"{match['prior'] or match['asm']}{n}"

        edits = changed(places(setting, [wait]), lambda text: _WAIT.sub(one, text, count=1))
        if not edits or leave <= copy.left:
            continue
        return [
            Fix(
                kind="stages",
                title=f"the wait leaves the newest {leave} groups in flight",
                language="cuda",
                edits=edits,
                parameters={"in_flight": leave},
                conditions=[
                    Condition(
                        holds=f"a round's tile is {leave + (not behind)} groups old when it is waited for",
                        state="proved",
                        why=f"{copy.ahead} groups are started before the loop, one in each round (LDGDEPBAR)",
                    ),
                    Condition(
                        holds="a slot is not written before all have used it",
                        state="proved" if len(barriers) > 1 else "check",
                        why=f"{len(barriers)} barriers a round",
                    ),
                    Condition(holds="each round commits a group, also where it copies nothing", state="proved",
                              why="the commit runs in every round"
                              if code.cfg.every_round(copy.loop, commits[0]) else "see the loop"),
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
