"""Prompts: the same task with three kinds of pack (the arms of the trial), that differ in nothing else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kscope.model.errors import EXIT_TOOL, EXIT_USAGE, KscopeError, one_line
from tools.agent_trial.tasks import Trial

BUDGET = 6000
"""Tokens of a kscope pack: whole findings, source with samples and loops of a kernel of these sizes; half of what
`ncu --page details` takes for one kernel of --set full."""
PATIENCE = 300

PROMPT = """\
Make this faster on an NVIDIA H200 (sm_90a), CUDA 13.

{about} {step}

## The version to start from, {start}

```{language}
{source}
```

It is called as `{launch}`. What counts: time at {shapes}{multiple}, with caches cold and warm. Results are compared
with a float64 reference on several distributions of data, at these sizes and others.{aligned}

{pack}## Your answer

The whole file {start} anew, in one fenced code block, ready to compile: it must define `{entry}` with the same
parameters. No libraries beside the CUDA runtime and its headers. If nothing more is to be gained, give the file back
unchanged.
"""
STEPS = {
    "first": "", "second": "The version below has been improved once already.",
    "third": "The version below has been improved twice already.",
}  # fmt: skip
ALIGNED = " Arrays begin at multiples of 256 bytes."
"""Where the task says `layouts = false`; of others a model must know that they may begin at any element."""
UNALIGNED = " Arrays may begin at any element, not only at aligned addresses."
LANGUAGES = {".cu": "cuda", ".py": "python", ".c": "c", ".cpp": "cpp", ".cc": "cpp"}


def nothing(trial: Trial, budget: int, ncu: str) -> str:
    return ""


def details(trial: Trial, budget: int, ncu: str) -> str:
    """What `ncu --import REPORT --page details` prints. Raises KscopeError: no ncu, or it fails."""
    command = shutil.which(ncu or "ncu")
    if command is None:
        raise KscopeError("missing-tool", "Nsight Compute (ncu) is not here: its arm is left out",
                          "install it, or name it with --ncu", EXIT_TOOL)  # fmt: skip
    done = subprocess.run([command, "--import", str(trial.report()), "--page", "details"], capture_output=True,
                          text=True, errors="replace", timeout=PATIENCE, check=False)  # fmt: skip
    if done.returncode or not done.stdout.strip():
        said = one_line((done.stderr + done.stdout).strip()[-300:])
        raise KscopeError("failed-tool", f"{trial.name}: ncu --import ended with {done.returncode}: {said}", "")
    return _profiled(trial, "Nsight Compute", _fenced(done.stdout))


def pack(trial: Trial, budget: int, ncu: str) -> str:
    """What `kscope analyze REPORT --format llm --budget N` prints."""
    from kscope.engine.run import analyze_paths
    from kscope.model.contract.detail import Detail
    from kscope.reports import Options, render

    detail = Detail()
    analysis = analyze_paths([trial.report()], detail=detail)
    return _profiled(trial, "kscope", render("llm", analysis, Options(budget=budget, detail=detail)))


ARMS: dict[str, Callable[[Trial, int, str], str]] = {"source": nothing, "ncu": details, "kscope": pack}


def prompt(trial: Trial, arm: str, budget: int = BUDGET, ncu: str = "") -> str:
    """What a model is asked. Raises KscopeError where the arm cannot be made here."""
    held = ", ".join(f"{name} is a multiple of {n}" for name, n in trial.multiple.items())
    return PROMPT.format(
        about=trial.about, step=STEPS.get(trial.step, trial.step), start=trial.start, source=trial.source.rstrip(),
        language=LANGUAGES.get(Path(trial.start).suffix, ""), launch=trial.launch or f"{trial.entry}(...)",
        shapes=" and ".join(trial.shapes), multiple=f" ({held})" if held else "", entry=trial.entry,
        aligned=ALIGNED if trial.aligned else UNALIGNED, pack=ARMS[arm](trial, budget, ncu),
    )  # fmt: skip


def write(trials: Sequence[Trial], out: Path, arms: Sequence[str], budget: int, ncu: str) -> Iterator[str]:
    """Write OUT/prompts/ARM/TASK.md; a line for each arm. Raises KscopeError (no arm of that name)."""
    if unknown := [arm for arm in arms if arm not in ARMS]:
        raise KscopeError("usage", f"no arm {', '.join(unknown)}", f"of {', '.join(ARMS)}", EXIT_USAGE)
    for arm in arms:
        folder = out / "prompts" / arm
        try:
            texts = {trial.name: prompt(trial, arm, budget, ncu) for trial in trials}
        except KscopeError as error:
            if error.status != EXIT_TOOL:
                raise
            yield f"{arm}: {error}"
            continue
        folder.mkdir(parents=True, exist_ok=True)
        (out / "answers" / arm).mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / f"{name}.md").write_text(text, encoding="utf-8")
        yield f"{arm}: {len(texts)} prompts in {folder}"


def _profiled(trial: Trial, who: str, text: str) -> str:
    return f"## What {who} says of it, profiled on an H200 at {trial.profiled}\n\n{text.strip()}\n\n"


def _fenced(text: str) -> str:
    """In a fence that nothing inside closes."""
    longest = max((len(run) for run in text.split() if set(run) == {"`"}), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"
