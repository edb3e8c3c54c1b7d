"""A folder to start from: naive kernel, reference, task file, Makefile, .gitignore."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from kscope.model.errors import EXIT_USAGE, KscopeError

LANGUAGES = ("cuda", "triton", "numpy")
LAUNCH = {
    "cuda": 'launch = "@NAME@<<<ceil_div(m, 256), 256, 0, stream>>>(x, y, m, n)"\n',
    "triton": 'framework = "torch"\n[task.keywords]\nBLOCK = 256\n',
    "numpy": "",
}
SOURCES = {"cuda": ("kernel.cu", "kernel.cu"), "triton": ("kernel.py", "kernel.py:@NAME@"),
           "numpy": ("kernel_cpu.py", "kernel.py:@NAME@")}  # fmt: skip
"""Language -> (file of the kernel among ours, how the task names it)."""


def write(folder: Path, language: str) -> list[Path]:
    """Make the folder with its files; their paths. Raises KscopeError (status 2): its name is no name of a function, or
    one of the files is there."""
    name = Path(os.path.abspath(folder)).name.replace("-", "_")  # by its own name, also where it is a link
    if not name.isidentifier() or not name.isascii():
        raise KscopeError("usage", f"{folder}: its name is no name of a function", "letters, digits and _", EXIT_USAGE)
    origin, candidate = SOURCES[language]
    own = "kernel.cu" if language == "cuda" else "kernel.py"
    files = {
        own: origin,
        "reference.py": "reference.py",
        "task.toml": "task.toml",
        "Makefile": "Makefile",
        ".gitignore": "gitignore",
    }
    texts = {}
    for target, source in files.items():
        text = resources.files("kscope.bench.task").joinpath("start", f"{source}.txt").read_text(encoding="utf-8")
        text = text.replace("@CANDIDATE@", candidate).replace("@LAUNCH@\n", LAUNCH[language])
        if language != "cuda" and target == "task.toml":
            text = text.replace('outputs = "y[m]"\n', "")
        texts[folder / target] = text.replace("@NAME@", name)
    for path in texts:
        if path.exists():
            raise KscopeError("exists", f"{path}: exists already", "name a new folder", EXIT_USAGE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise KscopeError(
            "unwritable", f"{folder}: {error.strerror}", "name a folder that can be written", EXIT_USAGE
        ) from None
    return list(texts)
