"""What a launch has set aside of an SM as shared memory, where it holds fewer blocks than everything else allows."""

from __future__ import annotations

from kscope.features.counters.occupancy_limits import limits_of
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.setting import Asked
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.units import counted

KIB = 1024


def fixes(asked: Asked) -> list[Fix]:
    """The smallest size that holds as many blocks as the largest."""
    setting, launch = asked.setting, asked.setting.launch
    chip = limits_of(setting.code.program.sm)
    if launch is None or launch.carved is None or chip is None:
        return []
    now = setting.occupancy(carved=launch.carved)
    sizes = [int(kib) * KIB for kib in chip["carveouts_kib"]]
    held = {size: p for size in sizes if size > launch.carved and (p := setting.occupancy(carved=size)) is not None}
    if now is None or not held:
        return []
    best = min(held, key=lambda size: (-held[size].blocks, size))
    then = held[best]
    if then.blocks <= now.blocks:
        return []
    percent = 100 * best // int(chip["shared"])
    return [
        Fix(
            kind="carveout",
            title=f"{best // KIB} KiB of an SM as shared memory instead of {launch.carved // KIB}",
            language="cuda",
            code=(
                f"cudaFuncSetAttribute({setting.name}, cudaFuncAttributePreferredSharedMemoryCarveout, {percent});"
                f"  // percent of {int(chip['shared']) // KIB} KiB, before the launch"
            ),
            parameters={"percent": percent, "kib": best // KIB},
            conditions=[
                proved(
                    f"an SM then holds {counted(then.blocks, 'block')}, which shared memory keeps to {now.blocks}",
                    "launch", len(then.limits) + len(now.limits),
                    f"{(setting.shared or 0) + int(chip['reserved'])} bytes a block of the size that was set aside; "
                    f"then {' and '.join(then.limits)} limit it (arch/sm.toml)",
                ),
                Condition(
                    holds="the driver takes the size", state="assumed",
                    why="a preference: CUDA rounds it up to the next size that there is, and may take a larger one",
                ),
                Condition(holds="L1 is not what the smaller size was chosen for", state="check"),
            ],
            proof=[
                Proof(
                    what="warps that an SM holds", before=now.warps, after=then.warps, unit="warps",
                    how="registers, slots and what is set aside of the SM (arch/sm.toml)",
                )
            ],
            costs=[f"{(best - launch.carved) // KIB} KiB less of L1 on each SM"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip
