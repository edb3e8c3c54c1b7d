"""Does a profile help a model that rewrites kernels? A trial that anyone with a model can repeat.

    python -m tools.agent_trial prompts OUT [--arms source,ncu,kscope] [--budget TOKENS] [--ncu NCU]
    python -m tools.agent_trial score OUT [--seconds S] [--again]
    python -m tools.agent_trial summary OUT

`prompts` writes OUT/prompts/ARM/TASK.md. Give each to a model, with no other context, and put its answer, as it came,
into OUT/answers/ARM/TASK.N.md (N counts repeats). `score` builds, checks and times them with `kscope bench` into
OUT/scores.jsonl; `summary` compares the arms. No model is called here. README.md beside this file says the rest.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from kscope.model.errors import KscopeError  # noqa: E402
from tools.agent_trial import packs, scoring, summary, tasks  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="agent_trial", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("what", choices=("prompts", "score", "summary"))
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of the trial")
    parser.add_argument("--tasks", type=Path, default=tasks.TASKS, metavar="DIR", help="a folder of tasks")
    parser.add_argument("--only", default="", metavar="A,B", help="names of tasks (default all)")
    parser.add_argument("--arms", default=",".join(packs.ARMS), metavar="A,B", help=f"of {', '.join(packs.ARMS)}")
    parser.add_argument("--budget", type=int, default=packs.BUDGET, help="tokens of a kscope pack (%(default)s)")
    parser.add_argument("--ncu", default="", metavar="NCU", help="Nsight Compute's command line, for its text")
    parser.add_argument("--seconds", type=float, default=4.0, help="to look at the clock, a shape (%(default)s)")
    parser.add_argument("--again", action="store_true", help="score anew what was scored")
    given = parser.parse_args(arguments)
    try:
        chosen = tasks.read(given.tasks, [name for name in given.only.split(",") if name])
        if given.what == "prompts":
            for line in packs.write(chosen, given.out, given.arms.split(","), given.budget, given.ncu):
                print(line)
        elif given.what == "score":
            for score in scoring.score(chosen, given.out, given.seconds, again=given.again):
                print(score.line(), flush=True)
        else:
            print(summary.render(scoring.stored(given.out)))
    except KscopeError as error:
        print(f"agent_trial: {error}", file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
