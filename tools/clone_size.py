"""How large a clone of this repository is: what `git clone --depth 1` and `du -sm` say.

    python tools/clone_size.py [REPOSITORY]

Exits 1 above LIMIT. Counted as a file system with blocks of 4 KiB does, the tree and git's own folder.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = 4096
LIMIT = 41
"""Megabytes (MiB, rounded up): 40.1 measured; 39.0 before makers of changes were tried on many texts; 36.3 before
changes for other people's kernels; 35.1 before the programs and steps of two lists of libraries more, 34.8 before the
steps of two, 33.7 before the programs of two, 31.0 before the programs and steps of four, 30.6 before those of a
seventh, 29.0 before the changes that are played and the steps of 95, 26.6 before those of the first 203."""


def size(folder: Path) -> int:
    """Bytes on disk of a folder and of what is in it."""
    found = [folder, *folder.rglob("*")]
    return sum(-(-path.lstat().st_size // BLOCK) * BLOCK for path in found if not path.is_symlink())


def measured(repository: Path) -> tuple[int, int]:
    """(tree, git's folder) of a clone of the last commit, in bytes. Raises CalledProcessError without git."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        command = ["git", "clone", "--quiet", "--depth", "1", repository.resolve().as_uri(), str(clone)]
        subprocess.run(command, check=True, capture_output=True)
        git = size(clone / ".git")
        return size(clone) - git, git


def main(arguments: list[str]) -> int:
    tree, git = measured(Path(arguments[0]) if arguments else ROOT)
    whole = -(-(tree + git) // (1 << 20))
    print(f"{whole} MB: {tree / (1 << 20):.1f} of files, {git / (1 << 20):.1f} of git's own")
    return int(whole > LIMIT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
