"""Golden worklogs of the two ladders of matrix products: reports/worklog/LADDER.md as `kscope log export` writes it,
and LADDER.checklist.md as `kscope checklist` does after the last rung.

    python tools/golden_worklog.py [--check]

`--check` writes nothing and exits 1 where a file differs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "reports" / "worklog"
sys.path.insert(0, str(ROOT))

from tests.support import reports  # noqa: E402

FILES = {".md": ("log", "export"), ".checklist.md": ("checklist", "--export", "md")}
ADD, ASIDE = "add", "set aside"
WALKS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "gemm_f32": (
        (ADD, "gemm_f32.naive", "One thread a result\n\nThe textbook loop, to have something right to start from."),
        (ASIDE, "vector-access", "scalar code is easier to get right first"),
        (ADD, "gemm_f32.coalesced",
         "Lanes along a row of B\n\nA warp reads 32 rows of A at once, a sector for every float. With the two indices "
         "changed, B and C are contiguous and A is one address for all lanes."),
        (ADD, "gemm_f32.shared",
         "Tiles of 32 x 32 in shared memory\n\nEvery value of A and B is loaded by 4096 threads. A block can load it "
         "once for all of its own."),
        (ADD, "gemm_f32.reg1d",
         "Eight results a thread\n\nTwo loads from shared memory feed one multiply-add. A column of eight results uses "
         "the value of B eight times."),
        (ADD, "gemm_f32.shared",
         "More warps: 1,024 threads a block, one result each\n\nHalf of the warp slots are empty. The earlier layout "
         "fills them, if waiting is what costs."),
        (ADD, "gemm_f32.reg2d",
         "8 x 8 results a thread\n\nAn outer product in registers: 16 loaded values for 64 multiply-adds."),
        (ADD, "gemm_f32.vector",
         "16 bytes a lane\n\nThe tile of A is stored transposed, so that both factors come as float4, and so do the "
         "copies from global memory."),
        (ADD, "gemm_f32.warptile",
         "A warp computes a square\n\nLanes of a warp that share rows and columns read fewer distinct words, and "
         "conflict less."),
    ),
    "gemm_bf16": (
        (ADD, "gemm_bf16.ffma", "bf16 in, multiply-adds in FP32\n\nThe best of the FP32 ladder, with bf16 operands."),
        (ASIDE, "bank-conflicts", "shared memory is a quarter busy"),
        (ADD, "gemm_bf16.mma",
         "mma.sync\n\nThe issue slots are what is full: one tensor instruction does the work of a hundred."),
        (ADD, "gemm_bf16.swizzled",
         "Swizzled tiles\n\nldmatrix reads eight rows of 16 bytes, and all of them start on the same bank. The row's "
         "number changes the column."),
        (ADD, "gemm_bf16.wgmma",
         "wgmma and TMA\n\nOperands straight from shared memory, copies by the hardware: the warps only wait."),
    ),
}  # fmt: skip
"""Steps of each walk: a report with its message, or an opportunity set aside with the reason."""


def kscope(folder: Path, *arguments: str) -> str:
    """Run the command in a folder; its standard output."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "KSCOPE_STATE_DIR": str(folder / "state"), "PYTHONUTF8": "1",
           "NO_COLOR": "1"}  # fmt: skip
    env.pop("KSCOPE_WORKLOG", None)
    done = subprocess.run([sys.executable, "-m", "kscope", *arguments], cwd=folder, env=env, capture_output=True,
                          encoding="utf-8", check=False)  # fmt: skip
    if done.returncode:
        raise SystemExit(f"kscope {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def take(folder: Path, step: tuple[str, str, str]) -> str:
    """One step of a walk, in the worklog of a folder."""
    kind, name, text = step
    if kind == ASIDE:
        return kscope(folder, "checklist", "--set-aside", name, "--why", text)
    report = str(reports.fixture(name))
    return kscope(folder, "log", "add", report, "-m", text, "--no-git")


def pages(name: str) -> dict[str, str]:
    """File name -> what it holds."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / ".git").mkdir()  # the worklog is here, whatever lies above
        for step in WALKS[name]:
            take(folder, step)
        return {f"{name}{file}": kscope(folder, *arguments) for file, arguments in FILES.items()}


def main() -> None:
    stale = []
    for name in WALKS:
        for file, text in pages(name).items():
            path = FOLDER / file
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(file)
                if "--check" not in sys.argv:
                    FOLDER.mkdir(exist_ok=True)
                    path.write_text(text, encoding="utf-8")
    print(f"{len(stale)} worklogs differ{': ' + ', '.join(stale) if stale else ''}", file=sys.stderr)
    sys.exit(1 if stale and "--check" in sys.argv else 0)


if __name__ == "__main__":
    main()
