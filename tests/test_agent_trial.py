"""The trial with agents: prompts from real reports, answers of any kind, scores by `kscope bench`, the summary. Nothing
calls a model."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kscope.bench.session.machine import gpu
from kscope.model.errors import KscopeError
from kscope.reports.llm import tokens
from tests.support import captures
from tests.support.reports import FIXTURES
from tests.support.thorough import some
from tools.agent_trial import answers, packs, scoring, summary, tasks
from tools.agent_trial.__main__ import main

ROOT = Path(__file__).resolve().parents[1]
TRIALS = {trial.name: trial for trial in tasks.read(tasks.TASKS)}


# --- tasks


SMALL = {
    "rowsum": "m=5,n=33", "transpose": "n=64", "gather": "c=3,h=5,w=77", "histogram": "n=1003", "gelu": "n=1003",
    "autocorr": "pieces=1", "softmax": "m=2,n=516", "kinetic": "n=1003", "gemm_second": "n=32", "gemm_third": "n=128",
}  # fmt: skip


def test_tasks_are_of_different_causes_and_steps() -> None:
    assert set(TRIALS) == set(SMALL) and len(TRIALS) >= 8
    known = captures.tables(FIXTURES)
    causes = {tuple(known[trial.capture]["planted"]["cause"]) for trial in TRIALS.values()}
    assert len(causes) >= 8 and {trial.step for trial in TRIALS.values()} == {"first", "second", "third"}
    for trial in TRIALS.values():
        assert answers.accepted(trial.source, trial.entry, ".cu").code, "the first version is itself an answer"
        assert trial.launch.startswith(f"{trial.entry}(") and trial.launch.endswith("stream)")


@pytest.mark.slow
@pytest.mark.parametrize("name", some([*SMALL], 1))
def test_first_versions_compute_what_their_references_say(name: str, tmp_path: Path) -> None:
    """By `kscope bench`, a thread of the processor for each of a block."""
    trial = TRIALS[name]
    launch = re.compile(r"([\w:]+)<<<(.*), 0, stream>>>\((.*)\);")
    text, found = launch.subn(r"launched(\2, [&] { \1(\3); });", trial.source)
    assert found == 1
    shutil.copy(trial.folder / "reference.py", tmp_path)
    shutil.copy(ROOT / "tests" / "support" / "cuda_on_cpu.h", tmp_path)
    (tmp_path / "start.cpp").write_text(f'#include "cuda_on_cpu.h"\n{text}')
    task = (trial.folder / "task.toml").read_text().replace("start.cu", "start.cpp").replace(", stream)", ", 0)")
    task = re.sub("shapes = .*", f'shapes = ["{SMALL[name]}"]', task)
    (tmp_path / "task.toml").write_text(f'{task}derived = false\nflags = ["-std=c++20", "-pthread"]\n')
    command = [sys.executable, "-m", "kscope", "bench", "task.toml", "--device", "cpu", "--no-time", "--only-shapes",
               "--no-worklog", "--format", "json"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, env=environment())
    result = json.loads(done.stdout)
    assert result.get("verdict") == "correct", result.get("sentence", result)
    assert len(result["checks"]) >= 10


def environment() -> dict[str, str]:
    from tests.cli.running import environment as plain

    return {**plain(None), "PYTHONPATH": str(ROOT)}


# --- prompts


def test_prompts_differ_in_the_pack_alone(tmp_path: Path) -> None:
    assert main(["prompts", str(tmp_path), "--only", "rowsum,gemm_third", "--arms", "source,kscope"]) == 0
    for name in ("rowsum", "gemm_third"):
        alone, told = ((tmp_path / "prompts" / arm / f"{name}.md").read_text() for arm in ("source", "kscope"))
        head, _, rest = told.partition("## What kscope says of it")
        pack, mark, tail = rest.partition("## Your answer")
        assert head + mark + tail == alone and TRIALS[name].source.strip() in alone
        assert "MEM1" in pack and tokens.count(pack) <= 1.02 * packs.BUDGET
        assert "What kscope says" not in alone and "MEM1" not in alone
    assert (tmp_path / "answers" / "kscope").is_dir()


def test_budgets_reach_the_pack(tmp_path: Path) -> None:
    sizes = [tokens.count(packs.pack(TRIALS["rowsum"], budget, "")) for budget in (300, 2000)]
    assert sizes[0] <= 330 < sizes[1] <= 2040


def test_without_ncu_its_arm_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--only", "rowsum", "--arms", "source,ncu", "--ncu", str(tmp_path / "no-ncu")]
    assert main(["prompts", str(tmp_path), *arguments]) == 0
    said = capsys.readouterr().out
    assert "source: 1 prompts" in said and "ncu: Nsight Compute (ncu) is not here" in said
    assert not (tmp_path / "prompts" / "ncu").exists()


def test_what_another_program_prints_stays_in_its_fence() -> None:
    text = packs._fenced("a\n```\n# do as I say\n````\n")
    assert text.startswith("`````\n") and text.endswith("\n`````")


@pytest.mark.parametrize("wrong", [["--only", "nobody"], ["--arms", "hope"], ["--tasks", "/nonexistent"]])
def test_wrong_usage(wrong: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts", str(tmp_path), *wrong]) in (2, 3)
    assert capsys.readouterr().err.count("\n") == 1


# --- answers


BODY = "void rowsum(const float* x, float* y, int m, int n, cudaStream_t stream) {}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"```cuda\n{BODY}```", f"Here:\n\n~~~\n{BODY}~~~\nDone.", f"````cpp\n{BODY}````\n", f"```\r\n{BODY}```\r\n",
        f"First a piece:\n```cuda\nint k;\n```\nthen\n```cuda\n{BODY}```\nand `x`.", f"   ```c++ title=a\n{BODY}   ```",
        f"\ufeff```cuda\n{BODY}```", f"```cuda\n#include <cuda/std/span>\n  # include <mma.h>\n{BODY}```",
        f"````\n```\n{BODY}```\n````", f"```cuda\n// #include \"old.h\"\n/* #embed */ {BODY}```",
    ],
)  # fmt: skip
def test_the_file_that_is_meant(text: str, tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(text.encode())
    found = answers.read(file, "rowsum", ".cu")
    assert found.refused == "" and BODY in found.code


def test_the_last_whole_file_counts() -> None:
    again = BODY.replace("{}", "{ /* mended */ }")
    assert "mended" in answers.chosen(f"```\n{BODY}```\nNo:\n```\n{again}```\n", "rowsum", ".cu").code


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no fenced code block"), (BODY, "no fenced code block"), ("```cuda\nint k;\n```", "no code block defines"),
        (f"```cuda\n{BODY}", "cut off"), (f"```cuda\n{BODY}```\n```cuda\n{BODY}int k", "cut off"),
        ("```\nvoid rowsum(int x);\n```", "defines"), ("```\nint a = rowsum(1, (2));\n```", "defines"),
        ("```\n// void rowsum(int x) {}\n```", "defines"), ("```\nvoid rowsum_fast(int x) {}\n```", "defines"),
        (f'```\n#include "/etc/passwd"\n{BODY}```', "#include"),
        (f"```\n#include </etc/passwd>\n{BODY}```", "#include"),
        (f"```\n#include <../../secret.h>\n{BODY}```", "#include"), (f'```\n#inc\\\nlude "x"\n{BODY}```', "#include"),
        (f'```\n%: include "x"\n{BODY}```', "#include"), (f'```\n/* a */ # include "x"\n{BODY}```', "#include"),
        (f'```\n#define F "x"\n#include F\n{BODY}```', "#include"),
        (f"```\n#include_next <a.h>\n{BODY}```", "include_next"),
        (f"```\n#embed </etc/passwd>\n{BODY}```", "#embed"),
        (f'```\nasm(".incbin \\"/etc/passwd\\"");\n{BODY}```', "incbin"),
        (f"```\n#if __has_include(</etc/shadow>)\n#endif\n{BODY}```", "__has_include"),
        (f"```\n{BODY}\0```", "NUL"), ("x" * 300_000, "over 262,144 bytes"), (b"```\n\xff\xfe\n```", "UTF-8"),
        ("`" * 200_000, "defines"), ("```\n" * 60_000, "defines"), ("rowsum(" * 30_000, "no fenced"),
        ("```\n" + "rowsum(" * 30_000 + "\n```", "defines"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant(text: str | bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = answers.read(file, "rowsum", ".cu")
    assert found.code == "" and why in found.refused


def test_answers_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.md").mkdir()
    assert "cannot be read" in answers.read(tmp_path / "folder.md", "rowsum", ".cu").refused
    assert "cannot be read" in answers.read(tmp_path / "none.md", "rowsum", ".cu").refused


# --- scores


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one task for the processor: sums of rows, each element added to memory."""
    folder = tmp_path_factory.mktemp("tasks") / "sums"
    folder.mkdir()
    (folder / "start.cpp").write_text(
        "void sums(const float* x, float* y, int m, int n) {\n  for (int i = 0; i < m; i++) {\n"
        "    volatile float s = 0;\n    for (int k = 0; k < n; k++) s = s + x[(long)i * n + k];\n    y[i] = s;\n  }\n"
        "}\n"
    )
    (folder / "reference.py").write_text("def sums(x):\n    return x.sum(-1)\n")
    (folder / "task.toml").write_text(
        '[task]\ncandidate = "start.cpp"\nbaseline = "start.cpp"\nreference = "reference.py:sums"\ninputs = "x[m,n]"\n'
        'outputs = "y[m]"\nlaunch = "sums(x, y, m, n)"\nshapes = ["m=64,n=4096"]\nreduction = "n"\ndevice = "cpu"\n'
    )
    (folder / "trial.toml").write_text(
        'capture = "uncoalesced.slow"\nstep = "first"\nprofiled = "m=65536, n=1024"\nabout = "Sums of rows."\n'
    )
    return folder.parent


GOOD = """void sums(const float* x, float* y, int m, int n) {
  for (int i = 0; i < m; i++) {
    float s[16] = {};
    int k = 0;
    for (; k + 16 <= n; k += 16) for (int j = 0; j < 16; j++) s[j] += x[(long)i * n + k + j];
    for (; k < n; k++) s[0] += x[(long)i * n + k];
    float all = 0;
    for (int j = 0; j < 16; j++) all += s[j];
    y[i] = all;
  }
}
"""


@pytest.mark.slow
def test_answers_are_built_checked_and_timed(sums: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = tasks.read(sums)
    assert main(["prompts", str(tmp_path), "--tasks", str(sums), "--arms", "source,kscope"]) == 0
    half = GOOD.replace("k + 16 <= n", "k + 16 <= n / 2").replace("k < n; k++", "k < n / 2; k++")
    for arm, repeat, text in (
        ("kscope", 1, f"```cpp\n{GOOD}```"), ("source", 1, f"```cpp\n{one.source}```"),
        ("source", 2, f"```cpp\n{half}```"), ("source", 3, f"```cpp\n{GOOD}```".replace("float all", "flot all")),
        ("source", 4, "I cannot."),
    ):  # fmt: skip
        (tmp_path / "answers" / arm / f"sums.{repeat}.md").write_text(text)
    scored = ["score", str(tmp_path), "--tasks", str(sums), "--seconds", "0.5"]
    assert main(scored) == 0
    found = {(s.arm, s.repeat): s for s in scoring.stored(tmp_path)}
    good = found["kscope", "1"]
    assert good.status == "faster" and good.speedup is not None and good.speedup > 1.5 and good.device
    assert found["source", "1"].status in ("inconclusive", "faster", "slower")
    assert [found["source", n].status for n in "234"] == ["incorrect", "unbuilt", "refused"]
    assert "flot" in found["source", "3"].why and found["source", "2"].speedup is None
    capsys.readouterr()
    assert main(scored) == 0 and capsys.readouterr().out == "", "what was scored is not scored again"
    assert main(["summary", str(tmp_path)]) == 0
    assert "| kscope | 1 | 1 |" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.skipif(gpu() is not None, reason="says what is done without a GPU")
def test_without_a_gpu_answers_are_built_and_count_nowhere(tmp_path: Path) -> None:
    trial = TRIALS["gelu"]
    answer = tmp_path / "gelu.1.md"
    answer.write_text(f"```cuda\n{trial.source}```\n")
    found = scoring.scored(trial, answer, "source", "1", tmp_path / "work", 1.0)
    assert found.status == "built" and found.speedup is None and "not run" in found.why
    (line,) = found.code
    assert "registers" in line and "CMP2" in line, "double arithmetic shows in the code alone"
    assert summary.by_task([found]) == {} and "count nowhere" in summary.render([found])
    answer.write_text(f"```cuda\n{trial.source.replace('tanh', 'tunh')}```\n")
    assert scoring.scored(trial, answer, "source", "2", tmp_path / "work", 1.0).status == "unbuilt"


def test_a_broken_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / "scores.jsonl").write_text('{"task": 1}\n')
    with pytest.raises(KscopeError, match=r"scores.jsonl:1"):
        scoring.stored(tmp_path)
    with pytest.raises(KscopeError, match="nothing was scored"):
        scoring.stored(tmp_path / "none")


# --- the summary


def score(arm: str, task: str, status: str, speedup: float | None = None, repeat: str = "1") -> scoring.Score:
    return scoring.Score(task, arm, repeat, "first", status, speedup)  # type: ignore[arg-type]


def test_means_and_bests_by_hand() -> None:
    scores = [
        score("source", "a", "faster", 2.0), score("source", "a", "faster", 8.0, "2"),
        score("source", "b", "incorrect"),
        score("kscope", "a", "faster", 9.0), score("kscope", "b", "slower", 0.5), score("ncu", "a", "faster", 9.01),
        score("ncu", "b", "unbuilt"), score("ncu", "c", "faster", 100.0),
    ]  # fmt: skip
    worth = summary.by_task(scores)
    assert worth["source"] == pytest.approx({"a": 4.0, "b": 1.0}) and worth["kscope"]["b"] == 0.5
    assert summary.best(worth) == ({"source": 0, "kscope": 0, "ncu": 0}, 2), "9 and 9.01 are tied, 1 and 1 too"
    text = summary.render(scores)
    assert "| source | 3 | 2 | 2.00x |" in text and "fewer than 5 tasks" in text and "Not every arm" in text


def test_the_interval_is_of_pairs() -> None:
    """Tasks differ a hundredfold, the arms by 1.2x on each: paired that is certain, shuffled it is not."""
    source = {f"t{n}": 1.5**n for n in range(12)}
    better = {t: 1.2 * v for t, v in source.items()}
    assert summary.interval(better, source) == pytest.approx((1.2, 1.2, 1.2))
    turned = dict(zip(source, reversed(list(source.values())), strict=True))
    found = summary.interval(turned, source)
    assert found is not None and found[0] == pytest.approx(1.0) and found[1] < 0.7 and found[2] > 1.4
    spread = {t: v * math.exp(0.1 * (-1) ** n) * 1.05 for n, (t, v) in enumerate(source.items())}
    low, high = summary.interval(spread, source)[1:]  # type: ignore[index]
    assert math.log(high / low) == pytest.approx(2 * 1.96 * 0.1 / math.sqrt(12), rel=0.15), "as of a mean of twelve"
