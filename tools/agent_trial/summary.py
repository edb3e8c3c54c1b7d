"""What the trial says: arms side by side, each against the arm without a profile, with what chance alone would do."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from tools.agent_trial.scoring import Score

AGAINST = "source"
RIGHT = frozenset({"faster", "slower", "inconclusive"})
DRAWS, SEED = 10_000, 1
TIED = 1.01
"""Two arms closer than this are tied on a task: `kscope bench` calls less than 1 % no difference."""
LEAST = 5  # tasks from which an interval is given: resampling four can hardly leave the four


def credited(score: Score) -> float | None:
    """What an answer is worth: its speed-up; 1 where it is wrong or none, for then the first version stays; None where
    nothing was run."""
    if score.status == "built":
        return None
    return score.speedup if score.status in RIGHT and score.speedup else 1.0


def by_task(scores: Sequence[Score]) -> dict[str, dict[str, float]]:
    """Arm -> task -> geometric mean over its repeats."""
    logs: dict[str, dict[str, list[float]]] = {}
    for one in scores:
        worth = credited(one)
        if worth is not None:
            logs.setdefault(one.arm, {}).setdefault(one.task, []).append(math.log(worth))
    return {arm: {t: math.exp(math.fsum(v) / len(v)) for t, v in found.items()} for arm, found in logs.items()}


def mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def best(worth: Mapping[str, Mapping[str, float]]) -> tuple[dict[str, int], int]:
    """(tasks on which an arm alone is best, tasks that are tied), of the tasks that every arm has."""
    counts, tied = dict.fromkeys(worth, 0), 0
    for task in shared(worth, list(worth)):
        ranked = sorted(worth, key=lambda arm: -worth[arm][task])
        if len(ranked) > 1 and worth[ranked[0]][task] < TIED * worth[ranked[1]][task]:
            tied += 1
        else:
            counts[ranked[0]] += 1
    return counts, tied


def shared(worth: Mapping[str, Mapping[str, float]], arms: Sequence[str]) -> list[str]:
    return sorted(set.intersection(*(set(worth[arm]) for arm in arms))) if arms else []


def interval(arm: Mapping[str, float], other: Mapping[str, float]) -> tuple[float, float, float] | None:
    """(ratio of geometric means on the tasks that both have, 2.5 % and 97.5 % of it when tasks are drawn anew). The
    draw is paired: a task brings both its results. None with fewer than LEAST tasks."""
    tasks = sorted(set(arm) & set(other))
    if len(tasks) < LEAST:
        return None
    logs = [math.log(arm[t] / other[t]) for t in tasks]
    chance = random.Random(SEED)
    drawn = sorted(math.fsum(chance.choices(logs, k=len(logs))) / len(logs) for _ in range(DRAWS))
    low, high = drawn[int(0.025 * DRAWS)], drawn[int(0.975 * DRAWS) - 1]
    return math.exp(math.fsum(logs) / len(logs)), math.exp(low), math.exp(high)


def render(scores: Sequence[Score]) -> str:
    """The summary as Markdown."""
    worth = by_task(scores)
    arms = sorted({one.arm for one in scores}, key=lambda arm: (arm != AGAINST, arm))
    counts, tied = best(worth)
    lines = [
        "| arm | answers | right | geometric mean | best on | against the source alone |", "|---|---|---|---|---|---|"
    ]
    for arm in arms:
        mine = [one for one in scores if one.arm == arm]
        right = sum(one.status in RIGHT for one in mine)
        ran = worth.get(arm, {})
        whole = f"{mean(list(ran.values())):.2f}x" if ran else "not run"
        lines.append(f"| {arm} | {len(mine)} | {right} | {whole} | {counts.get(arm, 0)} | {_against(worth, arm)} |")
    lines += ["", *_notes(scores, worth, tied), "", *_tasks(scores, worth, arms)]
    return "\n".join(lines)


def _against(worth: Mapping[str, Mapping[str, float]], arm: str) -> str:
    if arm == AGAINST or arm not in worth or AGAINST not in worth:
        return ""
    found = interval(worth[arm], worth[AGAINST])
    if found is None:
        return f"fewer than {LEAST} tasks"
    ratio, low, high = found
    sure = "" if low > 1 or high < 1 else ": may be chance"
    return f"{ratio:.2f}x ({low:.2f} to {high:.2f}){sure}"


def _notes(scores: Sequence[Score], worth: Mapping[str, Mapping[str, float]], tied: int) -> list[str]:
    notes = ["What is wrong, or no answer, counts as 1.00x: the version to start from stays."]
    if tied:
        notes.append(f"Tied within 1 %: {tied} tasks.")
    whole = {one.task for one in scores}
    if len(shared(worth, list(worth))) < len(whole):
        notes.append("Not every arm has every task: `best on` counts those that all have.")
    if only := sum(one.status == "built" for one in scores):
        notes.append(f"{only} answers were built and not run: no GPU was there. They count nowhere.")
    if devices := sorted({one.device for one in scores if one.device not in ("", "none")}):
        notes.append(f"Measured on {', '.join(devices)}.")
    return notes


def _tasks(scores: Sequence[Score], worth: Mapping[str, Mapping[str, float]], arms: Sequence[str]) -> list[str]:
    lines = ["| task | step | " + " | ".join(arms) + " |", "|---|---|" + "---|" * len(arms)]
    for task in sorted({one.task for one in scores}):
        step = next(one.step for one in scores if one.task == task)
        cells = [_cell([one for one in scores if (one.task, one.arm) == (task, arm)], worth, arm) for arm in arms]
        lines.append(f"| {task} | {step} | " + " | ".join(cells) + " |")
    return lines


def _cell(mine: Sequence[Score], worth: Mapping[str, Mapping[str, float]], arm: str) -> str:
    if not mine:
        return "none"
    wrong = sorted({one.status for one in mine if one.status not in RIGHT})
    gain = worth.get(arm, {}).get(mine[0].task)
    return ", ".join([*([f"{gain:.2f}x"] if gain is not None else []), *wrong])
